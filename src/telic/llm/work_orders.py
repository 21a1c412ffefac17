"""Work orders: requests as files, answered by a coding agent or a person.

<folder>/
    <key>.md               the order, to read
    <key>.json             the same, for programs
    <key>-image-<n>.png    its pictures
    <key>.answer.json      the answer; an order with one is closed
    <key>.rejected.txt     why the last answer was rejected; it is in <key>.rejected.json
    <key>.closed.txt       why an unanswered order takes no answer any more

Files of an order are found by name, not by its content: folders are untrusted, links not followed.

An answer is checked against the JSON schema of its order when it is submitted, and against its
record when it is read. `Host` is the provider that publishes orders and waits for their answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, cast

from telic.core.config import Record
from telic.core.text import is_dict
from telic.errors import TelicError, UnknownName, UsageError
from telic.llm.answers import InvalidAnswer, read_answer, read_json_object, without_fence
from telic.llm.keys import save_image, save_json, save_text
from telic.llm.records import ModelUnavailable, RawReply, Request
from telic.storage.files import TEMPORARY_MARK, read_record
from telic.storage.layout import changed_at
from telic.storage.reading import read_text, without_links

ORDERS = "orders"
HOST_DEADLINE_S = 7 * 24 * 3600.0
_POLL_S = 0.2
_SETTLED_S = 1.0
OrderState = Literal["open", "rejected", "answered", "closed"]


class WorkOrder(Record):
    """A request on disk."""

    schema_version: int = 1
    key: str
    role: str
    system: str
    prompt: str
    images: tuple[str, ...]
    """absolute paths of its pictures"""
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
    """why the last answer was rejected, or why the order is closed"""
    pictures: int = 0
    file: str = ""
    """absolute path of the order as Markdown"""


def publish(folder: Path, key: str, request: Request[Any]) -> WorkOrder:
    """Write the files of an order and return it; writing it again changes nothing."""
    for number, image in enumerate(request.images, 1):
        save_image(folder / f"{key}-image-{number}{image.suffix}", image.data)
    order = WorkOrder(
        key=key,
        role=request.role,
        system=request.system,
        prompt=request.prompt,
        images=_pictures(folder, key),
        effort=request.effort,
        answer_schema=request.answer_schema,
        answer_file=_answer(folder, key).name,
    )
    save_text(folder / f"{key}.md", order_text(order))
    # Last, because it is the file that lists look for.
    named = order.model_copy(update={"images": tuple(Path(each).name for each in order.images)})
    save_json(folder / f"{key}.json", named)
    return order


def order_text(order: WorkOrder) -> str:
    """Return the order as Markdown: the request first, so that equal beginnings are cached."""
    pictures = "".join(f"\n{number}. {name}" for number, name in enumerate(order.images, 1))
    schema = json.dumps(_without_titles(order.answer_schema), separators=(",", ":"))
    sections = [
        order.system,
        order.prompt,
        f"## Pictures\n{pictures}" if pictures else "",
        f"## Your answer\n\nYou are the model in the role **{order.role}**. Answer with one JSON "
        f"object of this schema:\n\n```json\n{schema}\n```\n\nHand it in once: "
        f"`telic orders {order.key} FILE.json`, or write it to `{order.answer_file}` next to this "
        f"order. If it is rejected, `{order.key}.rejected.txt` says why; answer again.",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _without_titles(schema: Any) -> Any:
    """Return a JSON schema without the titles of its parts, which only repeat their names."""
    if isinstance(schema, list):
        return [_without_titles(each) for each in cast("list[Any]", schema)]
    if not is_dict(schema):
        return schema
    kept = {k: v for k, v in schema.items() if k != "title" or not isinstance(v, str)}
    return {name: _without_titles(value) for name, value in kept.items()}


def list_orders(folder: Path) -> list[WorkOrderLine]:
    """Return the orders in a folder, those that wait for an answer first, then oldest first."""
    lines: list[WorkOrderLine] = []
    for path in sorted(_order_files(folder), key=changed_at):
        order, state, reason = _read(path), "open", None
        if _answer(folder, order.key).exists():
            state = "answered"
        else:
            for name in ("rejected", "closed"):
                if (why := path.with_suffix(f".{name}.txt")).exists():
                    state, reason = name, read_text(why).strip()
        lines.append(
            WorkOrderLine(
                key=order.key,
                role=order.role,
                state=state,
                reason=reason,
                pictures=len(order.images),
                file=str(path.with_suffix(".md").absolute()),
            )
        )
    return sorted(lines, key=lambda line: line.state in ("answered", "closed"))


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
    return _read(folder / f"{matches[0]}.json")


def _read(path: Path) -> WorkOrder:
    folder, key = path.parent, path.stem
    own = {
        "key": key,
        "answer_file": _answer(folder, key).name,
        "images": _pictures(folder, key),
    }
    return read_record(path, WorkOrder).model_copy(update=own)


def _answer(folder: Path, key: str) -> Path:
    return folder / f"{key}.answer.json"


def _pictures(folder: Path, key: str) -> tuple[str, ...]:
    """Return the pictures of an order, by number."""
    found = [path for path in _files(folder) if path.stem.rpartition("-image-")[0] == key]
    return tuple(
        str(path.absolute())
        for path in sorted(found, key=lambda path: (len(path.name), path.name))
        if path.suffix != ".json"
    )


def _order_files(folder: Path) -> list[Path]:
    # A key holds no dot, so answers and rejected answers do not match.
    files = [path for path in _files(folder) if path.suffix == ".json" and "." not in path.stem]
    return sorted(files)


def _files(folder: Path) -> list[Path]:
    """Return the files of a folder of orders; raises Refused where there are links."""
    return list(without_links(folder).iterdir()) if folder.is_dir() else []


def answer_order(folder: Path, key: str, text: str) -> Path:
    """Check an answer and submit it; the first one counts.

    Raises:
        InvalidAnswer: it does not fit the schema; with every problem.
        UsageError: the order was answered or closed before. Nothing is changed.
    """
    order = read_order(folder, key)
    path, closed = _answer(folder, order.key), folder / f"{order.key}.closed.txt"
    if closed.exists():
        raise UsageError(f"The work order {order.key} is closed: {read_text(closed).strip()}")
    if not path.exists():
        check_answer(order, text)
        draft = folder / f"{TEMPORARY_MARK}{os.getpid()}-{time.monotonic_ns()}"
        save_text(draft, without_fence(text) + "\n")
        try:
            with suppress(FileExistsError):
                os.link(draft, path)  # unlike a rename, this never replaces an answer
                return path
        finally:
            draft.unlink()
    raise UsageError(
        f"The work order {order.key} ({order.role}) has been answered; the first answer counts.",
        hint=f"It is in {path}.",
    )


def answer_orders(folder: Path, answers: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Submit every KEY.json of a folder; return what was accepted, and why others were not."""
    files = sorted(answers.glob("*.json"))
    if not files:
        raise UsageError(
            f"{answers} holds no answers.", hint="Name each one after its order: KEY.json"
        )
    accepted, refused = dict[str, str](), dict[str, str]()
    for file in files:
        try:
            accepted[file.stem] = str(answer_order(folder, file.stem, read_text(file)))
        except TelicError as error:
            refused[file.stem] = str(error)
    return accepted, refused


def close_orders(folder: Path, why: str) -> None:
    """Close the unanswered orders of a session that has ended."""
    for line in list_orders(folder):
        if line.state in ("open", "rejected"):
            save_text(folder / f"{line.key}.closed.txt", why + "\n")


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
        publish(self.folder, key, request)
        path, reason = _answer(self.folder, key), self.folder / f"{key}.rejected.txt"
        (self.folder / f"{key}.closed.txt").unlink(missing_ok=True)  # it is asked again
        seen, seen_at = "", 0.0
        while (now := time.monotonic()) < end:
            text = read_text(path, errors="replace") if path.exists() else ""
            if text != seen:
                seen, seen_at = text, now
            try:
                if text:
                    read_answer(text, request.answer)
                    reason.unlink(missing_ok=True)
                    path.chmod(0o444)
                    return RawReply(text=text)
            except InvalidAnswer as error:
                # An editor may still be writing: half an answer is rejected once it has settled.
                if text.rstrip().endswith(("}", "```")) or now - seen_at > _SETTLED_S:
                    save_text(reason, error.message + "\n")
                    path.replace(self.folder / f"{key}.rejected.json")
            await asyncio.sleep(min(_POLL_S, end - now))
        raise ModelUnavailable(
            f"The work order {key} ({request.role}) was not answered within {deadline_s:g} s.",
            hint=f"It waits in {self.folder}; answer it and run the same command again.",
        )
