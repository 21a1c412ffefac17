"""Measure the speed of the dashboard in a real browser on this machine.

    python benchmarks/web_pages.py            5,000 runs (requires Chromium)

This writes the files of benchmarks/web.py, starts `telic serve` on them, and measures a headless
browser without a GPU: first paint, scrolling, a session of 20 iterations, and a curve of 100,000
points that is zoomed and moved with keys.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.web import started, write_runs, write_session
from tests.web.browser.conftest import chromium

PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
SCROLL = """() => new Promise((done) => {
    const place = document.querySelector('[role=table]');
    const began = performance.now();
    const frames = [];
    let before = began;
    const step = (now) => {
        frames.push(now - before);
        before = now;
        place.scrollTop += 120;
        if (now - began < 4000) requestAnimationFrame(step);
        else done(frames.slice(2));
    };
    requestAnimationFrame(step);
})"""
PRESS = """key => new Promise((done) => {
    const chart = document.querySelector('[aria-label^="Training curve"]');
    const began = performance.now();
    chart.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
})"""
"""time from a key to the frame that shows its effect"""
KEYS = ["+"] * 6 + ["ArrowRight"] * 10 + ["ArrowLeft"] * 10 + ["-"] * 4


def opened(browser: Browser, address: str, token: str) -> Page:
    """Return a page of a user with full access, without any cached state."""
    page = browser.new_context(viewport={"width": 1360, "height": 900}).new_page()
    page.goto(f"{address}/trash?token={token}")
    page.get_by_role("heading", name="Trash").wait_for()
    return page


def row(name: str, values: list[float], unit: str = "ms") -> None:
    """Print the median and the largest of some values."""
    print(f"| {name} | {statistics.median(values):.0f} {unit} | {max(values):.0f} {unit} |")


def first_paints(browser: Browser, address: str, token: str) -> None:
    """Measure the time until elements are first visible in a new browser."""
    for name, path in (("start", "/"), ("runs", "/runs")):
        taken: list[float] = []
        for _ in range(5):
            page = opened(browser, address, token)
            page.goto(address + path)
            taken.append(page.wait_for_function(PAINT).json_value())
            page.context.close()
        row(f"first paint, {name}", taken)


def scrolling(page: Page, address: str) -> None:
    """Measure the duration of frames while the table is scrolled."""
    page.goto(f"{address}/runs?filter=")
    page.get_by_text("of 5,").first.wait_for()
    frames: list[float] = page.evaluate(SCROLL)
    late = sum(frame > 20 for frame in frames) / len(frames)
    per_second = 1000 * len(frames) / sum(frames)
    print(f"| table of 5,000 scrolled | {per_second:.0f} frames/s | {late:.0%} over 20 ms |")


def session(page: Page, address: str, name: str) -> None:
    """Measure the time until the last iteration and the curve of a session are visible."""
    taken: list[float] = []
    for _ in range(5):
        page.goto("about:blank")
        start = time.perf_counter()
        page.goto(f"{address}/runs/{name}")
        page.get_by_text("try 20").first.wait_for()
        page.get_by_text("Reward by term").first.wait_for()
        taken.append(1000 * (time.perf_counter() - start))
    row("a session of 20 tries", taken)


def curve(page: Page, address: str, name: str) -> None:
    """Measure the time of a key on a curve of 100,000 points, and of its finer points."""
    page.goto(f"{address}/runs/{name}/candidates/1")
    page.get_by_role("img", name="Training curve").wait_for()
    page.wait_for_timeout(500)
    row("a key on a curve of 100,000 points", [page.evaluate(PRESS, key) for key in KEYS])
    taken: list[float] = []
    for key in ("+", "+", "ArrowRight", "ArrowRight", "-"):
        start = time.perf_counter()
        with page.expect_response(lambda answer: "start=" in answer.url):
            page.evaluate(PRESS, key)
        taken.append(1000 * (time.perf_counter() - start))
    row("until its finer points are there", taken)


def main() -> None:
    """Run all measurements."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    load: Any = os.getloadavg()[0]
    print(f"load of the machine before: {load:.1f}\n")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        runs_dir = Path(place) / "runs"
        write_runs(runs_dir, 5000)
        made = write_session(runs_dir, iterations=20, points=100_000)
        process, address, token = started(runs_dir)
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            page = opened(browser, address, token)
            scrolling(page, address)  # first: the server reads all runs here
            print("| what | middle | worst |\n|---|--:|--:|")
            first_paints(browser, address, token)
            scrolling(page, address)
            session(page, address, made.name)
            curve(page, address, made.name)
        finally:
            browser.close()
            process.terminate()
            process.wait(timeout=10)


if __name__ == "__main__":
    main()
