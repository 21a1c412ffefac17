"""telic export: the policy leaves the house."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from telic.cli.options import RUNS, AsJson, Debug, MemberName, RunName, RunsDir
from telic.cli.output import command, console, print_facts, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export")(command(export))


def export(
    run: RunName = "latest",
    member: MemberName = None,
    step: Annotated[int | None, typer.Option(help="Checkpoint; the best one if left out.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to write; default RUN/export.")
    ] = None,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write ONNX and TorchScript with the normaliser inside, and a card; all checked to 1e-5."""
    from telic.storage.layout import find_run
    from telic.training.export.bundle import export_run

    made = export_run(find_run(runs_dir, run), member=member, step=step, out=out)
    if as_json:
        print_json(made)
    else:
        console.print("exported and verified")
        print_facts(made)
