"""Events of a thing as a stream that can be resumed.

The id of an event is the position in its log where it ends, so a reader that lost its connection,
or whose server was restarted, continues where it was. Between events the stream reports what is not
kept on disk: the state of the thing and the progress of its training.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from telic.core.config import Record
from telic.errors import TelicError
from telic.storage.workspace import Thing
from telic.verbs.lines import thing_id
from telic.web.curves import TrainingPulse, pulse_of, read_lines
from telic.web.place import WebPlace

_BEAT_S = 1.0
_POLL_S = 0.4
_MOST_PULSES = 256


class ThingPulse(Record):
    """What a stream reports between events, under the name "pulse"."""

    state: str
    is_running: bool
    training: TrainingPulse | None
    """progress of the current training; None without one"""


def events_log(thing: Thing) -> Path:
    """Return the log of a thing."""
    return thing.path / ("ledger.jsonl" if thing.kind == "study" else "events.jsonl")


def is_event(line: bytes) -> bool:
    """Return whether a line of a log, which may be damaged, is an object."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


class _Pulses:
    """The state of things, read once a beat for all readers of the same thing."""

    def __init__(self, place: WebPlace) -> None:
        self._place = place
        self._known: dict[Path, tuple[float, asyncio.Task[bytes]]] = {}

    async def of(self, thing: Thing) -> bytes:
        now = asyncio.get_running_loop().time()
        known = self._known.get(thing.path)
        if known is None or now - known[0] >= _BEAT_S:
            if len(self._known) > _MOST_PULSES:
                self._known.clear()
            task = asyncio.create_task(asyncio.to_thread(self._read, thing))
            known = self._known[thing.path] = (now, task)
        return await asyncio.shield(known[1])

    def _read(self, thing: Thing) -> bytes:
        entry = self._place.entry(thing_id(thing))
        if entry is None:
            pulse = ThingPulse(state="deleted", is_running=False, training=None)
            return pulse.model_dump_json().encode()
        training, line = None, entry.line
        if line.is_running:
            try:
                training = pulse_of(thing)
            except (TelicError, OSError):  # files are being written
                training = None
        pulse = ThingPulse(state=line.state, is_running=line.is_running, training=training)
        return pulse.model_dump_json().encode()


async def _stream(pulses: _Pulses, thing: Thing, position: int) -> AsyncIterator[bytes]:
    """Yield server-sent events from a position of the log on, until the reader disconnects."""
    yield b"retry: 1000\n\n"
    log, sent, waited = events_log(thing), b"", _BEAT_S
    while True:
        lines = read_lines(log, position)
        if not lines and waited < _BEAT_S:
            await asyncio.sleep(_POLL_S)
            waited += _POLL_S
            continue
        waited = 0.0
        position = lines[-1].end if lines else position
        parts = [b"id: %d\ndata: %b\n\n" % (x.end, x.text) for x in lines if is_event(x.text)]
        pulse = await pulses.of(thing)
        if pulse != sent:
            parts.append(b"event: pulse\ndata: " + pulse + b"\n\n")
            sent = pulse
        yield b"".join(parts) or b": still here\n\n"


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of events."""
    router, pulses = APIRouter(tags=["events"]), _Pulses(place)

    @router.get(
        "/things/{thing}/stream",
        response_class=StreamingResponse,
        responses={200: {"model": ThingPulse, "content": {"text/event-stream": {}}}},
    )
    def stream_events(
        thing: str,
        after: Annotated[int, Query(ge=0, le=1 << 53, description="id of the last event")] = 0,
        last_event_id: Annotated[str | None, Header(max_length=40)] = None,
    ) -> StreamingResponse:
        """Stream past and new events until the reader disconnects.

        Events have an id and no name; "pulse" (ThingPulse) has a name and no id.
        """
        seen = last_event_id or ""
        start = int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 17 else after
        stream = _stream(pulses, place.thing(thing), start)
        return StreamingResponse(stream, media_type="text/event-stream")

    return router
