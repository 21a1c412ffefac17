"""telic plugin: the package for coding agents, made and checked; and the hooks that hosts call."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from telic.cli.options import AsJson, Debug
from telic.cli.output import command, console, print_json

Root = Annotated[Path, typer.Option("--root", help="Folder that holds the catalogues.")]

HERE = Path()


def register(app: typer.Typer) -> None:
    """Add the commands."""
    plugin = typer.Typer(help="Skills, agents and hooks for coding agents.", no_args_is_help=True)
    plugin.command("build")(command(build))
    plugin.command("validate")(command(validate))
    hook = typer.Typer(help="What hosts call; JSON on standard input.", no_args_is_help=True)
    hook.command("before-shell")(command(before_shell))
    hook.command("at-stop")(command(at_stop))
    plugin.add_typer(hook, name="hook")
    app.add_typer(plugin, name="plugin")


def build(root: Root = HERE, as_json: AsJson = False, debug: Debug = False) -> None:
    """Write catalogues, manifests, skills, agents and hooks from the one source."""
    from telic.plugin.package import HOME, write_package

    changed = write_package(root)
    if as_json:
        print_json({"plugin": str(root / HOME), "changed": changed})
        return
    for name in changed:
        console.print(name)
    console.print(f"[green]✓[/] {len(changed)} files changed in {root / HOME}")


def validate(root: Root = HERE, as_json: AsJson = False, debug: Debug = False) -> None:
    """Check the package: formats, links, commands, and that there is one way to launch.

    Exit code 4 when something is wrong.
    """
    from typer.main import get_command

    from telic.cli.main import app
    from telic.plugin.checks import problems

    found = problems(root, get_command(app))
    if as_json:
        print_json({"ok": not found, "problems": found})
    for each in found if not as_json else ():
        console.print(f"[red]✗[/] {each}", markup=True, soft_wrap=True)
    if found:
        raise typer.Exit(4)
    if not as_json:
        console.print("[green]✓[/] the package is sound")


def before_shell(debug: Debug = False) -> None:
    """Deny a shell command that would train beside the launch gate."""
    _answer("before-shell")


def at_stop(debug: Debug = False) -> None:
    """Remind an agent that stops while an approved loop has something to do."""
    _answer("at-stop")


def _answer(name: str) -> None:
    from telic.plugin.hooks import answer

    sys.stdout.write(answer(name, sys.stdin.read()))
