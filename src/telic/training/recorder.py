"""Record training: metrics, events, policies, trajectories and summaries."""

from __future__ import annotations

import math
import time
from statistics import fmean, pstdev
from typing import Any, NamedTuple

import torch

from telic import __version__
from telic.core.events import Listener, LogMessage, TrainProgress, TrainStart
from telic.core.tensors import flags, table
from telic.storage.files import replacing
from telic.storage.layout import RunFolder
from telic.storage.scalars import ScalarLog, read_rows
from telic.storage.trajectories import write_trajectory
from telic.training.evaluate import Evaluation
from telic.training.job import TrainJob
from telic.training.policy import save_policy
from telic.training.population import LearningResult
from telic.training.results import (
    EvalDone,
    EvaluationRecord,
    Finding,
    MemberSummary,
    RunSummary,
    member_folders,
)
from telic.training.rollout import Batch
from telic.training.setup import Setup

PROGRESS_EVERY_S = 0.5


class Progress(NamedTuple):
    """Progress of a run."""

    iteration: int
    seconds: float
    """training time in seconds, accumulated over resumes"""
    pending: Batch | None
    """batch that was collected but not yet used for learning, or None"""


class Recorder:
    """Writer for all training outputs except the resumable state.

    The recorder writes only to folders that the host created. The host writes all other files.
    """

    def __init__(self, job: TrainJob, run: RunFolder, emit: Listener, setup: Setup) -> None:
        self.job = job
        self.run = run
        self.step = 0
        self.seconds = 0.0
        self._setup = setup
        self.emit = emit
        self.folders = member_folders(job, run)
        self._scalars = [ScalarLog(folder.scalars) for folder in self.folders]
        self.evaluations: list[list[EvaluationRecord]] = [[] for _ in job.members]
        self._last_save = self._last_progress = time.perf_counter()
        self._session: tuple[float, int] = 0.0, 0
        self._is_reported = False

    def begin(self, progress: Progress) -> None:
        """Truncate metrics written after the resumed state and emit the start of training."""
        self.step = progress.iteration * self.job.settings.batch_size
        self.seconds = progress.seconds
        self._session = progress.seconds, self.step
        for member, log in enumerate(self._scalars):
            log.truncate_after(self.step)
            self.evaluations[member] = [
                EvaluationRecord.model_validate({k: v for k, v in row.items() if k != "type"})
                for row in read_rows(self.folders[member].scalars, "eval")
            ]
        self.emit(
            TrainStart(
                run=self.run.name,
                members=tuple(member.name for member in self.job.members),
                step=self.step,
                total_steps=self.total_steps,
                device=self.job.device,
                resumed=progress.iteration > 0,
            )
        )

    @property
    def total_steps(self) -> int:
        """Total environment steps per member."""
        return self.job.iterations * self.job.settings.batch_size

    # ------------------------------------------------------------------ each iteration

    def numbers(self, learned: LearningResult) -> dict[str, list[float]]:
        """Copy the metrics of an update, (P,) each, from the device in one transfer."""
        population = self._setup.population
        columns = learned.stats._asdict() | {
            "explained_variance": learned.explained_variance,
            "learning_rate": population.learning_rate[:, 0],
            "policy_std": learned.policy_std,
            "alive": population.alive,
        }
        values = table(torch.stack([column.float() for column in columns.values()]))
        return dict(zip(columns, values, strict=True))

    def iteration(
        self,
        iteration: int,
        numbers: dict[str, list[float]],
        ended: list[int],
        seconds: float,
        learning: float,
    ) -> None:
        """Write one row of metrics per member and emit progress."""
        before = self.step
        self.how()
        self.seconds = seconds
        self.step = iteration * self.job.settings.batch_size
        start, step = self._session
        passed, done = seconds - start, (self.step - step) * len(self.job.members)
        rate = done / passed if passed > 0 else None
        for member, log in enumerate(self._scalars):
            if not (numbers["alive"][member] and numbers["finite"][member]):
                continue
            row: dict[str, Any] = {"global_step": self.step, "iteration": iteration}
            row |= {
                name: None if math.isnan(numbers[name][member]) else numbers[name][member]
                for name in numbers
                if name not in ("alive", "finite")
            }
            row |= self._episodes(member, ended[member])
            row |= {"sps": rate, "elapsed_time": seconds, "train_time": learning}
            log.append(row)
            for finding in self._setup.health[member].watch(row, self.step / self.total_steps):
                self._report(member, finding)
        if time.perf_counter() - self._last_progress > PROGRESS_EVERY_S or before == 0:
            self._progress(seconds, rate)

    def _episodes(self, member: int, ended: int) -> dict[str, Any]:
        recent = self._setup.tracker.recent[member]
        totals = [episode.total for episode in recent]
        names = self._setup.scoring.term_names[member]
        row: dict[str, Any] = {
            "episodic_return": _mean(totals),
            "episodic_return_std": pstdev(totals) if totals else None,
            "episodic_return_min": min(totals, default=None),
            "episodic_return_max": max(totals, default=None),
            "episode_length": _mean([episode.length for episode in recent]),
            "episodes_per_rollout": ended,
        }
        return row | {
            f"reward_term_{name}": _mean([episode.terms[index] for episode in recent])
            for index, name in enumerate(names)
        }

    def _progress(self, seconds: float, rate: float | None) -> None:
        self._last_progress = time.perf_counter()
        left = (self.total_steps - self.step) * len(self.job.members)
        recent = self._setup.tracker.recent
        returns = {
            member.name: _mean([episode.total for episode in recent[index]])
            for index, member in enumerate(self.job.members)
        }
        self.emit(
            TrainProgress(
                step=self.step,
                total_steps=self.total_steps,
                seconds=seconds,
                steps_per_second=rate,
                seconds_left=left / rate if rate else None,
                returns=returns,
            )
        )

    # ------------------------------------------------------------------ findings

    def _report(self, member: int, finding: Finding) -> None:
        name = self.job.members[member].name
        self.emit(finding.model_copy(update={"member": name}))

    def complaints(self, counts: dict[str, int]) -> None:
        """Report overflows of simulation buffers once per kind and member."""
        for kind, count in counts.items():
            for member, health in enumerate(self._setup.health):
                finding = health.inexact(self.step, kind, count)
                if finding is not None:
                    self._report(member, finding)

    def how(self) -> None:
        """Log once whether rollouts run as a CUDA graph."""
        graphed = self._setup.collector.graphed
        if self._is_reported or graphed.is_recorded is None or self.job.device == "cpu":
            return
        self._is_reported = True
        if graphed.is_recorded:
            text = "policy, physics and reward run as one CUDA graph"
        else:
            text = f"step by step, because no CUDA graph is possible: {graphed.obstacle}"
        self.emit(LogMessage(message=text))

    def not_finite(self, setup: Setup, member: int, batch: Batch, what: str) -> None:
        """Save the batch and weights of a member with non-finite values for debugging."""
        folder = self.folders[member]
        path = folder.checkpoints_dir / f"not_finite_{self.step}.pt"
        moment = {
            name: value[:, member].cpu().clone()
            for name, value in batch._asdict().items()
            if isinstance(value, torch.Tensor)
        }
        with replacing(path) as temporary:
            torch.save({**moment, "flat": setup.population.flat[member].cpu().clone()}, temporary)
        self._report(member, setup.health[member].not_finite(self.step, what, path.name))

    # ------------------------------------------------------------------ evaluations

    def evaluation(self, evaluation: Evaluation, setup: Setup, seconds: float) -> None:
        """Save the policies, trajectories and metrics of an evaluation."""
        alive = flags(setup.population.alive)
        for member, (record, kept) in enumerate(
            zip(evaluation.records, evaluation.trajectories, strict=True)
        ):
            if not alive[member]:
                continue
            folder = self.folders[member]
            for label, trajectory in kept.items():
                write_trajectory(folder.trajectory(self.step, label), trajectory)
            self.keep_policy(setup, member)
            self.evaluations[member].append(record)
            self._scalars[member].append({"type": "eval", **record.model_dump()})
        latest = {
            member.name: self.evaluations[index][-1].model_copy(update={"all_returns": []})
            for index, member in enumerate(self.job.members)
            if alive[index]
        }
        self.emit(EvalDone(step=self.step, seconds=seconds, members=latest))

    def keep_policy(self, setup: Setup, member: int) -> None:
        """Save a checkpoint of a member's policy."""
        env, job, own = setup.env, setup.job, setup.job.members[member]
        facts = {
            "telic": __version__,
            "env": job.env,
            "env_args": job.env_args,
            "member": own.name,
            "seed": own.seed,
            "step": self.step,
            "reward": job.rewards[own.reward].name,
            "obs_names": list(env.spec.obs_names),
            "action_names": list(env.spec.action_names),
            "dt_s": env.spec.dt_s,
        }
        path = self.folders[member].checkpoint(self.step)
        save_policy(path, setup.population, member, env.action_low, env.action_high, facts)

    def save_is_due(self) -> bool:
        """Return True if `save_every_s` seconds have passed since the last resumable save."""
        return time.perf_counter() - self._last_save >= self.job.save_every_s

    def saved(self) -> None:
        """Reset the timer after the resumable state was saved."""
        self._last_save = time.perf_counter()

    def close(self) -> None:
        """Close all files."""
        for file in self._scalars:
            file.close()


def summarize_run(
    setup: Setup,
    recorder: Recorder,
    finished: bool,
    seconds: float,
    probes: list[dict[str, Any] | None],
) -> tuple[RunSummary, list[MemberSummary]]:
    """Return the summaries of the run and its members."""
    alive = flags(setup.population.alive)
    summaries: list[MemberSummary] = []
    for index, member in enumerate(setup.job.members):
        finite = [done for done in recorder.evaluations[index] if done.mean_return is not None]
        best = max(finite, key=lambda done: done.mean_return or 0.0, default=None)
        recent = setup.tracker.recent[index]
        summary = MemberSummary(
            member=member.name,
            seed=member.seed,
            reward=setup.job.rewards[member.reward].name,
            status="not_finite" if not alive[index] else "completed" if finished else "stopped",
            total_timesteps=recorder.step,
            training_time_s=seconds,
            total_episodes=setup.tracker.finished[index],
            final_episodic_return=_mean([episode.total for episode in recent]),
            best_step=best.global_step if best else None,
            best=best,
            last=recorder.evaluations[index][-1] if recorder.evaluations[index] else None,
            findings=setup.health[index].findings,
            probe=probes[member.reward],
        )
        summaries.append(summary)
    # Members are compared by their best finite evaluation, even if reward scales differ.
    best = {one.member: one.best.mean_return or 0.0 for one in summaries if one.best}
    where, status = (recorder.run.name, setup.job.env), "completed" if finished else "stopped"
    names, total = [one.member for one in summaries], recorder.step * len(summaries)
    return RunSummary.of(where, status, total, seconds, best, names), summaries


def _mean(values: list[float] | list[int]) -> float | None:
    return fmean(values) if values else None
