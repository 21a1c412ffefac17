"""Server of the dashboard that provides the API under /api and the built pages."""

from __future__ import annotations

import contextlib
import gzip
import html
import logging
import os
import socket
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from telic import __version__
from telic.core.config import Record
from telic.errors import MissingFile, TelicError, UnknownName, UsageError
from telic.web import _artifacts as artifacts
from telic.web import (
    _benchmarks,
    _curves,
    _files,
    _machine,
    _playback,
    _start,
    _streams,
    _verb_routes,
)
from telic.web._connections import answer_until_stopped
from telic.web._gate import API, WebGate
from telic.web._place import WebPlace

STATIC = Path(__file__).parent / "static"
_PARTS = (
    *(artifacts, _files, _curves, _streams, _playback),
    *(_benchmarks, _start, _machine, _verb_routes),
)
_log = logging.getLogger("telic.web")
_COMPRESSED = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""media types of files to compress for transfer"""
_WASM = "application/wasm"
_NOT_BUILT = """This installation does not include the pages of the dashboard.

Build them once with: make web (needs Node 20 or newer). The API under /api works without them.
"""


class ApiError(Record):
    """Error message and hint."""

    message: str
    hint: str | None = None


class ServerFacts(Record):
    """Information about the server."""

    version: str
    runs_dir: str
    root: str


_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ApiError} for status in (400, 401, 403, 404, 409, 413, 422)
}


def make_app(place: WebPlace) -> FastAPI:
    """Return the application without access control."""
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
    for kind in (TelicError, RequestValidationError, ValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _explain)

    @app.get(f"{API}/about", tags=["about"])
    def about() -> ServerFacts:
        """Return information about this server."""
        return ServerFacts(version=__version__, runs_dir=str(place.runs_dir), root=str(place.root))

    @app.get("/{path:path}", include_in_schema=False)
    def page(path: str, request: Request) -> Response:
        """Return the built file at a path, or the application's main page for any other path."""
        return _page(path, "gzip" in request.headers.get("accept-encoding", ""))

    return app


def gated(place: WebPlace, token: str, hosts: Sequence[str] = ()) -> ASGIApp:
    """Return the application with access control."""
    return WebGate(make_app(place), token, hosts)


def _page(path: str, takes_gzip: bool) -> Response:
    if f"/{path}".startswith(f"{API}/"):
        return JSONResponse({"message": "This route does not exist.", "hint": None}, 404)
    built = {str(file.relative_to(STATIC)): file for file in STATIC.rglob("*") if file.is_file()}
    if "index.html" not in built:
        return PlainTextResponse(_NOT_BUILT, 404)
    file = built.get(path) or built.get(f"{path}.gz", built["index.html"])
    is_hashed = "assets" in file.parts  # the name contains a content hash
    headers = {"cache-control": "public, max-age=31536000, immutable" if is_hashed else "no-cache"}
    packed = {"content-encoding": "gzip", "vary": "accept-encoding"}
    if file.suffix == ".gz":  # engines, compressed at build time
        if takes_gzip:
            return FileResponse(file, media_type=_WASM, headers=headers | packed)
        return Response(gzip.decompress(file.read_bytes()), media_type=_WASM, headers=headers)
    if not takes_gzip or file.suffix not in _COMPRESSED:
        return FileResponse(file, headers=headers)
    content = _compressed(file, file.stat().st_mtime_ns)
    return Response(content, media_type=_COMPRESSED[file.suffix], headers=headers | packed)


@lru_cache(maxsize=128)
def _compressed(file: Path, changed: int) -> bytes:
    """Return a file compressed for transfer. `changed` is part of the cache key."""
    return gzip.compress(file.read_bytes(), 6, mtime=0)


def _explain(request: Request, error: Exception) -> Response:
    """Return an error as one paragraph and a hint."""
    hint: str | None = None
    match error:
        case TelicError():
            message, hint = error.message, error.hint
            is_missing = isinstance(error, UnknownName | MissingFile)
            status = 404 if is_missing else 422 if isinstance(error, UsageError) else 409
        case RequestValidationError():
            faults = [
                f"{'.'.join(str(part) for part in fault['loc'][1:]) or 'the body'}: {fault['msg']}"
                for fault in error.errors()[:5]
            ]
            status, message = 422, f"Invalid request. {'; '.join(faults)}."
        case ValidationError():
            _log.warning("%s: damaged %s", request.url.path, error.title)
            status, message = 409, f"A file is damaged: it is not a valid {error.title}."
        case HTTPException():
            status, message = error.status_code, str(error.detail)
        case _:
            _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
            status, message = 500, "This is a bug in telic. See the server's terminal for details."
    clean = [part and part.encode("utf-8", "replace").decode() for part in (message, hint)]
    return JSONResponse({"message": clean[0], "hint": clean[1]}, status)


def address_of(listening: socket.socket, host: str | None = None) -> str:
    """Return the browser URL of a listening socket, at one of its hosts."""
    name, port = host or listening.getsockname()[0], listening.getsockname()[1]
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def serve_until_stopped(
    runs_dir: Path, root: Path, listening: socket.socket, token: str, opens: str | None, *hosts: str
) -> None:
    """Serve until the process is stopped. `opens` is a URL to open in the browser."""
    place = WebPlace(runs_dir.absolute(), root.absolute())
    threading.Thread(target=place.listed, daemon=True).start()  # preload before the first request
    with contextlib.ExitStack() as kept:
        if opens is not None:
            page = kept.enter_context(_opening_page(opens, runs_dir))
            threading.Timer(0.5, webbrowser.open, [page.as_uri()]).start()
        answer_until_stopped(gated(place, token, hosts), listening)


@contextlib.contextmanager
def _opening_page(address: str, folder: Path) -> Iterator[Path]:
    """Write a page that only the user can read and that redirects to a URL with a token.

    Other users can read a browser's command line, but not this file. The runs folder is
    preferred because packaged browsers may not read hidden and temporary folders.
    """
    place = folder.absolute() if os.access(folder, os.W_OK) else None
    with NamedTemporaryFile("w", suffix=".html", prefix=".open-", dir=place) as file:  # mode 0600
        file.write(f'<meta http-equiv="refresh" content="0;url={html.escape(address)}">')
        file.flush()
        yield Path(file.name)
