"""A model that says what it is told to, also wrongly, slowly or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from telic.core.config import Record
from telic.errors import UsageError
from telic.llm.answers import LONGEST_ANSWER
from telic.llm.errors import Outage
from telic.llm.records import RawReply, Request

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


class Fault(Record):
    """Something that goes wrong instead of an answer, or before it."""

    kind: FaultKind
    """malformed: not JSON. truncated: the first half of `answer`, cut off. slow: `answer` after
    `seconds`. refusing: a polite no. over_long: more text than is ever read. rate_limited: come
    back after `seconds`. connection_error: this once. down: from now on, for ever"""
    answer: Any = None
    """what a slow or truncated reply says"""
    seconds: float = Field(default=0.0, ge=0)


ScriptedAnswer = Any
Script = Sequence[ScriptedAnswer] | Mapping[str, Any] | Callable[[Request[Any]], ScriptedAnswer]


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
        if isinstance(self._script, Mapping):
            if request.role not in self._script:
                raise UsageError(f"The script has no answer for the role {request.role}.")
            answers = self._script[request.role]
            return self._in_order(request.role, answers) if isinstance(answers, list) else answers
        if isinstance(self._script, Sequence):
            return self._in_order("", self._script)
        return self._script(request)

    def _in_order(self, which: str, answers: Sequence[ScriptedAnswer]) -> ScriptedAnswer:
        used = self._used.get(which, 0)
        if used >= len(answers):
            raise UsageError(f"The script has only {used} answers{f' for {which}' * bool(which)}.")
        answer = answers[used]
        if not (isinstance(answer, Fault) and answer.kind == "down"):
            self._used[which] = used + 1
        return answer


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
