"""MCP server that provides telic as tools, resources and prompts for coding agents.

This module only starts the server. All other modules of this package need the `mcp` package.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from telic.core.request import RunsRequest, location, option
from telic.core.verb import verb
from telic.errors import MissingExtra

_EXAMPLES = """
claude mcp add telic -- telic mcp serve
claude mcp add telic -- ssh MACHINE telic mcp serve --root REPOSITORY
The server only reads and writes files, unless it is started with [bold]--allow-launch[/].
"""


class _ServeRequest(RunsRequest):
    """Settings of the server."""

    root: Path = location("Repository folder.", "--root", default=Path())
    allow_launch: bool = option(
        "Also provide tools that start runs and sessions.", "--allow-launch", default=False
    )


@verb(_ServeRequest, examples=_EXAMPLES)
def serve_mcp(request: _ServeRequest) -> None:
    """Serve studies, sessions and searches as tools, resources and prompts over stdio."""
    if find_spec("mcp") is None:
        raise MissingExtra("mcp", "mcp", "Serving coding agents")
    import anyio

    from telic.mcp._workplace import ServerContext
    from telic.mcp.server import serve_stdio

    root, runs_dir = request.root.absolute(), Path(request.runs_dir)
    runs = runs_dir if runs_dir.is_absolute() else root / runs_dir
    anyio.run(serve_stdio, ServerContext(root, runs, request.allow_launch))
