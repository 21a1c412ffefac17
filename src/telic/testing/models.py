"""Model providers for tests: scripted answers and replay of recordings."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from telic.core.config import Record
from telic.errors import UsageError
from telic.llm.answers import Replies
from telic.llm.records import RawReply, Request

Script = Sequence[Any] | Mapping[str, Any] | Callable[[Request[Any]], Any]


class Scripted:
    """Provider with scripted answers: a list, a dictionary by role, or a function of requests.

    An answer is a record, plain data, text, a RawReply, or an exception to raise. The function may
    be asynchronous, and the dictionary's values may be lists. `requests` contains all requests.
    """

    def __init__(self, script: Script, name: str = "scripted") -> None:
        self.name = name
        self._script = script
        self._used: dict[str, int] = {}
        self.requests: list[Request[Any]] = []

    async def complete(self, request: Request[Any], deadline_s: float) -> RawReply:
        """Return the next scripted answer. If the answer is an exception, raise it."""
        self.requests.append(request)
        script, which = self._script, ""
        answer: Any = script(request) if callable(script) else script
        if isinstance(script, Mapping):
            if request.role not in script:
                raise UsageError(f"The script has no answer for the role {request.role}.")
            answer, which = script[request.role], request.role
        if not callable(script) and isinstance(answer, list | tuple):
            answers, used = cast("Sequence[Any]", answer), self._used.get(which, 0)
            if used >= len(answers):
                raise UsageError(f"The script has only {used} answers for {which or 'requests'}.")
            self._used[which] = used + 1
            answer = answers[used]
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, RawReply):
            return answer
        if isinstance(answer, Record):
            return RawReply(text=answer.model_dump_json())
        return RawReply(text=answer if isinstance(answer, str) else json.dumps(answer))


class Replay:
    """Provider that replays a recording (the `replies` folder of a session)."""

    def __init__(self, folder: Path, model: str | None = None) -> None:
        self.folder, self._replies = folder, Replies(folder)
        models = sorted({each.model for each in self._replies.kept()})
        if not models:
            raise UsageError(f"{folder} contains no recorded replies.")
        if model is None and len(models) > 1:
            raise UsageError(
                f"{folder} contains replies of several models: {', '.join(models)}.",
                hint="Specify which model to replay.",
            )
        self.name = model or models[0]
        """name of the recorded model, so that the request keys match"""

    async def complete(self, request: Request[Any], deadline_s: float) -> RawReply:
        """Return the recorded reply at no cost, or raise UsageError if there is none."""
        key = request.key(self.name)
        found = self._replies.read(key)
        if found is None or found.raw is None:
            same = sum(each.role == request.role for each in self._replies.kept())
            raise UsageError(
                f"The recording {self.folder} has no reply for the role {request.role} "
                f"with the key {key}.",
                hint=f"It contains {same} for this role. The key depends on the prompt, the "
                "answer's record and the settings, so record again if they changed.",
            )
        return found.raw.model_copy(update={"price_usd": 0.0})
