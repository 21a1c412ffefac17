"""telic study from: a session or a search, told as an ordinary study."""

from __future__ import annotations

from typing import Annotated

import typer

from telic.cli.options import RUNS, AsJson, Debug, RunsDir
from telic.cli.output import command, console, print_facts, print_json
from telic.cli.study_options import HERE, Root


def register(app: typer.Typer) -> None:
    """Add the command; it reads records and writes files, and starts nothing."""
    from telic.studies.offline import launch_free

    app.command("from")(command(launch_free(from_source)))


def from_source(
    source: Annotated[
        str,
        typer.Argument(
            help="Session or search: its folder, its id, the start of one, or 'latest'."
        ),
    ],
    runs_dir: RunsDir = RUNS,
    root: Root = HERE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Tell a session or a search as a study; again, it adds only what is new.

    The source is read and never written to. The study is made under .telic of --root and becomes
    the active one: telic study report, state, candidate show and ledger verify work on it.
    """
    from telic.retelling.sources import find_source
    from telic.retelling.writing import retell

    found = find_source(runs_dir, source)
    told = retell(root, found.source.tell(found.path))
    if as_json:
        print_json(told.model_dump(mode="json"))
        return
    news = f"{told.events} new events" if told.events else "nothing new"
    console.print(f"[green]✓[/] {told.study} is the active study: {news}")
    print_facts(
        {
            "source": f"{told.source} ({told.ended or 'not ended'})",
            "candidates": told.candidates,
            "runs": told.runs,
            "evidence": told.evidence,
            "decisions": told.decisions,
            "trusted": told.incumbent,
            "folder": told.folder,
        }
    )
    console.print("Next: telic study report")
