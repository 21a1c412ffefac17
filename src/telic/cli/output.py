"""How the command line speaks: one JSON document, or the view that a result has on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from telic.core.text import count
from telic.errors import TelicError

if TYPE_CHECKING:
    from telic.core.events import ProbeFinding, TrainFinding  # all events, which few commands need

_VIEWS: dict[str, Callable[[Any], None]] = {}
_VIEW_MODULES = (
    "work_results",
    "label_results",
    "tool_results",
    "job_results",
    "motion_results",
    "track_results",
    "study_views",
    "study_run_views",
)


def print_json(value: Any) -> None:
    """Print one JSON document and nothing else."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def fail(error: TelicError, as_json: bool) -> NoReturn:
    """Say what went wrong in one paragraph and leave with the error's exit code."""
    if as_json:
        print_json({"error": type(error).__name__, "message": error.message, "hint": error.hint})
    else:
        from rich.markup import escape

        from telic.cli.console import errors

        errors.print(f"[bold red]✗[/] {escape(error.message)}", soft_wrap=True)
        if error.hint:
            errors.print(f"  {escape(error.hint)}", soft_wrap=True)
    raise typer.Exit(error.exit_code)


def view(function: Callable[[Any], None]) -> Callable[[Any], None]:
    """Make a function the way in which results of its argument's type are shown.

    Types are known by their names, which are unique, so that no view has to import what it shows.
    """
    [kind] = [kind for name, kind in function.__annotations__.items() if name != "return"]
    _VIEWS[kind] = function
    return function


def show(result: Any) -> None:
    """Print a result for people; views are loaded until the one for it is there."""
    name = type(result).__name__
    for module in _VIEW_MODULES:
        if name in _VIEWS:
            break
        import_module(f"telic.cli.{module}")
    _VIEWS[name](result)


# ---- findings
# What looks wrong with a training is said once: a population of 48 must not say it 48 times.
# Findings of one kind come in bursts, a line per member. The first burst is one line with a count;
# members that join later are counted, and told together when the training ends.


_NAMED = 3
"""members that are listed by name; of more, one and their number"""


class FindingLines:
    """Gathers the findings of one training and makes lines of them."""

    def __init__(self) -> None:
        self._burst: dict[str, list[TrainFinding]] = {}
        self._said: dict[str, TrainFinding] = {}
        self._later: dict[str, int] = {}
        self._probed: set[tuple[str, str]] = set()

    def add(self, finding: TrainFinding) -> None:
        """Take in what was found of one member."""
        if finding.name in self._said:
            self._later[finding.name] = self._later.get(finding.name, 0) + 1
        else:
            self._burst.setdefault(finding.name, []).append(finding)

    def new(self) -> Iterator[str]:
        """Yield a line for each kind that was not told yet."""
        for name, findings in self._burst.items():
            self._said[name] = findings[0]
            yield f"{_who([each.member for each in findings])}: {findings[0].message}"
        self._burst = {}

    def rest(self) -> Iterator[str]:
        """Yield what is left to be told when the training has ended, and begin anew."""
        yield from self.new()
        for name, more in self._later.items():
            kind, first = name.partition(":")[0].replace("_", " "), self._said[name].member
            yield f"{count(more, 'member')} more had the same as {first} later: {kind}"
        self._said, self._later, self._probed = {}, {}, set()

    def unheard(self, findings: Iterable[ProbeFinding]) -> list[ProbeFinding]:
        """Return what no reward that was probed before had, too."""
        new = [each for each in findings if (each.name, each.message) not in self._probed]
        self._probed |= {(each.name, each.message) for each in new}
        return new


def _who(members: list[str]) -> str:
    if len(members) <= _NAMED:
        return ", ".join(members)
    return f"{len(members)} members, such as {members[0]}"
