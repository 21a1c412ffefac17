"""Show work as it happens: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from telic.cli.console import console
from telic.core.events import BenchEvent
from telic.core.text import count, duration, number
from telic.judges.criteria import scope_words
from telic.session.control import approve
from telic.storage.layout import SessionFolder

# Events are matched by name: importing the records that they are loads torch and MuJoCo, while
# workers should start to load them at the same time.
if TYPE_CHECKING:
    from telic.rewards.contract import RewardFinding
    from telic.session.budget import AllowanceLeft
    from telic.training.results import Finding

OUTCOMES = {
    "passed": "[green]✓ passed[/]",
    "passed_in_part": "[yellow]◐ partial pass[/]",
    "unproven": "[yellow]? unproven[/]",
    "unconfirmed": "[yellow]? not confirmed[/]",
    "not_passed": "[yellow]✗ did not pass[/]",
    "refused": "[blue]– refused[/]",
    "error": "[red]! error[/]",
    "stopped": "[dim]… stopped[/]",
}
"""what became of a case of a benchmark"""
_LINE_EVERY_S = 5.0
# A term that stays zero matters to who wrote the reward, in a session nobody who looks on.
_DEAD = "dead_term"


_NAMED = 3
"""members of a finding that are listed by name; of more, one and their number"""


class FindingLines:
    """Collects the findings of one training; a population must not report one 48 times.

    The first burst of a kind is one line with a count; members that join later are counted and
    reported together when the training ends.
    """

    def __init__(self) -> None:
        self._burst: dict[str, list[Finding]] = {}
        self._said: dict[str, Finding] = {}
        self._later: dict[str, int] = {}
        self._probed: set[tuple[str, str]] = set()

    def add(self, finding: Finding) -> None:
        """Add a finding of one member."""
        if finding.name in self._said:
            self._later[finding.name] = self._later.get(finding.name, 0) + 1
        else:
            self._burst.setdefault(finding.name, []).append(finding)

    def new(self) -> Iterator[str]:
        """Yield a line for each kind that was not reported yet."""
        for name, findings in self._burst.items():
            self._said[name] = findings[0]
            yield f"{_who([each.member for each in findings])}: {findings[0].message}"
        self._burst = {}

    def rest(self) -> Iterator[str]:
        """Yield what is left to report when the training has ended, and reset."""
        yield from self.new()
        for name, more in self._later.items():
            kind, first = name.partition(":")[0].replace("_", " "), self._said[name].member
            yield f"{count(more, 'member')} more had the same as {first} later: {kind}"
        self._said, self._later, self._probed = {}, {}, set()

    def unseen(self, findings: Iterable[RewardFinding]) -> list[RewardFinding]:
        """Return the findings that no reward probed before had."""
        new = [each for each in findings if (each.name, each.message) not in self._probed]
        self._probed |= {(each.name, each.message) for each in new}
        return new


def _who(members: list[str]) -> str:
    if len(members) <= _NAMED:
        return ", ".join(members)
    return f"{len(members)} members, such as {members[0]}"


class TrainingView:
    """Listens to events and prints what a person wants to know."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
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
        self._findings = FindingLines()
        self._orders: set[str] = set()

    def __enter__(self) -> Self:
        self._bar.start()
        self._task = self._bar.add_task("starting", total=None, detail="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._complain(self._findings.rest())
        self._bar.stop()

    def __call__(self, event: Any) -> None:
        """Take in one event."""
        if self.quiet:
            return
        happened = event.inner if isinstance(event, BenchEvent) else event
        if happened.NAME in ("train.start", "train.end"):
            self._complain(self._findings.rest())
        elif happened.NAME != "train.finding":
            self._complain(self._findings.new())
        self.show(event)

    def _complain(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.say(f"[yellow]![/] {escape(line)}")

    def show(self, event: Any) -> None:
        """Print what an event says, if a person wants to know it."""
        match event.NAME:
            case "probe.done":
                self._probed(event)
            case "train.start":
                members = event.members
                what = members[0] if len(members) == 1 else f"{len(members)} members"
                verb = f"resuming at {event.step:,}" if event.resumed else "training"
                where = f"{event.total_steps:,} steps each on {event.device}"
                self.say(f"{verb}: {escape(what)}, {where}")
            case "train.progress":
                self._progress(event)
            case "train.finding":
                self._findings.add(event)
            case "eval.done":
                self._evaluated(event)
            case "video.progress":
                name = event.path.rpartition("/")[2]
                self._update("rendering", event.frame, event.frames, escape(name))
            case "log":
                self.say(escape(event.message))
            case "model.sent":
                self._orders |= {event.key} if event.model == "host" else set()
                self.say(f"asking {escape(event.model)} as {event.role} ({event.key[:12]})")
            case "model.rejected":
                reason = escape(event.error.splitlines()[0])
                self.say(f"[yellow]![/] its answer was not accepted: {reason}")
            case "model.reply" | "model.failed":
                self._orders.discard(event.key)
            case _:
                pass

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if not self.quiet:
            console.print(text, soft_wrap=True)

    def _update(self, description: str, done: float, total: float, detail: str) -> None:
        if self._task is not None:
            self._bar.update(
                self._task, description=description, completed=done, total=total, detail=detail
            )

    def _probed(self, event: Any) -> None:
        cost = number(event.microseconds_per_step, 3)
        self.say(f"probed [bold]{escape(event.reward)}[/]: {event.mode}, {cost} µs per step")
        for finding in self._findings.unseen(event.findings):
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

    def _evaluated(self, event: Any) -> None:
        if not event.members:
            return
        name, best = max(event.members.items(), key=lambda item: item[1].mean_return or 0.0)
        several = len(event.members)
        who = "" if several == 1 else f" (best of {several}: {escape(name)})"
        spread = f" [{number(ends[0])}, {number(ends[1])}]" if (ends := best.interval) else ""
        mean = f"[bold]{number(best.mean_return)}[/]"
        self.say(f"evaluated at {event.step:,} steps: return {mean}{escape(spread)}{who}")


class SessionView(TrainingView):
    """Shows a session: what was understood, each training and judgement, money, time and people."""

    def __init__(self, quiet: bool = False, asks: bool = False) -> None:
        super().__init__(quiet)
        self._asks = asks
        self._path: Path | None = None

    def show(self, event: Any) -> None:
        """Print what an event says, if a person wants to know it."""
        match event.NAME:
            case "session.start":
                self._path = Path(event.path)
                more = f"{' (goes on)' if event.resumed else ''} [dim]· its page: telic serve[/]"
                self.say(f"[bold]{escape(event.intent)}[/] on {escape(event.env)}{more}")
            case "probe.done":
                alive = (x for x in event.findings if not x.name.startswith(_DEAD))
                super().show(event.model_copy(update={"findings": tuple(alive)}))
            case "train.finding" if event.name.startswith(_DEAD):
                pass
            case "session.asked" | "session.tried" | "session.forecast":
                self._before(event)
            case "session.iteration" | "session.selected" | "session.checkpoint":
                self._during(event)
            case "session.judged" | "session.spent":
                self._after(event)
            case "session.paused" | "session.resumed" | "session.admitted" | "session.notes":
                self._steered(event)
            case "session.waiting":
                self._waiting(event)
            case _:
                super().show(event)

    def _before(self, event: Any) -> None:
        match event.NAME:
            case "session.asked":
                self.say("what it means:")
                for criterion in event.criteria:
                    self.say(f"  • {escape(criterion.title)}")
                for doubt in event.doubts:
                    self.say(f"  [dim]{escape(doubt)}[/]")
                left = (*event.not_understood, *event.dropped)
                scope = scope_words([each.words for each in event.covered], left)
                if scope:
                    style = "yellow" if left else "dim"
                    self.say(f"  [{style}]{escape(scope)}[/]")
            case "session.tried":
                problems = [*event.judge_problems, *event.reward_problems]
                if not problems:
                    self.say(f"reward and judge agree on {len(event.examples)} examples")
                for problem in problems:
                    self.say(f"[yellow]![/] {escape(problem)}")
            case _:  # session.forecast
                self._forecast(event)
                if event.calls:
                    price = "at an unknown price" if event.usd is None else _dollars(event.usd)
                    self.say(f"  at most about {event.calls} model calls, {price}")
                for limit in event.short:
                    self.say(f"  [yellow]the limit on {limit} may end it before[/]")

    def _forecast(self, event: Any) -> None:
        if event.steps_per_second is not None and not event.measured_runs:
            first, most = duration(event.first_seconds), duration(event.most_seconds)
            rate = f"{number(event.steps_per_second)} steps/s as measured now"
            self.say(f"forecast: about {first} if the first try passes, at most {most} ({rate})")
            return
        first = _amount(event.first_steps, event.first_seconds)
        most = _amount(event.most_steps, event.most_seconds)
        self.say(f"forecast: {first} if the first try passes, at most {most}")
        if event.steps_per_second is None:
            why = "this was never trained on this machine; ten seconds of training will tell"
            self.say(f"  [dim]how long is unknown yet: {why}[/]")

    def _during(self, event: Any) -> None:
        match event.NAME:
            case "session.iteration":
                self.say(f"\n[bold]iteration {event.number}[/]: {escape(event.change)}")
            case "session.selected":
                scores = ", ".join(number(score, 2) for score in event.scores)
                self.say(f"short trials scored {scores}; number {event.kept + 1} is trained on")
            case _:  # session.checkpoint
                scores = ", ".join(number(score, 2) for score in event.scores.values())
                self.say(f"the judge at {event.step:,} steps: {scores}")
                for reason in event.unjudged:
                    self.say(f"[yellow]![/] {escape(reason)}")

    def _after(self, event: Any) -> None:
        match event.NAME:
            case "session.judged":
                verdict = "[green]passes[/]" if event.passed else "does not pass yet"
                scores = ", ".join(number(score, 2) for score in event.scores.values())
                lacks = (
                    f"; lacking: {', '.join(event.tags)}" if event.tags and not event.passed else ""
                )
                self.say(f"judged: {verdict} (policies: {scores or 'none'}){lacks}")
                for alarm in (*event.alarms, *event.unjudged):
                    self.say(f"[yellow]![/] {escape(alarm)}")
                if event.judge_doubted:
                    self.say(f"[yellow]![/] {escape(event.judge_doubted)}")
            case _:  # session.spent
                parts = [duration(event.seconds), f"{event.steps:,} steps"]
                if event.calls:
                    price = "unknown price" if event.usd is None else _dollars(event.usd)
                    parts.append(f"{event.calls} model calls ({price})")
                left = _left(event.left)
                self.say(f"[dim]spent: {', '.join(parts)}{f'; left: {left}' if left else ''}[/]")

    def _steered(self, event: Any) -> None:
        match event.NAME:
            case "session.paused":
                self.say(f"[bold]{escape(event.message)}[/]")
            case "session.resumed":
                self.say("going on")
            case "session.admitted":
                self.say(f"going on after {duration(event.waited_s)}")
            case _:  # session.notes
                for note in event.notes:
                    self.say(f"heeding {escape(note.author)}: {escape(note.text)}")

    def _waiting(self, event: Any) -> None:
        if event.reason != "approval" or not self._asks or self._path is None:
            self.say(escape(event.message))
            return
        folder = SessionFolder(self._path)
        self._bar.stop()
        if typer.confirm("Go on with these criteria?", default=True):
            approve(folder)
        else:
            folder.stop.touch()
        self._bar.start()


class BenchView(SessionView):
    """Shows a benchmark: a line per case, and its session unless several run at a time."""

    def __init__(self, brief: bool, quiet: bool) -> None:
        super().__init__(quiet=quiet)
        self._brief = brief

    def show(self, event: Any) -> None:
        """Print what an event says, if a person wants to know it."""
        match event.NAME:
            case "bench.case":
                self.say(f"\n[bold]── {event.case}[/]")
            case "bench.result":
                why = f": {escape(event.reason)}" if event.reason else ""
                self.say(f"{OUTCOMES[event.outcome]} {event.case.id}{why}")
            case "":
                if not self._brief:
                    super().show(event.inner)
            case _:
                super().show(event)


class SearchView(TrainingView):
    """Shows a search: its iterations while a model is asked, its runs as they end."""

    def show(self, event: Any) -> None:
        """Print what an event says, if a person wants to know it."""
        match event.NAME:
            case "search.start":
                left, runs = event.left, event.runs
                todo = count(runs, "run") if left == runs else f"{left} of {runs} runs left"
                self.say(f"[bold]{escape(event.env)}[/]: {escape(event.label)}, {todo}")
            case "search.forecast":
                self.say(f"about {event.calls:,} model calls in all, if no answer needs repair")
            case "search.iteration":
                detail = f"selected {number(event.selected)}, best {number(event.incumbent)}"
                self._update(f"run {event.run}", event.episodes, event.budget, detail)
                if event.note:
                    self.say(f"[yellow]![/] run {event.run}: {escape(event.note)}")
            case "search.run":
                mean = number(event.fresh.mean)
                self.say(f"run {event.run}: [bold]{mean}[/] on fresh episodes")
            case _:
                super().show(event)


class WorkView(SessionView, SearchView):
    """Shows whatever it is: a session, a search or a training."""


def _amount(steps: int, seconds: float | None) -> str:
    time = "" if seconds is None else f" (about {duration(seconds)} of training)"
    return f"{steps:,} steps{time}"


def _dollars(usd: float) -> str:
    return f"{number(usd, 2)} USD"


def _left(left: AllowanceLeft) -> str:
    parts: list[str] = []
    if left.hours is not None:
        parts.append(duration(left.hours * 3600))
    if left.steps is not None:
        parts.append(f"{left.steps:,} steps")
    if left.usd is not None:
        parts.append(_dollars(left.usd))
    if left.calls is not None:
        parts.append(f"{left.calls} calls")
    return ", ".join(parts)
