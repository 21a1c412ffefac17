"""telic study: evidence-gated experiments in any repository, for people and coding agents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telic.cli import (
    study_audit,
    study_candidates,
    study_contract,
    study_evidence,
    study_from,
    study_ledger,
    study_run,
)
from telic.cli.options import AsJson, Debug
from telic.cli.output import command, console, number, print_facts, print_json, table
from telic.cli.study_options import HERE, Root, Study, Task, find_study

if TYPE_CHECKING:
    from telic.studies.state import StudyState

_EXAMPLES = """
[bold]Examples[/]

telic study init --task g1-walk --study speed --says "walk at commanded speed"

telic study contract check

telic study approve budget hardware

telic study state

All commands but [bold]run[/] only read and write files under .telic/ of the repository.
"""


def register(app: typer.Typer) -> None:
    """Add the commands; of all of them only `run` may start a process or open a connection."""
    from telic.studies.offline import launch_free

    study = typer.Typer(
        help="Experiments with a contract, a ledger and evidence, in any repository.",
        epilog=_EXAMPLES,
        no_args_is_help=True,
    )
    study.command("init")(command(launch_free(init)))
    study_contract.register(study)
    study.command("state")(command(launch_free(state)))
    study.command("pause")(command(launch_free(pause)))
    study.command("resume")(command(launch_free(resume)))
    study.command("close")(command(launch_free(close)))
    study.command("import-rlxp")(command(launch_free(import_rlxp)))
    for module in (
        study_ledger,
        study_audit,
        study_candidates,
        study_run,
        study_evidence,
        study_from,
    ):
        module.register(study)
    app.add_typer(study, name="study")


def init(
    task: Annotated[str, typer.Option("--task", help="Name of the task, e.g. g1-walk.")],
    study: Annotated[str, typer.Option("--study", help="Name of the study, e.g. speed.")],
    says: Annotated[str, typer.Option("--says", help="What the robot must do.")] = "",
    kind: Annotated[
        str,
        typer.Option(help="external, reward_loop, policy_search, tracking or generic."),
    ] = "external",
    root: Root = HERE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Begin a study: folders, a contract to fill in, a ledger. Twice is once."""
    from typing import get_args

    from telic.errors import UnknownName
    from telic.studies.creating import create_study
    from telic.studies.documents.registry import StudyKind
    from telic.studies.human import current_actor

    kinds: dict[str, StudyKind] = {each: each for each in get_args(StudyKind)}
    if kind not in kinds:
        raise UnknownName("kind of study", kind, list(kinds))
    folder = create_study(root, task, study, current_actor(), statement=says, kind=kinds[kind])
    if as_json:
        print_json({"study": folder.name, "folder": str(folder.path)})
        return
    console.print(f"[green]✓[/] {folder.name} is the active study")
    print_facts({"contract": folder.contract, "ledger": folder.ledger})
    console.print("Next: telic study audit, then fill in the contract: telic study contract check")


def state(
    rebuild: Annotated[bool, typer.Option(help="Make state.json again from the ledger.")] = False,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show where the study stands, from the ledger alone."""
    from telic.studies.ledger import Ledger
    from telic.studies.looking import next_step
    from telic.studies.projections import committed_head

    folder = find_study(root, task, study)
    ledger = Ledger(folder)
    found = ledger.state()
    if rebuild or committed_head(folder) != found.ledger_head:
        found = ledger.rebuild()
    following = next_step(ledger)
    if as_json:
        print_json({**found.as_data(), "next_action": following.as_data()})
    else:
        _tell(found)
        console.print()
        print_facts({"next": following.action, "why": following.why, "type": following.command})


def pause(
    reason: Annotated[str, typer.Option(help="Why.")] = "asked for",
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Stop launches until a person resumes the study; running jobs go on."""
    from telic.studies.human import current_actor
    from telic.studies.pausing import pause_study

    folder = find_study(root, task, study)
    event = pause_study(folder, current_actor(), reason)
    _said(as_json, event.as_data(), f"{folder.name} is paused: {reason}")


def resume(
    reason: Annotated[str, typer.Option(help="Why.")] = "asked for",
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Open a paused study again; a person has to say so in a terminal."""
    from telic.studies.human import ask_on_terminal
    from telic.studies.pausing import fired, resume_study

    folder = find_study(root, task, study)
    consent = ask_on_terminal(f"Resume {folder.name}? It stopped because: {fired(folder)}")
    event = resume_study(folder, consent, reason)
    _said(as_json, event.as_data(), f"{folder.name} is open again")


def close(
    reason: Annotated[str, typer.Option(help="Why.")],
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """End a study for good and write its last report; a person has to say so in a terminal."""
    from telic.studies.human import ask_on_terminal
    from telic.studies.ledger import Ledger
    from telic.studies.looking import next_step
    from telic.studies.pausing import close_study
    from telic.studies.report.write import write_report

    folder = find_study(root, task, study)
    consent = ask_on_terminal(f"Close {folder.name} for good? Nothing more is launched in it.")
    event = close_study(folder, consent, reason)
    ledger = Ledger(folder)
    write_report(ledger, next_step(ledger))
    _said(as_json, event.as_data(), f"{folder.name} is closed; its report: {folder.report}")


def import_rlxp(
    source: Annotated[
        Path | None, typer.Option("--from", help="The old tree; .rlxp of the repository.")
    ] = None,
    root: Root = HERE,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Take over an .rlxp tree as history: every byte is kept, the source stays as it is."""
    from telic.studies.human import current_actor
    from telic.studies.importing import import_rlxp as take_over

    found = take_over(root, current_actor(), source)
    if as_json:
        print_json([each.model_dump(mode="json") for each in found])
        return
    rows = [
        (x.study, x.layout, x.files, x.ledger_lines, len(x.candidates), x.is_new) for x in found
    ]
    columns = ["study", "layout", "files", "ledger lines", "candidates", "new"]
    console.print(table(None, columns, rows))


def _said(as_json: bool, data: dict[str, Any], text: str) -> None:
    if as_json:
        print_json(data)
    else:
        console.print(f"[green]✓[/] {text}")


def _tell(found: StudyState) -> None:
    counts = ", ".join(f"{count} {name}" for name, count in found.counts.items() if count)
    print_facts(
        {
            "study": f"{found.study} ({found.study_status})",
            "ledger": f"{found.ledger_head.seq} events, head {found.ledger_head.hash[:12]}",
            "contract": found.contract_version and f"version {found.contract_version}",
            "incumbent": found.incumbent and found.incumbent.candidate,
            "baseline": found.baseline,
            "noise floor": found.noise_floor,
            "candidates": counts or "none",
            "running": ", ".join(found.active_runs) or None,
            "not approved": ", ".join(found.pending_approvals) or None,
            "stopped by": "; ".join(f"{x.rule}: {x.why}" for x in found.fired_stops) or None,
        }
    )
    spent, reserved, left = found.budget.spent, found.budget.reserved, found.budget.left
    rows = [
        (name, number(value), number(getattr(reserved, name)), number(getattr(left, name)))
        for name, value in spent
        if value is not None or getattr(left, name) is not None
    ]
    if rows:
        console.print()
        console.print(table(None, ["budget", "spent", "reserved", "left"], rows))
