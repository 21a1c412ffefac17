"""Commands as child processes that are ended at any moment: how they are started and compared."""

import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from telic.search.records import SearchFolder, SearchRunFolder
from telic.storage.files import TEMPORARY_MARK, read_json
from telic.storage.layout import list_runs
from telic.training.folder import status_of
from tests.training.small import SPEED
from tests.training.test_population import numbers

SUBREAPER = 36
DISTANCE = """
from telic import RewardFunction

class Distance(RewardFunction):
    memory = {"traveled": 0.0}

    def compute(self, obs, action, next_obs, info):
        self.memory["traveled"] = self.memory["traveled"] + info["x_velocity"] * info["dt"]
        terms = {"distance": self.memory["traveled"]}
        return terms["distance"], terms
"""
SMALL = ("num_envs=8", "horizon=32", "minibatch_size=64", "hidden=16,16", "epochs=2")
TRAIN = ("train", "HalfCheetah-v5", "--env-arg", "max_episode_steps=40", "--evaluations", "2")
APART = ("train", "Hopper-v5", "--evaluations", "3", "--seeds", "1,2")
"""episodes that end at different times, with two rewards of which one has memory"""
TIMES = {"seconds", "training_time_s", "search", "name", "created_at", "updated_at", "run"}
GENTLE = {0, 1, 128 + signal.SIGTERM, -signal.SIGTERM}
"""what a command may leave with at SIGTERM: its own end, or the signal's, also while it imports"""


@dataclass(frozen=True)
class KilledCommand:
    """A command, a test for its completion, and its result."""

    words: tuple[str, ...]
    is_done: Callable[[Path], bool]
    outcome: Callable[[Path], Any]
    workers: float = 0.0
    """how often a process that it started is killed instead"""


@dataclass
class KillReport:
    """Outcomes of killed commands."""

    kills: Counter[str] = field(default_factory=Counter)
    finished: int = 0
    differed: list[str] = field(default_factory=list)


def adopt_orphans() -> None:
    """Let processes whose parent is killed become children of this one, where they are seen."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def children(pid: int | str = "self") -> set[int]:
    """Return the processes of which this one, or another, is the parent."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    with suppress(OSError):  # it ended meanwhile
        return {int(number) for task in tasks for number in task.read_text().split()}
    return set()


def wait_for_orphans(before: set[int], patience_s: float = 60.0) -> list[str]:
    """Return the command lines of what a killed command left running."""
    deadline = time.monotonic() + patience_s
    while left := children() - before:
        for pid in left:
            os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline:
            return [Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in left]
        time.sleep(0.02)
    return []


def start(command: KilledCommand, folder: Path) -> subprocess.Popen[str]:
    """Start a command in its folder."""
    output = (folder / "said.txt").open("a")
    with output:
        return subprocess.Popen(
            [sys.executable, "-m", "telic", *command.words],
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )


def printed(folder: Path) -> str:
    return (folder / "said.txt").read_text()


def whole(command: KilledCommand, folder: Path) -> tuple[Any, float]:
    """Run a command undisturbed, and return its result and its duration in seconds."""
    folder.mkdir(parents=True)
    began = time.monotonic()
    start(command, folder).wait()
    assert command.is_done(folder), printed(folder)
    return command.outcome(folder), time.monotonic() - began


def kill_again_and_again(
    command: KilledCommand, folder: Path, wanted: int, chance: random.Random
) -> KillReport:
    """Kill and resume a command repeatedly, and compare its result."""
    adopt_orphans()
    report = KillReport()
    expected, seconds = whole(command, folder / "whole")
    here = folder / "0"
    here.mkdir()
    while sum(report.kills.values()) < wanted or report.finished == 0:
        before = children()
        process = start(command, here)
        if sum(report.kills.values()) < wanted:
            _end(command, process, chance, seconds, report)
        process.wait()
        if left := wait_for_orphans(before):
            report.differed.append(f"{here}: left running: {left}")
        if "Traceback" in printed(here):
            report.differed.append(f"{here}: {printed(here)[-2000:]}")
            break
        if command.is_done(here):
            report.finished += 1
            _compare(command, here, expected, report)
            here = folder / str(report.finished)
            here.mkdir()
    return report


def _end(
    command: KilledCommand,
    process: subprocess.Popen[str],
    chance: random.Random,
    seconds: float,
    report: KillReport,
) -> None:
    number = chance.choice((signal.SIGKILL, signal.SIGTERM))
    try:
        process.wait(chance.uniform(0.0, seconds))
    except subprocess.TimeoutExpired:
        workers = children(process.pid)
        if workers and chance.random() < command.workers:
            number = signal.SIGKILL
            os.kill(chance.choice(sorted(workers)), number)
        else:
            process.send_signal(number)
        report.kills[number.name] += 1
        code = process.wait()
        if number == signal.SIGTERM and code not in GENTLE:
            report.differed.append(f"exit code {code} at SIGTERM")


def _compare(command: KilledCommand, folder: Path, expected: Any, report: KillReport) -> None:
    found = command.outcome(folder)
    if found != expected:
        report.differed.append(f"{folder}: {found} is not {expected}"[:4000])
    left = [path for path in folder.rglob(f"{TEMPORARY_MARK}*") if path.is_file()]
    if left:
        report.differed.append(f"{folder}: half-written files: {left}")


# ---------------------------------------------------------------------------- what is compared


def _plain(value: Any) -> Any:
    """Return plain data without times and names made from times."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if name not in TIMES}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _arrays(path: Path) -> list[Any]:
    return torch.load(path, weights_only=True)["flat"].tolist()


def train_outcome(folder: Path) -> Any:
    (run,) = list_runs(folder / "runs")
    return {
        member.name: (
            numbers(member),
            [(file.step, _arrays(file.path)) for file in member.checkpoints()],
            [(file.path.name, file.path.read_bytes()) for file in member.trajectories()],
        )
        for member in run.members()
    }


def searches_in(runs: Path) -> list[SearchFolder]:
    return [SearchFolder(path.parent) for path in runs.glob("*/search.json")]


def search_outcome(folder: Path) -> Any:
    (search,) = searches_in(folder / "runs")
    logs = {path.name: list(SearchRunFolder(path).read()) for path in search.path.glob("run_*")}
    summaries = sorted(search.path.glob("**/summary.json"))
    return logs, [_plain(read_json(path)) for path in summaries]


def _search_state(folder: Path) -> list[str]:
    return [
        read_json(each.summary)["outcome"]
        for each in searches_in(folder / "runs")
        if each.summary.exists()
    ]


def commands(folder: Path, *, is_long: bool) -> dict[str, KilledCommand]:
    """Return the commands that are killed; the long ones do more between two saves.

    Args:
        folder: where their rewards are written.
        is_long: let them take longer.
    """
    steps, episodes, seeds = ("8192", "3000", "1,2") if is_long else ("2048", "500", "1")
    rewards: list[str] = []
    for name, source in (("speed", SPEED), ("distance", DISTANCE)):
        (folder / f"{name}.py").write_text(source)
        rewards += ["--reward", str(folder / f"{name}.py")]
    return {
        "train apart": KilledCommand(
            (*APART, "--steps", steps, "--videos", "none", *rewards, *SMALL),
            lambda folder: "completed" in map(status_of, list_runs(folder / "runs")),
            train_outcome,
        ),
        "train": KilledCommand(
            (*TRAIN, "--steps", steps, "--seeds", seeds, "--videos", "none", *SMALL),
            lambda folder: "completed" in map(status_of, list_runs(folder / "runs")),
            train_outcome,
        ),
        "search": KilledCommand(
            (
                "search",
                "--env=CartPole-v1",
                "--method=cma",
                "--runs=4",
                "--jobs=2",
                "--fresh-episodes=20",
                "--episodes",
                episodes,
            ),
            lambda folder: "completed" in _search_state(folder),
            search_outcome,
            workers=0.2,
        ),
    }
