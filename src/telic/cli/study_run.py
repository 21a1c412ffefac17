"""telic study run: the one command that starts, settles and stops experiments."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from telic.cli.options import AsJson, Debug
from telic.cli.output import command, console, print_facts, print_json, table
from telic.cli.study_options import HERE, Root, Study, Task, find_study

if TYPE_CHECKING:
    from telic.studies.launch.launching import Launched, Look
    from telic.studies.launch.request import LaunchRequest
    from telic.studies.ledger import Ledger

_LOOK_EVERY_S = 0.5


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(command(run))


def run(
    candidate: Annotated[str | None, typer.Argument(help="Candidate to launch.")] = None,
    phase: Annotated[
        str | None, typer.Option(help="Phase; the one the candidate is in if left out.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed; the next one of the phase if left out.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Really start it.")] = False,
    confirm: Annotated[str | None, typer.Option(help="The word RUN_CANDIDATE.")] = None,
    expect: Annotated[
        str | None, typer.Option(help="First digits of the content hash that you have seen.")
    ] = None,
    gpu: Annotated[int | None, typer.Option(help="GPU to take, one of the contract's.")] = None,
    retry_of: Annotated[
        str | None, typer.Option(help="The lost or preempted run that this one repeats.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until the run has ended.")] = False,
    reconcile: Annotated[
        bool, typer.Option("--reconcile", help="Start nothing; settle what ended or vanished.")
    ] = False,
    stop: Annotated[str | None, typer.Option(help="Start nothing; end this run.")] = None,
    stopped_by: Annotated[
        str, typer.Option(help="With --stop: user, stop_rule, monitor, budget or preempted.")
    ] = "user",
    because: Annotated[str, typer.Option(help="With --stop: why.")] = "asked to stop",
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show what a launch would start and which gates are open; with --execute, start it.

    To start: --execute --confirm RUN_CANDIDATE. Exit codes: 0 open or started, 2 wrong usage,
    3 a gate is shut, 4 validation, 5 integrity, 7 budget, 8 this machine lacks something.
    """
    from telic.errors import UsageError
    from telic.studies.human import current_actor
    from telic.studies.launch.launching import launch, look
    from telic.studies.launch.request import check_words
    from telic.studies.ledger import Ledger

    check_words(execute, confirm)
    ledger = Ledger(find_study(root, task, study))
    if reconcile:
        _settle(ledger, as_json)
    elif stop is not None:
        _stop(ledger, stop, stopped_by, because, as_json)
    elif candidate is None:
        raise UsageError("Which candidate?", hint="Name one, or use --reconcile or --stop RUN.")
    else:
        request = _request(ledger, candidate, phase, seed)._replace(
            execute=execute, confirm=confirm, expect=expect, gpu=gpu, retry_of=retry_of
        )
        if execute:
            _tell_launch(ledger, launch(ledger, request, current_actor()), wait, as_json)
        else:
            _tell_look(look(ledger, request), as_json)


def _request(ledger: Ledger, candidate: str, phase: str | None, seed: int | None) -> LaunchRequest:
    """Fill in the phase and the seed that are next."""
    from telic.studies.launch.planning import next_request

    return next_request(ledger, candidate, phase, seed)


def _tell_look(found: Look, as_json: bool) -> None:
    if as_json:
        print_json({**found.model_dump(mode="json"), "open": found.is_open})
    else:
        rows = [
            (each.id, "open" if each.passed else "shut", each.why or _short(each.value))
            for each in found.gates
        ]
        console.print(table(None, ["gate", "", "why"], rows))
        if found.start is not None:
            console.print()
            print_facts(
                {
                    "runs": shlex.join(found.start.argv),
                    "in": found.start.cwd,
                    "started by": shlex.join(found.start.started_by),
                    "reserves": found.start.reservation,
                    "sets": " ".join(f"{k}={v}" for k, v in found.start.environment.items()),
                }
            )
            if found.start.document:
                console.print(f"\n{escape(found.start.document)}", soft_wrap=True)
        verdict = "every gate is open" if found.is_open else "it would be refused"
        console.print(f"\nDry run: nothing was started; {verdict}.")
    if not found.is_open:
        raise typer.Exit(3)


def _tell_launch(ledger: Ledger, started: Launched, wait: bool, as_json: bool) -> None:
    from telic.studies.launch.recovery import reconcile

    if not as_json:
        console.print(f"[green]✓[/] {started.run} runs")
        print_facts(
            {
                "folder": started.folder,
                "pid": started.pid,
                "job": started.job_id,
                "look at it": started.attach,
            }
        )
    while wait and ledger.state().runs[started.run].is_live:
        time.sleep(_LOOK_EVERY_S)
        reconcile(ledger, processes=True)
    held = ledger.state().runs[started.run]
    if as_json:
        print_json({**started.model_dump(mode="json"), "status": held.status, "why": held.why})
    elif wait:
        console.print(f"{started.run} {held.status}{f': {held.why}' if held.why else ''}")


def _settle(ledger: Ledger, as_json: bool) -> None:
    from telic.studies.launch.recovery import reconcile

    found = reconcile(ledger, processes=True)
    if as_json:
        print_json([each.model_dump(mode="json") for each in found])
        return
    if not found:
        console.print("No run is active.")
        return
    console.print(table(None, ["run", "", "why"], [(e.run, e.outcome, e.why) for e in found]))


def _stop(ledger: Ledger, name: str, by: str, why: str, as_json: bool) -> None:
    from typing import get_args

    from telic.errors import UnknownName
    from telic.studies.documents.runs import KilledBy
    from telic.studies.launch.stopping import stop_run

    reasons: dict[str, KilledBy] = {each: each for each in get_args(KilledBy)}
    if by not in reasons:
        raise UnknownName("reason to stop", by, list(reasons))
    stop_run(ledger, name, reasons[by], why)
    if as_json:
        print_json({"run": name, "asked_to_stop": True})
    else:
        console.print(f"{name} was asked to end. Then: telic study run --reconcile")


def _short(value: object, longest: int = 80) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
