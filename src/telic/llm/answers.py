"""Answers: from the text of a reply to the record it must be, and paid replies on disk.

What was answered once is never paid for again:

<folder>/
    <key>.json               a reply, written by rename the moment it arrived
    <key>.refused-<n>.json   a reply that never became a valid answer; paid, not used again
    <key>.lost-<n>.json      a call that was sent and given up; what it cost is unknown

The files are the account as well: their charges add up to what the session has spent.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from telic.core.config import Record
from telic.core.text import is_dict
from telic.errors import UsageError
from telic.llm.budget import Charge
from telic.llm.keys import save_json
from telic.llm.records import Answer, Finish, RawReply, Request
from telic.storage.files import read_record

LONGEST_ANSWER = 1_000_000  # characters
_FENCE = "```"
_LISTED = 20
_REFUSED, _LOST = ".refused-", ".lost-"


class InvalidAnswer(UsageError):
    """The text is not the record; the message is written for its author."""


def read_answer(text: str, record: type[Answer], finish: Finish = "complete") -> Answer:
    """Return the record in a reply's text; raises InvalidAnswer with every complaint."""
    if finish == "refusal":
        raise InvalidAnswer("The answer was declined or filtered; there is nothing to read.")
    plain_text = without_fence(check_length(text))
    try:
        answer = record.model_validate_json(plain_text)
        # Parsers take NaN and infinity, which JSON does not have.
        json.dumps(json.loads(plain_text), allow_nan=False)
        return answer
    except ValidationError as error:
        problems = explain(error)
    except ValueError:
        raise InvalidAnswer("- every number must be finite") from None
    cut = "The answer was cut off: it reached its longest allowed length. Answer more briefly.\n"
    raise InvalidAnswer((cut if finish == "length" else "") + problems)


def read_json_object(text: str) -> dict[str, object]:
    """Return the JSON object in a text; raises InvalidAnswer when it is not one."""
    try:
        value: Any = json.loads(without_fence(check_length(text)))
    except ValueError as error:
        raise InvalidAnswer(f"- the answer is not valid JSON: {error}") from None
    if not is_dict(value):
        raise InvalidAnswer(f"- the answer is a JSON {type(value).__name__}, not an object")
    return value


def check_length(text: str) -> str:
    """Return the text; raises InvalidAnswer when it is longer than any answer may be."""
    if len(text) > LONGEST_ANSWER:
        raise InvalidAnswer(
            f"The answer has {len(text):,} characters; the most that is read is {LONGEST_ANSWER:,}."
        )
    return text


def without_fence(text: str) -> str:
    """Return the inside of a text that is one Markdown code block, any other text unchanged."""
    lines = text.strip().splitlines()
    if len(lines) >= 2 and lines[0].startswith(_FENCE) and lines[-1].strip() == _FENCE:
        return "\n".join(lines[1:-1])
    return text.strip()


def explain(error: ValidationError) -> str:
    """Return one line per complaint: where, and what is wrong."""
    problems = error.errors(include_url=False, include_context=False)
    lines = [
        f"- {'.'.join(map(str, problem['loc'])) or 'the answer'}: {problem['msg']}"
        for problem in problems
    ]
    if len(lines) > _LISTED:
        lines = [*lines[:_LISTED], f"- and {len(lines) - _LISTED} more"]
    return "\n".join(lines)


class StoredReply(Record):
    """A reply as it is kept, with what it cost and whom it was for."""

    schema_version: int = 1
    key: str
    role: str
    model: str
    prompt_hash: str | None
    raw: RawReply
    charge: Charge
    """what the budget counted"""
    latency_s: float
    attempts: int


class LostCall(Record):
    """A call that was sent and never came back; the most it may have cost was counted."""

    schema_version: int = 1
    key: str
    role: str
    model: str
    charge: Charge


class Replies:
    """The replies of one session or of one recording."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, key: str) -> StoredReply | None:
        """Return the reply to the request with this key, or None when there is none."""
        path = self._path(key)
        return read_record(path, StoredReply) if path.exists() else None

    def keep(self, reply: StoredReply) -> StoredReply:
        """Write a reply and return it as it was written, without keys."""
        path = self._path(reply.key)
        save_json(path, reply)
        return read_record(path, StoredReply)

    def set_aside(self, key: str) -> None:
        """Stop using a reply that never became a valid answer; it stays in the account."""
        path = self._path(key)
        if path.exists():
            path.rename(self._numbered(key, _REFUSED))

    def lose(self, request: Request[Any], model: str, charge: Charge) -> None:
        """Note a call that was sent and given up."""
        key = request.key(model)
        lost = LostCall(key=key, role=request.role, model=model, charge=charge)
        save_json(self._numbered(key, _LOST), lost)

    def kept(self) -> list[StoredReply]:
        """Return every usable reply, by key."""
        return [read_record(path, StoredReply) for path in self._files() if _is_usable(path)]

    def charges(self, model: str | None = None) -> list[Charge]:
        """Return what every call to a model, or to any, has cost so far, usable or not."""
        calls = [
            read_record(path, LostCall if _LOST in path.name else StoredReply)
            for path in self._files()
        ]
        return [call.charge for call in calls if model in (None, call.model)]

    def _files(self) -> list[Path]:
        # A killed writer may have left an unfinished file; its name starts with a dot.
        return sorted(each for each in self.folder.glob("*.json") if each.name[0] != ".")

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def _numbered(self, key: str, mark: str) -> Path:
        number = 1
        while (path := self.folder / f"{key}{mark}{number}.json").exists():
            number += 1
        return path


def _is_usable(path: Path) -> bool:
    return _REFUSED not in path.name and _LOST not in path.name
