"""Keep secrets out of every answer: one place that all results and errors pass through."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from telic.llm.keys import redact
from telic.studies.launch.environment import REDACTED, is_secret_name, redact_keys

_SHORTEST = 8  # a shorter value is a placeholder; removing it would tear ordinary words apart


async def keep_secrets(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Remove from a result, or from an error's message, everything that is a secret."""
    try:
        result = await call_next(ctx)
    except MCPError as error:
        clean = hide_in(error.error.model_dump())
        raise MCPError(clean["code"], clean["message"], clean["data"]) from None
    if isinstance(result, BaseModel):
        data = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    else:
        data = result
    # Nearly every answer is clean, and one look at all of it is quicker than many at its parts.
    return result if _is_clean(data) else hide_in(data)


def hide(text: str) -> str:
    """Return a text without the secrets of this process's environment, and without key shapes."""
    return _hide(text, _secrets())


def hide_in(value: Any) -> Any:
    """Return plain data without secrets."""
    return _hide_in(value, _secrets())


def _is_clean(data: Any) -> bool:
    text = json.dumps(data, ensure_ascii=False)
    # As JSON writes them, a quote or a backslash in a secret looks different.
    known = [json.dumps(each, ensure_ascii=False)[1:-1] for each in _secrets()]
    return _hide(text, known) == text


def _secrets() -> list[str]:
    """Return what the environment keeps under names of secrets, the longest first."""
    found = {value for name, value in os.environ.items() if is_secret_name(name)}
    return sorted((each for each in found if len(each) >= _SHORTEST), key=len, reverse=True)


def _hide(text: str, known: list[str]) -> str:
    for each in known:
        text = text.replace(each, REDACTED)
    return redact_keys(redact(text))


def _hide_in(value: Any, known: list[str]) -> Any:
    if isinstance(value, str):
        return _hide(value, known)
    if isinstance(value, Mapping):
        return {_hide(str(name), known): _hide_in(each, known) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_hide_in(each, known) for each in value]
    return value
