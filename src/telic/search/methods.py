"""The independent choices of policy search, and the published methods as values of them.

A method also has terms: cap, warm-up and goal as its task or its published set-up has them.
"""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from telic.core.config import Config, Record
from telic.core.plugins import plugin_names
from telic.errors import UnknownName
from telic.search.task import SearchTask

Evidence = Literal[
    "none", "mean_trace", "median_trace", "three_traces", "stats", "stats+median", "last_trace"
]
Context = Literal["history", "env_text", "trajectories"]
Thinning = Literal["turns", "ends"]

NUMERIC = ("cma", "ars", "climb", "random", "tabular")
"""proposers that never ask a model"""
PROPOSERS = ("llm", "hybrid", *NUMERIC, "none")
_VIEW = re.compile(r"full|(best|recent|best\+recent):([1-9]\d*)")


class Switches(Config):
    """Who proposes, what is shown, what is tried second, and which candidate counts."""

    proposer: str = Field(
        default="llm",
        description=f"who makes the first candidate: {', '.join(PROPOSERS)}, or a package's",
    )
    context: tuple[Context, ...] = Field(
        default=("history",), description="what the proposer is shown"
    )
    candidates: int = Field(
        default=1, ge=1, description="candidates asked for in one call of a model"
    )
    history_view: str = Field(
        default="best+recent:15",
        description="entries shown: full, best:K, recent:K or best+recent:K",
    )
    uncertainty: bool = Field(
        default=True, description="show episodes and standard error of every entry"
    )
    excerpts: int = Field(
        default=0, ge=0, description="latest entries that carry an excerpt of eight steps"
    )
    second: Literal["none", "critic", "propose_again"] = Field(
        default="none", description="who makes the second candidate"
    )
    second_sees_first: bool = Field(
        default=True, description="whether the second call knows the first one's result"
    )
    evidence: Evidence = Field(default="none", description="behaviour the critic is shown")
    trace_steps: int = Field(
        default=60, ge=4, description="most steps of a trace that are written out"
    )
    thinning: Thinning = Field(
        default="turns",
        description="steps of a long trace that are kept: where the action changes, or both ends",
    )
    allow_no_change: bool = Field(
        default=False, description="whether the second candidate may equal an earlier one"
    )
    gate: Literal["off", "advise", "skip", "limit"] = Field(
        default="off",
        description="from the threshold on: say so, skip the revision, or limit its size",
    )
    gate_at: Literal["default", "half", "learned"] | float = Field(
        default="default", description="threshold: the task's, half of it, learned, or a number"
    )
    max_edit: float = Field(
        default=1.0, gt=0, description="largest change of a number under gate=limit"
    )
    select: Literal["single", "keep_best", "always_second", "race"] = Field(
        default="single",
        description="which candidate counts; race plays both again while they look alike",
    )
    ties_to_second: bool = Field(default=False, description="whether an equal revision wins")
    keeps_losers: bool = Field(
        default=True, description="whether the history also holds the candidate that lost"
    )
    rollouts: int = Field(default=20, ge=1, description="episodes per candidate")
    common_seeds: bool = Field(
        default=True, description="whether candidates of an iteration meet the same starts"
    )
    confirm: int = Field(
        default=20, ge=0, description="episodes a candidate needs to become the incumbent; 0: none"
    )
    clip_actions: bool = Field(
        default=True, description="whether continuous actions are cut to their range first"
    )
    report: Literal["selected", "all_candidates", "better_of_two", "incumbent"] = Field(
        default="all_candidates", description="candidates whose mean is the headline"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not _VIEW.fullmatch(self.history_view):
            raise ValueError(
                f'history_view="{self.history_view}" is not full, best:K, recent:K or '
                "best+recent:K."
            )
        if self.proposer == "none" and self.second != "none":
            raise ValueError("proposer=none makes one candidate, so second must be none.")
        return self

    @property
    def asks_a_model(self) -> bool:
        """Whether these choices need a language model."""
        return self.proposer in ("llm", "hybrid", "none")

    @property
    def evaluations(self) -> int:
        """Candidates evaluated per iteration, where a model proposes."""
        return self.candidates + (self.second != "none")


_REVISED: dict[str, Any] = {
    "second": "critic",
    "evidence": "mean_trace",
    "select": "keep_best",
    "excerpts": 5,
}
_METHODS: dict[str, dict[str, Any]] = {
    "props": {},
    "props+": {"context": ("history", "env_text", "trajectories")},
    "r2po": {
        "second": "critic",
        "evidence": "stats+median",
        "allow_no_change": True,
        "gate": "skip",
        "select": "keep_best",
    },
    "reptraj": _REVISED,
    "alwayscritic": {**_REVISED, "select": "always_second"},
    "threetraj": {**_REVISED, "evidence": "three_traces", "excerpts": 0},
    "criticonly": {
        "proposer": "none",
        "context": ("history", "env_text"),
        "evidence": "last_trace",
        "excerpts": 5,
    },
    "actorsecondpass": {"second": "propose_again", "select": "keep_best"},
    "puresearch": {"second": "propose_again", "second_sees_first": False, "select": "keep_best"},
    "hybrid": {"proposer": "hybrid", "select": "race"},
    **{name: {"proposer": name, "select": "race"} for name in NUMERIC},
}

METHODS = tuple(_METHODS)
PUBLISHED = METHODS[:9]
"""the methods of the literature, all of which ask a model"""

_AS_PUBLISHED: dict[str, Any] = {
    "history_view": "full",
    "uncertainty": False,
    "trace_steps": 100_000,
    "thinning": "ends",
    "ties_to_second": True,
    "keeps_losers": False,
    "common_seeds": False,
    "confirm": 0,
    "report": "selected",
}
_CLIPPING = ("props", "props+", "r2po")


def method_names() -> list[str]:
    """Return every method: ours, then the proposers that packages bring."""
    return [*METHODS, *plugin_names("proposers", METHODS)]


def switches_of(method: str, *, is_faithful: bool = False) -> Switches:
    """Return the choices that a method stands for; raises UnknownName.

    Faithful ones repeat what the published runs did, quirks included: the whole history without
    uncertainty, the loser forgotten, ties to the revision, independent noise, actions clipped by
    some methods only, and a threshold that is a sentence in the prompt and nothing more.
    """
    name = method.lower()
    values: dict[str, Any]
    if name in _METHODS:
        values = dict(_METHODS[name])
    elif name in (others := plugin_names("proposers", METHODS)):
        values = {"proposer": name, "select": "race"}
    else:
        raise UnknownName("method", method, [*METHODS, *others], see="telic presets --search")
    if is_faithful:
        clips = name not in PUBLISHED or name in _CLIPPING
        values |= {**_AS_PUBLISHED, "clip_actions": clips}
        if name not in PUBLISHED:  # the best of a population is more than the better of two
            values["report"] = "better_of_two"
        if name == "r2po":
            values["gate"] = "advise"
        if name == "threetraj":
            values["trace_steps"] = 50
    return Switches.parse(values)


_STATED = 400
_CAP = 1000
_PUBLISHED_GOOD = {"InvertedDoublePendulum-v5": 450.0, "Swimmer-v5": 230.0, "FrozenLake-v1": 0.85}
_PUBLISHED_STEP = {"InvertedDoublePendulum-v5": 0.1, "Swimmer-v5": 0.1}
"""where they differ from the task's"""


class Terms(Record):
    """What a run takes from its task, or from the published set-up of its method."""

    cap: int | None = None
    """steps after which an episode is cut, if sooner than the task's own limit"""
    warmup: int
    target: float
    good: float
    """return from which a policy is left alone or nearly so (the threshold of the gate)"""
    solved: float
    """return from which one episode counts as a success"""
    step_size: float
    """largest change of a number that a revision should make"""
    stated_iterations: int | None = None
    """number of iterations told to a model; None is the true one"""


def terms_of(task: SearchTask, method: str, *, is_faithful: bool) -> Terms:
    """Return the terms of a run.

    By default they are the task's, for every method. The published runs differed between methods in
    cap, warm-up and stated goal, and had thresholds, steps and a rule of success of their own, some
    of which no policy can meet; faithful ones repeat that.
    """
    if not is_faithful:
        return Terms(
            cap=task.cap,
            warmup=task.warmup,
            target=task.target,
            good=task.good,
            solved=task.solved,
            step_size=task.step_size,
        )
    target = _published_target(task, method)
    values: dict[str, Any] = {
        "cap": _CAP,
        "warmup": 20,
        "target": target,
        "good": _PUBLISHED_GOOD.get(task.id, task.good),
        # An episode succeeds at the stated goal, or a thousandth of it below.
        "solved": target - max(1e-6, 0.001 * max(1.0, abs(target))),
        "step_size": _PUBLISHED_STEP.get(task.id, task.step_size),
    }
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


def _published_target(task: SearchTask, method: str) -> float:
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
