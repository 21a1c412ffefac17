"""Decide how a reward can be run, by trying it on recorded transitions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from telic.errors import RewardError
from telic.rewards.batched import BatchedRunner
from telic.rewards.definition import Definition, Source
from telic.rewards.findings import Finding
from telic.rewards.lifting import LiftedRunner
from telic.rewards.loop import LoopedRunner
from telic.rewards.mistakes import place
from telic.rewards.recording import Recording
from telic.rewards.runner import Runner
from telic.rewards.state import CannotCapture, capture, restore, same

Mode = Literal["batched", "lifted", "looped", "environment"]
_MEASURED_ENVS = 64


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a reward gave for a recording."""

    total: Tensor  # (T, N) float32
    terms: dict[str, Tensor]  # each (T, N) float32; NaN-free zeros where a step did not return it
    returned: dict[str, int] = field(default_factory=dict)
    """in how many steps each term was returned"""


@dataclass(frozen=True, slots=True)
class Decision:
    """How to run a reward, and what was seen while finding out."""

    mode: Mode
    term_names: tuple[str, ...]
    is_stateful: bool = False
    is_resumable: bool = True
    findings: tuple[Finding, ...] = ()
    microseconds: dict[str, float] = field(default_factory=dict)
    """per environment step, at 64 environments, by mode"""
    outcome: Outcome | None = None
