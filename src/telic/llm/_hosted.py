"""Clients for Anthropic, OpenAI, Google, OpenRouter and compatible servers, via pydantic-ai.

Retries and validation of pydantic-ai are disabled, because `Models` implements them.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from typing import Any, cast

from pydantic_ai import exceptions as theirs
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import ContentFilterError
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import DEFAULT_PROMPTED_OUTPUT_TEMPLATE
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from telic.core.text import is_dict, is_row
from telic.errors import TelicError
from telic.llm.keys import KEY_NAMES, find_key
from telic.llm.names import CLOUD, Address
from telic.llm.records import (
    Finish,
    ModelUnavailable,
    Outage,
    RawReply,
    Request,
    RequestRejected,
    Tokens,
)

_TEMPORARY = frozenset({408, 409, 425, 429})
_NO_KEY = "no-key-needed"


class Hosted:
    """Model hosted by a cloud service or a server."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.name = address.name

    async def complete(self, request: Request[Any], deadline_s: float) -> RawReply:
        """Send the request once. Raises Outage, RequestRejected, or UsageError if no key is set."""
        key = find_key(self.address.provider)
        # Imports take seconds, so run them in a thread to keep stop requests responsive.
        await asyncio.to_thread(_load, self.address.provider)

        service, model = _connect(self.address, key)
        settings = ModelSettings(max_tokens=request.max_tokens, timeout=deadline_s, max_retries=0)
        if request.effort is not None:
            settings["thinking"] = request.effort
        if request.temperature is not None:
            settings["temperature"] = request.temperature
        failure: TelicError
        try:
            async with service:
                response = await model_request(
                    model,
                    [_message(request)],
                    model_settings=settings,
                    model_request_parameters=_parameters(request, self.address),
                )
            return _read_response(response)
        except ContentFilterError:
            return RawReply(text="", finish="refusal")
        except Exception as error:
            failure = translate(error, self.address)
        raise failure


def _load(provider: str) -> None:
    """Import a provider's client. The first call reports missing packages."""
    with contextlib.suppress(ImportError):
        family = provider if provider in CLOUD else "openai"
        importlib.import_module(f"pydantic_ai.models.{family}")


def _connect(address: Address, key: str | None) -> tuple[Any, Model]:
    """Return the service, which is an async context manager, and its model."""
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    provider, key = address.provider, key or _NO_KEY
    service: Any
    if address.base_url is None:
        service = cast("Any", infer_provider_class(provider))(api_key=key)
        return service, infer_model(f"{provider}:{address.model}", lambda name: service)
    if provider in ("ollama", "vllm"):
        own_class = cast("Any", infer_provider_class(provider))
        service = own_class(base_url=address.base_url, api_key=key)
    else:
        service = OpenAICompatibleProvider(provider, base_url=address.base_url, api_key=key)
    return service, OpenAIChatModel(address.model, provider=service)


def _message(request: Request[Any]) -> ModelRequest:
    images = [
        BinaryContent(data=image.data, media_type=image.media_type) for image in request.images
    ]
    content = [request.prompt, *images] if images else request.prompt
    return ModelRequest(
        parts=[UserPromptPart(content=content)], instructions=request.system or None
    )


def _parameters(request: Request[Any], address: Address) -> ModelRequestParameters:
    """Return the request parameters of the service's best mode for structured output."""
    schema = request.answer_schema
    shape = OutputObjectDefinition(json_schema=schema, name=request.answer.__name__)
    if address.base_url is not None:
        # Include the schema in the prompt because not every server enforces it.
        return ModelRequestParameters(
            output_mode="native",
            output_object=shape,
            prompted_output_template=DEFAULT_PROMPTED_OUTPUT_TEMPLATE,
        )
    if address.provider == "anthropic" and _has_open_dictionary(schema):
        # Anthropic's schema mode forbids additional properties, so dictionaries would be empty.
        return ModelRequestParameters(output_mode="prompted", output_object=shape)
    tool = ToolDefinition(
        name="answer", description="Give the answer.", parameters_json_schema=schema, kind="output"
    )
    return ModelRequestParameters(
        output_mode="auto", output_object=shape, output_tools=[tool], allow_text_output=False
    )


def _has_open_dictionary(schema: Any) -> bool:
    """Return whether a schema contains an object with arbitrary keys, e.g. dict[str, float]."""
    if is_row(schema):
        return any(map(_has_open_dictionary, schema))
    if not is_dict(schema):
        return False
    if schema.get("type") == "object" and schema.get("additionalProperties", False) is not False:
        return True
    return any(map(_has_open_dictionary, schema.values()))


def _read_response(response: ModelResponse) -> RawReply:
    calls = [part.args_as_json_str() for part in response.parts if isinstance(part, ToolCallPart)]
    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    endings: dict[str | None, Finish] = {"length": "length", "content_filter": "refusal"}
    usage, tokens, price = response.usage, Tokens(), None
    if not usage.unmeasured_requests and usage.has_values():
        tokens = Tokens(
            input=usage.input_tokens,
            output=usage.output_tokens,
            reasoning=usage.output_reasoning_tokens,
            cached=usage.cache_read_tokens,
        )
    with contextlib.suppress(LookupError, ValueError, AssertionError):  # no known price
        price = float(response.cost().total_price if usage.cost is None else usage.cost)
    return RawReply(
        text=calls[0] if calls else "".join(texts),
        tokens=tokens,
        price_usd=price,
        finish=endings.get(response.finish_reason, "complete"),
    )


def translate(error: Exception, address: Address) -> TelicError:
    """Convert an exception of pydantic-ai to a temporary or permanent error with a hint."""
    message = f"{address.name}: {error}"
    if isinstance(error, TelicError):
        return error
    if isinstance(error, theirs.ModelAuthenticationError):
        names = " or ".join(KEY_NAMES[address.provider])
        return RequestRejected(message, hint=f"Check the key in {names}.")
    if isinstance(error, theirs.ModelRequestRejectedError | theirs.UserError):
        return RequestRejected(message, hint="Check the model name and the size of the request.")
    if isinstance(error, theirs.ModelQuotaExceededError):
        return ModelUnavailable(message, hint="The account has no credit or quota left.")
    status = error.status_code if isinstance(error, theirs.ModelHTTPError) else 500
    if status < 500 and status not in _TEMPORARY:
        return RequestRejected(message)
    if isinstance(error, theirs.ModelAPIError):
        lost = isinstance(error, theirs.ModelConnectionError) and error.phase in ("write", "read")
        return Outage(message, retry_after_s=error.retry_after, may_be_paid=lost)
    if isinstance(error, theirs.UnexpectedModelBehavior):
        return Outage(message, may_be_paid=True)
    if isinstance(error, ConnectionError | TimeoutError):
        return Outage(message)
    return ModelUnavailable(f"{message} ({type(error).__name__})")
