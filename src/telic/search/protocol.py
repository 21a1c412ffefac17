"""The terms under which candidates are compared; equal terms are what makes runs comparable."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from telic.core.config import Record
from telic.search.environments.task import Task

NETWORK = "network"
_OF_THE_POLICY = ("policy", "is_scaled", "low", "high", "decimals")
_STATED = 400
_CAP = 1000


class Protocol(Record):
    """Everything besides the method that decides what a return is worth."""

    env: str
    policy: str
    is_scaled: bool
    """whether observations are scaled before they enter the policy"""
    low: float
    high: float
    decimals: int
    clips: bool
    """whether continuous actions are cut to their range before they are used and charged"""
    limit: int
    """steps after which an episode ends"""
    target: float
    """return told to a model as the goal"""
    episodes: int
    """episodes of the budget"""
    warmup: int | None = None
    """random policies that a model is shown first; None: not written down, in old files"""
    warmup_is_extra: bool
    """whether warm-up episodes come on top of the budget"""
    is_faithful: bool
    stops_when_solved: bool = False
    """whether a run may end before its budget is spent"""

    @property
    def key(self) -> str:
        """Return a short hash of the terms."""
        text = json.dumps(self.model_dump(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def differences(self, other: Protocol) -> list[str]:
        """Return in words how two protocols differ.

        A network trained as a baseline has no box of numbers, so that part is not held against it.
        """
        mine, theirs = self.model_dump(), other.model_dump()
        left_out = _OF_THE_POLICY if NETWORK in (self.policy, other.policy) else ()
        return [
            f"{name}: {mine[name]} against {theirs[name]}"
            for name in mine
            if mine[name] != theirs[name]
            and name not in left_out
            and not (name == "warmup" and None in (mine[name], theirs[name]))
        ]


class Terms(Record):
    """What a run takes from its task, or from the published set-up of its method."""

    cap: int | None = None
    """steps after which an episode is cut, if sooner than the task's own limit"""
    warmup: int
    target: float
    stated_iterations: int | None = None
    """number of iterations told to a model; None is the true one"""


def terms_of(task: Task, method: str, *, is_faithful: bool) -> Terms:
    """Return the terms of a run.

    By default they are the task's, for every method. The published runs differed between methods in
    cap, warm-up and stated goal; faithful ones repeat that.
    """
    if not is_faithful:
        return Terms(cap=task.cap, warmup=task.warmup, target=task.target)
    values: dict[str, Any] = {"cap": _CAP, "warmup": 20, "target": _published_target(task, method)}
    later = method in ("props+", "r2po", "threetraj")
    if later and task.id in ("Nim-v0", "FrozenLake-v1", "MountainCar-v0"):
        values["warmup"] = 0
    if task.id == "MountainCarContinuous-v0" and method in ("props+", "threetraj"):
        values["warmup"] = 0
    if task.id == "Swimmer-v5" and method in ("props+", "r2po"):
        values["warmup"] = 100
    if task.id == "Maze-v0":
        values["cap"] = 20 if later else 100
    values["stated_iterations"] = None if method == "r2po" else _STATED
    return Terms(**values)


def _published_target(task: Task, method: str) -> float:
    if task.id == "InvertedDoublePendulum-v5":
        return {"r2po": 500.0, "threetraj": 200.0}.get(method, 10_000.0)
    if task.id == "Maze-v0":
        return 0.9 if method in ("props+", "r2po", "threetraj") else 1.0
    stated = {
        "MountainCar-v0": -120.0,
        "MountainCarContinuous-v0": 100.0,
        "Swimmer-v5": 250.0,
        "FrozenLake-v1": 1.0,
    }
    return stated.get(task.id, task.target)
