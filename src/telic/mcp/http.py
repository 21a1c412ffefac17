"""Serve over HTTP on this machine only: a token for every request, and no other host's pages."""

from __future__ import annotations

import hmac
import socket

from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from telic.connections import BoundedConnection, answer_until_stopped
from telic.mcp.workplace import Server

PATH = "/mcp"
TOKEN_VARIABLE = "TELIC_MCP_TOKEN"
_BEARER = "bearer "
_BODY_BYTES = 16 << 20


class Gate:
    """Lets a request through that names this host, comes from no other page, and has the token."""

    def __init__(self, app: ASGIApp, token: str, hosts: frozenset[str]) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a refusal, or pass the request on."""
        refusal = self._refusal(Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, headers: Headers) -> PlainTextResponse | None:
        if headers.get("host", "").lower() not in self._hosts:
            return PlainTextResponse("This host is not served here.", 421)
        origin = headers.get("origin")
        if origin is not None and origin.lower().removeprefix("http://") not in self._hosts:
            return PlainTextResponse("Pages of other origins are not served.", 403)
        given = headers.get("authorization", "")
        is_bearer = given[: len(_BEARER)].lower() == _BEARER
        # Compared as bytes and in constant time, whatever was sent.
        if not is_bearer or not hmac.compare_digest(given[len(_BEARER) :].encode(), self._token):
            return PlainTextResponse(
                "A token is needed.", 401, headers={"WWW-Authenticate": "Bearer"}
            )
        return self._too_much(headers)

    def _too_much(self, headers: Headers) -> PlainTextResponse | None:
        """Refuse a body that is too large, or does not say how large it is."""
        if "transfer-encoding" in headers:
            return PlainTextResponse("Say how long the body is (Content-Length).", 411)
        if int(headers.get("content-length", "0")) > _BODY_BYTES:
            return PlainTextResponse(f"More than {_BODY_BYTES >> 20} MiB are not read.", 413)
        return None


def application(server: Server, token: str, port: int) -> ASGIApp:
    """Return the server as an application behind its gate."""
    hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]
    security = TransportSecuritySettings(
        allowed_hosts=hosts, allowed_origins=[f"http://{each}" for each in hosts]
    )
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security)
    return Gate(app, token, frozenset(hosts))


def serve(server: Server, listening: socket.socket, token: str) -> None:
    """Answer requests until the process is stopped."""
    port = listening.getsockname()[1]
    app = application(server, token, port)
    answer_until_stopped(app, listening, http=BoundedConnection, lifespan="on")
