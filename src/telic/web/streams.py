"""What happens, as it happens: the events of a thing as pages and as a stream that can be resumed.

The id of an event is the place in its log where it ends, so a reader that lost its connection, or
whose server was started anew, goes on where it was. Between events a stream says what is not kept
on disk: the thing's state, and how far a training is, read from its newest metrics.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union, cast

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, create_model

from telic.core.config import Record
from telic.core.events import EVENTS, Event
from telic.errors import TelicError
from telic.storage.workspace import Thing
from telic.verbs.lines import thing_id
from telic.web.place import WebPlace
from telic.web.series import LogLine, Pulse, pulse_of, read_lines

_BEAT_S = 1.0
_LOOK_S = 0.4
_MOST_PULSES = 256
_MOST = 1000


def _record_of(name: str, home: str) -> type[BaseModel]:
    """Return a model of an event as it lies on disk: its name, the time and its fields."""
    module, _, kind = home.partition(":")
    event: type[Event] = getattr(import_module(module), kind)
    # pyrefly: ignore[not-a-type]
    made: dict[str, Any] = {"event": (Literal[name], ...), "time": (float | None, None)}
    for field, info in event.model_fields.items():
        if field not in event.OMITTED:
            # pyrefly: ignore[invalid-annotation]
            made[field] = (Optional[cast("Any", info.annotation)], None)  # noqa: UP045
    title = "".join(part.capitalize() for part in name.split("."))
    return create_model(title, __doc__=event.__doc__, **made)


class OtherEvent(BaseModel):
    """A line that another version wrote, or an entry of a study's ledger."""

    model_config = ConfigDict(extra="allow")


EVENT_RECORDS = tuple(_record_of(name, home) for name, home in EVENTS.items())
# pyrefly: ignore[not-a-type]
EventData = Union[(*EVENT_RECORDS, OtherEvent)]


class EventRow(Record):
    """An event, and its id."""

    id: int
    """the place in the log where it ends"""
    data: EventData


class EventsPage(Record):
    """Events in their order."""

    events: tuple[EventRow, ...]
    next: int
    """ask again with `after` this for what comes then"""
    is_all: bool
    """whether the log held nothing more"""


class ThingPulse(Record):
    """What a stream says between events, under the name "pulse"."""

    state: str
    is_running: bool
    training: Pulse | None
    """how far the present training is; None: nothing is trained now"""


def events_log(thing: Thing) -> Path:
    """Return the log of a thing."""
    return thing.path / ("ledger.jsonl" if thing.kind == "study" else "events.jsonl")


def _is_event(line: LogLine) -> bool:
    """Say whether a line of a log, which anybody may have damaged, is one that we wrote."""
    try:
        return isinstance(json.loads(line.text), dict)
    except (ValueError, RecursionError):
        return False


def page_of(thing: Thing, after: int, limit: int) -> bytes:
    """Return events behind a place as JSON; see EventsPage."""
    lines = read_lines(events_log(thing), after)[:limit]
    shown = b",".join(
        b'{"id":%d,"data":%b}' % (line.end, line.text) for line in lines if _is_event(line)
    )
    end = lines[-1].end if lines else after
    is_all = not read_lines(events_log(thing), end, 1 << 12)
    tail = json.dumps({"next": end, "is_all": is_all}).encode()[1:]
    return b'{"events":[' + shown + b"]," + tail


class Pulses:
    """What things do now, asked once a beat for all who follow the same thing."""

    def __init__(self, place: WebPlace) -> None:
        self._place = place
        self._known: dict[Path, tuple[float, asyncio.Task[bytes]]] = {}

    async def of(self, thing: Thing) -> bytes:
        """Return a thing's pulse as JSON, at most a beat old."""
        now = asyncio.get_running_loop().time()
        known = self._known.get(thing.path)
        if known is None or now - known[0] >= _BEAT_S:
            if len(self._known) > _MOST_PULSES:
                self._known.clear()
            task = asyncio.create_task(asyncio.to_thread(self._read, thing))
            known = self._known[thing.path] = (now, task)
        return await asyncio.shield(known[1])

    def _read(self, thing: Thing) -> bytes:
        return pulse(self._place, thing).model_dump_json().encode()


async def _follow(path: Path, start: int, beat_s: float) -> AsyncIterator[list[LogLine]]:
    """Yield lines from a position on as they come, and an empty list after a beat without."""
    position, waited = start, 0.0
    while True:
        lines = read_lines(path, position)
        if lines or waited >= beat_s:
            position, waited = (lines[-1].end if lines else position), 0.0
            yield lines
        else:
            size = path.stat().st_size if path.exists() else 0
            position = 0 if size < position else position  # it was started from scratch
            await asyncio.sleep(_LOOK_S)
            waited += _LOOK_S


async def stream_of(
    place: WebPlace, pulses: Pulses, thing: Thing, start: int
) -> AsyncIterator[bytes]:
    """Yield server-sent events from a place of the log on, until the reader leaves."""
    yield b"retry: 1000\n\n"
    told: bytes | None = None
    async for lines in _follow(events_log(thing), start, _BEAT_S):
        parts = [b"id: %d\ndata: %b\n\n" % (e.end, e.text) for e in lines if _is_event(e)]
        now = await pulses.of(thing)
        if now != told:
            parts.append(b"event: pulse\ndata: " + now + b"\n\n")
            told = now
        yield b"".join(parts) or b": still here\n\n"


def pulse(place: WebPlace, thing: Thing) -> ThingPulse:
    """Return what a thing does now."""
    entry = place.index.entry(thing_id(thing))
    if entry is None:
        return ThingPulse(state="deleted", is_running=False, training=None)
    try:
        training = pulse_of(thing) if entry.line.is_running else None
    except TelicError:  # its files are being written
        training = None
    return ThingPulse(state=entry.line.state, is_running=entry.line.is_running, training=training)


After = Annotated[int, Field(ge=0, le=1 << 53, description="the id of the last event seen")]


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of events."""
    router, pulses = APIRouter(tags=["events"]), Pulses(place)

    @router.get("/things/{thing}/events", response_model=EventsPage)
    def read_events(
        thing: str,
        after: After = 0,
        limit: Annotated[int, Query(ge=1, le=_MOST)] = _MOST,
    ) -> Response:
        """Return what happened so far, a page at a time."""
        return Response(page_of(place.thing(thing), after, limit), media_type="application/json")

    @router.get(
        "/things/{thing}/stream",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
    )
    def stream_events(
        thing: str,
        after: After = 0,
        last_event_id: Annotated[str | None, Header(max_length=40)] = None,
    ) -> StreamingResponse:
        """Tell what happened and what happens, until the reader leaves.

        Events have no name and an id; "pulse" (ThingPulse) has neither an id nor a past.
        """
        found = place.thing(thing)
        seen = last_event_id or ""
        start = int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 17 else after
        return StreamingResponse(
            stream_of(place, pulses, found, start), media_type="text/event-stream"
        )

    @router.get("/things/{thing}/pulse")
    def read_pulse(thing: str) -> ThingPulse:
        """Return what a stream says between events: the state now, and how far a training is."""
        return pulse(place, place.thing(thing))

    return router
