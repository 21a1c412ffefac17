"""The most a request may cost, before it is sent."""

from __future__ import annotations

import importlib
import importlib.util
import ipaddress
from typing import Any
from urllib.parse import urlsplit

from telic.llm.budget import Charge
from telic.llm.records import VIDEO, Request

# Deliberately on the high side: a reservation that is too large is given back a moment later.
_CHARACTERS_PER_TOKEN = 3
_TOKENS_PER_IMAGE = 3_000
_TOKENS_PER_VIDEO = 60_000  # twenty seconds at FRAMES_PER_SECOND, about 300 a frame
_PRICED = ("anthropic", "openai", "google", "openrouter")


def is_metered(model: str) -> bool:
    """Say whether somebody may send a bill for calls to this model."""
    provider, _, rest = model.partition(":")
    if provider in _PRICED:
        return True
    return provider == "openai-compatible" and not _is_own_machine(rest)


def most_charge(model: str, request: Request[Any]) -> Charge:
    """Return the most one call may cost; `usd` is None where no price is known."""
    text = len(request.prompt) + len(request.system) + len(str(request.answer_schema))
    seen = [each.media_type == VIDEO for each in request.images]
    tokens_in = text // _CHARACTERS_PER_TOKEN + sum(
        _TOKENS_PER_VIDEO if is_video else _TOKENS_PER_IMAGE for is_video in seen
    )
    usd = price_usd(model, tokens_in, request.max_tokens) if is_metered(model) else 0.0
    return Charge(usd=usd, tokens=tokens_in + request.max_tokens)


def price_usd(model: str, tokens_in: int, tokens_out: int) -> float | None:
    """Return the list price of a call in dollars, or None when it is unknown."""
    provider, _, name = model.partition(":")
    if provider not in _PRICED or importlib.util.find_spec("genai_prices") is None:
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
