"""Who answers without a model: a script, also wrongly, slowly or not at all, and a recording."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import Field

from telic.core.config import Record
from telic.errors import UsageError
from telic.llm.answers import LONGEST_ANSWER, Replies
from telic.llm.records import Outage, RawReply, Request

FaultKind = Literal[
    "malformed",
    "truncated",
    "slow",
    "refusing",
    "over_long",
    "rate_limited",
    "connection_error",
    "down",
]
ScriptedAnswer = Any
Script = Sequence[ScriptedAnswer] | Mapping[str, Any] | Callable[[Request[Any]], ScriptedAnswer]


class Fault(Record):
    """Something that goes wrong instead of an answer, or before it."""

    kind: FaultKind
    """malformed: not JSON. truncated: the first half of `answer`, cut off. slow: `answer` after
    `seconds`. refusing: a polite no. over_long: more text than is ever read. rate_limited: come
    back after `seconds`. connection_error: this once. down: from now on, for ever"""
    answer: Any = None
    """what a slow or truncated reply says"""
    seconds: float = Field(default=0.0, ge=0)


class Scripted:
    """Answers from a script: a list in order, a dictionary by role, or a function of the request.

    An answer is a record, plain data, text, a RawReply or a Fault; a dictionary's values may also
    be lists, used in order. `requests` holds everything that was asked.
    """

    def __init__(self, script: Script, name: str = "scripted") -> None:
        self._name = name
        self._script = script
        self._used: dict[str, int] = {}
        self.requests: list[Request[Any]] = []

    @property
    def name(self) -> str:
        """Return the name of this provider."""
        return self._name

    async def complete(self, request: Request[Any], deadline_s: float) -> RawReply:
        """Return the next answer of the script, or fail as it says."""
        self.requests.append(request)
        answer = self._next(request)
        return await _act(answer) if isinstance(answer, Fault) else _reply(answer)

    def _next(self, request: Request[Any]) -> ScriptedAnswer:
        script = self._script
        if callable(script):
            return script(request)
        if not isinstance(script, Mapping):
            return self._in_order("", script)
        if request.role not in script:
            raise UsageError(f"The script has no answer for the role {request.role}.")
        answer: Any = script[request.role]
        if isinstance(answer, list):
            return self._in_order(request.role, cast("list[ScriptedAnswer]", answer))
        return answer

    def _in_order(self, which: str, answers: Sequence[ScriptedAnswer]) -> ScriptedAnswer:
        used = self._used.get(which, 0)
        if used >= len(answers):
            raise UsageError(f"The script has only {used} answers{f' for {which}' * bool(which)}.")
        answer = answers[used]
        if not (isinstance(answer, Fault) and answer.kind == "down"):
            self._used[which] = used + 1
        return answer


class Replay:
    """Answers from a folder of recorded replies, as the model that gave them.

    A recording is the `replies` folder of a session.
    """

    def __init__(self, folder: Path, model: str | None = None) -> None:
        self._replies = Replies(folder)
        models = sorted({each.model for each in self._replies.kept()})
        if not models:
            raise UsageError(f"{folder} holds no recorded replies.")
        if model is None and len(models) > 1:
            raise UsageError(
                f"{folder} holds replies of several models: {', '.join(models)}.",
                hint="Say which one to replay.",
            )
        self.folder = folder
        self._name = model or models[0]

    @property
    def name(self) -> str:
        """Return the name of the model that was recorded, so that requests have the same keys."""
        return self._name

    async def complete(self, request: Request[Any], deadline_s: float) -> RawReply:
        """Return the recorded reply, which costs nothing; raises UsageError when there is none."""
        key = request.key(self.name)
        found = self._replies.read(key)
        if found is None:
            same = sum(each.role == request.role for each in self._replies.kept())
            raise UsageError(
                f"The recording {self.folder} has no reply for the role {request.role} "
                f"with the key {key}.",
                hint=f"It holds {same} for this role. A changed prompt, answer record or setting "
                "changes the key: record again.",
            )
        return found.raw.model_copy(update={"price_usd": 0.0})


async def _act(fault: Fault) -> RawReply:
    match fault.kind:
        case "malformed":
            return RawReply(text='Sure! Here is the answer: {"value": 1,,}')
        case "truncated":
            whole = _reply(fault.answer).text
            return RawReply(text=whole[: len(whole) // 2], finish="length")
        case "slow":
            await asyncio.sleep(fault.seconds)
            return _reply(fault.answer)
        case "refusing":
            return RawReply(text="I am sorry, I cannot help with that.", finish="refusal")
        case "over_long":
            return RawReply(text='"' + "a" * LONGEST_ANSWER + '"')
        case "rate_limited":
            raise Outage("Too many requests.", retry_after_s=fault.seconds)
        case "connection_error":
            raise ConnectionError("connection reset by peer")
        case "down":
            raise Outage("The service is down.")


def _reply(answer: ScriptedAnswer) -> RawReply:
    if isinstance(answer, RawReply):
        return answer
    if isinstance(answer, Record):
        return RawReply(text=answer.model_dump_json())
    return RawReply(text=answer if isinstance(answer, str) else json.dumps(answer))
