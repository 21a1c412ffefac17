"""What a training of trackers keeps: trackers, how they follow held-out clips, tokens, starts."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import numpy as np

from telic import __version__
from telic.core.events import Listener
from telic.core.stats import bootstrap
from telic.core.tensors import table
from telic.envs.mujoco import MujocoEnv
from telic.storage.files import write_json
from telic.storage.layout import MemberFolder, RunFolder
from telic.storage.trajectories import Trajectory, write_trajectory
from telic.tracking.config import TrackingConfig
from telic.tracking.environment import tracking_task
from telic.tracking.evaluate import ClipPlayer
from telic.tracking.reports import TrackingReport
from telic.tracking.task import TrackingTask
from telic.tracking.token_phases import settle
from telic.tracking.tokens import LOSSES, TokenNetworks
from telic.tracking.tracker import Tracker, TrackerFacts, member_tracker, save_tracker
from telic.training.evaluate import Evaluation
from telic.training.job import TrainJob
from telic.training.population import Actor
from telic.training.ppo import LearningResult
from telic.training.recorder import Recorder
from telic.training.results import EvaluationRecord
from telic.training.setup import Setup


def tracker_path(folder: MemberFolder, step: int) -> Path:
    """Return where the tracker after so many steps goes."""
    return folder.checkpoints_dir / f"tracker_{step}.pt"


def report_path(folder: MemberFolder, step: int) -> Path:
    """Return where the report of a tracker that was measured during training goes."""
    return folder.path / "evaluations" / f"report_{step}.json"


def episode_path(folder: MemberFolder, step: int, label: str) -> Path:
    """Return where an episode of a tracker that was measured during training goes."""
    return folder.path / "evaluations" / f"clip_{step}_{label}.npz"


class TrackEvaluator:
    """Plays held-out clips with every member. Implements `PolicyEvaluator`."""

    def __init__(
        self, setup: Setup, config: TrackingConfig, player: ClipPlayer, split: str
    ) -> None:
        self.setup, self.config, self.player, self.split = setup, config, player, split
        self.reports: list[TrackingReport] = []
        """of the latest evaluation, by member"""
        self.episodes: list[dict[str, Trajectory]] = []

    def tracker(self, member: int, step: int) -> Tracker:
        """Return a member as it is now."""
        who, task = self.setup.job.members[member], tracking_task_of(self.setup)
        facts = TrackerFacts(
            step=step,
            member=who.name,
            seed=who.seed,
            row=task.columns.facts._asdict(),
            clips=task.table.names,
            telic=__version__,
        )
        return member_tracker(self.setup.population, member, self.config, facts)

    def evaluate(self, actor: Actor, global_step: int) -> Evaluation:
        """Measure every member; the score of one is the share of each clip that it followed.

        Before the last time encoders settle: nothing is learned after it.
        """
        job = self.setup.job
        if global_step >= job.iterations * job.settings.batch_size:
            settle(self.setup, self.config)
        measured = [
            self.player.measure(self.tracker(member, global_step), self.split)
            for member in range(self.setup.population.size)
        ]
        self.reports = [each.report for each in measured]
        self.episodes = [each.episodes for each in measured]
        records = [_record(report) for report in self.reports]
        return Evaluation(records, [{} for _ in records])


def _record(report: TrackingReport) -> EvaluationRecord:
    """Return a report as evaluations of any training are kept: its return is the progress."""
    shares = [clip.progress for clip in report.clips]
    return EvaluationRecord(
        global_step=report.step,
        episodes=len(shares),
        mean_return=fmean(shares),
        interval=bootstrap(shares),
        std_return=float(np.std(shares)),
        min_return=min(shares),
        p10_return=float(np.quantile(shares, 0.1)),
        median_return=float(np.median(shares)),
        p90_return=float(np.quantile(shares, 0.9)),
        max_return=max(shares),
        all_returns=list(shares),
        episode_length=fmean(clip.frames for clip in report.clips),
        terminated_share=1.0 - report.success_rate,
        env_return=None,
        reward_terms={
            f"{each.encoder}_{name}": getattr(each, name)
            for each in report.encoders
            for name in ("success_rate", "mpjpe_l_mm", "mpjpe_g_mm")
        },
    )


def tracking_task_of(setup: Setup) -> TrackingTask:
    """Return the task of a set-up."""
    assert isinstance(setup.env, MujocoEnv)
    return tracking_task(setup.env)


class TrackRecorder(Recorder):
    """A recorder that keeps trackers and reports, and tells of tokens and starts."""

    def __init__(
        self,
        job: TrainJob,
        run: RunFolder,
        emit: Listener,
        setup: Setup,
        evaluator: TrackEvaluator,
    ) -> None:
        super().__init__(job, run, emit, setup)
        self._evaluator = evaluator
        self._task = tracking_task_of(setup)

    def numbers(self, learned: LearningResult) -> dict[str, list[float]]:
        """Fetch an update's numbers, those of the tokens and of the starts among them."""
        found = super().numbers(learned)
        networks = self._setup.population.networks
        assert isinstance(networks, TokenNetworks)
        if networks.latest is not None:
            losses = table(networks.latest)
            found |= {f"loss_{name}": own for name, own in zip(LOSSES, losses, strict=True)}
        spread = [self._task.coverage(member) for member in range(len(self.job.members))]
        found["start_coverage"] = [each.effective_share for each in spread]
        found["start_peak"] = [each.highest for each in spread]
        found["failure_rate"] = [each.failure_rate for each in spread]
        return found

    def keep_policy(self, setup: Setup, member: int) -> None:
        """Write a member's tracker, the report of it, and episodes that it played."""
        folder = self.folders[member]
        save_tracker(tracker_path(folder, self.step), self._evaluator.tracker(member, self.step))
        path = report_path(folder, self.step)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, self._evaluator.reports[member])
        for label, episode in self._evaluator.episodes[member].items():
            write_trajectory(episode_path(folder, self.step, label), episode)
