"""Prices of model calls and a budget in US dollars and calls.

The maximum cost of a request is reserved before it is sent, and replaced by the actual cost when it
is known.
"""

from __future__ import annotations

import importlib
import importlib.util
import ipaddress
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from telic.core.config import Record
from telic.core.plugins import plugin_names
from telic.errors import BudgetExceeded
from telic.llm.names import CLOUD, COMPATIBLE, PROVIDERS
from telic.llm.records import Request

# Deliberately conservative: an excessive reservation is released after the call.
_CHARACTERS_PER_TOKEN = 3
_TOKENS_PER_IMAGE = 3_000


class Charge(Record):
    """Actual or maximum cost of one or more calls."""

    usd: float | None = Field(default=None, ge=0)
    """cost in USD, or None if unknown"""
    tokens: int = Field(default=0, ge=0)
    calls: int = Field(default=1, ge=0)

    def __add__(self, other: Charge) -> Charge:
        """Return the sum of two charges, counting an unknown price as 0."""
        return Charge(
            usd=(self.usd or 0.0) + (other.usd or 0.0),
            tokens=self.tokens + other.tokens,
            calls=self.calls + other.calls,
        )


class Budget:
    """Thread-safe cost limits that several clients can share. A limit of None means unlimited.

    If a limit in USD is set, calls with unknown prices are refused.
    """

    def __init__(self, *, usd: float | None = None, calls: int | None = None) -> None:
        self.usd, self.calls = usd, calls
        self.spent = Charge(usd=0.0, calls=0)
        """actual cost so far (a lower bound if some prices are unknown)"""
        self._reserved: dict[object, Charge] = {}
        self._lock = threading.Lock()

    @contextmanager
    def reserved(self, most: Charge) -> Generator[Callable[[Charge], Charge]]:
        """Reserve the maximum cost of a call during the block, or raise BudgetExceeded.

        Yields a function that records and returns the actual cost. If the actual price is unknown,
        the reserved price is counted. If the function is not called, nothing is counted.
        """
        mine = object()

        def settle(actual: Charge) -> Charge:
            usd = most.usd if actual.usd is None else actual.usd
            counted = actual.model_copy(update={"usd": usd})
            with self._lock:
                self._reserved.pop(mine, None)
                self.spent += counted
            return counted

        with self._lock:
            self._check(most)
            self._reserved[mine] = most
        try:
            yield settle
        finally:
            with self._lock:
                self._reserved.pop(mine, None)

    def count(self, earlier: Charge) -> None:
        """Add the cost of calls from before this process started."""
        with self._lock:
            self.spent += earlier

    def _check(self, most: Charge) -> None:
        taken = sum(self._reserved.values(), start=self.spent)
        if self.calls is not None and taken.calls + most.calls > self.calls:
            raise BudgetExceeded(
                f"The budget of {self.calls} model calls is used up.", hint="Raise the limit."
            )
        if self.usd is None:
            return
        if most.usd is None:
            raise BudgetExceeded(
                f"The price of this model is unknown, so the budget of {self.usd:g} USD cannot be "
                "enforced.",
                hint="Limit the number of calls instead.",
            )
        left = self.usd - (taken.usd or 0.0)
        if most.usd > left + 1e-9:
            raise BudgetExceeded(
                f"The next model call may cost {most.usd:.4f} USD, but only {max(0.0, left):.4f} "
                f"of {self.usd:g} USD are left.",
                hint="Raise the limit, reduce max_tokens or use a cheaper model.",
            )


def is_metered(model: str) -> bool:
    """Return whether calls to this model may cost money."""
    provider, _, rest = model.partition(":")
    if provider == COMPATIBLE:
        host = urlsplit(rest).hostname or ""
        try:
            return not ipaddress.ip_address(host).is_private
        except ValueError:
            return host != "localhost"
    if provider in PROVIDERS:
        return provider in CLOUD
    # Providers from plugins may be billed at prices that are not known in advance.
    return provider in plugin_names("providers", PROVIDERS)


def most_charge(model: str, request: Request[Any]) -> Charge:
    """Return the maximum cost of a call. `usd` is None if the price is unknown."""
    text = len(request.prompt) + len(request.system) + len(str(request.answer_schema))
    tokens_in = text // _CHARACTERS_PER_TOKEN + _TOKENS_PER_IMAGE * len(request.images)
    usd = price_usd(model, tokens_in, request.max_tokens) if is_metered(model) else 0.0
    return Charge(usd=usd, tokens=tokens_in + request.max_tokens)


def price_usd(model: str, tokens_in: int, tokens_out: int) -> float | None:
    """Return the list price of a call in USD, or None if unknown."""
    provider, _, name = model.partition(":")
    if provider not in CLOUD or importlib.util.find_spec("genai_prices") is None:
        return None
    prices = importlib.import_module("genai_prices")
    usage = prices.Usage(input_tokens=tokens_in, output_tokens=tokens_out)
    try:
        return float(prices.calc_price(usage, name, provider_id=provider).total_price)
    except LookupError:
        return None
