"""telic study decide and revert: what a study trusts, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, get_args

import typer

from telic.cli.options import AsJson, Debug
from telic.cli.output import command, console, print_json
from telic.cli.study_options import HERE, Root, Study, Task, find_study

if TYPE_CHECKING:
    from telic.studies.deciding import Decided
    from telic.studies.documents.base import Actor

Name = Annotated[str, typer.Argument(help="Candidate, e.g. c-0003-more-tracking.")]
Because = Annotated[str, typer.Option("--because", help="Why; kept with the decision.")]
Evidence = Annotated[list[str] | None, typer.Option("--evidence", help="What it rests on.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    from telic.studies.offline import launch_free

    app.command("decide")(command(launch_free(decide)))
    app.command("revert")(command(launch_free(revert)))


def decide(
    name: Name,
    verdict: Annotated[str, typer.Argument(help="accept, reject, inconclusive, debug or keep.")],
    because: Because = "",
    audit: Annotated[str | None, typer.Option(help="The audit; the newest if left out.")] = None,
    cause: Annotated[
        str | None,
        typer.Option(help="Reject without an audit: guardrail_breach, falsifier_met, …"),
    ] = None,
    evidence: Evidence = None,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Record a decision that cites evidence; to accept or keep, a person types a code."""
    from telic.errors import UnknownName
    from telic.studies.deciding import decide as record
    from telic.studies.documents.runs import Verdict
    from telic.studies.ledger import Ledger

    known: dict[str, Verdict] = {x: x for x in get_args(Verdict) if x != "revert"}
    if verdict not in known:
        raise UnknownName("verdict", verdict, list(known))
    folder = find_study(root, task, study)
    question = f"{verdict.capitalize()} {name} as the incumbent of {folder.name}?"
    actor = _actor(question, verdict in ("accept", "keep"))
    made = record(
        Ledger(folder),
        name,
        known[verdict],
        actor,
        because,
        evidence=evidence or (),
        audit=audit,
        cause=cause,
    )
    _tell(made, as_json)


def revert(
    name: Name,
    because: Because = "",
    to: Annotated[str | None, typer.Option(help="Whom to trust again; the one before.")] = None,
    evidence: Evidence = None,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Take an accepted candidate back; a person has to say so in a terminal."""
    from telic.studies.deciding import revert as take_back
    from telic.studies.ledger import Ledger

    folder = find_study(root, task, study)
    actor = _actor(f"Revert {name} in {folder.name}?", needs_person=True)
    made = take_back(Ledger(folder), name, actor, because, to=to, evidence=evidence or ())
    _tell(made, as_json)


def _actor(question: str, needs_person: bool) -> Actor:
    """Return who decides; a person proves to be one where the incumbent would move."""
    from telic.studies.human import ask_on_terminal, current_actor

    actor = current_actor()
    if needs_person and actor.kind == "human":
        return ask_on_terminal(question).actor
    return actor


def _tell(made: Decided, as_json: bool) -> None:
    if as_json:
        print_json(made.as_data())
    elif made.recorded:
        console.print(f"[green]✓[/] {made.decision}: {made.candidate}, {made.verdict}")
        console.print(f"incumbent: {made.incumbent or 'none'}")
    else:
        console.print(f"proposed: {made.candidate}, {made.verdict}. {made.why}")
