"""Training results: records, diagnostic findings, and validation of worker reports.

The worker runs untrusted code, so it can write only to the folders in `MemberFolder.filled`.
Everything else is sent as a message, validated against its schema and the job, and written by
the host.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal, NoReturn, Self

from pydantic import Field, ValidationError

from telic.core.config import Record
from telic.core.events import (
    TRAINING_EVENTS,
    Event,
    Listener,
    TrainProgress,
    TrainStart,
    decode_event,
    log_line,
)
from telic.envs.spec import RewardSpec
from telic.errors import WorkerDied
from telic.sandbox.wire import bounded_text, cleaned
from telic.storage.files import JsonLines, write_json
from telic.storage.layout import MemberFolder, RunFolder
from telic.training.job import TrainJob

_WINDOW = 20
_COLLAPSED_STD = 0.02
_DOMINANT = 0.9
_KL_FACTOR = 5.0
_VALUE_FACTOR = 10.0
_PLATEAU_SHARE = 0.02


class Finding(Event):
    """Diagnostic finding about a member's training."""

    NAME = "train.finding"

    member: str = ""
    name: str
    message: str
    values: dict[str, float | None] = Field(default={})
    step: int = 0


class Health:
    """Monitor of a member's metrics that reports each kind of finding once."""

    def __init__(self, term_names: list[str], target_kl: float) -> None:
        self.term_names = term_names
        self.target_kl = target_kl
        self.findings: list[Finding] = []
        self._rows: deque[dict[str, Any]] = deque(maxlen=_WINDOW)
        self._returns: list[float] = []
        self._lowest_value_loss = math.inf

    def watch(self, row: dict[str, Any], progress: float) -> list[Finding]:
        """Process the metrics of an iteration and return new findings."""
        self._rows.append(row)
        if row["episodic_return"] is not None:
            self._returns.append(row["episodic_return"])
        known, step = len(self.findings), row["global_step"]
        self._watch_update(row, step)
        if len(self._rows) == _WINDOW and len(self.term_names) > 1:
            self._watch_terms(step)
        third = len(self._returns) // 3
        if progress >= 0.6 and third >= _WINDOW:
            # Compare the means of the last and the second third, relative to the range.
            before, after = fmean(self._returns[-2 * third : -third]), fmean(self._returns[-third:])
            spread = max(self._returns) - min(self._returns)
            if spread > 0.0 and abs(after - before) <= _PLATEAU_SHARE * spread:
                text = f"The return has plateaued: {before:.4g} to {after:.4g} over the last "
                text += "third of training. More steps are unlikely to help."
                self._report("plateau", step, text, before=before, after=after)
        return self.findings[known:]

    def _watch_update(self, row: dict[str, Any], step: int) -> None:
        """Check action std, KL divergence and value loss, if the learner reports them."""
        std = row["policy_std"]
        if std is not None and std < _COLLAPSED_STD:
            text = f"Exploration has almost stopped: the mean action std is {std:.3g} of half the "
            text += "action range. Raise entropy_coef or lower learning_rate."
            self._report("entropy_collapse", step, text, policy_std=std)
        latest = [past["approx_kl"] for past in list(self._rows)[-3:]]
        if len(latest) == 3 and None not in latest and min(latest) > _KL_FACTOR * self.target_kl:
            kl, target = fmean(latest), self.target_kl
            text = f"Updates change the policy too much: KL {kl:.3g} for three updates, target "
            text += f"{target:.3g}. Lower learning_rate or epochs."
            self._report("kl_blow_up", step, text, approx_kl=kl, target_kl=target)
        losses = [past["value_loss"] for past in self._rows]
        if len(losses) == _WINDOW and None not in losses:
            recent, explained = median(losses), row["explained_variance"]
            lowest = self._lowest_value_loss = min(self._lowest_value_loss, recent)
            if recent > _VALUE_FACTOR * lowest and explained <= 0.5:
                text = f"The value loss rose from {lowest:.3g} to {recent:.3g} while it explains "
                text += f"{explained:.0%} of the returns. Lower learning_rate."
                self._report("value_loss_diverges", step, text, lowest=lowest, recent=recent)

    def _watch_terms(self, step: int) -> None:
        """Check for reward terms that dominate the reward or are always zero."""
        sizes = {
            name: fmean(abs(row[f"reward_term_{name}"] or 0.0) for row in self._rows)
            for name in self.term_names
        }
        total = sum(sizes.values())
        for name, size in sizes.items():
            if size == 0.0:
                text = f'The term "{name}" was exactly zero for {_WINDOW} updates. Unless it is an '
                text += "unused penalty or its phase was not reached yet, check its condition."
                self._report(f"dead_term:{name}", step, text, share=0.0)
            elif size > _DOMINANT * total:
                text = f'The term "{name}" is {size / total:.0%} of the reward and dominates the '
                text += "others. Lower its weight or raise theirs."
                self._report(f"dominant_term:{name}", step, text, share=size / total)

    def _report(self, name: str, step: int, message: str, **values: float | None) -> Finding | None:
        """Add and return a finding. Returns None if the finding was already reported."""
        if any(finding.name == name for finding in self.findings):
            return None
        self.findings.append(Finding(name=name, message=message, values=values, step=step))
        return self.findings[-1]

    def not_finite(self, step: int, what: str, saved: str) -> Finding:
        """Report that a member stopped because of non-finite values."""
        message = f"{what} became NaN or infinite; training of this member stopped. See {saved}."
        self.findings.append(Finding(name="not_finite", message=message, step=step))
        return self.findings[-1]

    def inexact(self, step: int, kind: str, count: int) -> Finding | None:
        """Report a contact buffer overflow. Returns None if an overflow was already reported."""
        text = f"The GPU's contact buffer ({kind}) overflowed in {count} simulation steps, "
        text += "so some were dropped. This is harmless if rare. Otherwise, use --device cpu."
        name = f"simulation_overflow:{kind.lower()}"
        return self._report(name, step, text, count=float(count))

    def state_dict(self) -> dict[str, Any]:
        """Return the state for resuming."""
        return {
            "findings": [finding.model_dump() for finding in self.findings],
            "rows": list(self._rows),
            "returns": list(self._returns),
            "lowest": self._lowest_value_loss,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state."""
        self.findings = [Finding.model_validate(saved) for saved in state["findings"]]
        self._rows = deque(state["rows"], maxlen=_WINDOW)
        self._returns = list(state["returns"])
        self._lowest_value_loss = state["lowest"]


_MAX_VALUES = 2_000_000
"""maximum number of values per message (evaluating 1,000 members requires about 40,000)"""
_MAX_EVENTS = 200_000
"""maximum number of logged events per training (long ones log some hundreds)"""


class EvaluationRecord(Record):
    """Evaluation of one member on episodes that are not used for training."""

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
    """fraction of episodes that terminated before the time limit"""
    env_return: float | None
    """mean return under the environment's built-in reward"""
    reward_terms: dict[str, float | None]
    """mean episode sum of each reward term"""


class EvalDone(Event):
    """Emitted after all members were evaluated."""

    NAME = "eval.done"

    step: int
    """environment steps per member"""
    seconds: float = 0.0
    """duration of the evaluation in seconds"""
    members: dict[str, EvaluationRecord]
    """evaluations of active members by name, without the returns of single episodes"""


class MemberSummary(Record):
    """Summary of one trained policy."""

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
    """mean return of the last training episodes, with exploration noise"""
    best_step: int | None
    best: EvaluationRecord | None
    """evaluation with the highest mean return"""
    last: EvaluationRecord | None
    findings: list[Finding]
    probe: dict[str, Any] | None


class RunSummary(Event):
    """Summary of a training run."""

    NAME = "train.end"

    schema_version: Literal[1] = 1
    run: str
    env: str
    status: Literal["completed", "stopped", "failed"]
    total_timesteps: int
    """total environment steps of all members"""
    training_time_s: float
    steps_per_second: float | None
    best_member: str | None
    best_return: float | None
    members: list[str]

    @classmethod
    def of(
        cls,
        where: tuple[str, str],
        status: Literal["completed", "stopped", "failed"],
        steps: int,
        seconds: float,
        best: Mapping[str, float],
        members: list[str],
    ) -> Self:
        """Create the summary of a run."""
        winner = max(best, key=best.__getitem__, default=None)
        return cls(
            run=where[0],
            env=where[1],
            status=status,
            total_timesteps=steps,
            training_time_s=seconds,
            steps_per_second=steps / seconds if seconds > 0 else None,
            best_member=winner,
            best_return=None if winner is None else best[winner],
            members=members,
        )


class TrainingReport(Record):
    """Report that the worker sends in addition to events."""

    record: Literal["report"] = "report"
    rewards: tuple[RewardSpec, ...] = ()
    """reward specification of each member, written to reward_spec.json"""
    members: tuple[MemberSummary, ...] = ()
    """summary of each member, written to summary.json"""
    summary: RunSummary | None = None
    """summary of all members, written to the run's summary.json"""


def member_folders(job: TrainJob, run: RunFolder) -> list[MemberFolder]:
    """Return the folder of every member of a job."""
    return [run.member(member.config, member.seed) for member in job.members]


class RunWriter:
    """Host side of training: validates worker messages and writes the files of the run."""

    def __init__(
        self,
        job: TrainJob,
        run: RunFolder,
        listener: Listener,
        *,
        result: Path | None = None,
        translate: Callable[[Event], Event | None] = lambda event: event,
    ) -> None:
        """Initialize the keeper.

        The summary is written to `result`, by default the run's summary file. `translate` maps each
        worker event to the event to emit, or to None to drop it.
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
        """Process a message of the worker: an event or a report.

        Raises:
            WorkerDied: if the message is invalid or does not match the job.
        """
        try:
            message = cleaned(message, _MAX_VALUES)
            if "record" in message:
                self._write(TrainingReport.model_validate(message))
            elif (event := self._translate(decode_event(message, TRAINING_EVENTS))) is not None:
                self.emit(event)
        except ValueError as error:
            _refuse(error)

    def summary(self) -> RunSummary:
        """Return the summary after the worker has exited."""
        if self._summary is None:
            _refuse("the worker exited without a result")
        return self._summary

    def emit(self, event: Event) -> None:
        """Log an event and pass it to the listener. The log starts with `TrainStart`."""
        if self._log is None and (isinstance(event, TrainStart) or self._run.events.exists()):
            self._log = JsonLines(self._run.events)
        if self._log is not None and not isinstance(event, TrainProgress):
            self._logged += 1
            if self._logged > _MAX_EVENTS:
                raise ValueError(f"more than {_MAX_EVENTS:,} events")
            self._log.append(log_line(event))
        self._listener(event)

    def _write(self, report: TrainingReport) -> None:
        """Validate a report against the job and write its files."""
        job, summary = self._job, report.summary
        for parts in (report.rewards, report.members):
            if len(parts) not in (0, len(job.members)):
                raise ValueError(f"a report for {len(parts)} members, not {len(job.members)}")
        asked = [(one.name, one.seed, job.rewards[one.reward].name) for one in job.members]
        given = [(one.member, one.seed, one.reward) for one in report.members]
        if given and given != asked:
            raise ValueError("results of unexpected members")
        if summary is not None:
            names = {one.name for one in job.members}
            if (summary.run, summary.env) != (self._run.name, job.env):
                raise ValueError(f"a result for {summary.run} on {summary.env}")
            if not {*summary.members, *filter(None, [summary.best_member])} <= names:
                raise ValueError("a result for unknown members")
        folders = member_folders(job, self._run)
        for folder, spec in zip(folders, report.rewards, strict=False):
            write_json(folder.reward_spec, spec)
        for folder, own in zip(folders, report.members, strict=False):
            write_json(folder.summary, own)
        if summary is not None:
            write_json(self._result, summary)
            self._summary = summary


def _refuse(why: object) -> NoReturn:
    reason = why.errors()[0]["msg"] if isinstance(why, ValidationError) else why
    raise WorkerDied(
        f"The sandboxed process sent an invalid message: {bounded_text(reason, 300)}.",
        hint="Check the reward, because code that writes to the worker's pipe causes this.",
    )
