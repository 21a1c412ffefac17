"""Kill a search of several processes at random moments, and compare its result."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from telic.search.records import SearchRunFolder

REQUEST = ("--env", "CartPole-v1", "--method", "cma", "--runs", "4", "--jobs", "2")
_PATIENCE_S = 20.0


def start(runs_dir: Path, episodes: int) -> subprocess.Popen[bytes]:
    """Start or resume the search."""
    words = ("search", *REQUEST, "--episodes", str(episodes), "--fresh-episodes", "20", "--json")
    return subprocess.Popen(
        [sys.executable, "-m", "telic", *words, "--runs-dir", str(runs_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(runs_dir: Path, episodes: int) -> None:
    """Let the search come to its end."""
    process = start(runs_dir, episodes)
    _, printed = process.communicate()
    assert process.returncode == 0, printed.decode()


def has_ended(runs_dir: Path) -> bool:
    """Return whether the search has completed. It may be killed even later."""
    return any(runs_dir.glob("*/summary.json"))


def reached(runs_dir: Path) -> dict[str, Any]:
    """Return every iteration of a search, and its summaries without the time they took."""
    (folder,) = [path.parent for path in runs_dir.glob("*/search.json")]
    logs = {
        p.parent.name: list(SearchRunFolder(p.parent).read())
        for p in folder.glob("run_*/journal.jsonl")
    }
    summaries = {str(p.relative_to(folder)): _timeless(p) for p in folder.glob("**/summary.json")}
    return {**logs, **summaries}


def _timeless(path: Path) -> Any:
    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: without(v) for k, v in value.items() if k not in ("seconds", "search")}
        return [without(each) for each in value] if isinstance(value, list) else value

    return without(json.loads(path.read_bytes()))


def descendants(process: int) -> set[int]:
    """Return the processes that a process started, and theirs."""
    out: set[int] = set()
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = {int(word) for word in task.read_text().split()}
        except OSError:  # it ended while we looked
            continue
        out |= children.union(*(descendants(child) for child in children))
    return out


def kill_one(process: subprocess.Popen[bytes], rng: random.Random) -> str:
    """Kill the search itself, or now and then one of its workers; return what was found then."""
    workers = descendants(process.pid)
    victim = process.pid
    if workers and rng.random() < 0.2:
        victim = rng.choice(sorted(workers))
    os.kill(victim, signal.SIGKILL)
    printed = process.communicate()[1].decode()
    assert "Traceback" not in printed, printed
    deadline = time.monotonic() + _PATIENCE_S
    while any(map(is_alive, workers)):
        assert time.monotonic() < deadline, "a worker outlived its search"
        time.sleep(0.005)
    return "search" if victim == process.pid else "worker"


def is_alive(process: int) -> bool:
    """Return whether a process is running and is not a zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def run_kills(count: int, seed: int, home: Path, episodes: int) -> Counter[str]:
    """Kill searches `count` times in total. Each must give the result of an undisturbed one.

    Args:
        count: kills in all.
        seed: of the moments.
        home: an empty folder.
        episodes: budget of a run, which decides how long a search takes.
    """
    rng, seen = random.Random(seed), Counter[str]()
    began = time.monotonic()
    finish(home / "whole", episodes)
    longest_s = time.monotonic() - began
    whole = reached(home / "whole")
    assert len(whole) == 9, "four logs, four summaries of runs and that of the search"
    while seen["kills"] < count:
        runs_dir = home / f"killed-{seen['searches']}"
        seen["searches"] += 1
        while seen["kills"] < count and not has_ended(runs_dir):
            process = start(runs_dir, episodes)
            try:
                process.communicate(timeout=rng.uniform(0.1, longest_s))
            except subprocess.TimeoutExpired:
                seen[f"kills of a {kill_one(process, rng)}"] += 1
                seen["kills"] += 1
                seen["kills with work done"] += any(runs_dir.glob("*/run_*/journal.jsonl"))
        if not has_ended(runs_dir):
            finish(runs_dir, episodes)
        assert reached(runs_dir) == whole, runs_dir
    return seen
