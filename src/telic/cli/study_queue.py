"""telic study queue, batch and next: what may start, in which order, and what to do now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from telic.cli.options import AsJson, Debug, integers, pairs
from telic.cli.output import command, console, print_facts, print_json, table
from telic.cli.study_options import HERE, Root, Study, Task, find_study

if TYPE_CHECKING:
    from telic.studies.documents.runs import Job

Name = Annotated[str, typer.Argument(help="Candidate, e.g. c-0003-more-tracking.")]
Because = Annotated[str, typer.Option("--because", help="Why.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    from telic.studies.offline import launch_free

    queue = typer.Typer(help="Jobs by phase; nothing here starts one.", no_args_is_help=True)
    queue.command("plan")(command(launch_free(plan)))
    queue.command("step")(command(launch_free(step)))
    queue.command("advance")(command(launch_free(advance)))
    queue.command("more-seeds")(command(launch_free(more_seeds)))
    queue.command("check-incumbent")(command(launch_free(check_incumbent)))
    queue.command("batch")(command(launch_free(batch)))
    queue.command("reorder")(command(launch_free(reorder)))
    app.add_typer(queue, name="queue")
    app.command("next")(command(launch_free(what_next)))


def plan(
    name: Name,
    priority: Annotated[int, typer.Option(help="Higher goes first under that policy.")] = 0,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Queue every phase and seed of a validated candidate; twice is once."""
    from telic.studies.human import current_actor
    from telic.studies.ledger import Ledger
    from telic.studies.queueing import plan_candidate

    ledger = Ledger(find_study(root, task, study))
    _tell_jobs(plan_candidate(ledger, name, current_actor(), priority=priority), as_json)


def step(
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Show which jobs may start now and why the others wait; changes nothing."""
    from telic.studies.ledger import Ledger
    from telic.studies.queueing import queue_step

    found = queue_step(Ledger(find_study(root, task, study)))
    if as_json:
        print_json(found.as_data())
        return
    rows = [(each.job.job_id, "ready", "") for each in found.ready]
    rows += [(each, "running", "") for each in found.running]
    rows += [(each.job_id, "waits", each.why) for each in found.waiting]
    console.print(table(None, ["job", "", "why"], rows))


def advance(
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Send completed candidates to their next phase where its rule allows; says why others stay."""
    from telic.studies.ledger import Ledger
    from telic.studies.queueing import advance as send_on

    found = send_on(Ledger(find_study(root, task, study)))
    if as_json:
        print_json([each.as_data() for each in found])
        return
    rows = [(x.candidate, x.phase or "", x.to or "stays", x.why) for x in found]
    console.print(table(None, ["candidate", "phase", "goes to", "why"], rows))


def more_seeds(
    name: Name,
    because: Because = "",
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Give an open question another block of five fresh seeds, in both arms."""
    from telic.studies.human import current_actor
    from telic.studies.ledger import Ledger
    from telic.studies.queueing import more_seeds as ask_for_seeds

    ledger = Ledger(find_study(root, task, study))
    _tell_jobs(ask_for_seeds(ledger, name, current_actor(), because), as_json)


def check_incumbent(
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Queue held-out seeds for the incumbent and the one before it, side by side."""
    from telic.studies.human import current_actor
    from telic.studies.ledger import Ledger
    from telic.studies.queueing import plan_incumbent_check

    ledger = Ledger(find_study(root, task, study))
    _tell_jobs(plan_incumbent_check(ledger, current_actor()), as_json)


def batch(
    batch_id: Annotated[str, typer.Argument(help="Name of the batch, e.g. weights.")],
    candidates: Annotated[list[str], typer.Argument(help="Validated candidates.")],
    goal: Annotated[str, typer.Option(help="What the batch is to find out.")] = "",
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Plan candidates side by side, each with its GPU and worktree; written to experiments.yaml."""
    from telic.studies.batches import plan_batch
    from telic.studies.human import current_actor
    from telic.studies.ledger import Ledger

    ledger = Ledger(find_study(root, task, study))
    made = plan_batch(ledger, batch_id, goal, candidates, current_actor())
    if as_json:
        print_json(made.as_data())
        return
    rows = [
        (x.id, x.phase, ", ".join(map(str, x.seeds)), x.gpu, x.worktree or "")
        for x in made.candidates
    ]
    console.print(table(None, ["candidate", "phase", "seeds", "gpu", "worktree"], rows))


def reorder(
    order: Annotated[str | None, typer.Option(help="fifo, priority or successive_halving.")] = None,
    eta: Annotated[int | None, typer.Option(min=2, help="One in so many goes on.")] = None,
    priority: Annotated[
        list[str] | None, typer.Option(help="candidate=number; higher goes first.")
    ] = None,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Change the order in which jobs become ready."""
    from typing import get_args

    from telic.errors import UnknownName
    from telic.studies.documents.runs import QueuePolicy
    from telic.studies.human import current_actor
    from telic.studies.ledger import Ledger
    from telic.studies.ordering import reorder as put_in_order

    known = list(get_args(QueuePolicy.model_fields["order"].annotation))
    if order is not None and order not in known:
        raise UnknownName("order", order, known)
    numbers = {
        k: integers(str(v), "--priority")[0] for k, v in pairs(priority or [], "--priority").items()
    }
    ledger = Ledger(find_study(root, task, study))
    found = put_in_order(ledger, current_actor(), order=order, eta=eta, priorities=numbers)
    if as_json:
        print_json(found.as_data())
    else:
        console.print(f"[green]✓[/] {found.policy.order}, one in {found.policy.eta} goes on")


def what_next(
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say the next safe action, the command for it, and why; never does it."""
    from telic.studies.ledger import Ledger
    from telic.studies.looking import note_next

    ledger = Ledger(find_study(root, task, study))
    found = note_next(ledger)
    if as_json:
        print_json(found.as_data())
        return
    print_facts({"next": found.action, "why": found.why})
    for each in found.blocking:
        console.print(f"  [yellow]first:[/] {escape(each)}", soft_wrap=True)
    if found.command:
        console.print(f"  {escape(found.command)}", soft_wrap=True)


def _tell_jobs(jobs: Sequence[Job], as_json: bool) -> None:
    if as_json:
        print_json([each.as_data() for each in jobs])
        return
    rows = [(each.job_id, each.phase, each.seed, len(each.depends_on)) for each in jobs]
    console.print(table(None, ["job", "phase", "seed", "waits for"], rows))
