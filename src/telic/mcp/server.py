"""The server: every tool, resource and prompt in one fixed order, and no secret in any answer."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver.prompts import Prompt
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from telic import __version__
from telic.llm.keys import redact
from telic.mcp import orders, resources, verb_tools, work
from telic.mcp.workplace import Server, Workplace
from telic.plugin.package import Page, read_source
from telic.studies.launch.command import REDACTED, is_secret_name, redact_keys

_SHORTEST = 8  # a shorter value is a placeholder; removing it would tear ordinary words apart
_INSTRUCTIONS = """\
telic runs experiments with evidence. A study has a contract, candidates, runs, audits and a ledger.
Call loop_step: it says the next safe action and why. Do that, then call it again.
You draft and check; a person approves, amends and accepts: use the request_ tools, which ask them.
next_work_order gives you what a session, a search or a study wants written."""


def make_server(place: Workplace) -> Server:
    """Return the server of a workplace; nothing is read or started until a client asks."""

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[Workplace]:
        yield place

    server: Server = MCPServer(
        "telic",
        title="telic",
        instructions=_INSTRUCTIONS,
        version=__version__,
        lifespan=lifespan,
        log_level="WARNING",
        middleware=[keep_secrets],
    )
    verb_tools.register(server, verb_tools.TOOLS)
    orders.register(server)
    verb_tools.register(server, verb_tools.REQUESTS)
    work.register(server)
    if place.allow_launch:
        verb_tools.register(server, verb_tools.LAUNCHES)
        work.register_starting(server)
    resources.register(server, place)
    add_prompts(server)
    return server


def add_prompts(server: Server) -> None:
    """Add a prompt for every skill, in the order of their names."""
    source = read_source()
    for page in source.skills:
        server.add_prompt(_prompt(page, source.rules))


def _prompt(page: Page, rules: str) -> Prompt:
    def render() -> str:
        return f"{page.text.rstrip()}\n\n{rules}"

    return Prompt.from_function(render, name=page.name, description=page.head["description"])


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
