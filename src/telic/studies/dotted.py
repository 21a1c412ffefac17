"""Reach into plain values by a dotted name such as seeds.flag."""

from __future__ import annotations

from typing import Any


def value_at(data: Any, name: str) -> Any:
    """Return what stands at a name; raises KeyError where nothing does."""
    for each in name.split("."):
        data = data[each]
    return data


def put_at(data: Any, name: str, value: Any) -> None:
    """Put a value at a name whose sections are there."""
    section, _, last = name.rpartition(".")
    (value_at(data, section) if section else data)[last] = value
