"""The process that serves: an application on a socket, until it is stopped."""

from __future__ import annotations

import hashlib
import socket
import threading
import webbrowser
from pathlib import Path

import uvicorn

from telic.connections import HEADER_BYTES, LEAVING_S, BoundedConnection
from telic.robots.catalogue import cache_folder
from telic.web.app import gated
from telic.web.place import WebPlace


class ViewerConnection(BoundedConnection):
    """A connection of a page; each viewer of a live session holds one open."""

    most = 512


def address_of(listening: socket.socket) -> str:
    """Return the address of a socket as a browser takes it."""
    name, port = listening.getsockname()[:2]
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def serve_until_stopped(
    runs_dir: Path, root: Path, listening: socket.socket, token: str, opens: str | None = None
) -> None:
    """Answer requests until the process is stopped.

    Args:
        runs_dir: the folder of runs.
        root: the repository of the studies.
        listening: where to answer.
        token: what every request has to bring.
        opens: an address that the browser opens; None: it opens nothing.
    """
    place = WebPlace(runs_dir.absolute(), root.absolute())
    threading.Thread(target=_look_around, args=[place], daemon=True).start()
    config = uvicorn.Config(
        gated(place, token),
        http=ViewerConnection,
        ws="none",
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_graceful_shutdown=LEAVING_S,
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    if opens is not None:
        threading.Timer(0.5, webbrowser.open, [opens]).start()
    uvicorn.Server(config).run(sockets=[listening])


def _look_around(place: WebPlace) -> None:
    """Read what there is before somebody asks, from where an earlier server left off."""
    mark = hashlib.sha256(str(place.runs_dir.resolve()).encode()).hexdigest()[:16]
    place.index.remember(cache_folder() / "index" / f"{mark}.jsonl")
    place.index.table()
