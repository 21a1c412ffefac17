"""Work orders: requests as files, answered by a coding agent or a person.

<folder>/
    <key>.md               the order, to read
    <key>.json             the same, for programs
    <key>-image-<n>.png    its pictures
    <key>.answer.json      the answer; writing this file answers the order
    <key>.rejected.txt     why the last answer was rejected; it is in <key>.rejected.json

An answer is checked against the JSON schema of its order when it is submitted, and against its
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
from telic.llm.keys import save_image, save_json, save_text
from telic.llm.records import ModelUnavailable, RawReply, Request
from telic.storage.files import read_record
from telic.storage.layout import changed_at
from telic.storage.reading import read_text

ORDERS = "orders"
HOST_DEADLINE_S = 7 * 24 * 3600.0
_POLL_S = 0.2
_SETTLED_S = 1.0
OrderState = Literal["open", "rejected", "answered"]


class WorkOrder(Record):
    """A request on disk."""

    schema_version: int = 1
    key: str
    role: str
    system: str
    prompt: str
    images: tuple[str, ...]
    """names of the picture files next to the order"""
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
    """why the last answer was rejected"""


def publish(folder: Path, key: str, request: Request[Any]) -> WorkOrder:
    """Write the files of an order and return it; writing it again changes nothing."""
    names = [f"{key}-image-{n}{image.suffix}" for n, image in enumerate(request.images, 1)]
    for name, image in zip(names, request.images, strict=True):
        save_image(folder / name, image)
    order = WorkOrder(
        key=key,
        role=request.role,
        system=request.system,
        prompt=request.prompt,
        images=tuple(names),
        effort=request.effort,
        answer_schema=request.answer_schema,
        answer_file=f"{key}.answer.json",
    )
    save_text(folder / f"{key}.md", describe(order))
    # Last, because it is the file that lists look for.
    save_json(folder / f"{key}.json", order)
    return order


def describe(order: WorkOrder) -> str:
    """Return the order as Markdown."""
    images = "".join(f"\n- ![{name}]({name})" for name in order.images)
    sections = [
        f"# Work order {order.key}\n\nYou are the model in the role **{order.role}**. "
        f"Answer with one JSON object that fits the schema below: write it to "
        f"`{order.answer_file}` in this folder, or run `telic orders {order.key} FILE`. "
        f"If the answer is rejected, `{order.key}.rejected.txt` says why; answer again.",
        f"## Instructions\n\n{order.system}" if order.system else "",
        f"## Request\n\n{order.prompt}",
        f"## Pictures\n{images}" if images else "",
        "## Schema of the answer\n\n```json\n"
        + json.dumps(order.answer_schema, indent=2)
        + "\n```",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def list_orders(folder: Path) -> list[WorkOrderLine]:
    """Return the orders in a folder, unanswered ones first, then oldest first."""
    lines: list[WorkOrderLine] = []
    for path in sorted(_order_files(folder), key=changed_at):
        order, rejected = read_record(path, WorkOrder), path.with_suffix(".rejected.txt")
        state, reason = "open", None
        if (folder / order.answer_file).exists():
            state = "answered"
        elif rejected.exists():
            state, reason = "rejected", read_text(rejected).strip()
        lines.append(WorkOrderLine(key=order.key, role=order.role, state=state, reason=reason))
    return sorted(lines, key=lambda line: line.state == "answered")


def read_order(folder: Path, key: str) -> WorkOrder:
    """Return the order with this key, or prefix of one; raises UnknownName or UsageError."""
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


def _order_files(folder: Path) -> list[Path]:
    # A key holds no dot, so answers and rejected answers do not match.
    return sorted(path for path in folder.glob("*.json") if "." not in path.stem)


def answer_order(folder: Path, key: str, text: str) -> Path:
    """Check an answer and submit it; raises InvalidAnswer with every problem."""
    order = read_order(folder, key)
    check_answer(order, text)
    save_text(folder / order.answer_file, without_fence(text) + "\n")
    return folder / order.answer_file


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
    """Publish work orders in a folder and wait for their answers.

    An order survives the death of this process: the same request has the same key, and an answer
    that was written meanwhile is used at once.
    """

    name = "host"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def complete(self, request: Request[Any], deadline_s: float) -> RawReply:
        """Publish the order and return its first valid answer; raises ModelUnavailable."""
        key, end = request.key(self.name), time.monotonic() + deadline_s
        order = publish(self.folder, key, request)
        path, reason = self.folder / order.answer_file, self.folder / f"{key}.rejected.txt"
        seen, seen_at = "", 0.0
        while (now := time.monotonic()) < end:
            text = read_text(path, errors="replace") if path.exists() else ""
            if text != seen:
                seen, seen_at = text, now
            try:
                if text:
                    read_answer(text, request.answer)
                    reason.unlink(missing_ok=True)
                    return RawReply(text=text)
            except InvalidAnswer as error:
                # An editor may still be writing: broken JSON is rejected once it has settled.
                if _is_json(text) or now - seen_at > _SETTLED_S:
                    save_text(reason, error.message + "\n")
                    path.replace(self.folder / f"{key}.rejected.json")
            await asyncio.sleep(min(_POLL_S, end - now))
        raise ModelUnavailable(
            f"The work order {key} ({request.role}) was not answered within {deadline_s:g} s.",
            hint=f"It waits in {self.folder}; answer it and run the same command again.",
        )


def _is_json(text: str) -> bool:
    try:
        read_json_object(text)
        return True
    except InvalidAnswer:
        return False
