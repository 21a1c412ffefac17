"""What the trainer's worker reports, and the host's side of it: parse, check, write.

The worker runs foreign code, so it writes to no file that says what was asked for or what came of
it: it may only fill the folders it was given (`MemberFolder.filled`). Everything else arrives as a
message, is read by the schema of its record, compared with the job that the host gave out, and
written here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Self

from pydantic import Field, TypeAdapter, ValidationError

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
from telic.sandbox.wire import cleaned, printable
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


class RewardReport(Record):
    """A member's reward as it describes itself: reward_spec.json."""

    record: Literal["reward"] = "reward"
    member: int
    spec: RewardSpec


class MemberReport(Record):
    """A member's result: its summary.json."""

    record: Literal["member"] = "member"
    member: int
    summary: MemberSummary


class RunReport(Record):
    """The result of all members so far: the run's summary.json."""

    record: Literal["run"] = "run"
    summary: RunSummary


Report = Annotated[RewardReport | MemberReport | RunReport, Field(discriminator="record")]
_REPORTS: TypeAdapter[RewardReport | MemberReport | RunReport] = TypeAdapter(Report)


def member_folders(job: TrainJob, run: RunFolder) -> list[MemberFolder]:
    """Return the members' folders in the job's order."""
    return [run.member(member.config, member.seed) for member in job.members]


def combined(
    job: TrainJob,
    run: RunFolder,
    parts: list[RunSummary],
    status: Literal["completed", "stopped", "failed"],
    seconds: float,
) -> RunSummary:
    """Return the summary of a run whose groups were trained apart, in so many seconds."""
    evaluated = [part for part in parts if part.best_return is not None]
    best = max(evaluated, key=lambda part: part.best_return or 0.0, default=None)
    steps = sum(part.total_timesteps for part in parts)
    return RunSummary(
        run=run.name,
        env=job.env,
        status=status,
        total_timesteps=steps,
        training_time_s=seconds,
        steps_per_second=steps / seconds if seconds > 0 else None,
        best_member=best.best_member if best else None,
        best_return=best.best_return if best else None,
        members=[name for part in parts for name in part.members],
    )


def _as_it_is(event: Event) -> Event | None:
    return event


class RunKeeper:
    """The host's side of a training: hears the worker, believes nothing, writes the run's files."""

    def __init__(
        self,
        job: TrainJob,
        run: RunFolder,
        listener: Listener,
        *,
        result: Path | None = None,
        retell: Callable[[Event], Event | None] = _as_it_is,
    ) -> None:
        """Keep what a worker says.

        Args:
            job: what the worker was asked for.
            run: whose files are written.
            listener: called with every event.
            result: where the summary goes; None: it is the run's.
            retell: makes of an event what is told of it; None: nothing.
        """
        self._job = job
        self._run = run
        self._listener = listener
        self._result = result or run.summary
        self._retell = retell
        self._folders = member_folders(job, run)
        self._names = [member.name for member in job.members]
        self._log: JsonLines | None = None
        self._logged = 0
        self._summary: RunSummary | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._log is not None:
            self._log.close()

    def hear(self, message: dict[str, Any]) -> None:
        """Take a message of the worker, an event or a record to write.

        Raises:
            WorkerDied: it is neither, or speaks of what nobody asked for.
        """
        try:
            message = cleaned(message, _MOST_VALUES)
            if "record" in message:
                self._write(_REPORTS.validate_python(message))
            else:
                self._tell(message)
        except ValueError as error:
            _refuse(error)

    def summary(self) -> RunSummary:
        """Return the run's result, once the worker has ended."""
        if self._summary is None:
            _refuse("it ended without a result")
        return self._summary

    def tell(self, event: Event) -> None:
        """Tell of something that this process knows itself."""
        if self._log is None and self._run.events.exists():
            self._log = JsonLines(self._run.events)
        self._keep(event)

    def _tell(self, message: dict[str, Any]) -> None:
        event = self._retell(decode(message, TRAINING_EVENTS))
        if event is not None:
            self._keep(event)

    def _keep(self, event: Event) -> None:
        if self._log is None and isinstance(event, TrainStart):
            self._log = JsonLines(self._run.events)
        if self._log is not None and not isinstance(event, TrainProgress):
            self._logged += 1
            if self._logged > _MOST_EVENTS:
                raise ValueError(f"more than {_MOST_EVENTS:,} events")
            self._log.append(log_line(event))
        self._listener(event)

    def _write(self, report: RewardReport | MemberReport | RunReport) -> None:
        if isinstance(report, RunReport):
            self._write_run(report.summary)
            return
        if not 0 <= report.member < len(self._names):
            raise ValueError(f"there is no member {report.member}")
        folder = self._folders[report.member]
        if isinstance(report, RewardReport):
            write_json(folder.reward_spec, report.spec)
            return
        member = self._job.members[report.member]
        asked = (member.name, member.seed, self._job.rewards[member.reward].name)
        summary = report.summary
        if (summary.member, summary.seed, summary.reward) != asked:
            raise ValueError(f"a result of {summary.member} in the place of {member.name}")
        write_json(folder.summary, summary)

    def _write_run(self, summary: RunSummary) -> None:
        if (summary.run, summary.env) != (self._run.name, self._job.env):
            raise ValueError(f"a result of {summary.run} on {summary.env}")
        if not {*summary.members, summary.best_member or self._names[0]} <= set(self._names):
            raise ValueError("a result of members that nobody asked for")
        write_json(self._result, summary)
        self._summary = summary


def _refuse(why: object) -> NoReturn:
    said = why.errors()[0]["msg"] if isinstance(why, ValidationError) else why
    raise WorkerDied(
        f"The confined process broke the protocol: {printable(said, 300)}.",
        hint="Foreign code that writes to the worker's pipe does that; read the reward.",
    )
