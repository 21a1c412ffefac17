"""telic mcp: serve telic to coding agents and other MCP clients."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from telic.cli.options import RUNS, Debug, RunsDir
from telic.cli.output import command, errors
from telic.errors import MissingExtra, UnknownName

if TYPE_CHECKING:
    from telic.mcp.adding import Server

_EXAMPLES = """
[bold]Examples[/]

claude mcp add telic -- telic mcp serve

telic mcp serve --transport http --port 8765

The server only reads and writes files, unless it is started with [bold]--allow-launch[/].
"""
_TRANSPORTS = ["stdio", "http"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Serve telic to coding agents.", no_args_is_help=True)
    # A command of its own, and room for more beside it.
    group.callback()(lambda: None)
    group.command("serve", epilog=_EXAMPLES)(command(serve))
    app.add_typer(group, name="mcp")


def serve(
    transport: Annotated[str, typer.Option(help="stdio or http.")] = "stdio",
    host: Annotated[str, typer.Option(help="With http: an address of this machine.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="With http: 0 takes a free one.")
    ] = 8765,
    root: Annotated[Path, typer.Option("--root", help="The repository.")] = Path(),
    allow_launch: Annotated[
        bool, typer.Option("--allow-launch", help="Add the tools that start runs and sessions.")
    ] = False,
    runs_dir: RunsDir = RUNS,
    debug: Debug = False,
) -> None:
    """Serve studies, sessions and searches as tools, resources and prompts.

    With http every request needs the token: the one in TELIC_MCP_TOKEN, or the one printed here.
    """
    if transport not in _TRANSPORTS:
        raise UnknownName("transport", transport, _TRANSPORTS)
    if find_spec("mcp") is None:
        raise MissingExtra("mcp", "mcp", "Serving coding agents")
    from telic.mcp.server import make_server
    from telic.mcp.workplace import Workplace

    runs = runs_dir if runs_dir.is_absolute() else root.absolute() / runs_dir
    server = make_server(Workplace(root.absolute(), runs, allow_launch=allow_launch))
    if transport == "stdio":
        server.run("stdio")
    else:
        _serve_http(server, host, port)


def _serve_http(server: Server, host: str, port: int) -> None:
    from telic.mcp.http import PATH, find_token, listen
    from telic.mcp.http import serve as answer

    token, is_new = find_token()
    listening = listen(host, port)
    name, number = listening.getsockname()[:2]
    address = f"[{name}]" if ":" in name else name
    errors.print(f"telic mcp: http://{address}:{number}{PATH}", soft_wrap=True)
    if is_new:
        errors.print(f"token: {token}", soft_wrap=True)
    answer(server, listening, token)
