"""What a run came to: the records behind summary.json."""

from __future__ import annotations

from statistics import fmean
from typing import Any, Literal

from telic.core.config import Record
from telic.storage.files import write_json
from telic.training.evaluate import EvaluationRecord
from telic.training.health import Finding
from telic.training.record import Recorder
from telic.training.setup import Setup

Status = Literal["completed", "stopped", "failed"]


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


class RunSummary(Record):
    """One call of the trainer."""

    schema_version: Literal[1] = 1
    run: str
    env: str
    status: Status
    total_timesteps: int
    """environment steps of all members together"""
    training_time_s: float
    steps_per_second: float | None
    best_member: str | None
    best_return: float | None
    members: list[str]


def summarise(
    setup: Setup,
    recorder: Recorder,
    finished: bool,
    seconds: float,
    probes: list[dict[str, Any] | None],
) -> RunSummary:
    """Write every summary.json and return the run's."""
    alive = setup.population.alive.tolist()
    summaries: list[MemberSummary] = []
    for index, member in enumerate(setup.job.members):
        evaluations = [each for each in recorder.evaluations[index] if each.mean_return is not None]
        best = max(evaluations, key=lambda each: each.mean_return or 0.0, default=None)
        recent = setup.tracker.recent[index]
        summary = MemberSummary(
            member=member.name,
            seed=member.seed,
            reward=setup.job.rewards[member.reward].name,
            status="not_finite" if not alive[index] else "completed" if finished else "stopped",
            total_timesteps=recorder.step,
            training_time_s=seconds,
            total_episodes=setup.tracker.finished[index],
            final_episodic_return=fmean(each.total for each in recent) if recent else None,
            best_step=best.global_step if best else None,
            best=best,
            last=recorder.evaluations[index][-1] if recorder.evaluations[index] else None,
            findings=setup.health[index].findings,
            probe=probes[member.reward],
        )
        write_json(recorder.folders[index].summary, summary)
        summaries.append(summary)
    total = recorder.step * len(summaries)
    winner = max(
        (each for each in summaries if each.best), key=lambda each: _score(each), default=None
    )
    result = RunSummary(
        run=recorder.run.name,
        env=setup.job.env,
        status="completed" if finished else "stopped",
        total_timesteps=total,
        training_time_s=seconds,
        steps_per_second=total / seconds if seconds > 0 else None,
        best_member=winner.member if winner else None,
        best_return=winner.best.mean_return if winner and winner.best else None,
        members=[each.member for each in summaries],
    )
    write_json(recorder.run.summary, result)
    return result


def _score(summary: MemberSummary) -> float:
    """Compare members by the environment's own return when their rewards differ in scale."""
    best = summary.best
    return best.mean_return if best and best.mean_return is not None else float("-inf")
