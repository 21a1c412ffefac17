"""Show training as it happens: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from telic.cli.output import console, duration, number
from telic.core.events import Event
from telic.core.verb import Verb

_LINE_EVERY_S = 5.0


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
        self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Take in one event."""
        handler = getattr(self, "_" + event["event"].replace(".", "_"), None)
        if handler and not self.quiet:
            handler(event)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if not self.quiet:
            console.print(text, soft_wrap=True)

    def _update(self, description: str, done: float, total: float, detail: str) -> None:
        if self._task is not None:
            self._bar.update(
                self._task, description=description, completed=done, total=total, detail=detail
            )

    def _probe_done(self, event: Event) -> None:
        mode, cost = event["mode"], event["microseconds_per_step"]
        self.say(
            f"probed [bold]{escape(event['reward'])}[/]: {mode}, {number(cost, 3)} µs per step"
        )
        for finding in event.get("findings", []):
            self.say(f"  [yellow]•[/] {escape(finding['message'])}")

    def _train_start(self, event: Event) -> None:
        members = event["members"]
        what = members[0] if len(members) == 1 else f"{len(members)} members"
        verb = f"resuming at {event['step']:,}" if event["resumed"] else "training"
        self.say(
            f"{verb}: {escape(what)}, {event['total_steps']:,} steps each on {event['device']}"
        )

    def _train_progress(self, event: Event) -> None:
        detail = (
            f"return {_mean(event['returns'])} · {number(event['steps_per_second'])} steps/s · "
            f"{duration(event['seconds_left'])} left"
        )
        self._update("training", event["step"], event["total_steps"], detail)
        if not self._live and time.monotonic() - self._last_line > _LINE_EVERY_S:
            self._last_line = time.monotonic()
            self.say(f"{event['step']:>12,} / {event['total_steps']:,} steps  {detail}")

    def _train_finding(self, event: Event) -> None:
        self.say(f"[yellow]![/] {escape(event['member'])}: {escape(event['message'])}")

    def _eval_done(self, event: Event) -> None:
        records: dict[str, dict[str, Any]] = event["members"]
        best = max(records.items(), key=lambda each: each[1]["mean_return"] or 0.0, default=None)
        if best is None:
            return
        name, record = best
        who = "" if len(records) == 1 else f" (best of {len(records)}: {escape(name)})"
        interval = record["interval"]
        spread = f" [{number(interval[0])}, {number(interval[1])}]" if interval else ""
        self.say(
            f"evaluated at {event['step']:,} steps: return [bold]{number(record['mean_return'])}[/]"
            f"{escape(spread)}{who}"
        )

    def _video_progress(self, event: Event) -> None:
        name = event["path"].rpartition("/")[2]
        self._update("rendering", event["frame"], event["frames"], escape(name))

    def _log(self, event: Event) -> None:
        self.say(escape(event["message"]))


def _mean(returns: dict[str, float | None]) -> str:
    present = [value for value in returns.values() if value is not None]
    return number(sum(present) / len(present)) if present else "–"


def progress_of(verb: Verb[..., Any, Any], values: dict[str, Any], is_quiet: bool) -> TrainingView:
    """Return what shows the events of a verb."""
    return TrainingView(quiet=is_quiet)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Make the first Ctrl-C a polite stop and the second one immediate."""
    asked = False

    def handle(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        console.print("\nstopping after this update (Ctrl-C again: now) ...")

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: asked
    except KeyboardInterrupt:
        console.print("stopped. Run the same command again to go on from the last save.")
        raise typer.Exit(1) from None
    finally:
        signal.signal(signal.SIGINT, previous)
