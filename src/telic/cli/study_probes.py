"""telic study dr-plan and dr-summary; and what the commands about evidence share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec, TypeVar

import typer

from telic.cli.options import AsJson, Debug, integers
from telic.cli.output import console, number, print_json, table
from telic.cli.study_options import HERE, Root, Study, Task, find_study

if TYPE_CHECKING:
    from telic.studies.ledger import Ledger

Given = ParamSpec("Given")
Result = TypeVar("Result")

CandidateId = Annotated[str, typer.Argument(help="Candidate, e.g. c-0007-more-smoothness.")]


def offline(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Run a command so that it can start no process and open no connection."""

    @wraps(function)
    def guarded(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        from telic.studies.offline import launch_free

        return launch_free(function)(*args, **kwargs)

    return guarded


def ledger_of(root: Path, task: str | None, study: str | None) -> Ledger:
    """Return the ledger of the study that the options name."""
    from telic.studies.ledger import Ledger

    return Ledger(find_study(root, task, study))


def span(ends: tuple[float, float]) -> str:
    """Write an interval."""
    return f"{number(ends[0])} to {number(ends[1])}"


def dr_plan(
    candidate: CandidateId,
    checkpoint: Annotated[Path, typer.Option(help="The policy's checkpoint; only hashed.")],
    parameter: Annotated[
        list[str],
        typer.Option(help="path=nominal:low..high, with :log for a logarithmic grid."),
    ],
    seeds: Annotated[str, typer.Option(help="At least three, e.g. 901-903.")],
    episodes: Annotated[int, typer.Option(min=10, help="Per setting and seed.")] = 10,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Plan how far one parameter of the world at a time is moved; measures nothing."""
    from telic.errors import UsageError
    from telic.studies.canonical import file_hash
    from telic.studies.evidence.probing import plan_probe, read_parameters
    from telic.studies.human import current_actor

    if not checkpoint.is_file():
        raise UsageError(f"There is no file {checkpoint}.")
    plan, sheet = plan_probe(
        ledger_of(root, task, study),
        candidate,
        file_hash(checkpoint),
        read_parameters(parameter),
        tuple(integers(seeds, "--seeds")),
        current_actor(),
        episodes,
    )
    if as_json:
        print_json({"evidence": sheet.id, "evaluations": plan.evaluations, **plan.as_data()})
        return
    rows = [(each.path, ", ".join(number(x) for x in each.grid)) for each in plan.parameters]
    console.print(table(None, ["parameter", "settings"], rows))
    console.print(f"{plan.evaluations} evaluations of {plan.episodes} episodes; {sheet.id}")


def dr_summary(
    candidate: CandidateId,
    results: Annotated[Path, typer.Argument(help="JSON or YAML with the scores per setting.")],
    worst: Annotated[float, typer.Option(help="Score of the worst policy, e.g. random.")] = 0.0,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say how far each parameter can be moved before the policy fails."""
    from telic.studies.evidence.probing import summarise_probe
    from telic.studies.human import current_actor

    ledger = ledger_of(root, task, study)
    found, sheet = summarise_probe(ledger, candidate, results, current_actor(), worst)
    if as_json:
        print_json({"evidence": sheet.id, **found.as_data()})
        return
    rows = [
        (
            x.path,
            x.nominal,
            span(x.feasible),
            span(x.suggested_range),
            ", ".join(x.censored),
            "; ".join(x.safety_notes),
        )
        for x in found.parameters
    ]
    heads = ["parameter", "nominal", "holds", "suggested", "censored", "notes"]
    console.print(table(None, heads, rows))
    console.print(f"evidence: {sheet.id}")
