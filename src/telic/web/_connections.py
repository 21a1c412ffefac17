"""Connections and access token of the server, with limits on addresses and slow clients.

The duration and size of each request are limited. If there are too many connections, a slow
connection is closed to accept a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import secrets
import socket
from pathlib import Path
from typing import Any

import h11
import psutil
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from telic.errors import UsageError

TOKEN_VARIABLE = "TELIC_WEB_TOKEN"
_HEADER_BYTES = 16 << 10
_LEAVING_S = 3
_MIN_LENGTH = 16
"""minimum length of a token"""
_TIMEOUT_S: dict[object, float] = {h11.IDLE: 10.0, h11.SEND_BODY: 30.0}
"""timeouts for a request's header lines and for its body"""


class BoundedConnection(H11Protocol):
    """HTTP connection that is closed if a request takes too long to arrive."""

    most = 512
    """maximum number of connections, of which each viewer of a live session keeps one"""
    waits_since: float | None = None
    """time since which it waits for a request, or None"""
    _waits_for: type[Any] | None = None
    _timer: Any = None

    def connection_made(self, transport: Any) -> None:
        """Accept a connection. If there are too many connections, close a slow one."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            others = (each for each in self.connections if isinstance(each, BoundedConnection))
            slow = [(each.waits_since, id(each), each) for each in others if each.waits_since]
            (min(slow)[2] if slow else self).transport.abort()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Process the received data."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Continue with the next request, which may have arrived partially."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the closed connection."""
        self._end_timer()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Apply the timeout to each part of a request."""
        part = self.conn.their_state
        if part is self._waits_for:
            return
        self._end_timer()
        if part in _TIMEOUT_S:
            self._waits_for, self.waits_since = part, self.loop.time()
            self._timer = self.loop.call_later(_TIMEOUT_S[part], self.transport.abort)

    def _end_timer(self) -> None:
        self._waits_for = self.waits_since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def find_token(rotate: bool = False) -> str:
    """Return the token in TELIC_WEB_TOKEN, or else the token stored on this machine.

    The stored token is a file in the user's state folder that only this user can read. The token
    does not change until it is rotated, so that bookmarks and open tabs work after a restart.
    Raises UsageError if the token is too short.
    """
    given = os.environ.get(TOKEN_VARIABLE, "").strip()
    if given and len(given) < _MIN_LENGTH:
        raise UsageError(
            f"{TOKEN_VARIABLE} is too short.",
            hint=f"Use at least {_MIN_LENGTH} characters, or unset it to use the stored token.",
        )
    if given:
        return given
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    file = Path(base) / "telic" / "web-token"
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not rotate and file.is_file() and not file.is_symlink():
        facts, kept = file.stat(), file.read_text().strip()
        is_private = facts.st_uid == os.getuid() and not facts.st_mode & 0o077
        if is_private and len(kept) >= _MIN_LENGTH:
            return kept
    token, part = secrets.token_urlsafe(32), file.with_name(f".{file.name}-{os.getpid()}")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as made:
        made.write(token)
    part.replace(file)
    return token


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address. Raises UsageError if it is not available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Inherited by connections. Without it, the last packet of a response is delayed by 40 ms.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise UsageError(f"Port {port} of {host} is not available: {error.strerror}.") from None
    made.listen()
    return made


def addresses_of(listening: socket.socket) -> list[str]:
    """Return the addresses at which other machines reach a socket: none if it is loopback only."""
    host = str(listening.getsockname()[0])
    if is_loopback(host):
        return []
    if not ipaddress.ip_address(host).is_unspecified:
        return [host]
    links = [each for link in psutil.net_if_addrs().values() for each in link]
    own = [each.address for each in links if each.family == listening.family]
    return [each for each in own if not is_loopback(each) and "%" not in each]


def is_own_listener(port: int) -> bool:
    """Return whether a process of this user is known to listen on a port."""
    with contextlib.suppress(psutil.Error):
        for each in psutil.net_connections("tcp"):
            if each.laddr and each.laddr.port == port and each.status == psutil.CONN_LISTEN:
                return each.pid is not None and psutil.Process(each.pid).uids().real == os.getuid()
    return False


def answer_until_stopped(app: Any, listening: socket.socket) -> None:
    """Serve requests until the process is stopped, and then drop unfinished requests."""
    config = uvicorn.Config(
        app,
        http=BoundedConnection,
        ws="none",
        h11_max_incomplete_event_size=_HEADER_BYTES,
        timeout_graceful_shutdown=_LEAVING_S,
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_unexpected)
    uvicorn.Server(config).run(sockets=[listening])


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Return False for log records about responses interrupted by the server's shutdown."""
    cut_off = record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not cut_off and "graceful shutdown" not in record.getMessage()


def is_loopback(host: str) -> bool:
    """Return True if an address is only reachable from this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
