"""The server: every tool, resource and prompt, in one fixed order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.server import MCPServer

from telic import __version__
from telic.mcp import background, order_tools, prompts, resources, verb_tools, work
from telic.mcp.adding import Server
from telic.mcp.secrecy import keep_secrets
from telic.mcp.workplace import Workplace

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
    order_tools.register(server)
    verb_tools.register(server, verb_tools.REQUESTS)
    work.register(server)
    if place.allow_launch:
        verb_tools.register(server, verb_tools.LAUNCHES)
        background.register(server)
    resources.register(server, place)
    prompts.register(server)
    return server
