"""The independent choices of policy search, and the published methods as values of them."""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from telic.core.config import Config
from telic.errors import UnknownName

Proposing = Literal["llm", "hybrid", "cma", "ars", "climb", "random", "tabular", "none"]
Evidence = Literal[
    "none", "mean_trace", "median_trace", "three_traces", "stats", "stats+median", "last_trace"
]
Context = Literal["history", "env_text", "trajectories"]

NUMERIC = ("cma", "ars", "climb", "random", "tabular")
"""proposers that never ask a model"""
_VIEW = re.compile(r"full|(best|recent|best\+recent):([1-9]\d*)")


class Switches(Config):
    """Who proposes, what is shown, what is tried second, and which candidate counts."""

    proposer: Proposing = Field(default="llm", description="who makes the first candidate")
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
    report: Literal["selected", "all_candidates", "incumbent"] = Field(
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
    "puresearch": {
        "second": "propose_again",
        "second_sees_first": False,
        "select": "keep_best",
    },
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
    "ties_to_second": True,
    "keeps_losers": False,
    "common_seeds": False,
    "confirm": 0,
    "report": "selected",
}
_CLIPPING = ("props", "props+", "r2po")


def switches_of(method: str, *, is_faithful: bool = False) -> Switches:
    """Return the choices that a method stands for; raises UnknownName.

    Faithful ones repeat what the published runs did, quirks included: the whole history without
    uncertainty, the loser forgotten, ties to the revision, independent noise, actions clipped by
    some methods only, and a threshold that is a sentence in the prompt and nothing more.
    """
    name = method.lower()
    if name not in _METHODS:
        raise UnknownName("method", method, list(METHODS), see="telic search methods")
    values = dict(_METHODS[name])
    if is_faithful:
        clips = name not in PUBLISHED or name in _CLIPPING
        values |= {**_AS_PUBLISHED, "clip_actions": clips}
        if name == "r2po":
            values["gate"] = "advise"
        if name == "threetraj":
            values["trace_steps"] = 50
    return Switches.parse(values)
