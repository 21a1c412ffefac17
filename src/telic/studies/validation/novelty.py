"""V15 and V16: the change was not tried before, and it is more than another seed."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from telic.studies.canonical import content_hash
from telic.studies.documents.adapter import Adapter
from telic.studies.documents.candidate import Candidate
from telic.studies.patch import Patch
from telic.studies.validation.subject import Finding, Subject

_SEED_NAMES = frozenset(
    {"seed", "seeds", "random_seed", "rng_seed", "env_seed", "global_seed", "random_state"}
)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?")
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


def is_new(subject: Subject) -> Finding:
    """V15: nobody tried the same effective change, or the earlier try is named."""
    candidate = subject.candidate
    if candidate.kind == "baseline":
        return Finding()
    own = effective_hash(candidate)
    named = {*candidate.parents, candidate.replicate_of}
    same = [
        each.candidate.id
        for each in subject.others
        if each.counts
        and subject.candidate_id not in (*each.candidate.parents, each.candidate.replicate_of)
        and effective_hash(each.candidate) == own
    ]
    problems = [
        f"{each} tried the same change; cite it as a parent or set replicate_of"
        for each in same
        if each not in named
    ]
    return Finding(tuple(problems), value=same or None)


def is_more_than_a_seed(subject: Subject) -> Finding:
    """V16: a change of seeds only, or no change at all, is no idea."""
    candidate = subject.candidate
    problems = [
        f"{path} sets a seed; seeds belong in plan.seeds"
        for path in candidate.change.overrides
        if sets_seed(path, subject.adapter)
    ]
    if candidate.kind in ("baseline", "dr_probe") or candidate.replicate_of:
        return Finding(tuple(problems))
    change = effective_change(candidate)
    if not any(change.values()):
        problems.append("nothing changes: with other seeds only, luck would look like progress")
    only_patch = not any(value for key, value in change.items() if key != "patch")
    if subject.patch is not None and only_patch and is_seed_patch(subject.patch):
        problems.append("the patch changes nothing but seeds")
    return Finding(tuple(problems))


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
