"""What all events have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from telic.core.events.codec import Event

Listener = Callable[["Event"], None]

Facts = dict[str, Any]
"""a record of a higher layer as plain data; the field that holds it says which"""


def ignore(event: Event) -> None:
    """Listen to nothing."""


@dataclass(frozen=True, kw_only=True)
class Emitted:
    """What every event has."""

    NAME: ClassVar[str]
    """its "event" on disk"""

    time: float | None = None
    """seconds since 1970 when it was written down; only events of a training have it"""
