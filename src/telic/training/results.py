"""Results of training: the records, and the host's side of the worker's reports.

The worker runs foreign code, so it may only write to the folders it was given
(`MemberFolder.filled`). Everything else arrives as a message, is validated by its schema, compared
with the job that the host gave out, and written here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NoReturn, Self

from pydantic import Field, ValidationError

from telic.core.config import Record
from telic.core.events import (
    TRAINING_EVENTS,
    Event,
    Listener,
    TrainProgress,
    TrainStart,
    decode,
    log_line,
)
from telic.errors import WorkerDied
from telic.rewards.contract import RewardSpec
from telic.sandbox.wire import bounded_text, cleaned
from telic.storage.files import JsonLines, write_json
from telic.storage.layout import MemberFolder, RunFolder
from telic.training.health import Finding
from telic.training.job import TrainJob

_MOST_VALUES = 2_000_000
"""values of one message; an evaluation of a thousand members has some forty thousand"""
_MOST_EVENTS = 200_000
"""kept of one call of the trainer; a long one has some hundreds"""


class EvaluationRecord(Record):
    """How good one member was after some steps of training, on episodes it never trained on."""

    global_step: int
    episodes: int
    mean_return: float | None
    interval: tuple[float, float] | None
    """95 % bootstrap interval of the mean"""
    std_return: float | None
    min_return: float | None
    p10_return: float | None
    median_return: float | None
    p90_return: float | None
    max_return: float | None
    all_returns: list[float | None] = Field(default=[])
    episode_length: float
    terminated_share: float
    """share of episodes that ended before their time"""
    env_return: float | None
    """mean return under the environment's own reward"""
    reward_terms: dict[str, float | None]
    """mean sum over an episode, by term"""


class EvalDone(Event):
    """All members were evaluated on fresh episodes."""

    NAME = "eval.done"

    step: int
    """environment steps per member"""
    seconds: float = 0.0
    """the evaluation took"""
    members: dict[str, EvaluationRecord]
    """by name, without the single returns; members that had to stop are missing"""


class MemberSummary(Record):
    """One trained policy."""

    schema_version: Literal[1] = 1
    member: str
    seed: int
    reward: str
    algorithm: str = "ppo"
    status: Literal["completed", "stopped", "not_finite"]
    total_timesteps: int
    training_time_s: float
    total_episodes: int
    final_episodic_return: float | None
    """mean of the last training episodes, with exploration noise"""
    best_step: int | None
    best: EvaluationRecord | None
    """the best evaluation by mean return"""
    last: EvaluationRecord | None
    findings: list[Finding]
    probe: dict[str, Any] | None


class RunSummary(Event):
    """The result of one call of the trainer."""

    NAME = "train.end"

    schema_version: Literal[1] = 1
    run: str
    env: str
    status: Literal["completed", "stopped", "failed"]
    total_timesteps: int
    """environment steps of all members together"""
    training_time_s: float
    steps_per_second: float | None
    best_member: str | None
    best_return: float | None
    members: list[str]


class TrainingReport(Record):
    """What the worker reports besides events, as far as it is known."""

    record: Literal["report"] = "report"
    rewards: tuple[RewardSpec, ...] = ()
    """each member's reward as it describes itself: its reward_spec.json"""
    members: tuple[MemberSummary, ...] = ()
    """each member's result: its summary.json"""
    summary: RunSummary | None = None
    """of all members so far: the run's summary.json"""


def member_folders(job: TrainJob, run: RunFolder) -> list[MemberFolder]:
    """Return the members' folders in the job's order."""
    return [run.member(member.config, member.seed) for member in job.members]


class RunKeeper:
    """The host's side of a training: checks what the worker reports and writes the run's files."""

    def __init__(
        self,
        job: TrainJob,
        run: RunFolder,
        listener: Listener,
        *,
        result: Path | None = None,
        translate: Callable[[Event], Event | None] = lambda event: event,
    ) -> None:
        """Prepare to receive messages.

        Args:
            job: what the worker was asked for.
            run: whose files are written.
            listener: called with every event.
            result: where the summary goes; None: it is the run's.
            translate: returns the event to log instead of one of the worker; None: log nothing.
        """
        self._job, self._run, self._listener = job, run, listener
        self._result = result or run.summary
        self._translate = translate
        self._log: JsonLines | None = None
        self._logged = 0
        self._summary: RunSummary | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._log is not None:
            self._log.close()

    def receive(self, message: dict[str, Any]) -> None:
        """Take a message of the worker: an event, or a report to write.

        Raises:
            WorkerDied: it is neither, or is about something that was not asked for.
        """
        try:
            message = cleaned(message, _MOST_VALUES)
            if "record" in message:
                self._write(TrainingReport.model_validate(message))
            elif (event := self._translate(decode(message, TRAINING_EVENTS))) is not None:
                self._emit(event)
        except ValueError as error:
            _refuse(error)

    def summary(self) -> RunSummary:
        """Return the run's result, once the worker has ended."""
        if self._summary is None:
            _refuse("it ended without a result")
        return self._summary

    def emit(self, event: Event) -> None:
        """Log an event of this process."""
        if self._log is None and self._run.events.exists():
            self._log = JsonLines(self._run.events)
        self._emit(event)

    def _emit(self, event: Event) -> None:
        if self._log is None and isinstance(event, TrainStart):
            self._log = JsonLines(self._run.events)
        if self._log is not None and not isinstance(event, TrainProgress):
            self._logged += 1
            if self._logged > _MOST_EVENTS:
                raise ValueError(f"more than {_MOST_EVENTS:,} events")
            self._log.append(log_line(event))
        self._listener(event)

    def _write(self, report: TrainingReport) -> None:
        """Write a report; its parts are compared with the job before the first file is written."""
        job, summary = self._job, report.summary
        for parts in (report.rewards, report.members):
            if len(parts) not in (0, len(job.members)):
                raise ValueError(f"a report of {len(parts)} members, not of {len(job.members)}")
        asked = [(one.name, one.seed, job.rewards[one.reward].name) for one in job.members]
        given = [(one.member, one.seed, one.reward) for one in report.members]
        if given and given != asked:
            raise ValueError("results of other members")
        if summary is not None:
            names = {one.name for one in job.members}
            if (summary.run, summary.env) != (self._run.name, job.env):
                raise ValueError(f"a result of {summary.run} on {summary.env}")
            if not {*summary.members, *filter(None, [summary.best_member])} <= names:
                raise ValueError("a result of members that were not asked for")
        folders = member_folders(job, self._run)
        for folder, spec in zip(folders, report.rewards, strict=False):
            write_json(folder.reward_spec, spec)
        for folder, own in zip(folders, report.members, strict=False):
            write_json(folder.summary, own)
        if summary is not None:
            write_json(self._result, summary)
            self._summary = summary


def _refuse(why: object) -> NoReturn:
    said = why.errors()[0]["msg"] if isinstance(why, ValidationError) else why
    raise WorkerDied(
        f"The confined process broke the protocol: {bounded_text(said, 300)}.",
        hint="Foreign code that writes to the worker's pipe does that; read the reward.",
    )
