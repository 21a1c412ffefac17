"""What a session may spend, what it has spent, and what is left.

Everything spent is read from the session's own files, so it survives `kill -9`: environment steps
from the metrics of its trainings, calls and dollars from the replies it paid for, and time from a
clock that is saved every few seconds and stands still while the session waits. Dollars and calls
are held by `telic.llm.Budget` before each call is sent; hours and steps are held here.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from telic.authors.request import SessionConfig
from telic.core.config import Record
from telic.core.events import Event, Listener
from telic.errors import ResourceError
from telic.llm.answers import Replies
from telic.llm.client import REPLIES
from telic.storage.facts import EvaluationFacts, RunRequestFacts, RunResultFacts
from telic.storage.files import as_facts, read_facts, read_record, write_json
from telic.storage.layout import IterationFolder, RunFolder, SessionFolder, is_run
from telic.storage.reading import check_file, parse_json

_SAVE_EVERY_S = 5.0
_HOUR_S = 3600.0
_LAST_ROWS_BYTES = 16_384
_WORTH_STARTING = 0.25
"""share of its planned steps below which a training says nothing about its reward"""


class AllowanceLeft(Record):
    """What a session may still spend; None is no limit, or unknown for dollars."""

    hours: float | None = None
    steps: int | None = None
    usd: float | None = None
    calls: int | None = None


class Spending(Event):
    """What a session has spent."""

    NAME = "session.spent"

    seconds: float
    steps: int
    usd: float | None
    """None when the price of a call is unknown"""
    calls: int
    number: int | None = None
    """iteration that has just ended"""
    left: AllowanceLeft = AllowanceLeft()


class AllowanceUsedUp(ResourceError):
    """The session may not go on; `kind` names the limit: hours or steps."""

    def __init__(self, kind: Literal["hours", "steps"], message: str) -> None:
        super().__init__(
            message, hint=f"The best policy so far is kept. Go on with: --budget-{kind} MORE"
        )
        self.kind = kind


class ClockTime(Record):
    """Work done so far."""

    schema_version: Literal[1] = 1
    seconds: float


class SessionAccount:
    """What a session may spend against what it has spent.

    The clock runs from the moment the account is opened; `tick` saves it.
    """

    def __init__(self, folder: SessionFolder, config: SessionConfig) -> None:
        self.folder, self._config = folder, config
        self._before = 0.0
        if folder.clock.exists():
            self._before = read_record(folder.clock, ClockTime).seconds
        self._started: float | None = time.monotonic()
        self._saved_at = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds of work, over every process that carried the session."""
        running = 0.0 if self._started is None else time.monotonic() - self._started
        return self._before + running

    def tick(self) -> None:
        """Save the clock if it is due; cheap enough to be called many times a second."""
        if time.monotonic() - self._saved_at > _SAVE_EVERY_S:
            self.save()

    def save(self) -> None:
        """Save the clock now."""
        self._saved_at = time.monotonic()
        write_json(self.folder.clock, ClockTime(seconds=self.seconds))

    @contextmanager
    def standing_still(self) -> Generator[None]:
        """Do not count the time in which nothing is done."""
        self._before, self._started = self.seconds, None
        self.save()
        try:
            yield
        finally:
            self._started = time.monotonic()

    def spending(self) -> Spending:
        """Return what has been spent so far."""
        usd, calls = paid(self.folder)
        return Spending(seconds=self.seconds, steps=steps_taken(self.folder), usd=usd, calls=calls)

    def left(self) -> AllowanceLeft:
        """Return what may still be spent; never below zero."""
        spent, most = self.spending(), self._config
        used = {
            "hours": spent.seconds / _HOUR_S,
            "steps": spent.steps,
            "usd": spent.usd,
            "calls": spent.calls,
        }
        limits = {name: getattr(most, f"max_{name}") for name in used}
        left = {
            name: None if limits[name] is None or value is None else max(0, limits[name] - value)
            for name, value in used.items()
        }
        return AllowanceLeft.model_validate(left)

    def is_out_of_time(self) -> bool:
        """Say whether the hours are used up; cheap, for polling."""
        hours = self._config.max_hours
        return hours is not None and self.seconds >= hours * _HOUR_S

    def check(self) -> None:
        """Raise AllowanceUsedUp when the hours are used up; `fit` holds the steps."""
        if self.is_out_of_time():
            hours = f"{self._config.max_hours:g}"
            raise AllowanceUsedUp("hours", f"The budget of {hours} hours is used up.")

    def fit(self, steps: int, members: int, run: RunFolder) -> int:
        """Return the steps per policy that a training may take: as planned, or what is left.

        What was decided when the run began stands, so that an interrupted one is the same job
        when it goes on. Raises AllowanceUsedUp when so little is left that training would say
        nothing.
        """
        if run.config.exists():
            return read_facts(run.config, RunRequestFacts)["steps"]
        left = self.left().steps
        if left is None or steps * members <= left:
            return steps
        if left < _WORTH_STARTING * steps * members:
            raise AllowanceUsedUp(
                "steps",
                f"{left:,} of the budget of {self._config.max_steps:,} steps are left, and the "
                f"next training needs {steps * members:,}.",
            )
        return left // members

    def report(self, tell: Listener, number: int) -> None:
        """Tell what is spent and what is left after an iteration."""
        self.save()
        tell(self.spending().model_copy(update={"number": number, "left": self.left()}))


def paid(folder: SessionFolder) -> tuple[float | None, int]:
    """Return dollars and calls of all models, answers that were no use included.

    The dollars are None when the price of a call is unknown.
    """
    charges = Replies(folder.path / REPLIES).charges()
    prices = [each.usd for each in charges]
    usd = None if None in prices else sum(each for each in prices if each is not None)
    return usd, sum(each.calls for each in charges)


def steps_taken(folder: SessionFolder) -> int:
    """Return the environment steps of all trainings of a session, finished or not.

    Iteration 0 was trained, and paid for, by the session a branch came from.
    """
    numbers = [number for number in folder.iterations() if number > 0]
    return sum(iteration_steps(folder.iteration(number)) for number in numbers)


def iteration_steps(files: IterationFolder) -> int:
    """Return the environment steps of an iteration's trainings, finished or not."""
    return sum(_run_steps(RunFolder(path)) for path in files.path.iterdir() if is_run(path))


def _run_steps(run: RunFolder) -> int:
    """Return the steps of a run so far.

    The summary of a run that was stopped, resumed and killed is older than its metrics.
    """
    finished = 0
    if run.summary.exists():
        finished = read_facts(run.summary, RunResultFacts).get("total_timesteps", 0)
    return max(finished, sum(last_step(each.scalars) for each in run.members()))


def last_step(scalars: Path) -> int:
    """Return the step of the last whole row of a metric file."""
    if not scalars.exists():
        return 0
    size = check_file(scalars)
    with scalars.open("rb") as file:
        file.seek(max(0, size - _LAST_ROWS_BYTES))
        rows = file.read().split(b"\n")[:-1]
    if not rows:
        return 0
    return as_facts(parse_json(rows[-1], str(scalars)), EvaluationFacts, str(scalars))[
        "global_step"
    ]
