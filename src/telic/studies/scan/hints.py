"""Adapter hints for named stacks: they only pre-fill what the tree did not answer."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

from pydantic import Field

from telic.core.config import Record
from telic.studies.documents.adapter import Adapter

MOST_CONFIDENCE = 0.4
"""a hint is a guess until the tree confirms it"""
_NOT_HINTS = {"packages.toml"}


class Hint(Record):
    """What a stack usually looks like."""

    name: str
    packages: tuple[str, ...] = Field(default=(), description="import names; empty: every stack")
    confidence: float = Field(default=MOST_CONFIDENCE, ge=0, le=MOST_CONFIDENCE)
    fields: dict[str, Any] = Field(description="adapter fields by dotted name")


def load_hints() -> tuple[Hint, ...]:
    """Return every shipped hint; those for a named stack before the generic one."""
    found = [
        Hint.model_validate(tomllib.loads(file.read_text("utf-8")))
        for file in resources.files("telic.studies.hints").iterdir()
        if file.name.endswith(".toml") and file.name not in _NOT_HINTS
    ]
    return tuple(sorted(found, key=lambda hint: (not hint.packages, hint.name)))


def matching_hints(packages: tuple[str, ...]) -> tuple[Hint, ...]:
    """Return the hints that apply to a repository which holds or imports these packages."""
    known = set(packages)
    return tuple(hint for hint in load_hints() if not hint.packages or known & set(hint.packages))


def apply_hints(adapter: Adapter, hints: tuple[Hint, ...]) -> Adapter:
    """Fill fields whose provenance is unknown; a hinted field is inferred with low confidence."""
    data = adapter.as_data()
    for hint in hints:
        for field, value in hint.fields.items():
            held = data["provenance"].get(field)
            if held is not None and held["status"] == "unknown" and not held["confidence"]:
                _fill(data, field, value)
                data["provenance"][field] = {
                    "status": "inferred",
                    "confidence": hint.confidence,
                    "evidence": [],
                    "x-hint": hint.name,
                }
    return Adapter.parse(data, "adapter")


def _fill(data: dict[str, Any], field: str, value: Any) -> None:
    *path, last = field.split(".")
    for name in path:
        data = data[name]
    if isinstance(value, dict) and isinstance(data[last], dict):
        data[last] = {**data[last], **value}
    else:
        data[last] = value
