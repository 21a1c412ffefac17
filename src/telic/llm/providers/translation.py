"""What pydantic-ai returns and raises, in our words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telic.errors import TelicError
from telic.llm.errors import ModelUnavailable, Outage, RequestRejected
from telic.llm.keys import KEY_NAMES
from telic.llm.names import Address
from telic.llm.records import Finish, RawReply, Tokens

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

_PASSING = frozenset({408, 409, 425, 429})


def read_response(response: ModelResponse) -> RawReply:
    """Return what pydantic-ai received as our raw reply."""
    from pydantic_ai.messages import TextPart, ToolCallPart

    calls = [part.args_as_json_str() for part in response.parts if isinstance(part, ToolCallPart)]
    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    endings: dict[str | None, Finish] = {"length": "length", "content_filter": "refusal"}
    return RawReply(
        text=calls[0] if calls else "".join(texts),
        tokens=_tokens(response),
        price_usd=_price_usd(response),
        finish=endings.get(response.finish_reason, "complete"),
    )


def _tokens(response: ModelResponse) -> Tokens:
    usage = response.usage
    if usage.unmeasured_requests or not usage.has_values():
        return Tokens()
    return Tokens(
        input=usage.input_tokens,
        output=usage.output_tokens,
        reasoning=usage.output_reasoning_tokens,
        cached=usage.cache_read_tokens,
    )


def _price_usd(response: ModelResponse) -> float | None:
    if response.usage.cost is not None:
        return float(response.usage.cost)
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return None


def translate(error: Exception, address: Address) -> TelicError:
    """Return our error for one of pydantic-ai's: passing or permanent, and what to do."""
    from pydantic_ai import exceptions as theirs

    message = f"{address.name}: {error}"
    if isinstance(error, TelicError):
        return error
    if isinstance(error, theirs.ModelAuthenticationError):
        names = " or ".join(KEY_NAMES[address.provider])
        return RequestRejected(message, hint=f"Check the key in {names}.")
    if isinstance(error, theirs.ModelRequestRejectedError | theirs.UserError):
        return RequestRejected(message, hint="Check the model's name and what it can take.")
    if isinstance(error, theirs.ModelQuotaExceededError):
        return ModelUnavailable(message, hint="The account has no credit or quota left.")
    if isinstance(error, theirs.ModelHTTPError) and not _may_pass(error.status_code):
        return RequestRejected(message)
    if isinstance(error, theirs.ModelAPIError):
        lost = isinstance(error, theirs.ModelConnectionError) and error.phase in ("write", "read")
        return Outage(message, retry_after_s=error.retry_after, may_be_paid=lost)
    if isinstance(error, theirs.UnexpectedModelBehavior):
        return Outage(message, may_be_paid=True)
    if isinstance(error, ConnectionError | TimeoutError):
        return Outage(message)
    return ModelUnavailable(f"{message} ({type(error).__name__})")


def _may_pass(status: int) -> bool:
    return status >= 500 or status in _PASSING
