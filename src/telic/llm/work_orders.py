"""Work orders: requests as files, answered by a coding agent or a person.

<folder>/
    <key>.md               the order, to read
    <key>.json             the same, for programs
    <key>-image-<n>.png    pictures that belong to it
    <key>.answer.json      the answer; writing this file is answering
    <key>.rejected.txt     why the last answer was not accepted; it is in <key>.rejected.json

An answer is checked against the JSON schema of its order when it is handed in, and against its
record when it is read. `Host` is the provider that publishes orders and waits for their answers.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any, Literal

from telic.core.config import Record
from telic.errors import UnknownName, UsageError
from telic.llm.answers import InvalidAnswer, read_answer, read_json_object, without_fence
from telic.llm.keys import save_json, save_picture, save_text
from telic.llm.records import ModelUnavailable, RawReply, Request
from telic.storage.files import read_record
from telic.storage.reading import read_text

ORDERS = "orders"
_ANSWER = ".answer.json"
_REJECTED, _REASON = ".rejected.json", ".rejected.txt"
HOST_DEADLINE_S = 7 * 24 * 3600.0
_POLL_S = 0.2
_SETTLED_S = 1.0
OrderState = Literal["open", "rejected", "answered"]


class WorkOrder(Record):
    """A request as it lies on disk."""

    schema_version: int = 1
    key: str
    role: str
    system: str
    prompt: str
    images: tuple[str, ...]
    """names of the picture files beside the order"""
    effort: str | None
    answer_record: str = ""
    """of earlier versions"""
    answer_schema: dict[str, Any]
    answer_file: str
    """name of the file to write"""


class WorkOrderLine(Record):
    """An order in a list."""

    key: str
    role: str
    state: OrderState
    reason: str | None = None
    """why the last answer was not accepted"""


def answer_path(folder: Path, key: str) -> Path:
    """Return where the answer to an order goes."""
    return folder / f"{key}{_ANSWER}"


def publish(folder: Path, key: str, request: Request[Any]) -> WorkOrder:
    """Write the files of an order and return it; writing it again changes nothing."""
    images: list[str] = []
    for number, image in enumerate(request.images, 1):
        images.append(f"{key}-image-{number}{image.suffix}")
        save_picture(folder / images[-1], image.data)
    order = WorkOrder(
        key=key,
        role=request.role,
        system=request.system,
        prompt=request.prompt,
        images=tuple(images),
        effort=request.effort,
        answer_schema=request.answer_schema,
        answer_file=answer_path(folder, key).name,
    )
    save_text(folder / f"{key}.md", describe(order))
    # Last, because it is the file that lists look for.
    save_json(folder / f"{key}.json", order)
    return order


def describe(order: WorkOrder) -> str:
    """Return the order as Markdown, to read."""
    images = "".join(f"\n- ![{name}]({name})" for name in order.images)
    sections = [
        f"# Work order {order.key}\n\nYou are the model in the role **{order.role}**. "
        f"Answer with one JSON object that fits the schema below: write it to "
        f"`{order.answer_file}` in this folder, or run `telic orders {order.key} FILE`. "
        f"If the answer is not accepted, `{order.key}{_REASON}` says why; answer again.",
        f"## Instructions\n\n{order.system}" if order.system else "",
        f"## Request\n\n{order.prompt}",
        f"## Pictures\n{images}" if images else "",
        "## Schema of the answer\n\n```json\n"
        + json.dumps(order.answer_schema, indent=2)
        + "\n```",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def list_orders(folder: Path) -> list[WorkOrderLine]:
    """Return the orders in a folder, those that wait for an answer first, then oldest first."""
    orders = [(path, read_record(path, WorkOrder)) for path in _order_files(folder)]
    lines = [(path.stat().st_mtime, _line(folder, order)) for path, order in orders]
    return [line for _, line in sorted(lines, key=lambda e: (e[1].state == "answered", e[0]))]


def read_order(folder: Path, key: str) -> WorkOrder:
    """Return the order with this key, or the start of one; raises UnknownName or UsageError."""
    keys = [path.stem for path in _order_files(folder)]
    matches = [name for name in keys if key and name.startswith(key)]
    if not matches:
        raise UnknownName("work order", key, keys)
    if len(matches) > 1:
        raise UsageError(
            f'"{key}" is the start of {len(matches)} work orders: {", ".join(matches)}.',
            hint="Add a few letters.",
        )
    return read_record(folder / f"{matches[0]}.json", WorkOrder)


def answer_order(folder: Path, key: str, text: str) -> Path:
    """Check an answer and hand it in; raises InvalidAnswer with every complaint."""
    order = read_order(folder, key)
    check_answer(order, text)
    path = answer_path(folder, order.key)
    save_text(path, without_fence(text) + "\n")
    return path


def check_answer(order: WorkOrder, text: str) -> None:
    """Raise InvalidAnswer with everything in a text that does not fit the schema of an order."""
    from jsonschema import Draft202012Validator  # 0.1 s that listing orders can do without

    validator: Any = Draft202012Validator(order.answer_schema)
    problems = [
        f"- {'.'.join(map(str, error.absolute_path)) or 'the answer'}: {error.message}"
        for error in validator.iter_errors(read_json_object(text))
    ]
    if problems:
        raise InvalidAnswer("\n".join(problems))


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
        end = time.monotonic() + deadline_s
        publish(self.folder, key, request)
        path, reason = answer_path(self.folder, key), self.folder / f"{key}{_REASON}"
        while (left_s := end - time.monotonic()) > 0:
            text = await self._written(path)
            if text is None:
                await asyncio.sleep(min(_POLL_S, left_s))
                continue
            try:
                read_answer(text, request.answer)
            except InvalidAnswer as error:
                save_text(reason, error.message + "\n")
                path.replace(self.folder / f"{key}{_REJECTED}")
                continue
            reason.unlink(missing_ok=True)
            return RawReply(text=text)
        raise ModelUnavailable(
            f"The work order {key} ({request.role}) was not answered within {deadline_s:g} s.",
            hint=f"It waits in {self.folder}; answer it and run the same command again.",
        )

    async def _written(self, path: Path) -> str | None:
        """Return the answer file's text once it is whole, or None when there is none yet."""
        look = _look(path)
        while look is not None:
            text = read_text(path, errors="replace") if path.exists() else ""
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


def _look(path: Path) -> tuple[int, int] | None:
    """Return when a file was changed and how large it is, or None when there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size


def _line(folder: Path, order: WorkOrder) -> WorkOrderLine:
    reason_file, reason = folder / f"{order.key}{_REASON}", None
    state: OrderState = "open"
    if answer_path(folder, order.key).exists():
        state = "answered"
    elif reason_file.exists():
        state, reason = "rejected", read_text(reason_file).strip()
    return WorkOrderLine(key=order.key, role=order.role, state=state, reason=reason)


def _order_files(folder: Path) -> list[Path]:
    # A key holds no dot, so answers and rejected answers do not match.
    return sorted(path for path in folder.glob("*.json") if "." not in path.stem)
