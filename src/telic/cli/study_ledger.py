"""telic study ledger: verify the record of a study, and anchor it where it cannot be rewritten."""

from __future__ import annotations

from typing import Annotated

import typer

from telic.cli.options import AsJson, Debug
from telic.cli.output import command, console, print_json
from telic.cli.study_options import HERE, Root, Study, Task, find_study


def register(app: typer.Typer) -> None:
    """Add the commands."""
    from telic.studies.offline import launch_free

    ledger = typer.Typer(help="The append-only record of the study.", no_args_is_help=True)
    ledger.command("verify")(command(launch_free(verify)))
    ledger.command("anchor")(command(launch_free(anchor)))
    app.add_typer(ledger, name="ledger")


def verify(
    collect: Annotated[
        bool,
        typer.Option("--collect", help="Put files aside that a crash left uncommitted a week ago."),
    ] = False,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Recompute the chain of the ledger; says which line is bad. Exit code 5 when one is."""
    from telic.studies.git_notes import require_noted
    from telic.studies.ledger import Ledger
    from telic.studies.orphans import collect_orphans

    ledger = Ledger(find_study(root, task, study))
    check = ledger.verify()
    if as_json and not check.ok:
        print_json(check.model_dump(mode="json"))
        raise typer.Exit(5)
    ledger.require_intact()
    noted = require_noted(ledger)
    collected = collect_orphans(ledger) if collect else ()
    if as_json:
        found = {"git_notes": noted, "collected": list(collected)}
        print_json({**check.model_dump(mode="json"), **found})
        return
    console.print(f"[green]✓[/] {check.events} events, head {check.head.hash[:12]}")
    anchors = f"{check.anchors_proven} proven by your key"
    if check.anchors_of_other_keys:
        anchors += f", {check.anchors_of_other_keys} not checkable here (another key)"
    console.print(f"anchors: {anchors}; {noted} in git notes")
    for each in collected:
        console.print(f"put aside: {each}")


def anchor(
    git_note: Annotated[
        bool, typer.Option("--git-note", help="Also write the head into a note of the commit.")
    ] = False,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Sign the head of the ledger now; with a git note a copy of it leaves with the repository."""
    from telic.studies.git_notes import note_head
    from telic.studies.ledger import Ledger

    ledger = Ledger(find_study(root, task, study))
    event = ledger.anchor()
    commit = note_head(ledger) if git_note else None
    if as_json:
        print_json({**event.data, "commit": commit})
        return
    console.print(f"[green]✓[/] line {event.data['head']['seq']} is anchored")
    if commit is not None:
        console.print(f"noted at commit {commit[:12]} (git push origin refs/notes/telic)")
