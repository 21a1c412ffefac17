"""Money, calls and tokens: reserved before a request is sent, settled after, refused when short.

What to reserve is the most a request may cost.
"""

from __future__ import annotations

import importlib
import importlib.util
import ipaddress
import threading
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from telic.core.config import Record
from telic.core.plugins import plugin_names
from telic.errors import BudgetExceeded
from telic.llm.names import CLOUD, COMPATIBLE, PROVIDERS
from telic.llm.records import VIDEO, Request

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
            self._reserved = _sum(self._reserved, most)
        return most

    def settle(self, reserved: Charge, actual: Charge) -> Charge:
        """Replace a reservation by what the call cost and return what was counted.

        An unknown price counts as what was reserved, so that a limit holds.
        """
        usd = reserved.usd if actual.usd is None else actual.usd
        counted = actual.model_copy(update={"usd": usd})
        with self._lock:
            self._release(reserved)
            self._add(counted)
        return counted

    def release(self, reserved: Charge) -> None:
        """Give a reservation back: nothing was spent."""
        with self._lock:
            self._release(reserved)

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

    def _release(self, reserved: Charge) -> None:
        self._reserved = Charge(
            # Differences of floating-point sums may end a hair below zero.
            usd=max(0.0, (self._reserved.usd or 0.0) - (reserved.usd or 0.0)),
            tokens=self._reserved.tokens - reserved.tokens,
            calls=self._reserved.calls - reserved.calls,
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


def _sum(one: Charge, other: Charge) -> Charge:
    return Charge(
        usd=(one.usd or 0.0) + (other.usd or 0.0),
        tokens=one.tokens + other.tokens,
        calls=one.calls + other.calls,
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
