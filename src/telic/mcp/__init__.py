"""The MCP server: telic as tools, resources and prompts of a coding agent.

The verb that serves is here; everything else needs the `mcp` package and is loaded by it.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from telic.core.request import RunsRequest, option, place
from telic.core.verb import verb
from telic.errors import MissingExtra

_EXAMPLES = """
claude mcp add telic -- telic mcp serve

telic mcp serve --transport http --port 8765

The server only reads and writes files, unless it is started with [bold]--allow-launch[/].
"""


class ServeRequest(RunsRequest):
    """Where and how to serve."""

    transport: Literal["stdio", "http"] = option("stdio or http.", default="stdio")
    host: str = option("With http: an address of this machine.", default="127.0.0.1")
    port: int = option("With http: 0 takes a free one.", default=8765, minimum=0, maximum=65535)
    root: Path = place("The repository.", "--root", default=Path())
    allow_launch: bool = option(
        "Add the tools that start runs and sessions.", "--allow-launch", default=False
    )


@verb(ServeRequest, examples=_EXAMPLES)
def serve(request: ServeRequest) -> None:
    """Serve studies, sessions and searches as tools, resources and prompts.

    With http every request needs the token: the one in TELIC_MCP_TOKEN, or the one printed here.
    """
    if find_spec("mcp") is None:
        raise MissingExtra("mcp", "mcp", "Serving coding agents")
    from telic.mcp.server import make_server
    from telic.mcp.workplace import Workplace

    root, runs_dir = request.root.absolute(), Path(request.runs_dir)
    runs = runs_dir if runs_dir.is_absolute() else root / runs_dir
    server = make_server(Workplace(root, runs, allow_launch=request.allow_launch))
    if request.transport == "stdio":
        server.run("stdio")
        return
    from telic.connections import find_token, listen
    from telic.mcp import http

    token = find_token(http.TOKEN_VARIABLE, "mcp-token")
    listening = listen(request.host, request.port)
    name, number = listening.getsockname()[:2]
    address = f"[{name}]" if ":" in name else name
    sys.stderr.write(f"telic mcp: http://{address}:{number}{http.PATH}\n")
    if http.TOKEN_VARIABLE not in os.environ:
        sys.stderr.write(f"token: {token}\n")
    sys.stderr.flush()
    http.serve(server, listening, token)
