"""What a question to a model may take: money, calls and tokens, and time.

Money is reserved before a request is sent, settled after, refused when short; what to reserve is
the most a request may cost. Time is limits, retries with jitter, and stopping at once.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import ipaddress
import random
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import Field

from telic.core.config import Config, Record
from telic.core.plugins import plugin_names
from telic.errors import BudgetExceeded
from telic.llm.names import CLOUD, COMPATIBLE, PROVIDERS
from telic.llm.records import VIDEO, Cancelled, Request

Result = TypeVar("Result")
StopCheck = Callable[[], bool]

_TICK_S = 0.1
_GRACE_S = 0.3
# Deliberately on the high side: a reservation that is too large is given back a moment later.
_CHARACTERS_PER_TOKEN = 3
_TOKENS_PER_IMAGE = 3_000
_TOKENS_PER_VIDEO = 60_000  # twenty seconds at FRAMES_PER_SECOND, about 300 a frame


class Charge(Record):
    """What one or more calls cost, or may cost at most."""

    usd: float | None = Field(default=None, ge=0)
    """dollars; None is unknown"""
    tokens: int = Field(default=0, ge=0)
    calls: int = Field(default=1, ge=0)


class Spent(Record):
    """What has been used so far."""

    usd: float = 0.0
    """dollars known to be spent: a lower bound when `unpriced_calls` is not 0"""
    tokens: int = 0
    calls: int = 0
    unpriced_calls: int = 0
    """calls whose price nobody knows"""


class Budget:
    """Limits that hold for everybody who shares the object, in any thread; None is no limit.

    A call whose price cannot be forecast does not fit into a limit in dollars, because nothing
    could hold it; `usd_when_unknown` says what to count for such a call instead.
    """

    def __init__(
        self,
        *,
        usd: float | None = None,
        calls: int | None = None,
        tokens: int | None = None,
        usd_when_unknown: float | None = None,
    ) -> None:
        self.usd = usd
        self.calls = calls
        self.tokens = tokens
        self.usd_when_unknown = usd_when_unknown
        self._lock = threading.Lock()
        self._spent = Spent()
        self._reserved = Charge(usd=0.0, tokens=0, calls=0)

    @property
    def spent(self) -> Spent:
        """Return what has been settled so far; reservations are not in it."""
        return self._spent

    def reserve(self, most: Charge) -> Charge:
        """Set aside the most a call may cost and return it; raises BudgetExceeded."""
        if most.usd is None and self.usd_when_unknown is not None:
            most = most.model_copy(update={"usd": self.usd_when_unknown})
        with self._lock:
            self._check(most)
            self._hold(most, 1)
        return most

    def settle(self, reserved: Charge, actual: Charge) -> Charge:
        """Replace a reservation by what the call cost and return what was counted.

        An unknown price counts as what was reserved, so that a limit holds.
        """
        usd = reserved.usd if actual.usd is None else actual.usd
        counted = actual.model_copy(update={"usd": usd})
        with self._lock:
            self._hold(reserved, -1)
            self._add(counted)
        return counted

    def release(self, reserved: Charge) -> None:
        """Give a reservation back: nothing was spent."""
        with self._lock:
            self._hold(reserved, -1)

    def count(self, earlier: Charge) -> None:
        """Add what was spent before this process started."""
        with self._lock:
            self._add(earlier)

    def _add(self, charge: Charge) -> None:
        self._spent = Spent(
            usd=self._spent.usd + (charge.usd or 0.0),
            tokens=self._spent.tokens + charge.tokens,
            calls=self._spent.calls + charge.calls,
            unpriced_calls=self._spent.unpriced_calls + (charge.calls if charge.usd is None else 0),
        )

    def _hold(self, charge: Charge, sign: Literal[1, -1]) -> None:
        self._reserved = Charge(
            # Differences of floating-point sums may end a hair below zero.
            usd=max(0.0, (self._reserved.usd or 0.0) + sign * (charge.usd or 0.0)),
            tokens=self._reserved.tokens + sign * charge.tokens,
            calls=self._reserved.calls + sign * charge.calls,
        )

    def _check(self, most: Charge) -> None:
        spent, held = self._spent, self._reserved
        if self.calls is not None and spent.calls + held.calls + most.calls > self.calls:
            raise BudgetExceeded(
                f"The budget of {self.calls} model calls is used up.", hint="Raise the limit."
            )
        tokens_left = None if self.tokens is None else self.tokens - spent.tokens - held.tokens
        if tokens_left is not None and most.tokens > tokens_left:
            raise BudgetExceeded(
                f"The next model call may need {most.tokens:,} tokens, and of the budget of "
                f"{self.tokens:,} only {max(0, tokens_left):,} are left.",
                hint="Raise the limit, or allow shorter answers (max_tokens).",
            )
        if self.usd is None:
            return
        if most.usd is None:
            raise BudgetExceeded(
                f"The price of this model is unknown; a budget of {self.usd:g} USD cannot be held.",
                hint="Limit calls or tokens instead, or say what to count for a call.",
            )
        left = self.usd - spent.usd - (held.usd or 0.0)
        if most.usd > left + 1e-9:
            raise BudgetExceeded(
                f"The next model call may cost {most.usd:.4f} USD, and of the budget of "
                f"{self.usd:g} USD only {max(0.0, left):.4f} are left.",
                hint="Raise the limit, allow shorter answers (max_tokens) or take a cheaper model.",
            )


def is_metered(model: str) -> bool:
    """Say whether somebody may send a bill for calls to this model."""
    provider, _, rest = model.partition(":")
    if provider in CLOUD:
        return True
    if provider == COMPATIBLE:
        return not _is_own_machine(rest)
    # What a package brings may send a bill, and nobody knows its prices beforehand.
    return provider not in PROVIDERS and provider in plugin_names("providers", PROVIDERS)


def most_charge(model: str, request: Request[Any]) -> Charge:
    """Return the most one call may cost; `usd` is None where no price is known."""
    text = len(request.prompt) + len(request.system) + len(str(request.answer_schema))
    seen = [image.media_type == VIDEO for image in request.images]
    tokens_in = text // _CHARACTERS_PER_TOKEN + sum(
        _TOKENS_PER_VIDEO if is_video else _TOKENS_PER_IMAGE for is_video in seen
    )
    usd = price_usd(model, tokens_in, request.max_tokens) if is_metered(model) else 0.0
    return Charge(usd=usd, tokens=tokens_in + request.max_tokens)


def price_usd(model: str, tokens_in: int, tokens_out: int) -> float | None:
    """Return the list price of a call in dollars, or None when it is unknown."""
    provider, _, name = model.partition(":")
    if provider not in CLOUD or importlib.util.find_spec("genai_prices") is None:
        return None
    prices = importlib.import_module("genai_prices")
    usage = prices.Usage(input_tokens=tokens_in, output_tokens=tokens_out)
    try:
        return float(prices.calc_price(usage, name, provider_id=provider).total_price)
    except LookupError:
        return None


def _is_own_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost"


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


class Deadline:
    """A moment in the future."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Return the seconds left; negative when it has passed."""
        return self._end - time.monotonic()


class TimedOut(Exception):
    """The work did not end within its limit; it was cancelled."""


def never() -> bool:
    """Never ask to stop."""
    return False


def stop_if_asked(should_stop: StopCheck) -> None:
    """Raise Cancelled when somebody asked to stop."""
    if should_stop():
        raise Cancelled("Stopped while waiting for the model.", hint="What was paid for is kept.")


async def finish(
    work: Coroutine[Any, Any, Result], limit_s: float, should_stop: StopCheck
) -> Result:
    """Return the result of `work`; raises TimedOut, or Cancelled within a second of being asked.

    A result that arrives while the work is being given up is returned: it may have been paid for.
    """
    task = asyncio.ensure_future(work)
    end = Deadline(limit_s)
    reason: Exception | None = None
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=max(0.0, min(_TICK_S, end.left_s)))
            if not task.done():
                stop_if_asked(should_stop)
                if end.left_s <= 0:
                    raise TimedOut
    except (Cancelled, TimedOut) as error:
        reason = error
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_GRACE_S)
    if reason is not None and (not task.done() or task.cancelled() or task.exception()):
        raise reason
    return task.result()


async def pause(seconds: float, should_stop: StopCheck) -> None:
    """Sleep; raises Cancelled within a second of being asked to stop."""
    end = Deadline(seconds)
    while end.left_s > 0:
        stop_if_asked(should_stop)
        await asyncio.sleep(min(_TICK_S, end.left_s))
