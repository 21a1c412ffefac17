"""What goes on around a verb that takes its time: who shows its events, and how Ctrl-C ends it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from telic.cli.output import console
from telic.core.verb import Verb

if TYPE_CHECKING:
    from telic.cli.views import TrainingView


def progress_of(verb: Verb[..., Any, Any], values: dict[str, Any], is_quiet: bool) -> TrainingView:
    """Return what shows the events of a verb."""
    from telic.cli import views  # with all events, which few commands need

    if verb.__name__ in ("run", "resume", "watch"):
        return views.WorkView(quiet=is_quiet, asks=values.get("interactive", False))
    if verb.__name__ in ("search", "labels"):
        return views.SearchView(quiet=is_quiet)
    if verb.__name__ == "intents":
        return views.BenchView(brief=values["jobs"] > 1, quiet=is_quiet)
    return views.TrainingView(quiet=is_quiet)


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
