"""Work orders: model requests as files that a coding agent or a person answers.

<folder>/
    <key>.md               the order as Markdown
    <key>.json             the order as JSON
    <key>-image-<n>.png    images of the order
    <key>.answer.json      the answer; closes the order
    <key>.rejected.txt     reason for rejecting the last answer, kept in <key>.rejected.json
    <key>.closed.txt       reason for closing an unanswered order

The folder of an order is untrusted, so links are refused and files are located by their names.
Answers are validated against the order's JSON schema when they are submitted, and against its
record type when they are read. The provider `Host` publishes orders and polls for answers.
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
from telic.errors import BadFile, TelicError, UnknownName, UsageError
from telic.llm.answers import InvalidAnswer, read_answer, without_fence
from telic.llm.keys import save_image, save_json, save_text
from telic.llm.records import ModelUnavailable, RawReply, Request
from telic.storage.files import TEMPORARY_MARK, read_record
from telic.storage.layout import changed_at
from telic.storage.reading import parse_json, read_text, without_links

ORDERS = "orders"
HOST_DEADLINE_S = 7 * 24 * 3600.0
_POLL_S = 0.2
_SETTLED_S = 1.0
OrderState = Literal["open", "rejected", "answered", "closed"]


class WorkOrder(Record):
    """A model request on disk."""

    schema_version: int = 1
    key: str
    role: str
    system: str
    prompt: str
    images: tuple[str, ...]
    """absolute paths of its images"""
    effort: str | None
    answer_record: str = ""
    """written by earlier versions"""
    answer_schema: dict[str, Any]
    answer_file: str
    """file name of the answer"""


class WorkOrderRow(Record):
    """Summary of a work order in a list."""

    key: str
    role: str
    state: OrderState
    reason: str | None = None
    """reason for rejecting the last answer or for closing the order"""
    pictures: int = 0
    file: str = ""
    """absolute path of the Markdown file"""


def publish(folder: Path, key: str, request: Request[Any]) -> WorkOrder:
    """Write the files of an order, unless they exist, and return the order."""
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
    # Written last because an order is listed once its JSON file exists.
    named = order.model_copy(update={"images": tuple(Path(each).name for each in order.images)})
    save_json(folder / f"{key}.json", named)
    return order


def order_text(order: WorkOrder) -> str:
    """Return the order as Markdown. The request comes first, so that it can be cached."""
    pictures = "".join(f"\n{number}. {name}" for number, name in enumerate(order.images, 1))
    schema = json.dumps(_compact(order.answer_schema), separators=(",", ":"))
    sections = [
        order.system,
        order.prompt,
        f"## Pictures\n{pictures}" if pictures else "",
        f"## Your answer\n\nYou are the model in the role **{order.role}**. Answer with one JSON "
        f"object that matches this schema:\n\n```json\n{schema}\n```\n\nSubmit it with "
        f"`telic orders {order.key} FILE.json`, or write it to `{order.answer_file}` next to this "
        f"order. If it is rejected, `{order.key}.rejected.txt` contains the reason; answer again.",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _compact(schema: Any) -> Any:
    """Shorten a JSON schema: no titles, no notes on further fields, and `null` as a type."""
    if isinstance(schema, list):
        return [_compact(each) for each in cast("list[Any]", schema)]
    if not is_dict(schema):
        return schema
    kept = {k: v for k, v in schema.items() if k != "title" or not isinstance(v, str)}
    if kept.get("additionalProperties") is False:
        del kept["additionalProperties"]
    match kept.get("anyOf"):
        case [{"type": str() as kind, **rest}, {"type": "null"}]:
            kept = {"type": [kind, "null"], **rest} | {
                k: v for k, v in kept.items() if k != "anyOf"
            }
        case _:
            pass
    return {name: _compact(value) for name, value in kept.items()}


def list_orders(folder: Path) -> list[WorkOrderRow]:
    """Return the orders in a folder: first unanswered, then answered orders, each oldest first."""
    lines: list[WorkOrderRow] = []
    for path in sorted(_order_files(folder), key=changed_at):
        order, state, reason = _read(path), "open", None
        if _answer(folder, order.key).exists():
            state = "answered"
        else:
            for name in ("rejected", "closed"):
                if (why := path.with_suffix(f".{name}.txt")).exists():
                    state, reason = name, read_text(why).strip()
        lines.append(
            WorkOrderRow(
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
    """Return the order with this key or unique prefix. Raises UnknownName or UsageError."""
    keys = [path.stem for path in _order_files(folder)]
    matches = [name for name in keys if key and name.startswith(key)]
    if not matches:
        raise UnknownName("work order", key, keys)
    if len(matches) > 1:
        raise UsageError(
            f'"{key}" matches {len(matches)} work orders: {", ".join(matches)}.',
            hint="Use a longer prefix.",
        )
    return _read(folder / f"{matches[0]}.json")


def _read(path: Path) -> WorkOrder:
    folder, key = path.parent, path.stem
    own = {"key": key, "answer_file": _answer(folder, key).name, "images": _pictures(folder, key)}
    return read_record(path, WorkOrder).model_copy(update=own)


def _answer(folder: Path, key: str) -> Path:
    return folder / f"{key}.answer.json"


def _pictures(folder: Path, key: str) -> tuple[str, ...]:
    """Return the paths of an order's images, sorted by number."""
    found = [path for path in _files(folder) if path.stem.rpartition("-image-")[0] == key]
    return tuple(
        str(path.absolute())
        for path in sorted(found, key=lambda path: (len(path.name), path.name))
        if path.suffix != ".json"
    )


def _order_files(folder: Path) -> list[Path]:
    # Keys contain no dot, which excludes answers and rejected answers.
    files = [path for path in _files(folder) if path.suffix == ".json" and "." not in path.stem]
    return sorted(files)


def _files(folder: Path) -> list[Path]:
    """Return the files of an order folder. Raises Refused if it contains links."""
    return list(without_links(folder).iterdir()) if folder.is_dir() else []


def answer_order(folder: Path, key: str, text: str) -> Path:
    """Validate and submit an answer. Only the first answer is accepted.

    Raises:
        InvalidAnswer: the answer violates the schema. The message lists all problems.
        UsageError: the order is already answered or closed.
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
                os.link(draft, path)  # unlike rename, link never replaces an existing answer
                return path
        finally:
            draft.unlink()
    raise UsageError(
        f"The work order {order.key} ({order.role}) has already been answered.",
        hint=f"The answer is in {path}.",
    )


def answer_orders(folder: Path, answers: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Submit every KEY.json in a folder. Return accepted answers and rejection reasons by key."""
    files = sorted(answers.glob("*.json"))
    if not files:
        raise UsageError(
            f"{answers} contains no answers.", hint="Name each file after its order: KEY.json"
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
    """Raise InvalidAnswer if a text does not match the order's schema, listing all violations.

    The schema may come from another person, so its references are not fetched, and its regular
    expressions, which could take forever, are ignored. Raises UsageError for an invalid schema.
    """
    # deferred: takes 0.1 s, not needed for listing
    from jsonschema import Draft202012Validator, SchemaError
    from jsonschema.validators import extend
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    bounded: Any = extend(Draft202012Validator, {"pattern": None, "patternProperties": None})
    try:
        answer = parse_json(without_fence(text), "the answer")
        bounded.check_schema(order.answer_schema)
        problems = [
            f"- {'.'.join(map(str, error.absolute_path)) or 'the answer'}: {error.message}"
            for error in bounded(order.answer_schema, registry=Registry()).iter_errors(answer)
        ]
    except BadFile as error:
        raise InvalidAnswer(f"- {error.message}") from None
    except (SchemaError, Unresolvable, RecursionError):
        raise UsageError(f"The answer schema of the work order {order.key} is invalid.") from None
    if problems:
        raise InvalidAnswer("\n".join(problems))


class Host:
    """Provider that publishes work orders in a folder and polls for their answers.

    Orders persist after the process ends. A repeated request has the same key, so an answer that
    was written in the meantime is used immediately.
    """

    name = "host"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def complete(self, request: Request[Any], deadline_s: float) -> RawReply:
        """Publish the order and return its first valid answer, or raise ModelUnavailable."""
        key, end = request.key(self.name), time.monotonic() + deadline_s
        publish(self.folder, key, request)
        path, reason = _answer(self.folder, key), self.folder / f"{key}.rejected.txt"
        (self.folder / f"{key}.closed.txt").unlink(missing_ok=True)  # reopen a closed order
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
                # The file may be half written, so reject it only after it stops changing.
                if text.rstrip().endswith(("}", "```")) or now - seen_at > _SETTLED_S:
                    save_text(reason, error.message + "\n")
                    path.replace(self.folder / f"{key}.rejected.json")
            await asyncio.sleep(min(_POLL_S, end - now))
        raise ModelUnavailable(
            f"The work order {key} ({request.role}) was not answered within {deadline_s:g} s.",
            hint=f"It is still open in {self.folder}. Answer it and run the same command again.",
        )
