"""The types of events for the API's schema: each class of `core.events` with its name on disk."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, Union, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from telic.core.events import EVENTS, BenchEvent


def _record_of(kind: type[Any]) -> type[BaseModel]:
    """Return a model of an event as it lies on disk: its name and its fields."""
    hints = get_type_hints(kind)
    made: dict[str, Any] = {"event": (Literal[kind.NAME], ...)}
    made |= {field.name: (hints[field.name] | None, None) for field in fields(kind)}
    return create_model(kind.__name__, __doc__=kind.__doc__, **made)


class OtherEvent(BaseModel):
    """A line that another version wrote, or an entry of a study's ledger."""

    model_config = ConfigDict(extra="allow")


EVENT_RECORDS = tuple(_record_of(kind) for kind in EVENTS if kind is not BenchEvent)
EventData = Union[(*EVENT_RECORDS, OtherEvent)]
