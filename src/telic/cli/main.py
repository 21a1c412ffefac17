"""The `telic` command: every verb by its words, in panels."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from telic.cli.commands import CommandMap
from telic.verbs.catalogue import PANELS, VERBS, VerbGroup

_WHAT = "Describe a behaviour, get a trained policy, and the evidence that it does what you asked."
_MCP = VerbGroup("Serve telic to coding agents.", {"serve": "serve"})


class RootGroup(TyperGroup):
    """All commands; nothing of a command is loaded before it is asked for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        verbs = {**VERBS, "mcp": _MCP}
        panels, title = dict[str, str](), ""
        for word in verbs:
            title = panels[word] = PANELS.get(word, title)
        self.commands = CommandMap(verbs, panels)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the words of the first level."""
        return list(self.commands)


app = typer.Typer(
    name="telic",
    cls=RootGroup,
    help=_WHAT,
    epilog='Start with: telic run "run forward fast"      Ask any command: telic COMMAND --help',
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def version(
    show_version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True),
) -> None:
    """Answer without a command."""
    if show_version:
        from telic import __version__

        typer.echo(f"telic {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line."""
    app()
