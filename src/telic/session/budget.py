"""The budget of a session: limits, what has been spent, and what is left.

Everything spent is read from the session's own files, so it survives `kill -9`: environment steps
from the metrics of its trainings, calls and dollars from the replies it paid for, and time from a
clock that is saved every few seconds and stopped while the session waits. Limits in dollars and
calls are enforced by `telic.llm.Budget` before each call; limits in hours and steps here.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from telic.authors.request import SessionConfig
from telic.core.config import Record
from telic.core.events import Event
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
    """The remaining budget of a session; None is unlimited, or unknown for dollars."""

    hours: float | None = None
    steps: int | None = None
    usd: float | None = None
    calls: int | None = None


class Spending(Event):
    """The spending of a session."""

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
    """The session must stop; `kind` names the limit: hours or steps."""

    def __init__(self, kind: Literal["hours", "steps"], message: str) -> None:
        super().__init__(
            message, hint=f"The best policy so far is kept. Resume with: --budget-{kind} MORE"
        )
        self.kind = kind


class ClockTime(Record):
    """Work done so far."""

    schema_version: Literal[1] = 1
    seconds: float


class SessionAccount:
    """The spending of a session against its limits; its clock runs while it is open."""

    def __init__(self, folder: SessionFolder, config: SessionConfig) -> None:
        self.folder, self._config = folder, config
        saved = read_record(folder.clock, ClockTime).seconds if folder.clock.exists() else 0.0
        self._before = saved
        self._started: float | None = time.monotonic()
        self._saved_at = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds of work, over every process that ran the session."""
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
    def paused(self) -> Generator[None]:
        """Stop the clock for the block."""
        self._before, self._started = self.seconds, None
        self.save()
        try:
            yield
        finally:
            self._started = time.monotonic()

    def spending(self, number: int | None = None) -> Spending:
        """Return what has been spent so far, and what is left."""
        usd, calls = paid(self.folder)
        steps, seconds = steps_taken(self.folder), self.seconds
        used = {"hours": seconds / _HOUR_S, "steps": steps, "usd": usd, "calls": calls}
        limits = {name: getattr(self._config, f"max_{name}") for name in used}
        left = {
            name: None if limits[name] is None or value is None else max(0, limits[name] - value)
            for name, value in used.items()
        }
        return Spending(
            seconds=seconds,
            steps=steps,
            usd=usd,
            calls=calls,
            number=number,
            left=AllowanceLeft.model_validate(left),
        )

    def is_out_of_time(self) -> bool:
        """Return whether the hours are used up; cheap, for polling."""
        hours = self._config.max_hours
        return hours is not None and self.seconds >= hours * _HOUR_S

    def check(self) -> None:
        """Raise AllowanceUsedUp when the hours are used up; `fit` checks the steps."""
        if self.is_out_of_time():
            hours = f"{self._config.max_hours:g}"
            raise AllowanceUsedUp("hours", f"The budget of {hours} hours is used up.")

    def fit(self, steps: int, members: int, run: RunFolder) -> int:
        """Return the steps per policy that a training may take: as planned, or what is left.

        An interrupted run keeps the steps it was started with, so that it is the same job when it
        is resumed. Raises AllowanceUsedUp when too little is left to say anything.
        """
        if run.config.exists():
            return read_facts(run.config, RunRequestFacts)["steps"]
        left = self.spending().left.steps
        if left is None or steps * members <= left:
            return steps
        if left < _WORTH_STARTING * steps * members:
            raise AllowanceUsedUp(
                "steps",
                f"{left:,} of the budget of {self._config.max_steps:,} steps are left, and the "
                f"next training needs {steps * members:,}.",
            )
        return left // members


def paid(folder: SessionFolder) -> tuple[float | None, int]:
    """Return dollars and calls of all models, rejected answers included.

    The dollars are None when the price of a call is unknown.
    """
    charges = [call.charge for call in Replies(folder.path / REPLIES).calls()]
    prices = [each.usd for each in charges]
    usd = None if None in prices else sum(each for each in prices if each is not None)
    return usd, sum(each.calls for each in charges)


def steps_taken(folder: SessionFolder) -> int:
    """Return the environment steps of all trainings of a session, finished or not.

    Iteration 0 of a branch was trained by another session.
    """
    numbers = [number for number in folder.iterations() if number > 0]
    return sum(iteration_steps(folder.iteration(number)) for number in numbers)


def iteration_steps(files: IterationFolder) -> int:
    """Return the environment steps of an iteration's trainings, finished or not."""
    total = 0
    for run in (RunFolder(path) for path in files.path.iterdir() if is_run(path)):
        finished = 0
        if run.summary.exists():
            finished = read_facts(run.summary, RunResultFacts).get("total_timesteps", 0)
        # The summary of a run that was stopped, resumed and killed is older than its metrics.
        total += max(finished, sum(last_step(each.scalars) for each in run.members()))
    return total


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
    where = str(scalars)
    return as_facts(parse_json(rows[-1], where), EvaluationFacts, where)["global_step"]
