"""Calls to language models with caching, budget, retries, validation and repair.

A call checks the cache, reserves budget, sends the request with a deadline and retries, stores and
validates the reply, and repairs it at most once. Each step emits an event (`telic.llm.records`).
"""

from __future__ import annotations

import asyncio
import importlib.util
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
from telic.errors import MissingExtra, UsageError
from telic.llm.answers import InvalidAnswer, Replies, StoredReply, read_answer
from telic.llm.budget import Budget, Charge, is_metered, most_charge
from telic.llm.keys import redact_value, without_keys
from telic.llm.names import HOST, PROVIDERS, parse_name, servers
from telic.llm.records import (
    Answer,
    Cancelled,
    ModelAnswerError,
    ModelEvent,
    ModelFailed,
    ModelRejected,
    ModelReply,
    ModelRetry,
    ModelSent,
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
from telic.llm.work_orders import HOST_DEADLINE_S, ORDERS, Host
from telic.storage.files import plain
from telic.storage.keys import require_permitted

REPLIES = "replies"
StopCheck = Callable[[], bool]
_HOW_TO_ANSWER = (
    "You are the model. List open work orders: telic orders --session {folder}. Read one: "
    "telic orders KEY --session {folder}. Answer it: telic orders KEY FILE.json --session {folder}."
)
_TICK_S = 0.1
_GRACE_S = 0.5


class CallLimits(Config):
    """Timeouts and retry policy of a model call."""

    deadline_s: float = Field(default=1200.0, gt=0)
    """total timeout of a call in seconds, including retries, backoff and the repair"""
    attempt_s: float = Field(default=600.0, gt=0)
    """timeout of one attempt in seconds, after which the connection is closed"""
    attempts: int = Field(default=6, ge=1)
    """maximum number of attempts"""
    first_wait_s: float = Field(default=1.0, ge=0)
    """maximum wait in seconds before the second attempt, doubled for each further attempt"""
    longest_wait_s: float = Field(default=60.0, ge=0)
    """maximum wait in seconds between attempts, excluding Retry-After"""

    def wait_s(self, failures: int, retry_after_s: float | None, rng: random.Random) -> float:
        """Return the wait in seconds before the next attempt: exponential backoff with full jitter.

        If the service sends a Retry-After header, its value is added.
        """
        most = min(self.longest_wait_s, self.first_wait_s * 2 ** (failures - 1))
        return (retry_after_s or 0.0) + rng.uniform(0.0, most)


def choose(name: str | None, folder: Path | None = None) -> Provider:
    """Return the provider for a model name. "host" requires the session folder."""
    if not name:
        raise UsageError(
            "No model was specified.",
            hint="Specify one, e.g. --model anthropic:claude-sonnet-5-5, or --model host.",
        )
    if name == HOST:
        if folder is None:
            raise UsageError("The host agent requires a session folder for its work orders.")
        return Host(folder / ORDERS)
    provider, colon, model = name.partition(":")
    if colon and provider not in PROVIDERS:
        make = load_plugin("providers", provider, PROVIDERS)
        if make is not None:
            return make(model)
    address = parse_name(name)
    if importlib.util.find_spec("pydantic_ai") is None:
        raise MissingExtra("pydantic-ai-slim", "llm", f"The model {name}")
    from telic.llm._hosted import Hosted

    return Hosted(address)


def connect(
    name: str | None,
    folder: Path,
    *,
    budget: Budget | None = None,
    on_event: Listener = ignore,
    should_stop: StopCheck = lambda: False,
) -> Models:
    """Return a `Models` client for a model name. Work orders have a deadline of seven days.

    Raises Refused for a server that the user did not approve, because it would receive the key.
    """
    require_permitted(*servers(name))
    provider, limits = choose(name, folder), CallLimits()
    if name == HOST:
        limits = CallLimits(deadline_s=HOST_DEADLINE_S, attempt_s=HOST_DEADLINE_S)
        on_event(LogMessage(message=_HOW_TO_ANSWER.format(folder=folder)))
    return Models(
        provider, folder, budget=budget, limits=limits, on_event=on_event, should_stop=should_stop
    )


class Models:
    """Thread-safe client for structured answers from a model within a budget.

    Replies are cached in `<folder>/replies`, and their cost is restored when the session is
    resumed. Only a call in progress when the process is killed can be charged twice.
    """

    def __init__(
        self,
        provider: Provider,
        folder: Path,
        *,
        budget: Budget | None = None,
        limits: CallLimits | None = None,
        on_event: Listener = ignore,
        should_stop: StopCheck = lambda: False,
    ) -> None:
        self.provider = provider
        self.replies = Replies(folder / REPLIES)
        self.budget = budget or Budget()
        self.limits = limits or CallLimits()
        self._on_event = on_event
        self._should_stop = should_stop
        self._lock = threading.Lock()
        self._asking: dict[str, threading.Lock] = {}
        for call in self.replies.calls(provider.name):
            self.budget.count(call.charge)

    def ask(self, request: Request[Answer]) -> Reply[Answer]:
        """Return a valid answer, from the cache if possible. Raises `TelicError` on failure."""
        with self._lock:
            key = request.key(self.provider.name)
            same = self._asking.setdefault(key, threading.Lock())
        try:
            with same:  # concurrent identical requests are charged once
                return self._answer(request)
        except Exception as error:
            failure = without_keys(error)
        # Raised outside the handler to drop the original error, which may contain an API key.
        self._emit(ModelFailed, request, kind=type(failure).__name__, error=str(failure))
        raise failure

    def _answer(self, request: Request[Answer]) -> Reply[Answer]:
        """Return the first valid answer, repairing an invalid one once."""
        name, end = self.provider.name, time.monotonic() + self.limits.deadline_s
        parts: list[StoredReply] = []
        tokens, price = Tokens(input=0, output=0, reasoning=0, cached=0), 0.0
        question, cached, problem = request, True, ""
        for _ in range(2):
            kept = self.replies.read(question.key(name))
            cached = cached and kept is not None
            part = kept or self._send(question, end)
            raw = part.raw or RawReply(text="")
            parts.append(part)
            tokens, price = tokens + raw.tokens, add_known(price, raw.price_usd)
            try:
                answer = read_answer(raw.text, request.answer, raw.finish)
            except InvalidAnswer as error:
                problem = error.message
                self._emit(ModelRejected, question, answer=raw.text, error=problem)
                question = request.repaired(raw.text, problem)
                continue
            reply = Reply[Answer](
                answer=answer,
                model=name,
                tokens=tokens,
                price_usd=price,
                latency_s=sum(part.latency_s for part in parts),
                attempts=sum(part.attempts for part in parts),
                cached=cached,
            )
            facts = reply.model_dump(exclude={"answer", "model"})
            self._emit(ModelReply, request, answer=raw.text, **facts)
            return reply
        for part in parts:
            self.replies.set_aside(part.key)
        raise ModelAnswerError(
            f"{name} returned no valid {request.answer.__name__} for the role {request.role}, even "
            f"after one repair attempt:\n{problem}",
            hint="Nothing was scored. Use a stronger model or increase max_tokens.",
        )

    def _send(self, request: Request[Any], end: float) -> StoredReply:
        """Send the request, retrying outages, and return the stored reply."""
        name, limits, started = self.provider.name, self.limits, time.monotonic()
        call = {"key": request.key(name), "role": request.role, "model": name}
        asked = request.model_dump(
            include={"system", "prompt", "prompt_hash", "effort", "max_tokens"}
        )
        images = [
            {"media_type": image.media_type, "sha256": fingerprint(image.data, 64)}
            for image in request.images
        ]
        attempt, outage = 0, Outage("no time was left")
        while attempt < limits.attempts and (left_s := end - time.monotonic()) > 0:
            self._wait(0.0)
            attempt += 1
            most = most_charge(name, request)
            with self.budget.reserved(most) as settle:
                self._emit(ModelSent, request, attempt=attempt, images=images, **asked)
                limit_s = min(limits.attempt_s, left_s)
                try:
                    raw = asyncio.run(
                        _within(
                            self.provider.complete(request, limit_s), limit_s, self._should_stop
                        )
                    )
                    total = raw.tokens.total
                    cost = Charge(usd=raw.price_usd, tokens=most.tokens if total is None else total)
                    reply = StoredReply(
                        **call,
                        prompt_hash=request.prompt_hash,
                        raw=raw,
                        charge=settle(cost),
                        latency_s=time.monotonic() - started,
                        attempts=attempt,
                    )
                    return self.replies.keep(reply)
                except (ConnectionError, TimeoutError) as error:
                    outage = Outage(f"could not be reached: {error}.")
                except (Cancelled, Outage) as error:
                    is_cancelled = isinstance(error, Cancelled)
                    if (is_cancelled or error.may_be_paid) and is_metered(name):
                        self.replies.keep(StoredReply(**call, charge=settle(most)))
                    if is_cancelled:
                        raise
                    outage = error
            wait_s = limits.wait_s(attempt, outage.retry_after_s, random.Random())
            if attempt == limits.attempts or time.monotonic() + wait_s >= end:
                break
            self._emit(ModelRetry, request, error=str(outage), failures=attempt, wait_s=wait_s)
            self._wait(wait_s)
        raise ModelUnavailable(
            f"{name} is not available after {attempt} attempts within {limits.deadline_s:g} s. "
            f"Last error: {outage}",
            hint="Nothing was scored. Run the same command again later to resume.",
        )

    def _wait(self, seconds: float) -> None:
        """Sleep. Raises Cancelled as soon as a stop is requested."""
        until = time.monotonic() + seconds
        while True:
            if self._should_stop():
                raise _stopped()
            if (left_s := until - time.monotonic()) <= 0:
                return
            time.sleep(min(_TICK_S, left_s))

    def _emit(self, event: type[ModelEvent], request: Request[Any], **facts: Any) -> None:
        name = self.provider.name
        head = {"role": request.role, "key": request.key(name), "model": name}
        self._on_event(event.model_validate(redact_value(plain(head | facts))))


def _stopped() -> Cancelled:
    return Cancelled("Stopped while waiting for the model.", hint="Paid replies are kept.")


async def _within(
    work: Coroutine[Any, Any, RawReply], limit_s: float, should_stop: StopCheck
) -> RawReply:
    """Return the result of `work`. Raises Outage on timeout and Cancelled after a stop request.

    A result that arrives during cancellation is returned, because it may have been charged.
    """
    task = asyncio.ensure_future(work)
    # The provider has the same timeout and raises the more specific error, so allow a grace period.
    end, reason = time.monotonic() + limit_s + _GRACE_S, None
    while not task.done() and reason is None:
        await asyncio.wait({task}, timeout=max(0.0, min(_TICK_S, end - time.monotonic())))
        if not task.done() and should_stop():
            reason = _stopped()
        elif not task.done() and time.monotonic() >= end:
            reason = Outage(f"no answer within {limit_s:.1f} s.", may_be_paid=True)
    if reason is not None:
        task.cancel()
        await asyncio.wait({task}, timeout=_GRACE_S)
        if not task.done() or task.cancelled() or task.exception() is not None:
            raise reason
    return task.result()
