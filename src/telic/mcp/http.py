"""Serve over HTTP on this machine only: a token for every request, and no other host's pages.

Whoever connects has bounded time to say what it wants, and bounded room to say it in; a connection
that is slow about it gives way to a new one when there are many.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import socket
from typing import Any

import h11
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from telic.errors import UsageError
from telic.mcp.workplace import Server

PATH = "/mcp"
TOKEN_VARIABLE = "TELIC_MCP_TOKEN"
_LEAST_LENGTH = 16
_BEARER = "bearer "
_HEADER_BYTES = 16 << 10
_BODY_BYTES = 16 << 20
_CONNECTIONS = 64
_LEAVING_S = 3
_PATIENCE_S: dict[object, float] = {h11.IDLE: 10.0, h11.SEND_BODY: 30.0}
"""how long a client may take for the lines before a request's body, and then for its body"""


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


class BoundedConnection(H11Protocol):
    """A connection that is closed when a request takes too long to arrive."""

    waits_since: float | None = None
    """when it began to wait for a request; None while it does not"""
    _waits_for: type[Any] | None = None
    _timer: Any = None

    def connection_made(self, transport: Any) -> None:
        """Take a new connection; among too many, one that is slow to ask gives way."""
        super().connection_made(transport)
        if len(self.connections) > _CONNECTIONS:
            others = (each for each in self.connections if isinstance(each, BoundedConnection))
            slow = [(each.waits_since, id(each), each) for each in others if each.waits_since]
            (min(slow)[2] if slow else self).transport.abort()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Go on to the next request, part of which may have arrived meanwhile."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._end_timer()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Let the clock run from the beginning of each part of a request to its end."""
        part = self.conn.their_state
        if part is self._waits_for:
            return
        self._end_timer()
        if part in _PATIENCE_S:
            self._waits_for, self.waits_since = part, self.loop.time()
            self._timer = self.loop.call_later(_PATIENCE_S[part], self.transport.abort)

    def _end_timer(self) -> None:
        self._waits_for = self.waits_since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def find_token() -> tuple[str, bool]:
    """Return the token of the environment, or a new one, and whether it is new.

    Raises UsageError for one that can be guessed.
    """
    given = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not given:
        return secrets.token_urlsafe(32), True
    if len(given) < _LEAST_LENGTH:
        raise UsageError(
            f"{TOKEN_VARIABLE} is too short.",
            hint=f"Give it {_LEAST_LENGTH} characters or more, or unset it for a new one.",
        )
    return given, False


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on this machine; raises UsageError for any other address."""
    if not _is_loopback(host):
        raise UsageError(
            f"{host} can be reached from other machines.",
            hint="Serve on 127.0.0.1, and forward the port through SSH from elsewhere.",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise UsageError(f"Port {port} of {host} is not free: {error.strerror}.") from None
    made.listen()
    return made


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
    config = uvicorn.Config(
        application(server, token, port),
        http=BoundedConnection,
        ws="none",
        h11_max_incomplete_event_size=_HEADER_BYTES,
        timeout_graceful_shutdown=_LEAVING_S,
        log_level="warning",
        lifespan="on",
        access_log=False,
    )
    uvicorn.Server(config).run(sockets=[listening])


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
