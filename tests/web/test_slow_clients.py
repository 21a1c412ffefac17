"""Clients that are slow, endless or many, against the server that listens on this machine."""

import socket
import threading

import httpx2
import pytest
import uvicorn

from telic.web import _connections as connections
from telic.web._gate import WebGate

TOKEN = "t" * 20


async def application(scope, receive, send):
    """Answer with the size of the body."""
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


@pytest.fixture
def served(monkeypatch):
    """The server with little patience, in a thread; returns its port."""
    monkeypatch.setattr(connections, "_TIMEOUT_S", dict.fromkeys(connections._TIMEOUT_S, 1.5))
    monkeypatch.setattr(connections.BoundedConnection, "most", 8)
    listening = connections.listen("127.0.0.1", 0)
    port = listening.getsockname()[1]
    servers = []

    class Kept(uvicorn.Server):
        def __init__(self, config):
            super().__init__(config)
            servers.append(self)

    monkeypatch.setattr(uvicorn, "Server", Kept)
    thread = threading.Thread(
        target=connections.answer_until_stopped,
        args=(WebGate(application, TOKEN), listening),
    )
    thread.start()
    yield port
    servers[0].should_exit = True
    thread.join(120)
    assert not thread.is_alive()


def connect(port: int, text: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=120)
    client.sendall(text)
    return client


def head(port: int, *lines: str) -> bytes:
    first = ("POST /api/any HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Authorization: Bearer {TOKEN}")
    return "\r\n".join((*first, *lines)).encode()


def is_closed(client: socket.socket) -> bool:
    """Wait until the server has closed the connection; False if it is still open in the end."""
    try:
        while client.recv(1 << 16):
            pass  # the rest of an answer
        return True
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def ask(port: int, **options) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {TOKEN}", **options.pop("headers", {})}
    return httpx2.post(f"http://127.0.0.1:{port}/api/any", headers=headers, **options)


def test_nothing_half_a_line_half_the_headers_and_half_a_body_are_given_up(served):
    whole = head(served, "Content-Length: 100", "", "") + b"half"
    clients = [connect(served), connect(served, b"PO"), connect(served, head(served))]
    clients.append(connect(served, whole))
    for client in clients:
        assert is_closed(client)
        client.close()
    assert ask(served, content=b"12345").text == "5"


def test_a_header_byte_now_and_then_does_not_keep_a_connection(served):
    client = connect(served, head(served) + b"\r\nX-Slow: ")
    client.settimeout(0.05)
    sent, closed = 0, False
    while not closed and sent < 400:
        try:
            client.sendall(b"x")
            closed = client.recv(1) == b""
        except TimeoutError:
            sent += 1
        except (BrokenPipeError, ConnectionResetError):
            closed = True
    assert closed
    client.close()


def test_slow_clients_give_way_to_new_ones(served, monkeypatch):
    monkeypatch.setattr(connections, "_TIMEOUT_S", dict.fromkeys(connections._TIMEOUT_S, 60.0))
    slow = [connect(served, b"POST /api/any HTTP/1.1\r\nHost: ") for _ in range(40)]
    for _ in range(3):
        assert ask(served, content=b"123").text == "3"
    for client in slow:
        client.close()


def test_endless_headers_and_bodies_are_refused(served):
    # What it says on closing may be lost while there is something that it has not read.
    gone = pytest.raises((BrokenPipeError, ConnectionResetError))
    with connect(served, head(served) + b"\r\nX-Long: ") as client, gone:
        while True:
            client.sendall(b"x" * 4096)
    large = {"Content-Length": str((4 << 20) + 1)}
    assert b"413" in _first_line(served, large)
    assert b"411" in _first_line(served, {"Transfer-Encoding": "chunked"})


def _first_line(port: int, headers: dict[str, str]) -> bytes:
    lines = (f"{name}: {value}" for name, value in headers.items())
    client = connect(port, head(port, *lines, "", ""))
    try:
        return client.recv(1 << 16).split(b"\r\n")[0]
    finally:
        client.close()
