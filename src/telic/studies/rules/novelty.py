"""V15 and V16: the change was not tried before, and is more than a seed; what resembles it."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from telic.studies.canonical import content_hash
from telic.studies.documents.adapter import Adapter
from telic.studies.documents.base import DocumentPart
from telic.studies.documents.candidate import Candidate, CandidateStatus
from telic.studies.patch import Patch
from telic.studies.rules.case import CandidateCase, RuleFinding
from telic.studies.study import Study

_SEED_NAMES = frozenset(
    {"seed", "seeds", "random_seed", "rng_seed", "env_seed", "global_seed", "random_state"}
)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?")
_WORD = re.compile(r"[a-z]{4,}")
_SEED_WORD = re.compile(r"seed|random_state", re.IGNORECASE)


def effective_change(candidate: Candidate) -> dict[str, Any]:
    """Return what the change comes to, however it is written: the values it sets, no no-ops."""
    change = candidate.change
    return {
        "overrides": {
            path: _same_number(each.to)
            for path, each in change.overrides.items()
            if each.to != each.from_value
        },
        "patch": change.patch_sha256,
        "files": {each.path: each.sha256 for each in change.files},
        "params": None if change.params is None else list(map(_same_number, change.params)),
        "curriculum": candidate.curriculum,
    }


def effective_hash(candidate: Candidate) -> str:
    """Return one name for everything that comes to the same change."""
    return content_hash(effective_change(candidate))


def _same_number(value: Any) -> Any:
    """Write 2 and 2.0 alike."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_new(case: CandidateCase) -> RuleFinding:
    """V15: nobody tried the same effective change, or the earlier try is named."""
    candidate = case.candidate
    if candidate.kind == "baseline":
        return RuleFinding()
    own = effective_hash(candidate)
    named = {*candidate.parents, candidate.replicate_of}
    same = [
        name
        for name, other in case.others.items()
        if other.counts
        and case.name not in (*other.candidate.parents, other.candidate.replicate_of)
        and effective_hash(other.candidate) == own
    ]
    problems = [
        f"{name} tried the same change; cite it as a parent or set replicate_of"
        for name in same
        if name not in named
    ]
    return RuleFinding(tuple(problems), value=same or None)


def is_more_than_a_seed(case: CandidateCase) -> RuleFinding:
    """V16: a change of seeds only, or no change at all, is no idea."""
    candidate = case.candidate
    problems = [
        f"{path} sets a seed; seeds belong in plan.seeds"
        for path in candidate.change.overrides
        if sets_seed(path, case.study.adapter)
    ]
    if candidate.kind in ("baseline", "dr_probe") or candidate.replicate_of:
        return RuleFinding(tuple(problems))
    change = effective_change(candidate)
    if not any(change.values()):
        problems.append("nothing changes: with other seeds only, luck would look like progress")
    only_patch = not any(value for key, value in change.items() if key != "patch")
    if case.patch is not None and only_patch and is_seed_patch(case.patch):
        problems.append("the patch changes nothing but seeds")
    return RuleFinding(tuple(problems))


def sets_seed(path: str, adapter: Adapter) -> bool:
    """Return whether an override path names a seed."""
    flags = {f.lstrip("-+") for f in (adapter.seeds.flag, adapter.seeds.env_flag) if f}
    last = re.split(r"[./]", path)[-1].replace("-", "_").lower()
    return path.lstrip("-+") in flags or last in _SEED_NAMES


def is_seed_patch(patch: Patch) -> bool:
    """Return whether a diff replaces lines by the same lines with other seed numbers."""
    removed, added = (Counter(map(_masked, lines)) for lines in (patch.removed, patch.added))
    removed.pop("", None)
    added.pop("", None)
    return removed == added


def _masked(line: str) -> str:
    code = line.split("#")[0]
    if _SEED_WORD.search(code):
        code = _NUMBER.sub("0", code)
    return "".join(code.split())


# ---------------------------------------------------------------------------- earlier ideas


class SimilarCandidate(DocumentPart):
    """An earlier candidate, how alike it is, and what became of it."""

    candidate: str
    status: CandidateStatus
    likeness: float
    """1: the same effective change; below: shared parameters, files and words"""
    shares: tuple[str, ...]
    statement: str


def similar_candidates(study: Study, candidate: str, at_most: int = 5) -> list[SimilarCandidate]:
    """Return the candidates most like this one, the most alike first."""
    own = study.candidate(candidate)
    found = list[SimilarCandidate]()
    for name, held in study.state.candidates.items():
        if name == candidate:
            continue
        other = study.candidate(name)
        score, shares = likeness(own, other)
        if score > 0:
            facts = {"candidate": name, "status": held.status, "likeness": score}
            said = other.hypothesis.statement
            found.append(SimilarCandidate(**facts, shares=shares, statement=said))
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
