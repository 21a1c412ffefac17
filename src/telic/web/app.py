"""The dashboard's server: the API under /api, the pages built into the package, one socket."""

from __future__ import annotations

import gzip
import logging
import socket
import threading
import webbrowser
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from telic import __version__
from telic.connections import BoundedConnection, answer_until_stopped
from telic.core.config import Record
from telic.errors import MissingFile, Refused, TelicError, UnknownName, UsageError
from telic.web import (
    artefacts,
    benchmarks,
    comparisons,
    details,
    gate,
    iterations,
    lists,
    live,
    machine,
    playback,
    questions,
    series,
    start,
    streams,
    trackings,
    verb_routes,
)
from telic.web.gate import API, Grant, ShareLinks, WebGate
from telic.web.place import WebPlace

STATIC = Path(__file__).parent / "static"
_PARTS = (
    *(lists, details, iterations, streams, series, artefacts, playback, questions, comparisons),
    *(live, trackings, benchmarks, start, machine, gate, verb_routes),
)
_log = logging.getLogger("telic.web")
_FOREVER = "public, max-age=31536000, immutable"
"""files whose names hold their hash"""
_PRESSED = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""files that become smaller, and what they are"""
INVALID = "The request is not valid."
_ENGINE = "application/wasm"
_NOT_BUILT = """The pages of the dashboard are not part of this installation.

Build them once with: make web (needs Node 20 or newer). The API under /api works without them.
"""


class ApiError(Record):
    """Why something was not done, and what to do."""

    message: str
    hint: str | None = None


class ServerFacts(Record):
    """What a page needs to know of the server."""

    version: str
    runs_dir: str
    root: str
    is_read_only: bool
    """whether this is a share link, which changes nothing"""
    shared: str | None
    """the one thing that a share link shows"""


_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ApiError} for status in (400, 401, 403, 404, 409, 413, 422)
}


def make_app(place: WebPlace) -> FastAPI:
    """Return the application without its gate."""
    app = FastAPI(
        title="telic",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{API}/openapi.json",
        responses=_ERRORS,
        generate_unique_id_function=lambda route: route.name,
    )
    for part in _PARTS:
        app.include_router(part.routes(place), prefix=API)
    _explain(app)

    @app.get(f"{API}/about", tags=["about"])
    def about(request: Request) -> ServerFacts:
        """Say what this server is."""
        grant: Grant = request.scope.get("grant", Grant())
        return ServerFacts(
            version=__version__,
            runs_dir=str(place.runs_dir) if grant.is_full else "",
            root=str(place.root) if grant.is_full else "",
            is_read_only=not grant.is_full,
            shared=grant.thing,
        )

    @app.get("/{path:path}", include_in_schema=False)
    def page(path: str, request: Request) -> Response:
        """Return a file of the pages; every other address is the page's own."""
        return _page(path, "gzip" in request.headers.get("accept-encoding", ""))

    return app


def gated(place: WebPlace, token: str) -> ASGIApp:
    """Return the application behind its gate."""
    return WebGate(make_app(place), token, ShareLinks(place).thing)


def _page(path: str, takes_gzip: bool) -> Response:
    files = {str(file.relative_to(STATIC)): file for file in STATIC.rglob("*") if file.is_file()}
    if f"/{path}".startswith(f"{API}/"):
        return JSONResponse({"message": "There is no such route.", "hint": None}, 404)
    if "index.html" not in files:
        return PlainTextResponse(_NOT_BUILT, 404)
    file = files.get(path) or files.get(f"{path}.gz", files["index.html"])
    headers = {"cache-control": _FOREVER if "assets" in file.parts else "no-cache"}
    packed = {"content-encoding": "gzip", "vary": "accept-encoding"}
    if file.suffix == ".gz":  # engines: compressed when they were built
        if takes_gzip:
            return FileResponse(file, media_type=_ENGINE, headers=headers | packed)
        return Response(gzip.decompress(file.read_bytes()), media_type=_ENGINE, headers=headers)
    if not takes_gzip or file.suffix not in _PRESSED:
        return FileResponse(file, headers=headers)
    headers |= packed
    content = _pressed(file, file.stat().st_mtime_ns)
    return Response(content, media_type=_PRESSED[file.suffix], headers=headers)


@lru_cache(maxsize=128)
def _pressed(file: Path, changed: int) -> bytes:
    """Return a file as it is sent; `changed` tells it from what it was before a new build."""
    return gzip.compress(file.read_bytes(), 6, mtime=0)


def _explain(app: FastAPI) -> None:
    """Let every error be one paragraph and what to do."""

    @app.exception_handler(TelicError)
    def telic_error(request: Request, error: TelicError) -> Response:
        return _told(_status(error), error.message, error.hint)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Response:
        faults = [
            f"{'.'.join(str(part) for part in fault['loc'][1:]) or 'the body'}: {fault['msg']}"
            for fault in error.errors()[:5]
        ]
        return _told(422, f"{INVALID} {'; '.join(faults)}.", None)

    @app.exception_handler(ValidationError)
    def damaged(request: Request, error: ValidationError) -> Response:
        _log.warning("%s: a file is no %s", request.url.path, error.title)
        return _told(409, f"A file of it is damaged: what was read is no {error.title}.", None)

    @app.exception_handler(HTTPException)
    def http_error(request: Request, error: HTTPException) -> Response:
        return _told(error.status_code, str(error.detail), None)

    @app.exception_handler(Exception)
    def bug(request: Request, error: Exception) -> Response:
        _log.exception("%s %s failed", request.method, request.url.path)
        return _told(500, "This is a fault in telic; the server's terminal says more.", None)


def _told(status: int, message: str, hint: str | None) -> Response:
    clean = [part and part.encode("utf-8", "replace").decode() for part in (message, hint)]
    return JSONResponse({"message": clean[0], "hint": clean[1]}, status)


def _status(error: TelicError) -> int:
    if isinstance(error, UnknownName | MissingFile):
        return 404
    if isinstance(error, Refused):
        return 409
    return 422 if isinstance(error, UsageError) else 409


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
    threading.Thread(target=place.index.table, daemon=True).start()  # read before the first request
    if opens is not None:
        threading.Timer(0.5, webbrowser.open, [opens]).start()
    app = gated(place, token)
    answer_until_stopped(app, listening, http=ViewerConnection, server_header=False)
