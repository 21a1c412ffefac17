"""Send one request until it gets through: reserve, attempt, settle, wait, again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from telic.core.events import ModelRetry, ModelSent
from telic.llm.budget import Budget, Charge
from telic.llm.errors import Cancelled, ModelUnavailable, Outage
from telic.llm.prices import is_metered, most_charge
from telic.llm.provider import Provider
from telic.llm.records import RawReply, Request
from telic.llm.replies import Replies, StoredReply
from telic.llm.waiting import Deadline, Limits, StopCheck, TimedOut, finish, pause, stop_if_asked

Trace = Callable[..., None]

_GRACE_S = 0.5


class Sender:
    """Gets a request through to a provider within a budget, and keeps what came back."""

    def __init__(
        self,
        provider: Provider,
        replies: Replies,
        budget: Budget,
        limits: Limits,
        trace: Trace,
        should_stop: StopCheck,
    ) -> None:
        self.provider = provider
        self.replies = replies
        self.budget = budget
        self.limits = limits
        self._trace = trace
        self._should_stop = should_stop
        self._rng = random.Random()

    async def send(self, request: Request[Any], deadline: Deadline) -> StoredReply:
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
            actual = Charge(usd=raw.price_usd, tokens=_tokens(raw, reserved))
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


def _tokens(raw: RawReply, reserved: Charge) -> int:
    total = raw.tokens.total
    return reserved.tokens if total is None else total
