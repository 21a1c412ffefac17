"""Display progress as a live bar in terminals and as plain lines elsewhere.

Events are matched by name, because importing the event classes would load torch and MuJoCo and
delay workers that load these libraries too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from telic.cli._console import console
from telic.cli._results import asked_lines
from telic.core.events import BenchEvent
from telic.core.text import count, duration, number
from telic.session.control import approve_criteria
from telic.storage.layout import SessionFolder

if TYPE_CHECKING:
    from telic.envs.spec import RewardFinding
    from telic.training.results import Finding

OUTCOMES = {
    "passed": "[green]✓ passed[/]",
    "passed_in_part": "[yellow]◐ partial pass[/]",
    "claimed": "[yellow]? claimed[/]",
    "unproven": "[yellow]? unproven[/]",
    "unconfirmed": "[yellow]? not confirmed[/]",
    "not_passed": "[yellow]✗ did not pass[/]",
    "refused": "[blue]– refused[/]",
    "error": "[red]! error[/]",
    "stopped": "[dim]… stopped[/]",
}
"""text for each outcome of a benchmark case"""
_LINE_EVERY_S = 5.0
_DEAD = "dead_term"
"""finding that is relevant to the author of a reward, but not to the user of a session"""
_Lines = Iterator[str]


class ProgressView:
    """Event listener that prints progress for users."""

    def __init__(
        self,
        *,
        quiet: bool = False,
        is_session: bool = False,
        asks: bool = False,
        brief: bool = False,
    ) -> None:
        """Create a view. `brief` omits events within benchmark cases."""
        self.quiet = quiet
        self._is_session, self._asks, self._brief = is_session, asks, brief
        self._live = console.is_terminal and not quiet
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[detail]}"),
            console=console,
            transient=True,
            disable=not self._live,
        )
        self._task: TaskID | None = None
        self._last_line = 0.0
        self._found: set[str] = set()
        """findings already printed in this training, which members of a population share"""
        self._orders: set[str] = set()
        self._path: Path | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        self._task = self._bar.add_task("starting", total=None, detail="")
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, event: Any) -> None:
        """Handle one event."""
        if self.quiet:
            return
        is_inside = isinstance(event, BenchEvent)
        inner: Any = event.inner if is_inside else event
        if is_inside and self._brief:
            return
        is_approval = inner.NAME == "session.waiting" and inner.reason == "approval"
        if is_approval and self._asks and self._path is not None:
            self._ask(self._path)
            return
        self._follow(inner)
        if inner.NAME in _LINES:
            for line in _LINES[inner.NAME](inner):
                self.say(line[:1] + line[1:].replace("\n", "\n  "))

    def _follow(self, event: Any) -> None:
        """Update the progress bar and the state on which later lines depend."""
        match event.NAME:
            case "probe.done":
                self._probed(event)
            case "train.progress":
                self._progress(event)
            case "train.start":
                self._found.clear()
            case "train.finding" if self._is_new(event, event.name):
                self.say(f"[yellow]![/] {escape(event.member)}: {escape(event.message)}")
            case "video.progress":
                name = event.path.rpartition("/")[2]
                self._update("rendering", event.frame, event.frames, escape(name))
            case "search.iteration":
                detail = f"selected {number(event.selected)}, best {number(event.incumbent)}"
                self._update(f"run {event.run}", event.episodes, event.budget, detail)
            case "session.start":
                self._path = Path(event.path)
            case "model.sent" if event.model == "host":
                self._orders.add(event.key)
            case "model.reply" | "model.failed":
                self._orders.discard(event.key)
            case _:
                pass

    def say(self, text: str) -> None:
        """Print a line above the progress bar."""
        if not self.quiet:
            console.print(text, soft_wrap=True)

    def _is_new(self, finding: Finding | RewardFinding, text: str) -> bool:
        """Return whether a finding is relevant for this user and was not printed yet."""
        if text in self._found or (self._is_session and finding.name.startswith(_DEAD)):
            return False
        self._found.add(text)
        return True

    def _update(self, description: str, done: float, total: float, detail: str) -> None:
        if self._task is not None:
            self._bar.update(
                self._task, description=description, completed=done, total=total, detail=detail
            )

    def _probed(self, event: Any) -> None:
        cost = number(event.microseconds_per_step, 3)
        self.say(f"probed [bold]{escape(event.reward)}[/]: {event.mode}, {cost} µs per step")
        for finding in event.findings:
            if self._is_new(finding, finding.message):
                self.say(f"  [yellow]•[/] {escape(finding.message)}")

    def _progress(self, event: Any) -> None:
        returns = [value for value in event.returns.values() if value is not None]
        mean = number(sum(returns) / len(returns)) if returns else "–"
        rate, left = number(event.steps_per_second), duration(event.seconds_left)
        waits = f" · {count(len(self._orders), 'order')} for you" if self._orders else ""
        detail = f"return {mean} · {rate} steps/s · {left} left{waits}"
        self._update("training", event.step, event.total_steps, detail)
        if not self._live and time.monotonic() - self._last_line > _LINE_EVERY_S:
            self._last_line = time.monotonic()
            self.say(f"{event.step:>12,} / {event.total_steps:,} steps  {detail}")

    def _ask(self, path: Path) -> None:
        folder = SessionFolder(path)
        self._bar.stop()
        if typer.confirm("Continue with these criteria?", default=True):
            approve_criteria(folder)
        else:
            folder.stop.touch()
        self._bar.start()


# ---------------------------------------------------------------------------- lines of events


def _train_start(event: Any) -> _Lines:
    members = event.members
    what = members[0] if len(members) == 1 else f"{len(members)} members"
    verb = f"resuming at {event.step:,}" if event.resumed else "training"
    yield f"{verb}: {escape(what)}, {event.total_steps:,} steps each on {event.device}"


def _evaluated(event: Any) -> _Lines:
    if event.members:
        name, best = max(event.members.items(), key=lambda item: item[1].mean_return or 0.0)
        several = len(event.members)
        label = "" if several == 1 else f" (best of {several}: {escape(name)})"
        spread = f" [{number(ends[0])}, {number(ends[1])}]" if (ends := best.interval) else ""
        mean = f"[bold]{number(best.mean_return)}[/]"
        yield f"evaluated at {event.step:,} steps: return {mean}{escape(spread)}{label}"


def _session_start(event: Any) -> _Lines:
    more = f"{' (resumed)' if event.resumed else ''} [dim]· dashboard: telic serve[/]"
    yield f"[bold]{escape(event.intent)}[/] on {escape(event.env)}{more}"


def _validated(event: Any) -> _Lines:
    problems = [*event.judge_problems, *event.reward_problems]
    if not problems:
        yield f"the reward and the judge agree on {len(event.examples)} examples"
    for problem in problems:
        yield f"[yellow]![/] {escape(problem)}"


def _forecast(event: Any) -> _Lines:
    rate, is_measured = event.steps_per_second, bool(event.measured_runs)
    if rate is not None and not is_measured:
        first, most = duration(event.first_seconds), duration(event.most_seconds)
        basis = f"{number(rate)} steps/s measured"
        yield f"forecast: about {first} if the first iteration passes, at most {most} ({basis})"
    else:
        first = _amount(event.first_steps, event.first_seconds)
        most = _amount(event.most_steps, event.most_seconds)
        yield f"forecast: {first} if the first iteration passes, at most {most}"
    if rate is None:
        why = "no previous run on this machine; available after ten seconds of training"
        yield f"  [dim]time unknown: {why}[/]"
    if event.calls:
        price = "price unknown" if event.usd is None else _dollars(event.usd)
        yield f"  up to about {event.calls} model calls, {price}"
    for limit in event.short:
        yield f"  [yellow]the limit on {limit} may be reached first[/]"


def _checkpoint(event: Any) -> _Lines:
    yield f"judged at {event.step:,} steps: {_scores(event.scores.values())}"
    yield from _warnings(event.unjudged)


def _judged(event: Any) -> _Lines:
    verdict = "[green]reached the threshold[/]" if event.passed else "did not pass"
    failed = (
        f"; failed criteria: {', '.join(event.tags)}" if event.tags and not event.passed else ""
    )
    yield f"judged: {verdict} (policies: {_scores(event.scores.values()) or 'none'}){failed}"
    doubted = (event.judge_doubted,) if event.judge_doubted else ()
    yield from _warnings((*event.alarms, *event.unjudged, *doubted))


def _spent(event: Any) -> _Lines:
    parts = [duration(event.seconds), f"{event.steps:,} steps"]
    if event.calls:
        price = "price unknown" if event.usd is None else _dollars(event.usd)
        parts.append(f"{event.calls} model calls ({price})")
    limits, left = event.left, list[str]()
    left += [] if limits.hours is None else [duration(limits.hours * 3600)]
    left += [] if limits.steps is None else [f"{limits.steps:,} steps"]
    left += [] if limits.usd is None else [_dollars(limits.usd)]
    left += [] if limits.calls is None else [f"{limits.calls} calls"]
    more = f"; left: {', '.join(left)}" if left else ""
    yield f"[dim]spent: {', '.join(parts)}{more}[/]"


def _search_start(event: Any) -> _Lines:
    left, runs = event.left, event.runs
    todo = count(runs, "run") if left == runs else f"{left} of {runs} runs left"
    yield f"[bold]{escape(event.env)}[/]: {escape(event.label)}, {todo}"


def _search_iteration(event: Any) -> _Lines:
    if event.note:
        yield f"[yellow]![/] run {event.run}: {escape(event.note)}"


def _case_result(event: Any) -> _Lines:
    why = f": {escape(event.reason)}" if event.reason else ""
    yield f"{OUTCOMES[event.outcome]} {event.case.id}{why}"


def _warnings(texts: Iterable[str]) -> _Lines:
    for text in texts:
        yield f"[yellow]![/] {escape(text)}"


def _scores(scores: Iterable[float | None]) -> str:
    return ", ".join(number(score, 2) for score in scores)


def _amount(steps: int, seconds: float | None) -> str:
    time = "" if seconds is None else f" (about {duration(seconds)} of training)"
    return f"{steps:,} steps{time}"


def _dollars(usd: float) -> str:
    return f"{number(usd, 2)} USD"


_LINES: dict[str, Callable[[Any], Iterable[str]]] = {
    "log": lambda x: [escape(x.message)],
    "train.start": _train_start,
    "eval.done": _evaluated,
    "model.sent": lambda x: [f"asking {escape(x.model)} as {x.role} ({x.key[:12]})"],
    "model.rejected": lambda x: _warnings([f"answer rejected: {x.error.splitlines()[0]}"]),
    "session.start": _session_start,
    "session.asked": asked_lines,
    "session.tried": _validated,
    "session.forecast": _forecast,
    "session.iteration": lambda x: [f"\n[bold]iteration {x.number}[/]: {escape(x.change)}"],
    "session.selected": lambda x: [
        f"screening runs scored {_scores(x.scores)}; variant {x.kept + 1} is trained in full"
    ],
    "session.checkpoint": _checkpoint,
    "session.judged": _judged,
    "session.spent": _spent,
    "session.paused": lambda x: [f"[bold]{escape(x.message)}[/]"],
    "session.resumed": lambda x: ["resumed"],
    "session.admitted": lambda x: [f"continuing after {duration(x.waited_s)}"],
    "session.waiting": lambda x: [escape(x.message)],
    "session.notes": lambda x: [
        f"feedback of {escape(note.author)}: {escape(note.text)}" for note in x.notes
    ],
    "search.start": _search_start,
    "search.forecast": lambda x: [f"about {x.calls:,} model calls, without retries"],
    "search.iteration": _search_iteration,
    "search.run": lambda x: [f"run {x.run}: [bold]{number(x.fresh.mean)}[/] on fresh episodes"],
    "bench.case": lambda x: [f"\n[bold]── {x.case}[/]"],
    "bench.result": _case_result,
}
"""functions that format an event as text"""
