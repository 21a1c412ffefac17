"""Requirements of a curriculum or a set of generated cases before training on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from telic.studies.documents.base import DocumentPart

_LEARNABLE_SHARE = 0.60
_RARE, _CERTAIN = 0.1, 0.9
"""most is learned where success is neither rare nor certain"""


class Rollback(DocumentPart):
    """The condition of a rollback, and what is restored."""

    condition: str = Field(min_length=1)
    action: str = Field(min_length=1)
    checkpoint: str = Field(min_length=1)


class Curriculum(DocumentPart):
    """The extra fields of a curriculum or environment-generation candidate."""

    mode: Literal["reweight", "schedule", "generate"]
    success: dict[str, float] = Field(min_length=1)
    """how often the incumbent succeeds at each new case"""
    bridges: dict[str, str] = Field(default={})
    """generated case to the failure of the incumbent that it leads away from"""
    protocol_hash: str
    """of the held-out cases, which stay what they are"""
    overlap_hashes: tuple[str, ...] = ()
    """hashes of generated cases that equal a held-out one"""
    rollback: Rollback


def curriculum_problems(given: Mapping[str, Any] | None, protocol_hash: str | None) -> list[str]:
    """Return the problems of a curriculum candidate; empty when it is valid."""
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
    good = [_RARE <= chance <= _CERTAIN for chance in plan.success.values()]
    if (share := sum(good) / len(good)) < _LEARNABLE_SHARE:
        problems.append(
            f"only {share:.0%} of the cases can be learned from "
            f"({_RARE} <= success <= {_CERTAIN}); {_LEARNABLE_SHARE:.0%} are needed"
        )
    if plan.protocol_hash != protocol_hash:
        problems.append("the held-out protocol is not the study's")
    if plan.overlap_hashes:
        problems.append(f"{len(plan.overlap_hashes)} generated cases equal held-out ones")
    if plan.mode == "generate":
        loose = sorted(plan.success.keys() - plan.bridges.keys())
        problems += [f"case {case} names no failure that it bridges" for case in loose]
    return problems
