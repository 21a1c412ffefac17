"""Keep secrets out of every answer: one place that all results and errors pass through."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from telic.llm.keys import redact
from telic.studies.launch.redaction import REDACTED, is_secret_name, redact_keys

_SHORTEST = 8  # a shorter value is a placeholder; removing it would tear ordinary words apart


async def keep_secrets(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Remove from a result, or from an error's message, everything that is a secret."""
    try:
        result = await call_next(ctx)
    except MCPError as error:
        clean = hide_in(error.error.model_dump())
        raise MCPError(clean["code"], clean["message"], clean["data"]) from None
    if isinstance(result, BaseModel):
        return hide_in(result.model_dump(mode="json", by_alias=True, exclude_none=True))
    return hide_in(result)


def hide(text: str) -> str:
    """Return a text without the secrets of this process's environment, and without key shapes."""
    for name, value in os.environ.items():
        if is_secret_name(name) and len(value) >= _SHORTEST and value in text:
            text = text.replace(value, REDACTED)
    return redact_keys(redact(text))


def hide_in(value: Any) -> Any:
    """Return plain data without secrets."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {hide(str(name)): hide_in(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [hide_in(each) for each in value]
    return value
