"""From a model's name to valid answers: the one call path for every use of a language model.

Look on disk, reserve the budget, send with a deadline and retries, write the reply, check it
against the record it must become, repair it once, return it. Every step is reported
(`telic.core.events.ModelEvent`).
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from telic.core.events import (
    Listener,
    LogMessage,
    ModelEvent,
    ModelFailed,
    ModelRejected,
    ModelReply,
    ModelRetry,
    ModelSent,
    ignore,
)
from telic.core.plugins import load_plugin
from telic.errors import UsageError
from telic.llm.answers import InvalidAnswer, Replies, StoredReply, read_answer
from telic.llm.budget import (
    Budget,
    CallLimits,
    Charge,
    Deadline,
    StopCheck,
    TimedOut,
    finish,
    is_metered,
    most_charge,
    never,
    pause,
    stop_if_asked,
)
from telic.llm.hosted import Hosted
from telic.llm.keys import cleaned, report
from telic.llm.names import HOST, PROVIDERS, REPLAY, parse_name
from telic.llm.records import (
    Answer,
    Cancelled,
    ModelAnswerError,
    ModelUnavailable,
    Outage,
    Provider,
    RawReply,
    Reply,
    Request,
    Tokens,
    add_known,
    fingerprint,
)
from telic.llm.stand_ins import Replay
from telic.llm.work_orders import HOST_DEADLINE_S, ORDERS, Host

REPLIES = "replies"
_HOW_TO_ANSWER = (
    "You are the model. What waits for an answer: telic orders list --session {folder}. Read one: "
    "telic orders show KEY --session {folder}. Answer it: telic orders answer KEY FILE.json "
    "--session {folder}."
)

_POLL_S = 0.05
_GRACE_S = 0.5


def choose(name: str | None, folder: Path | None = None) -> Provider:
    """Return the provider that a name means; `folder` is the session's, needed for "host".

    Without a name nothing is chosen: a key that happens to be set is no wish to spend money. Raises
    UsageError, UnknownName with the closest names, or MissingExtra.
    """
    if not name:
        raise UsageError(
            "No model was named.",
            hint="Name one, e.g. --model anthropic:claude-sonnet-5-5, or --model host.",
        )
    if name == HOST:
        if folder is None:
            raise UsageError("The host agent needs a session folder for its work orders.")
        return Host(folder / ORDERS)
    if name.startswith(f"{REPLAY}:"):
        return Replay(Path(name.partition(":")[2]).expanduser())
    provider, colon, model = name.partition(":")
    if colon and provider not in PROVIDERS:
        make = load_plugin("providers", provider, PROVIDERS)
        if make is not None:
            return make(model)
    return Hosted(parse_name(name))


def connect(
    name: str | None,
    folder: Path,
    *,
    budget: Budget | None = None,
    limits: CallLimits | None = None,
    on_event: Listener = ignore,
    should_stop: StopCheck = never,
) -> Models:
    """Return the call path to the model that a name means, for the session in `folder`.

    Without `limits` a person or agent who answers work orders gets days, a model minutes.
    """
    if limits is None and name == HOST:
        limits = CallLimits(deadline_s=HOST_DEADLINE_S, attempt_s=HOST_DEADLINE_S)
    provider = choose(name, folder)
    if name == HOST:
        on_event(LogMessage(message=_HOW_TO_ANSWER.format(folder=folder)))
    return Models(
        provider, folder, budget=budget, limits=limits, on_event=on_event, should_stop=should_stop
    )


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
        limits: CallLimits | None = None,
        on_event: Listener = ignore,
        should_stop: StopCheck = never,
    ) -> None:
        self.provider = provider
        self.replies = Replies(folder / REPLIES)
        self.budget = budget or Budget()
        self.limits = limits or CallLimits()
        self._on_event = on_event
        self._should_stop = should_stop
        self._in_flight: set[str] = set()
        self._lock = threading.Lock()
        self._rng = random.Random()
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
        return (kept, True) if kept else (await self._send(request, deadline), False)

    def _finished(
        self, request: Request[Answer], parts: list[StoredReply], cached: bool
    ) -> Reply[Answer]:
        """Return the reply whose last part is the answer; raises InvalidAnswer."""
        raw = parts[-1].raw
        answer = read_answer(raw.text, request.answer, raw.finish)
        tokens, price = Tokens(input=0, output=0, reasoning=0, cached=0), 0.0
        for part in parts:
            tokens, price = tokens + part.raw.tokens, add_known(price, part.raw.price_usd)
        reply = Reply[Answer](
            answer=answer,
            model=self.provider.name,
            tokens=tokens,
            price_usd=price,
            latency_s=sum(part.latency_s for part in parts),
            attempts=sum(part.attempts for part in parts),
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
                    {"media_type": image.media_type, "sha256": fingerprint(image.data, 64)}
                    for image in request.images
                ],
                "effort": request.effort,
                "max_tokens": request.max_tokens,
            }
        name = self.provider.name
        head = {"role": request.role, "key": request.key(name), "model": name}
        report(self._on_event, event, head | facts)

    @asynccontextmanager
    async def _alone(self, key: str) -> AsyncGenerator[None]:
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

    async def _send(self, request: Request[Any], deadline: Deadline) -> StoredReply:
        """Return the reply, already on disk; raises ModelUnavailable when nothing gets through."""
        started = time.monotonic()
        failures = 0
        while True:
            try:
                raw, charge = await self._attempt(request, deadline, failures + 1)
            except Outage as error:
                failures += 1
                await self._wait_to_retry(request, error, failures, deadline)
                continue
            return self.replies.keep(
                StoredReply(
                    key=request.key(self.provider.name),
                    role=request.role,
                    model=self.provider.name,
                    prompt_hash=request.prompt_hash,
                    raw=raw,
                    charge=charge,
                    latency_s=time.monotonic() - started,
                    attempts=failures + 1,
                )
            )

    async def _attempt(
        self, request: Request[Any], deadline: Deadline, attempt: int
    ) -> tuple[RawReply, Charge]:
        stop_if_asked(self._should_stop)
        limit_s = min(self.limits.attempt_s, deadline.left_s)
        if limit_s <= 0:
            raise self._too_late(deadline)
        reserved = self.budget.reserve(most_charge(self.provider.name, request))
        settled = False
        try:
            self._trace(ModelSent, request, attempt=attempt)
            work = self.provider.complete(request, limit_s)
            # The provider ends by itself at its limit and knows better what to say.
            raw = await finish(work, limit_s + _GRACE_S, self._should_stop)
            total = raw.tokens.total
            tokens = reserved.tokens if total is None else total
            actual = Charge(usd=raw.price_usd, tokens=tokens)
            charge, settled = self.budget.settle(reserved, actual), True
            return raw, charge
        except (TimedOut, Cancelled) as error:
            settled = self._give_up(request, reserved)
            if isinstance(error, Cancelled):
                raise
            raise Outage(f"{self.provider.name} did not answer within {limit_s:.1f} s.") from None
        except Outage as error:
            settled = error.may_be_paid and self._give_up(request, reserved)
            raise
        except (ConnectionError, TimeoutError) as error:
            raise Outage(f"{self.provider.name} could not be reached: {error}.") from None
        finally:
            if not settled:
                self.budget.release(reserved)

    def _give_up(self, request: Request[Any], reserved: Charge) -> bool:
        """Count a call that was sent and may have to be paid, though nobody has its answer."""
        if not is_metered(self.provider.name):
            return False
        charge = self.budget.settle(reserved, reserved)
        self.replies.lose(request, self.provider.name, charge)
        return True

    async def _wait_to_retry(
        self, request: Request[Any], error: Outage, failures: int, deadline: Deadline
    ) -> None:
        wait_s = self.limits.wait_s(failures, error.retry_after_s, self._rng)
        self._trace(ModelRetry, request, error=str(error), failures=failures, wait_s=wait_s)
        if failures >= self.limits.attempts:
            raise ModelUnavailable(
                f"{self.provider.name} is not available after {failures} attempts. "
                f"The last one: {error}",
                hint="Nothing was scored. Run the same command again later; it goes on from here.",
            )
        if wait_s >= deadline.left_s:
            raise self._too_late(deadline, error)
        await pause(wait_s, self._should_stop)

    def _too_late(self, deadline: Deadline, error: Outage | None = None) -> ModelUnavailable:
        last = f" The last attempt: {error}" if error else ""
        return ModelUnavailable(
            f"{self.provider.name} gave no answer within {deadline.seconds:g} s.{last}",
            hint="Nothing was scored. Run the same command again later, or allow more time.",
        )
