"""Measure how long a new user takes at the dashboard, and the cost of fifty viewers.

    python benchmarks/web_people.py newcomer --pictures FOLDER
    python benchmarks/web_people.py onlookers --viewers 50 --rounds 3

The new user opens the page in a real browser, presses the offered buttons and waits for a passing
policy and its video, without reading or setting anything. Viewers follow a live session from a
second process: the same training runs with and without them, and the order of events is checked.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx2

sys.path.insert(0, str(Path(__file__).parent.parent))
from benchmarks.web import started

INTENT = "run forward fast"
_FILM = """() => [...document.querySelectorAll('video')].some((film) => film.readyState >= 2)"""


def newcomer(pictures: Path | None) -> None:
    """Measure the time of each step, from opening the page to a passing policy with its video."""
    from playwright.sync_api import sync_playwright
    from tests.web.browser.conftest import chromium

    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        process, address, token = started(Path(place) / "runs")
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.set_default_timeout(900_000)
        began = time.perf_counter()

        def seen(what: str, name: str = "") -> None:
            print(f"{time.perf_counter() - began:6.1f} s  {what}", flush=True)
            if pictures is not None and name:
                pictures.mkdir(parents=True, exist_ok=True)
                page.wait_for_timeout(1_500)
                page.screenshot(path=pictures / f"dashboard-{name}.png")

        try:
            page.goto(f"{address}/?token={token}")
            page.get_by_role("button", name=INTENT).first.click()
            page.get_by_role("checkbox", name="use: ").first.wait_for()
            seen("the page says what will be measured", "start")
            page.get_by_role("button", name="Start", exact=True).click()
            page.get_by_role("img", name="Training curve").wait_for()
            seen("the first curve")
            page.wait_for_timeout(12_000)
            seen("it trains", "training")
            page.get_by_role("list", name="Stages").get_by_text("passed").first.wait_for()
            seen("it passed")
            page.wait_for_function(_FILM)
            seen("its film can be watched", "passed")
        finally:
            browser.close()
            process.terminate()
            process.wait(timeout=20)


def train(runs: Path) -> tuple[float, Path]:
    """Train a session of one iteration, and return its steps per second and its folder."""
    words = [
        "run",
        INTENT,
        "--env",
        "HalfCheetah-v5",
        "--seeds",
        "1",
        "--iterations",
        "1",
        "--no-robustness",
    ]
    words += ["--steps", "200k", "--runs-dir", str(runs), "--json"]
    subprocess.run([sys.executable, "-m", "telic", *words], check=False, stdout=subprocess.DEVNULL)
    session = max(runs.glob("session_*"), key=lambda path: path.stat().st_mtime)
    for line in reversed((session / "events.jsonl").read_text().splitlines()):
        event = json.loads(line)
        if event["event"] == "train.end":
            return float(event["steps_per_second"]), session
    raise SystemExit(f"{session} was not trained")


def look_on(
    address: str, token: str, many: int, known: set[str], has_ended: Any, results: Any
) -> None:
    """Follow the next session from a separate process."""
    headers = {"authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=address, headers=headers, timeout=60) as client:
        while True:
            artifacts = client.get("/api/artifacts").json()["artifacts"]
            new = [artifact["id"] for artifact in artifacts if artifact["id"] not in known]
            if new:
                break
            time.sleep(0.2)
    numbers: list[list[int]] = [[] for _ in range(many)]

    def follow(own: list[int]) -> None:
        path = f"{address}/api/stream?artifact={new[0]}"
        with httpx2.stream("GET", path, headers=headers, timeout=None) as answer:
            for line in answer.iter_lines():
                page = json.loads(line[6:]).get("page") if line.startswith("data: ") else None
                if page:
                    own.append(page["end"])

    for own in numbers:
        threading.Thread(target=follow, args=[own], daemon=True).start()
    has_ended.wait()
    time.sleep(2.0)
    same = sum(own == numbers[0] and own == sorted(set(own)) for own in numbers)
    results.put((same, len(numbers[0])))


def onlookers(many: int, rounds: int) -> None:
    """Train with and without viewers in turn, and print their cost."""
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}")
    rates: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as place:
        runs = Path(place) / "runs"
        process, address, token = started(runs)
        try:
            train(runs)  # the first one compiles and reads everything
            for is_watched in [False, True] * rounds:
                known = {path.name for path in runs.glob("session_*")}
                has_ended, results = multiprocessing.Event(), multiprocessing.Queue()
                watching = multiprocessing.Process(
                    target=look_on, args=(address, token, many, known, has_ended, results)
                )
                if is_watched:
                    watching.start()
                rate, _ = train(runs)
                rates[is_watched].append(rate)
                summary = ""
                if is_watched:
                    has_ended.set()
                    same, events = results.get(timeout=60)
                    watching.join()
                    summary = f"; {same} of {many} received the same {events} events in order"
                print(f"{'watched' if is_watched else 'alone':8} {rate:8,.0f} steps/s{summary}")
        finally:
            process.terminate()
            process.wait(timeout=20)
    slower = 1.0 - statistics.median(rates[True]) / statistics.median(rates[False])
    print(f"{many} onlookers: slower by {slower:.1%} (medians of {rounds})")


def main() -> None:
    """Run the part given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("part", choices=["newcomer", "onlookers"])
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    if asked.part == "newcomer":
        newcomer(asked.pictures)
    else:
        onlookers(asked.viewers, asked.rounds)


if __name__ == "__main__":
    main()
