"""What all events have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from telic.core.events.codec import Event

Listener = Callable[["Event"], None]

Kind = TypeVar("Kind")
Named = TypeVar("Named", bound="Emitted")
Facts = dict[str, Any]
"""a record of a higher layer as plain data; the field that holds it says which"""


def ignore(event: Event) -> None:
    """Listen to nothing."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
def record(kind: type[Kind]) -> type[Kind]:
    """Make a class a frozen record; this one goes into events."""
    return dataclass(frozen=True, kw_only=True)(kind)


@dataclass_transform(frozen_default=True, kw_only_default=True)
def event(name: str) -> Callable[[type[Named]], type[Named]]:
    """Make a class an event, which is called `name` on disk."""

    def make(kind: type[Named]) -> type[Named]:
        kind.NAME = name
        return record(kind)

    return make


@record
class Emitted:
    """What every event has."""

    NAME: ClassVar[str] = ""
    """its "event" on disk"""

    time: float | None = None
    """seconds since 1970 when it was written down; only events of a training have it"""
