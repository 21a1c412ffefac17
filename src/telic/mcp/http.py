"""Serve over HTTP on this machine only: a token for every request, no other hosts or origins."""

from __future__ import annotations

import socket

from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from telic.connections import BoundedConnection, Refusal, answer_until_stopped, token_refusal
from telic.mcp.workplace import Server

PATH = "/mcp"
TOKEN_VARIABLE = "TELIC_MCP_TOKEN"
BODY_BYTES = 16 << 20


class Gate:
    """Pass on requests that have the token and a bounded body."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a refusal, or pass the request on."""
        refusal: Refusal | None = None
        if scope["type"] == "http":
            refusal = token_refusal(Headers(scope=scope), self._token, BODY_BYTES)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else None
        await PlainTextResponse(refusal.message, refusal.status, headers)(scope, receive, send)


def application(server: Server, token: str, port: int) -> ASGIApp:
    """Return the server behind its gate; hosts and origins are checked by the MCP library."""
    hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    security = TransportSecuritySettings(
        allowed_hosts=hosts, allowed_origins=[f"http://{each}" for each in hosts]
    )
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security)
    return Gate(app, token)


def serve(server: Server, listening: socket.socket, token: str) -> None:
    """Answer requests until the process is stopped."""
    app = application(server, token, listening.getsockname()[1])
    answer_until_stopped(app, listening, http=BoundedConnection, lifespan="on")
