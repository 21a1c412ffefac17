"""The host agent: each request becomes a work order, and whoever reads it is the model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

from telic.llm import work_orders
from telic.llm.answers import InvalidAnswer, read_answer, read_json_object
from telic.llm.limits import Deadline
from telic.llm.records import ModelUnavailable, RawReply, Request

HOST_DEADLINE_S = 7 * 24 * 3600.0
_POLL_S = 0.2
_SETTLED_S = 1.0


class _Look(NamedTuple):
    changed_ns: int
    size: int


class Host:
    """Publishes work orders in a folder and waits for their answers.

    An order survives the death of this process: asked again, the same request has the same key, and
    an answer that was written meanwhile is taken at once.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def name(self) -> str:
        """Return the name of this provider."""
        return "host"

    async def complete(self, request: Request[Any], deadline_s: float) -> RawReply:
        """Publish the order and return its first valid answer; raises ModelUnavailable."""
        key = request.key(self.name)
        deadline = Deadline(deadline_s)
        work_orders.publish(self.folder, key, request)
        path = work_orders.answer_path(self.folder, key)
        while deadline.left_s > 0:
            text = await self._written(path)
            if text is None:
                await asyncio.sleep(min(_POLL_S, max(0.0, deadline.left_s)))
                continue
            try:
                read_answer(text, request.answer)
            except InvalidAnswer as error:
                work_orders.reject(self.folder, key, error.message)
                continue
            work_orders.accept(self.folder, key)
            return RawReply(text=text)
        raise ModelUnavailable(
            f"Nobody answered the work order {key} ({request.role}) within {deadline_s:g} s.",
            hint=f"It waits in {self.folder}; answer it and run the same command again.",
        )

    async def _written(self, path: Path) -> str | None:
        """Return the answer file's text once it is whole, or None when there is none yet."""
        look = _look(path)
        while look is not None:
            text = path.read_text(errors="replace") if path.exists() else ""
            try:
                read_json_object(text)
                return text
            except InvalidAnswer:
                # Perhaps an editor is still writing: believe it only when it has come to rest.
                await asyncio.sleep(_SETTLED_S)
            before, look = look, _look(path)
            if look == before:
                return text
        return None


def _look(path: Path) -> _Look | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return _Look(status.st_mtime_ns, status.st_size)
