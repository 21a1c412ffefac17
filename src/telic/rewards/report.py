"""The record of a probe: what a reward does on recorded transitions."""

from __future__ import annotations

from pydantic import Field

from telic.core.config import Record
from telic.rewards.contract import RewardSpec
from telic.rewards.decide import Mode
from telic.rewards.findings import Finding


class Statistics(Record):
    """How a number is spread over the probe's transitions."""

    mean: float
    std: float
    min: float
    max: float


class TermStatistics(Statistics):
    """One term of a reward."""

    name: str
    share: float | None = Field(
        description="of the sum of all terms' mean absolute values; None: every term is 0"
    )


class ProbeReport(Record):
    """What a reward does before any training; raised errors aside, it may be trained with."""

    name: str
    mode: Mode = Field(description="how the code is run")
    transitions: int = Field(description="environment steps it was tried on")
    total: Statistics
    terms: tuple[TermStatistics, ...]
    microseconds_per_step: float | None = Field(
        description="per environment step with 64 environments; None: nothing is computed"
    )
    microseconds_looped: float | None = Field(
        description="the same, called once per environment; None: the reward is batched"
    )
    memory_size: int = Field(description="numbers of memory per environment")
    is_stateful: bool = Field(description="keeps state of its own for each environment")
    is_resumable: bool = Field(description="a resumed run repeats the numbers of one that ran on")
    spec: RewardSpec
    findings: tuple[Finding, ...] = ()
