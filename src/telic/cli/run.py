"""telic run: the whole loop, from an intent to a policy with evidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from telic.cli.options import RUNS, AsJson, Debug, RunsDir, count, integers
from telic.cli.output import command, console, number, print_json
from telic.cli.progress import interruptible

if TYPE_CHECKING:
    from telic.judges.criteria import Criterion
    from telic.session.api import Session

_EXAMPLES = """
[bold]Examples[/]

telic run "run forward fast" --env HalfCheetah-v5

telic run "do a backflip and land on your feet" --env HalfCheetah-v5

telic run "walk slowly backward" --env Walker2d-v5 --iterations 6

telic run "limp" --env Walker2d-v5 --model host     answer the requests yourself: telic orders list

Run the same command again to go on with an interrupted session.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run", epilog=_EXAMPLES)(command(run))


def run(
    intent: Annotated[str, typer.Argument(help="What the robot should do, in words.")],
    env: Annotated[
        str, typer.Option(help="Environment id or path of an MJCF file.")
    ] = "HalfCheetah-v5",
    iterations: Annotated[int, typer.Option(min=1, help="Rewards to try at most.")] = 4,
    seeds: Annotated[str, typer.Option(help="Training seeds per reward: 1,2,3 or 1-3.")] = "1-3",
    threshold: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Score a policy must prove.")
    ] = 0.8,
    episodes: Annotated[int, typer.Option(min=4, help="Fresh episodes to judge.")] = 12,
    steps: Annotated[str | None, typer.Option(help="Steps per policy, e.g. 300k.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    model: Annotated[
        str | None,
        typer.Option(
            help="Who writes reward and judge: provider:model, or host (work orders). "
            "None: the composer, which needs no model."
        ),
    ] = None,
    vision: Annotated[
        bool, typer.Option("--vision/--no-vision", help="Let the model watch episodes too.")
    ] = True,
    criteria: Annotated[
        Path | None, typer.Option(help="File of criteria to aim for; see --approve.")
    ] = None,
    approve: Annotated[
        bool,
        typer.Option(
            "--approve", help="Wait for telic approve before anything is spent on the criteria."
        ),
    ] = False,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Show the criteria and ask here.")
    ] = False,
    max_calls: Annotated[int | None, typer.Option(help="Model calls at most.")] = None,
    budget_usd: Annotated[float | None, typer.Option(help="Dollars for the model at most.")] = None,
    budget_hours: Annotated[float | None, typer.Option(help="Hours of work at most.")] = None,
    budget_steps: Annotated[
        str | None, typer.Option(help="Environment steps of all policies at most, e.g. 5M.")
    ] = None,
    fresh: Annotated[bool, typer.Option(help="Start anew instead of going on.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Describe a behaviour; get a trained policy and the evidence that it does what you asked."""
    from telic.cli.views import SessionView
    from telic.sandbox.interpreters import prewarmed
    from telic.session import WORKERS

    view = SessionView(quiet=as_json, asks=interactive)
    with prewarmed(WORKERS), interruptible() as stop, view:
        from telic.session.api import run as run_session  # while the workers import, too

        session = run_session(
            intent,
            env=env,
            runs_dir=runs_dir,
            fresh=fresh,
            on_event=view,
            should_stop=stop,
            iterations=iterations,
            seeds=tuple(integers(seeds, "--seeds")),
            threshold=threshold,
            episodes=episodes,
            steps=count(steps, "--steps") if steps else None,
            device=device,
            model=model,
            vision=vision,
            criteria=_criteria(criteria),
            approve=approve or interactive,
            max_calls=max_calls,
            max_usd=budget_usd,
            max_hours=budget_hours,
            max_steps=count(budget_steps, "--budget-steps") if budget_steps else None,
        )
    finish(session, as_json)


def _criteria(path: Path | None) -> tuple[Criterion, ...] | None:
    if path is None:
        return None
    from telic.session.approval import parse_criteria
    from telic.storage.files import read_json

    return parse_criteria(read_json(path))


def finish(session: Session, as_json: bool) -> None:
    """Print what a session came to, and leave with 1 unless it passed."""
    if as_json:
        print_json({"path": str(session.path), **session.summary.model_dump(mode="json")})
    else:
        _tell(session)
    if session.summary.out_of_budget:
        raise typer.Exit(3)
    if not session.passed:
        raise typer.Exit(1)


def _tell(session: Session) -> None:
    summary = session.summary
    verdict = {
        "passed": "[bold green]passed[/]",
        "not_passed": "[bold yellow]did not pass[/]",
        "stopped": "[bold]stopped[/]; the same command goes on",
    }[summary.outcome]
    console.print(f"\n{verdict}: {summary.intent} ({summary.env})")
    if summary.reason:
        console.print(f"[dim]{escape(summary.reason)}[/]")
    if summary.score is not None:
        low = number(summary.low, 2)
        console.print(f"score {number(summary.score, 2)}, at least {low} with 95 % confidence")
    page = session.path / "report.html"
    console.print(f"report  {page if page.exists() else session.path / 'report.md'}")
    video = session.path / "report" / "median.mp4"
    if video.exists():
        console.print(f"video   {video}")
    if session.run is not None:
        judged = f"--member {summary.best_member} --step {summary.best_step}"
        console.print(f"policy  telic export {session.run} {judged}")
