"""Candidates of an older tool as drafts: what can be said in our words, and what was left out.

A draft is a file for `telic study candidate new TITLE --draft FILE`. Nothing becomes a candidate by
itself: whether an old idea fits today's contract is for its checks to say, and for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast, get_args

from telic.studies.documents.candidate import Hypothesis
from telic.studies.documents.contract import CandidateKind

_SAID_ELSEWHERE = frozenset({"id", "status", "phase", "verdict", "schema", "created_at", "title"})
"""what an old candidate says of itself that a draft does not say: it stays in the copy"""
_CHANGES = ("overrides", "params", "parameters")
"""where old candidates name the settings that they change"""


class MappedDraft(NamedTuple):
    """A draft, and the fields of the old candidate that it does not carry."""

    draft: dict[str, Any]
    unmapped: tuple[str, ...]


def map_candidate(old: Mapping[str, Any], name: str) -> MappedDraft:
    """Return an old candidate as a draft; seeds, costs and parents are left to the contract."""
    left = {key: value for key, value in old.items() if key not in _SAID_ELSEWHERE}
    draft: dict[str, Any] = {
        "kind": _kind(left),
        "hypothesis": _hypothesis(left),
        "origin": {"engine": "rlxp", "imported_from": name},
    }
    if overrides := _overrides(left):
        draft["change"] = {"overrides": overrides}
    return MappedDraft(draft, tuple(sorted(left)))


def _kind(left: dict[str, Any]) -> str:
    if left.get("kind") in get_args(CandidateKind):
        return str(left.pop("kind"))
    return "config"


def _hypothesis(left: dict[str, Any]) -> dict[str, Any]:
    """Take the reason out of what is left: a sentence, or its parts."""
    said = left.pop("hypothesis", None)
    if isinstance(said, dict):
        parts = cast("dict[str, Any]", said)
        known = {key: parts[key] for key in Hypothesis.model_fields if key in parts}
        if unknown := sorted(parts.keys() - known.keys()):
            left["hypothesis"] = unknown
        return {"statement": "", **known}
    reason = {"statement": "" if said is None else str(said)}
    return reason | {key: left.pop(key) for key in ("mechanism", "falsifier") if key in left}


def _overrides(left: dict[str, Any]) -> dict[str, Any]:
    """Take the settings out of what is left, each with what it was and what it becomes."""
    change = left.pop("change", None)
    inner = dict(cast("dict[str, Any]", change)) if isinstance(change, dict) else {}
    if change is not None and not inner:
        left["change"] = change
    found: dict[str, Any] = {}
    for where in (inner, left):
        for place in _CHANGES:
            values = where.get(place)
            if isinstance(values, dict):
                del where[place]
                found |= {
                    str(path): _override(value)
                    for path, value in cast("dict[Any, Any]", values).items()
                }
    if inner:  # a patch, files: they lie in the copy
        left["change"] = inner
    return found


def _override(value: Any) -> dict[str, Any]:
    if isinstance(value, dict) and "to" in value:
        pair = cast("dict[str, Any]", value)
        return {key: pair[key] for key in ("from", "to") if key in pair}
    return {"to": value}
