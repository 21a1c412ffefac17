"""The one call path for every use of a language model.

Look on disk, reserve the budget, send with a deadline and retries, write the reply, check it
against the record it must become, repair it once, return it. Every step is reported
(`telic.core.events.ModelEvent`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from telic.core.config import Record
from telic.core.events import (
    Listener,
    ModelEvent,
    ModelFailed,
    ModelRejected,
    ModelReply,
    ModelSent,
    ignore,
)
from telic.errors import UsageError
from telic.llm.answers import InvalidAnswer, read_answer
from telic.llm.budget import Budget
from telic.llm.errors import ModelAnswerError
from telic.llm.exits import cleaned, report
from telic.llm.provider import Provider
from telic.llm.records import Reply, Request, Tokens, add_known, fingerprint
from telic.llm.replies import Replies, StoredReply
from telic.llm.sending import Sender
from telic.llm.waiting import Deadline, Limits, StopCheck, never, pause

Answer = TypeVar("Answer", bound=Record)

REPLIES = "replies"
_POLL_S = 0.05


class Models:
    """Asks a model, within a budget, for records; usable from several threads at once.

    `folder` is the session's: replies are kept in `<folder>/replies`, and what they cost is counted
    again when the session is resumed. A call that is in flight when the process is killed is
    the only one that can be paid for twice.

    Example:
        models = Models(choose("anthropic:claude-sonnet-5-5"), folder, budget=Budget(usd=2.0))
        reply = models.ask(Request(role="elicitor", prompt="...", answer=Criteria))
    """

    def __init__(
        self,
        provider: Provider,
        folder: Path,
        *,
        budget: Budget | None = None,
        limits: Limits | None = None,
        on_event: Listener = ignore,
        should_stop: StopCheck = never,
    ) -> None:
        self.provider = provider
        self.replies = Replies(folder / REPLIES)
        self.budget = budget or Budget()
        self.limits = limits or Limits()
        self._on_event = on_event
        self._should_stop = should_stop
        self._in_flight: set[str] = set()
        self._lock = threading.Lock()
        self._sender = Sender(
            provider, self.replies, self.budget, self.limits, self._trace, should_stop
        )
        for charge in self.replies.charges(provider.name):
            self.budget.count(charge)

    def ask(self, request: Request[Answer]) -> Reply[Answer]:
        """Return a valid answer; for code that runs no event loop. See `ask_async`."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.ask_async(request))
        raise UsageError("Models.ask was called inside an event loop.", hint="Await ask_async.")

    async def ask_async(self, request: Request[Answer]) -> Reply[Answer]:
        """Return a valid answer, from disk if it was paid for before.

        Raises ModelUnavailable (outage), ModelAnswerError (never valid), RequestRejected (key,
        model name, size), BudgetExceeded (before sending) or Cancelled.
        """
        try:
            async with self._alone(request.key(self.provider.name)):
                return await self._answer(request)
        except Exception as error:
            failure = cleaned(error)
        # Outside the handler, so that the original error, which may hold a key, is not its context.
        self._trace(ModelFailed, request, kind=type(failure).__name__, error=str(failure))
        raise failure

    async def _answer(self, request: Request[Answer]) -> Reply[Answer]:
        deadline = Deadline(self.limits.deadline_s)
        first, was_kept = await self._reply_to(request, deadline)
        try:
            return self._finished(request, [first], was_kept)
        except InvalidAnswer as error:
            repair = self._rejected(request, first, error)
        second, repair_was_kept = await self._reply_to(repair, deadline)
        try:
            return self._finished(request, [first, second], was_kept and repair_was_kept)
        except InvalidAnswer as error:
            self._rejected(repair, second, error)
            problem = error.message
        self.replies.set_aside(second.key)
        self.replies.set_aside(first.key)
        raise ModelAnswerError(
            f"{self.provider.name} gave no valid {request.answer.__name__} for the role "
            f"{request.role}, also after being told why:\n{problem}",
            hint="Nothing was scored. A stronger model, or more max_tokens, usually helps.",
        )

    async def _reply_to(
        self, request: Request[Any], deadline: Deadline
    ) -> tuple[StoredReply, bool]:
        """Return the reply and whether it was on disk already."""
        kept = self.replies.read(request.key(self.provider.name))
        return (kept, True) if kept else (await self._sender.send(request, deadline), False)

    def _finished(
        self, request: Request[Answer], parts: list[StoredReply], cached: bool
    ) -> Reply[Answer]:
        """Return the reply whose last part is the answer; raises InvalidAnswer."""
        raw = parts[-1].raw
        answer = read_answer(raw.text, request.answer, raw.finish)
        tokens, price = Tokens(input=0, output=0, reasoning=0, cached=0), 0.0
        for each in parts:
            tokens, price = tokens + each.raw.tokens, add_known(price, each.raw.price_usd)
        reply = Reply[Answer](
            answer=answer,
            model=self.provider.name,
            tokens=tokens,
            price_usd=price,
            latency_s=sum(each.latency_s for each in parts),
            attempts=sum(each.attempts for each in parts),
            cached=cached,
        )
        facts = reply.model_dump(exclude={"answer", "model"})
        self._trace(ModelReply, request, answer=raw.text, **facts)
        return reply

    def _rejected(
        self, request: Request[Answer], reply: StoredReply, error: InvalidAnswer
    ) -> Request[Answer]:
        """Report an answer that is not valid and return the request that says so."""
        self._trace(ModelRejected, request, answer=reply.raw.text, error=error.message)
        return request.repaired(reply.raw.text, error.message)

    def _trace(self, event: type[ModelEvent], request: Request[Any], **facts: Any) -> None:
        if event is ModelSent:
            facts |= {
                "system": request.system,
                "prompt": request.prompt,
                "prompt_hash": request.prompt_hash,
                "images": [
                    {"media_type": each.media_type, "sha256": fingerprint(each.data, 64)}
                    for each in request.images
                ],
                "effort": request.effort,
                "max_tokens": request.max_tokens,
            }
        name = self.provider.name
        head = {"role": request.role, "key": request.key(name), "model": name}
        report(self._on_event, event, head | facts)

    @asynccontextmanager
    async def _alone(self, key: str) -> AsyncIterator[None]:
        """Let one question be asked once, also when two threads ask it at the same time."""
        while not self._enter(key):
            await pause(_POLL_S, self._should_stop)
        try:
            yield
        finally:
            with self._lock:
                self._in_flight.discard(key)

    def _enter(self, key: str) -> bool:
        with self._lock:
            if key in self._in_flight:
                return False
            self._in_flight.add(key)
            return True
