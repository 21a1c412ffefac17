"""Find earlier candidates that resemble an idea, before somebody pays for it twice."""

from __future__ import annotations

import re

from telic.studies.candidate_files import current_candidate
from telic.studies.documents.base import Part
from telic.studies.documents.candidate import Candidate, CandidateStatus
from telic.studies.ledger import Ledger
from telic.studies.validation.novelty import effective_hash

_WORD = re.compile(r"[a-z]{4,}")


class Similar(Part):
    """An earlier candidate, how alike it is, and what became of it."""

    candidate: str
    status: CandidateStatus
    likeness: float
    """1: the same effective change; below: shared parameters, files and words"""
    shares: tuple[str, ...]
    statement: str


def similar_candidates(ledger: Ledger, candidate: str, at_most: int = 5) -> list[Similar]:
    """Return the candidates most like this one, the most alike first."""
    own = current_candidate(ledger, candidate)
    found = list[Similar]()
    for name, held in ledger.state().candidates.items():
        if name == candidate:
            continue
        other = current_candidate(ledger, name)
        score, shares = likeness(own, other)
        if score > 0:
            facts = {"candidate": name, "status": held.status, "likeness": score}
            said = other.hypothesis.statement
            found.append(Similar(**facts, shares=shares, statement=said))
    return sorted(found, key=lambda each: (-each.likeness, each.candidate))[:at_most]


def likeness(one: Candidate, other: Candidate) -> tuple[float, tuple[str, ...]]:
    """Return how alike two candidates are and what they share.

    What is changed counts for two thirds, the words of the hypotheses for one.
    """
    if effective_hash(one) == effective_hash(other):
        return 1.0, ("the same effective change",)
    touched = _touched(one), _touched(other)
    words = _words(one), _words(other)
    score = 2 / 3 * _overlap(*touched) + 1 / 3 * _overlap(*words)
    # only the very same change is fully alike
    return min(score, 0.99), tuple(sorted(touched[0] & touched[1]))


def _touched(candidate: Candidate) -> set[str]:
    change = candidate.change
    return {*change.overrides, *(each.path for each in change.files)}


def _words(candidate: Candidate) -> set[str]:
    said = candidate.hypothesis
    return set(_WORD.findall(f"{said.statement} {said.mechanism}".lower()))


def _overlap(one: set[str], other: set[str]) -> float:
    """Return the shared part of two sets: the size of both over the size of either."""
    return len(one & other) / len(one | other) if one | other else 0.0
