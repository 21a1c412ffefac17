"""What a curriculum or a set of generated cases must show before it may be trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from telic.studies.documents.base import DocumentPart

LEARNABLE_SHARE = 0.60
LEARNABLE_SCORE = 0.09


class Learnability(DocumentPart):
    """How often the incumbent succeeds at each new case."""

    case_set: str
    success: dict[str, float] = Field(min_length=1)

    def scores(self) -> dict[str, float]:
        """Return p (1 - p) per case: most is learned where success is neither rare nor certain."""
        return {case: p * (1 - p) for case, p in self.success.items()}

    def share(self) -> float:
        """Return the share of cases that can be learned from."""
        # 0.1 * 0.9 is a hair under 0.09 in binary.
        good = [score >= LEARNABLE_SCORE - 1e-12 for score in self.scores().values()]
        return sum(good) / len(good)


class Bridge(DocumentPart):
    """How new cases lead from what fails to what is wanted."""

    from_failures: dict[str, str]
    """new case to the failure of the incumbent that it bridges"""
    to_target: tuple[str, ...]
    difficulty_axis: str
    monotone: bool


class Diversity(DocumentPart):
    """How different generated cases are."""

    metric: str
    min_pairwise: float = Field(gt=0)
    max_duplicates: int = Field(ge=0)
    n_cases: int = Field(ge=1)
    distances: tuple[float, ...] = ()
    """distance of each case to its nearest neighbour"""

    def duplicates(self) -> int:
        """Return how many cases have a neighbour nearer than is allowed."""
        return sum(distance < self.min_pairwise for distance in self.distances)


class HeldoutInvariant(DocumentPart):
    """The cases that results are measured on stay what they are."""

    protocol_hash: str
    overlap_hashes: tuple[str, ...] = ()
    """hashes of generated cases that equal a held-out one"""


class Rollback(DocumentPart):
    """When to give up, and what is restored."""

    condition: str = Field(min_length=1)
    action: str = Field(min_length=1)
    checkpoint: str = Field(min_length=1)


class Curriculum(DocumentPart):
    """The extra fields of a curriculum or environment-generation candidate."""

    mode: Literal["reweight", "schedule", "generate"]
    learnability: Learnability
    bridge: Bridge | None = None
    diversity: Diversity | None = None
    heldout_invariant: HeldoutInvariant
    rollback: Rollback


def curriculum_problems(given: Mapping[str, Any] | None, protocol_hash: str | None) -> list[str]:
    """Return what a curriculum candidate lacks or breaks; empty when it may go on."""
    if given is None:
        return ["the curriculum section is missing"]
    try:
        plan = Curriculum.model_validate(given)
    except ValidationError as error:
        return [
            f"{'.'.join(map(str, each['loc'])) or 'curriculum'}: {each['msg']}"
            for each in error.errors()
        ]
    problems: list[str] = []
    if plan.learnability.share() < LEARNABLE_SHARE:
        problems.append(
            f"only {plan.learnability.share():.0%} of the cases can be learned from "
            f"(0.1 <= success <= 0.9); {LEARNABLE_SHARE:.0%} are needed"
        )
    if plan.heldout_invariant.protocol_hash != protocol_hash:
        problems.append("the held-out protocol is not the study's")
    if plan.heldout_invariant.overlap_hashes:
        problems.append(
            f"{len(plan.heldout_invariant.overlap_hashes)} generated cases equal held-out ones"
        )
    return problems + (_generated_problems(plan) if plan.mode == "generate" else [])


def _generated_problems(plan: Curriculum) -> list[str]:
    problems: list[str] = []
    if plan.bridge is None:
        problems.append("generated cases need a bridge: the failure that each of them bridges")
    else:
        loose = sorted(plan.learnability.success.keys() - plan.bridge.from_failures.keys())
        problems += [f"case {case} names no failure that it bridges" for case in loose]
        if not plan.bridge.to_target:
            problems.append("generated cases name nothing that they lead to")
        if not plan.bridge.monotone:
            axis = plan.bridge.difficulty_axis
            problems.append(f"the cases do not get harder step by step along {axis}")
    if plan.diversity is None:
        problems.append("generated cases need a measure of diversity")
    elif plan.diversity.duplicates() > plan.diversity.max_duplicates:
        problems.append(
            f"{plan.diversity.duplicates()} cases are duplicates; "
            f"at most {plan.diversity.max_duplicates} may be"
        )
    elif {plan.diversity.n_cases, len(plan.diversity.distances)} != {
        len(plan.learnability.success)
    }:
        problems.append(
            f"diversity is told of {plan.diversity.n_cases} cases with "
            f"{len(plan.diversity.distances)} distances; there are {len(plan.learnability.success)}"
        )
    return problems
