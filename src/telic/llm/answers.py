"""Parse answers and store replies on disk so that no call is charged twice.

<folder>/
    <key>.json               a reply, written atomically on arrival
    <key>.refused-<n>.json a reply without a valid answer, which is charged but not reused
    <key>.lost-<n>.json      a call without a reply, charged at its maximum cost

The costs recorded in all files add up to the total cost of the session.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from telic.core.config import Record
from telic.errors import UsageError
from telic.llm.budget import Charge
from telic.llm.keys import save_json
from telic.llm.records import Answer, Finish, RawReply
from telic.storage.files import read_record

MAX_ANSWER = 1_000_000  # characters
_FENCE = "```"
_LISTED = 20


class InvalidAnswer(UsageError):
    """Raised if an answer does not match its record. The message is sent to the answer's author."""


def read_answer(text: str, record: type[Answer], finish: Finish = "complete") -> Answer:
    """Parse a reply to a record. Raises InvalidAnswer, which lists the problems."""
    if finish == "refusal":
        raise InvalidAnswer("The answer was declined or filtered.")
    content = without_fence(text)
    try:
        answer = record.model_validate_json(content)
        # Reject NaN and infinity, which Python's parser accepts but JSON does not allow.
        json.dumps(json.loads(content), allow_nan=False)
        return answer
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
    except ValueError:
        raise InvalidAnswer("- every number must be finite") from None
    lines = [
        f"- {'.'.join(map(str, problem['loc'])) or 'the answer'}: {problem['msg']}"
        for problem in problems
    ]
    if len(lines) > _LISTED:
        lines = [*lines[:_LISTED], f"- and {len(lines) - _LISTED} more"]
    if finish == "length":
        lines.insert(0, "The answer was truncated at its length limit. Answer more briefly.")
    raise InvalidAnswer("\n".join(lines))


def without_fence(text: str) -> str:
    """Strip whitespace and an enclosing Markdown code fence from a text."""
    if len(text) > MAX_ANSWER:
        raise InvalidAnswer(
            f"The answer has {len(text):,} characters, but at most {MAX_ANSWER:,} are allowed."
        )
    lines = text.strip().splitlines()
    if len(lines) >= 2 and lines[0].startswith(_FENCE) and lines[-1].strip() == _FENCE:
        return "\n".join(lines[1:-1])
    return text.strip()


class StoredReply(Record):
    """Stored model call with its reply and cost."""

    schema_version: int = 1
    key: str
    role: str
    model: str
    prompt_hash: str | None = None
    raw: RawReply | None = None
    """reply, or None if the call was not answered"""
    charge: Charge
    """cost that is counted against the budget"""
    latency_s: float = 0.0
    attempts: int = 1


class Replies:
    """Reply cache of a session or recording."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, key: str) -> StoredReply | None:
        """Return the cached reply for a request key, or None."""
        path = self.folder / f"{key}.json"
        return read_record(path, StoredReply) if path.exists() else None

    def keep(self, reply: StoredReply) -> StoredReply:
        """Store a call with API keys redacted and return the stored record."""
        path = self.folder / f"{reply.key}.json"
        path = path if reply.raw is not None else self._numbered(reply.key, "lost")
        save_json(path, reply)
        return read_record(path, StoredReply)

    def set_aside(self, key: str) -> None:
        """Mark an invalid reply as unusable, but keep its cost."""
        path = self.folder / f"{key}.json"
        if path.exists():
            path.rename(self._numbered(key, "refused"))

    def kept(self) -> list[StoredReply]:
        """Return all usable replies, sorted by key."""
        return [read_record(path, StoredReply) for path in self._files() if "." not in path.stem]

    def calls(self, model: str | None = None) -> list[StoredReply]:
        """Return all calls, including unusable ones, or only the calls to one model."""
        calls = [read_record(path, StoredReply) for path in self._files()]
        return [call for call in calls if model in (None, call.model)]

    def _files(self) -> list[Path]:
        # Skip temporary files of killed writers, whose names start with a dot.
        return sorted(each for each in self.folder.glob("*.json") if each.name[0] != ".")

    def _numbered(self, key: str, kind: str) -> Path:
        number = 1
        while (path := self.folder / f"{key}.{kind}-{number}.json").exists():
            number += 1
        return path
