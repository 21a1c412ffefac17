"""Ask models: the one call path for every use of a language model.

Look on disk, reserve the budget, send with a deadline and retries, write the reply, validate it
against the record it must become, repair it once, return it. Every step is reported
(`telic.core.events.ModelEvent`).
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from pydantic import Field

from telic.core.config import Config
from telic.core.events import Listener, LogMessage, ignore
from telic.core.plugins import load_plugin
from telic.errors import UsageError
from telic.llm.answers import InvalidAnswer, Replies, StoredReply, read_answer
from telic.llm.budget import Budget, Charge, Reservation, is_metered, most_charge
from telic.llm.events import (
    ModelEvent,
    ModelFailed,
    ModelRejected,
    ModelReply,
    ModelRetry,
    ModelSent,
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
StopCheck = Callable[[], bool]
_HOW_TO_ANSWER = (
    "You are the model. What waits for an answer: telic orders --session {folder}. Read one: "
    "telic orders KEY --session {folder}. Answer it: telic orders KEY FILE.json "
    "--session {folder}."
)
_TICK_S = 0.1
_GRACE_S = 0.5


def _never() -> bool:
    return False


class CallLimits(Config):
    """How long and how often to try."""

    deadline_s: float = Field(default=1200.0, gt=0)
    """seconds for one question in all: attempts, waits between them and the repair"""
    attempt_s: float = Field(default=600.0, gt=0)
    """seconds for one attempt; after it the connection is given up"""
    attempts: int = Field(default=6, ge=1)
    """attempts to get through to the model"""
    first_wait_s: float = Field(default=1.0, ge=0)
    """longest wait before the second attempt; doubles with each attempt"""
    longest_wait_s: float = Field(default=60.0, ge=0)
    """longest wait between attempts, unless the service asks for more"""

    def wait_s(self, failures: int, retry_after_s: float | None, rng: random.Random) -> float:
        """Return how long to wait after so many failures.

        Full jitter, uniform in [0, min(longest, first * 2^(failures - 1))], so that clients which
        failed together do not come back together. What the service asked for is waited on top.
        """
        most = min(self.longest_wait_s, self.first_wait_s * 2 ** (failures - 1))
        return (retry_after_s or 0.0) + rng.uniform(0.0, most)


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
    should_stop: StopCheck = _never,
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
        should_stop: StopCheck = _never,
    ) -> None:
        self.provider = provider
        self.replies = Replies(folder / REPLIES)
        self.budget = budget or Budget()
        self.limits = limits or CallLimits()
        self._on_event = on_event
        self._should_stop = should_stop
        self._lock = threading.Lock()
        self._asking: dict[str, threading.Lock] = {}
        self._rng = random.Random()
        for charge in self.replies.charges(provider.name):
            self.budget.count(charge)

    def ask(self, request: Request[Answer]) -> Reply[Answer]:
        """Return a valid answer, from disk if it was paid for before.

        Raises ModelUnavailable (outage), ModelAnswerError (never valid), RequestRejected (key,
        model name, size), BudgetExceeded (before sending) or Cancelled.
        """
        key = request.key(self.provider.name)
        with self._lock:
            same = self._asking.setdefault(key, threading.Lock())
        try:
            with same:  # two threads with the same question pay once
                return self._answer(request)
        except Exception as error:
            failure = cleaned(error)
        # Outside the handler, so that the original error, which may hold a key, is not its context.
        self._emit(ModelFailed, request, kind=type(failure).__name__, error=str(failure))
        raise failure

    def _answer(self, request: Request[Answer]) -> Reply[Answer]:
        """Return the first valid answer: the first one, or the one after its repair."""
        end = time.monotonic() + self.limits.deadline_s
        parts: list[StoredReply] = []
        question, cached, problem = request, True, ""
        for _ in range(2):
            kept = self.replies.read(question.key(self.provider.name))
            cached = cached and kept is not None
            parts.append(kept or self._send(question, end))
            raw = parts[-1].raw
            try:
                answer = read_answer(raw.text, request.answer, raw.finish)
            except InvalidAnswer as error:
                problem = error.message
                self._emit(ModelRejected, question, answer=raw.text, error=problem)
                question = request.repaired(raw.text, problem)
                continue
            return self._finished(request, answer, parts, cached)
        for part in parts:
            self.replies.set_aside(part.key)
        raise ModelAnswerError(
            f"{self.provider.name} gave no valid {request.answer.__name__} for the role "
            f"{request.role}, also after a repair:\n{problem}",
            hint="Nothing was scored. A stronger model, or more max_tokens, usually helps.",
        )

    def _finished(
        self, request: Request[Answer], answer: Answer, parts: list[StoredReply], cached: bool
    ) -> Reply[Answer]:
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
        self._emit(ModelReply, request, answer=parts[-1].raw.text, **facts)
        return reply

    def _emit(self, event: type[ModelEvent], request: Request[Any], **facts: Any) -> None:
        name = self.provider.name
        head = {"role": request.role, "key": request.key(name), "model": name}
        report(self._on_event, event, head | facts)

    def _send(self, request: Request[Any], end: float) -> StoredReply:
        """Return the reply, already on disk; raises ModelUnavailable when nothing gets through."""
        started, failures = time.monotonic(), 0
        while True:
            try:
                raw, charge = self._attempt(request, end, failures + 1)
            except Outage as error:
                failures += 1
                self._wait_to_retry(request, error, failures, end)
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

    def _attempt(self, request: Request[Any], end: float, attempt: int) -> tuple[RawReply, Charge]:
        self._stop_if_asked()
        limit_s = min(self.limits.attempt_s, end - time.monotonic())
        if limit_s <= 0:
            raise self._too_late()
        with self.budget.reserved(most_charge(self.provider.name, request)) as held:
            pictures = [
                {"media_type": image.media_type, "sha256": fingerprint(image.data, 64)}
                for image in request.images
            ]
            asked = request.model_dump(
                include={"system", "prompt", "prompt_hash", "effort", "max_tokens"}
            )
            self._emit(ModelSent, request, attempt=attempt, images=pictures, **asked)
            work = self.provider.complete(request, limit_s)
            try:
                # The provider ends by itself at its limit and has the better message.
                raw = asyncio.run(_within(work, limit_s + _GRACE_S, self._should_stop))
            except Cancelled:
                self._give_up(request, held)
                raise
            except _TimedOut:
                self._give_up(request, held)
                late = f"{self.provider.name} did not answer within {limit_s:.1f} s."
                raise Outage(late) from None
            except Outage as error:
                if error.may_be_paid:
                    self._give_up(request, held)
                raise
            except (ConnectionError, TimeoutError) as error:
                raise Outage(f"{self.provider.name} could not be reached: {error}.") from None
            total = raw.tokens.total
            tokens = held.most.tokens if total is None else total
            return raw, held.settle(Charge(usd=raw.price_usd, tokens=tokens))

    def _give_up(self, request: Request[Any], held: Reservation) -> None:
        """Count a call that was sent and may have to be paid, though its answer is lost."""
        if is_metered(self.provider.name):
            self.replies.lose(request, self.provider.name, held.settle(held.most))

    def _wait_to_retry(
        self, request: Request[Any], error: Outage, failures: int, end: float
    ) -> None:
        wait_s = self.limits.wait_s(failures, error.retry_after_s, self._rng)
        self._emit(ModelRetry, request, error=str(error), failures=failures, wait_s=wait_s)
        if failures >= self.limits.attempts:
            raise ModelUnavailable(
                f"{self.provider.name} is not available after {failures} attempts. "
                f"The last one: {error}",
                hint="Nothing was scored. Run the same command again later to resume.",
            )
        if time.monotonic() + wait_s >= end:
            raise self._too_late(error)
        until = time.monotonic() + wait_s
        while (left_s := until - time.monotonic()) > 0:
            self._stop_if_asked()
            time.sleep(min(_TICK_S, left_s))

    def _too_late(self, error: Outage | None = None) -> ModelUnavailable:
        last = f" The last attempt: {error}" if error else ""
        return ModelUnavailable(
            f"{self.provider.name} gave no answer within {self.limits.deadline_s:g} s.{last}",
            hint="Nothing was scored. Run the same command again later, or allow more time.",
        )

    def _stop_if_asked(self) -> None:
        if self._should_stop():
            raise _stopped()


class _TimedOut(Exception):
    """The work did not end within its limit; it was cancelled."""


def _stopped() -> Cancelled:
    return Cancelled("Stopped while waiting for the model.", hint="What was paid for is kept.")


async def _within(
    work: Coroutine[Any, Any, RawReply], limit_s: float, should_stop: StopCheck
) -> RawReply:
    """Return the result of `work`; raises _TimedOut, or Cancelled within a second of a stop.

    A result that arrives while the work is being given up is returned: it may have been paid for.
    """
    task = asyncio.ensure_future(work)
    end, reason = time.monotonic() + limit_s, None
    while not task.done() and reason is None:
        await asyncio.wait({task}, timeout=max(0.0, min(_TICK_S, end - time.monotonic())))
        if not task.done():
            reason = _stopped() if should_stop() else None
            reason = reason or (_TimedOut() if time.monotonic() >= end else None)
    if reason is not None:
        task.cancel()
        await asyncio.wait({task}, timeout=_GRACE_S)
        if not task.done() or task.cancelled() or task.exception() is not None:
            raise reason
    return task.result()
