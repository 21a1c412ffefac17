"""telic run: the whole loop, from an intent to a policy with evidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from telic.cli.options import RUNS, AsJson, Debug, RunsDir, count, integers
from telic.cli.output import command, console, number, print_json
from telic.cli.progress import interruptible
from telic.cli.steered import SteeredView
from telic.core.events import Event

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

# A term that stays zero matters to who wrote the reward; here that is not the person who looks on,
# and a composed cost that is never due is as it should be. The run's records keep the finding.
_DEAD = "dead_term"


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
    from telic.sandbox.interpreters import kept
    from telic.session import WORKERS

    view = SessionView(quiet=as_json, asks=interactive)
    with kept(WORKERS), interruptible() as stop, view:
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


class SessionView(SteeredView):
    """Shows a session: what was understood, each training, each judgement."""

    def __init__(self, quiet: bool = False, asks: bool = False) -> None:
        super().__init__(quiet)
        self._asks = asks
        self._path: Path | None = None

    def _session_start(self, event: Event) -> None:
        self._path = Path(event["path"])
        again = " (goes on)" if event["resumed"] else ""
        self.say(f"[bold]{escape(event['intent'])}[/] on {escape(event['env'])}{again}")

    def _train_finding(self, event: Event) -> None:
        if not event["name"].startswith(_DEAD):
            super()._train_finding(event)

    def _probe_done(self, event: Event) -> None:
        kept = [each for each in event.get("findings", []) if not each["name"].startswith(_DEAD)]
        super()._probe_done({**event, "findings": kept})

    def _session_waiting(self, event: Event) -> None:
        if event["reason"] != "approval" or not self._asks or self._path is None:
            super()._session_waiting(event)
            return
        from telic.session.approval import approve
        from telic.storage.layout import SessionFolder

        folder = SessionFolder(self._path)
        self._bar.stop()
        if typer.confirm("Go on with these criteria?", default=True):
            approve(folder)
        else:
            folder.stop.touch()
        self._bar.start()

    def _session_asked(self, event: Event) -> None:
        self.say("what it means:")
        for each in event["criteria"]:
            self.say(f"  • {escape(each['title'])}")
        for each in event["doubts"]:
            self.say(f"  [dim]{escape(each)}[/]")
        if event["not_understood"]:
            self.say(f"  [yellow]not understood: {escape(', '.join(event['not_understood']))}[/]")

    def _session_tried(self, event: Event) -> None:
        problems = [*event["judge_problems"], *event["reward_problems"]]
        tried = len(event["examples"])
        if not problems:
            self.say(f"reward and judge agree on {tried} examples")
        for each in problems:
            self.say(f"[yellow]![/] {escape(each)}")

    def _session_selected(self, event: Event) -> None:
        scores = ", ".join(number(each, 2) for each in event["scores"])
        self.say(f"short trials scored {scores}; number {event['kept'] + 1} is trained on")

    def _model_sent(self, event: Event) -> None:
        self.say(f"asking {event['model']} as {event['role']} ({event['key'][:12]})")

    def _model_rejected(self, event: Event) -> None:
        self.say(f"[yellow]![/] its answer was not accepted: {event['error'].splitlines()[0]}")

    def _session_iteration(self, event: Event) -> None:
        self.say(f"\n[bold]iteration {event['number']}[/]: {escape(event['change'])}")

    def _session_checkpoint(self, event: Event) -> None:
        scores = ", ".join(number(each, 2) for each in event["scores"].values())
        self.say(f"the judge at {event['step']:,} steps: {scores}")

    def _session_judged(self, event: Event) -> None:
        score = "unknown" if event["score"] is None else number(event["score"], 2)
        verdict = "[green]passes[/]" if event["passed"] else "does not pass yet"
        lacks = f"; lacking: {', '.join(event['tags'])}" if event["tags"] else ""
        self.say(f"judged: score [bold]{score}[/], {verdict}{lacks}")
        for each in event["alarms"]:
            self.say(f"[yellow]![/] {escape(each)}")
