"""Dashboard to monitor and control all work, served by one process on one local port.

This module only contains the operation that starts the server. The other modules need `fastapi`.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from telic.core.request import RunsRequest, location, option
from telic.core.text import names
from telic.core.verb import verb
from telic.errors import MissingExtra, UsageError
from telic.verbs.artifacts import ArtifactRequest, ReportPlace, report

if TYPE_CHECKING:
    from telic.web._static_site import SavedSite

_EXAMPLES = """
telic serve                                          print and open its address
telic serve --no-open --port 8764                    on a remote machine. On yours:
ssh -L 8764:127.0.0.1:8764 MACHINE                   then open the printed address
telic serve --host 0.0.0.0                           print addresses for the local network
telic serve --new-token                              invalidate all open browsers and bookmarks
By default, the server is only reachable from this machine. Every request needs the token in the
address. The token does not expire. Work started from the page continues when the server stops.
"""


class _DashboardRequest(RunsRequest):
    """Settings of the dashboard's server."""

    host: str = option(
        "Address to listen on. 0.0.0.0 allows other machines; tokens are then sent unencrypted.",
        default="127.0.0.1",
    )
    allowed_hosts: tuple[str, ...] = option(
        "Additional host names under which the server is reachable.", default=(), read=names
    )
    port: int = option("Port. 0 selects a free port.", default=8764, minimum=0, maximum=65535)
    opens: bool = option("Open the page in a browser.", "--open/--no-open", default=True)
    new_token: bool = option("Replace the stored token.", "--new-token", default=False)
    root: Path = location("Repository folder, for studies.", "--root", default=Path())


def _require_web() -> None:
    """Raise MissingExtra if the packages required by the dashboard are not installed."""
    for package in ("fastapi", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtra(package, "web", "The dashboard")


class _ArtifactReportRequest(ArtifactRequest):
    """Request to write a report."""

    site: Path | None = option(
        "Export dashboard pages that open from disk, with curves and 3-D episodes, to this folder "
        "instead.",
        default=None,
    )


@verb(_ArtifactReportRequest)
def write_report(request: _ArtifactReportRequest) -> ReportPlace | SavedSite:
    """Write the report of a session, search or study and print its path, or export pages."""
    if request.site is None:
        where = {"runs_dir": request.runs_dir, "root": request.root}
        return report(request.artifact, **where)
    _require_web()
    from telic.web._static_site import write_site

    artifact = request.find("session", "run", "search", "study")
    return write_site(artifact, Path(request.runs_dir), Path(request.root), request.site)


@verb(_DashboardRequest, examples=_EXAMPLES)
def serve(request: _DashboardRequest) -> None:
    """Start the dashboard to describe behaviors, monitor training and give feedback.

    The token is read from TELIC_WEB_TOKEN, or else from a file on this machine.
    """
    _require_web()
    from telic.web._connections import addresses_of, find_token, is_own_listener, listen
    from telic.web.app import address_of, serve_until_stopped

    token = find_token(rotate=request.new_token)
    try:
        listening = listen(request.host, request.port)
    except UsageError as error:
        address = f"http://{request.host}:{request.port}/?token={token}"
        hint = f"A dashboard is already running there. Open it with: {address}"
        if not is_own_listener(request.port):  # another user's server must not get the token
            hint = "Choose another port with --port."
        raise UsageError(error.message, hint=error.hint or hint) from None
    own, more = addresses_of(listening), request.allowed_hosts
    pages = [f"{address_of(listening, x)}/?token={token}" for x in (*own, *more) or (None,)]
    sys.stdout.write("".join(f"telic: {page}\n" for page in pages))
    sys.stdout.flush()
    runs_dir, opens = Path(request.runs_dir), pages[0] if request.opens else None
    serve_until_stopped(runs_dir, request.root, listening, token, opens, *own, *more)
