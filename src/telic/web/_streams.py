"""Events of artifacts. Past events are sent as one response, and new events in one stream.

The tabs of a browser share one stream, requested with the ids of their artifacts and a position in
each log. The stream also reports each artifact's state and training progress, and all running work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from telic.core.config import Record
from telic.core.text import is_dict
from telic.errors import BadFile, TelicError
from telic.storage.reading import parse_json
from telic.storage.workspace import Artifact
from telic.verbs.lines import ArtifactSummary, artifact_id
from telic.web._curves import TrainingStatus, read_lines, training_status
from telic.web._place import WebPlace

_HEARTBEAT_S = 1.0
_POLL_S = 0.4
_MAX_FOLLOWED = 64
_MAX_BYTES = 8 << 20
"""maximum size of the events in one response"""


class ArtifactStatus(Record):
    """Current state of an artifact."""

    state: str
    is_running: bool
    training: TrainingStatus | None
    """progress of the current training, or None"""


class EventPage(Record):
    """Events of an artifact after a log position."""

    events: tuple[dict[str, Any], ...]
    end: int
    """position from which to continue"""


class StreamMessage(Record):
    """Message in a stream about one artifact or the workspace."""

    artifact: str | None = None
    page: EventPage | None = None
    status: ArtifactStatus | None = None
    running: tuple[ArtifactSummary, ...] | None = None
    """all running work that is sent when it changes"""


def read_page(artifact: Artifact, position: int, most_bytes: int = _MAX_BYTES) -> EventPage:
    """Return the events after a position, skipping damaged lines."""
    events, start = list[dict[str, Any]](), position
    is_study = artifact.kind == "study"
    log = artifact.path / ("ledger.jsonl" if is_study else "events.jsonl")
    while position - start < most_bytes and (lines := read_lines(log, position)):
        position = lines[-1].end
        for line in lines:
            try:
                event = parse_json(line.text, "The event")
            except BadFile:
                continue
            if is_dict(event) and (is_study or isinstance(event.get("event"), str)):
                events.append(event)
    return EventPage.model_construct(events=tuple(events), end=position)


class _Statuses:
    """States of artifacts and the workspace, polled once per interval for all streams."""

    def __init__(self, place: WebPlace) -> None:
        self._place = place
        self._known: dict[str | None, tuple[float, asyncio.Task[StreamMessage]]] = {}

    async def of(self, name: str | None) -> StreamMessage:
        """Return the state of an artifact, or of the workspace if `name` is None."""
        now = asyncio.get_running_loop().time()
        known = self._known.get(name)
        if known is None or now - known[0] >= _HEARTBEAT_S:
            if len(self._known) > 4 * _MAX_FOLLOWED:
                self._known.clear()
            task = asyncio.create_task(asyncio.to_thread(self._read, name))
            known = self._known[name] = (now, task)
        return await asyncio.shield(known[1])

    def _read(self, name: str | None) -> StreamMessage:
        if name is None:
            lines = [entry.line for entry in self._place.listed().values()]
            return StreamMessage(running=tuple(line for line in lines if line.is_running))
        entry, training = self._place.entry(name), None
        if entry is None:
            gone = ArtifactStatus(state="deleted", is_running=False, training=None)
            return StreamMessage(artifact=name, status=gone)
        if entry.line.is_running:
            try:
                training = training_status(entry.artifact)
            except (TelicError, OSError):  # files are being written
                training = None
        line = entry.line
        status = ArtifactStatus(state=line.state, is_running=line.is_running, training=training)
        return StreamMessage(artifact=name, status=status)


async def _stream(statuses: _Statuses, followed: dict[Artifact, int]) -> AsyncIterator[str]:
    """Yield updates of artifacts and of the workspace until the client disconnects."""
    sent, waited = dict[str | None, StreamMessage](), _HEARTBEAT_S
    while True:
        found: list[StreamMessage] = []
        for artifact, position in followed.items():
            page = await asyncio.to_thread(read_page, artifact, position, 1 << 18)
            if page.end != position:
                followed[artifact] = page.end
                name = artifact_id(artifact)
                found.append(StreamMessage.model_construct(artifact=name, page=page))
        if not found and waited < _HEARTBEAT_S:
            await asyncio.sleep(_POLL_S)
            waited += _POLL_S
            continue
        waited = 0.0
        for name in (None, *map(artifact_id, followed)):
            status = await statuses.of(name)
            if status != sent.get(name):
                sent[name] = status
                found.append(status)
        messages = [f"data: {x.model_dump_json(exclude_none=True)}\n\n" for x in found]
        yield "".join(messages) or ": alive\n\n"


def routes(place: WebPlace) -> APIRouter:
    """Return the routes for events."""
    router, statuses = APIRouter(tags=["events"]), _Statuses(place)

    @router.get("/artifacts/{artifact}/events")
    def read_events(
        artifact: str,
        after: Annotated[int, Query(ge=0, le=1 << 53, description="last position in the log")] = 0,
    ) -> EventPage:
        """Return the events of an artifact after a position."""
        return read_page(place.artifact(artifact), after)

    @router.get(
        "/stream",
        response_class=StreamingResponse,
        responses={200: {"model": StreamMessage, "content": {"text/event-stream": {}}}},
    )
    def stream_events(
        artifact: Annotated[list[str] | None, Query(max_length=_MAX_FOLLOWED)] = None,
        after: Annotated[list[int] | None, Query(max_length=_MAX_FOLLOWED)] = None,
    ) -> StreamingResponse:
        """Stream new events until the client disconnects. `after` has a position per artifact.

        Artifacts that do not exist are reported as deleted.
        """
        names, positions = artifact or [], after or []
        found = {name: place.entry(name) for name in names}
        followed = {
            entry.artifact: max(0, positions[index] if index < len(positions) else 0)
            for index, name in enumerate(names)
            if (entry := found[name]) is not None
        }
        return StreamingResponse(_stream(statuses, followed), media_type="text/event-stream")

    return router
