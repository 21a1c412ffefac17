"""The `telic` command."""

from __future__ import annotations

import typer

from telic.cli import (
    bench,
    control,
    doctor,
    envs,
    export,
    mcp,
    orders,
    play,
    plugin,
    quantities,
    run,
    runs,
    search,
    sessions,
    show,
    study,
    train,
)

app = typer.Typer(
    name="telic",
    help="Train policies from rewards: fast, exact, resumable.",
    epilog="Start with: telic train HalfCheetah-v5      Ask any command: telic COMMAND --help",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

for module in (
    run,
    train,
    search,
    orders,
    sessions,
    control,
    runs,
    show,
    play,
    export,
    envs,
    quantities,
    bench,
    study,
    plugin,
    mcp,
    doctor,
):
    module.register(app)


@app.callback(invoke_without_command=True)
def version(
    show_version: bool = typer.Option(False, "--version", help="Print the version.", is_eager=True),
) -> None:
    """Train policies from rewards: fast, exact, resumable."""
    if show_version:
        from telic import __version__

        typer.echo(f"telic {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line."""
    app()
