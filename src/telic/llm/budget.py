"""What calls to a model cost: prices, and a budget in dollars and calls.

The most that a request may cost is reserved before it is sent, refused when short, and settled
once its price is known.
"""

from __future__ import annotations

import importlib
import importlib.util
import ipaddress
import threading
from collections.abc import Generator
from contextlib import contextmanager
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

    def __add__(self, other: Charge) -> Charge:
        """Return the sum; an unknown price adds nothing."""
        return Charge(
            usd=(self.usd or 0.0) + (other.usd or 0.0),
            tokens=self.tokens + other.tokens,
            calls=self.calls + other.calls,
        )

    def __sub__(self, other: Charge) -> Charge:
        """Return the difference, at least zero: sums of floats may end a hair below."""
        return Charge(
            usd=max(0.0, (self.usd or 0.0) - (other.usd or 0.0)),
            tokens=self.tokens - other.tokens,
            calls=self.calls - other.calls,
        )


_NOTHING = Charge(usd=0.0, calls=0)


class Reservation:
    """The most that a call may cost, until it is settled."""

    def __init__(self, most: Charge) -> None:
        self.most = most
        self.counted: Charge | None = None

    def settle(self, actual: Charge) -> Charge:
        """Count what the call cost; an unknown price counts as reserved, so that a limit holds."""
        usd = self.most.usd if actual.usd is None else actual.usd
        self.counted = actual.model_copy(update={"usd": usd})
        return self.counted


class Budget:
    """Limits shared by everything that holds the object, in any thread; None is no limit.

    A call whose price cannot be forecast does not fit into a limit in dollars.
    """

    def __init__(self, *, usd: float | None = None, calls: int | None = None) -> None:
        self.usd = usd
        self.calls = calls
        self.spent = _NOTHING
        """what has been settled so far; a lower bound where prices are unknown"""
        self._reserved = _NOTHING
        self._lock = threading.Lock()

    @contextmanager
    def reserved(self, most: Charge) -> Generator[Reservation]:
        """Set the most that a call may cost aside for the block; raises BudgetExceeded.

        What the block does not settle is given back.
        """
        with self._lock:
            self._check(most)
            self._reserved += most
        held = Reservation(most)
        try:
            yield held
        finally:
            with self._lock:
                self._reserved -= most
                if held.counted is not None:
                    self.spent += held.counted

    def count(self, earlier: Charge) -> None:
        """Add what was spent before this process started."""
        with self._lock:
            self.spent += earlier

    def _check(self, most: Charge) -> None:
        taken = self.spent + self._reserved
        if self.calls is not None and taken.calls + most.calls > self.calls:
            raise BudgetExceeded(
                f"The budget of {self.calls} model calls is used up.", hint="Raise the limit."
            )
        if self.usd is None:
            return
        if most.usd is None:
            raise BudgetExceeded(
                f"The price of this model is unknown; a budget of {self.usd:g} USD cannot be held.",
                hint="Limit the number of calls instead.",
            )
        left = self.usd - (taken.usd or 0.0)
        if most.usd > left + 1e-9:
            raise BudgetExceeded(
                f"The next model call may cost {most.usd:.4f} USD, and of the budget of "
                f"{self.usd:g} USD only {max(0.0, left):.4f} are left.",
                hint="Raise the limit, allow shorter answers (max_tokens) or take a cheaper model.",
            )


def is_metered(model: str) -> bool:
    """Return whether calls to this model may be billed."""
    provider, _, rest = model.partition(":")
    if provider in CLOUD:
        return True
    if provider == COMPATIBLE:
        return not _is_own_machine(rest)
    # The provider of a package may be billed, at prices that are not known beforehand.
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
