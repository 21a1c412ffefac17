"""Serve over HTTP on this machine only: a token for every request, and no other host's pages."""

from __future__ import annotations

import hmac
import ipaddress
import os
import secrets
import socket

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from telic.errors import UsageError
from telic.mcp.workplace import Server

PATH = "/mcp"
TOKEN_VARIABLE = "TELIC_MCP_TOKEN"
_LEAST_LENGTH = 16
_BEARER = "bearer "


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
        return None


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
        application(server, token, port), log_level="warning", lifespan="on", access_log=False
    )
    uvicorn.Server(config).run(sockets=[listening])


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
