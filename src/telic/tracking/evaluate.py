"""Play clips with a tracker, each from its first frame, and measure how they were followed.

Without noise or variation, with the most likely actions, every encoder in turn on every clip: the
same tracker gives the same numbers each time. Frames after a failure do not count. A training plays
held-out clips the same way, and keeps trackers, their reports, numbers of tokens and of starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from telic import __version__
from telic.core.events import Listener
from telic.core.stats import bootstrap
from telic.core.tensors import flags, integers, norm, table
from telic.envs.mujoco import MujocoEnv
from telic.motions.clip import Split
from telic.motions.library import MotionLibrary
from telic.storage.files import write_json
from telic.storage.layout import MemberFolder, RunFolder
from telic.tracking.config import TrackingConfig
from telic.tracking.environment import clips_of, make_tracking, tracking_task
from telic.tracking.metrics import (
    ClipResult,
    EncoderResult,
    PairAgreement,
    TokenUse,
    TrackingReport,
    follow_errors,
    summarise_encoder,
)
from telic.tracking.quantiser import agreement, code_use
from telic.tracking.task import ClipChoice, TrackingTask
from telic.tracking.tokens import LOSSES, TokenNetworks
from telic.tracking.tracker import Tracker, TrackerFacts, member_tracker, save_tracker
from telic.training.evaluate import Evaluation
from telic.training.job import TrainJob
from telic.training.population import Actor
from telic.training.ppo import LearningResult
from telic.training.recorder import Recorder
from telic.training.results import EvaluationRecord
from telic.training.setup import Setup

_AT_ONCE = 1024
"""environments that play together"""
_LOOK_EVERY = 5
"""steps between two looks at the tokens"""
_FIELDS = ("robot_places", "target_places", "joint_error", "turn_error")


class PlayTape(NamedTuple):
    """What was played; columns (T, N, ...) on the CPU."""

    played: Tensor
    """(T, N) bool, steps before the end of each episode, that one included"""
    failed: Tensor
    """(N,) bool"""
    columns: dict[str, Tensor]
    qpos: Tensor
    """(T, N, nq)"""
    codes: dict[str, Tensor]
    """(n, width) by encoder, of every few steps"""
    available: Tensor
    """(n, encoders) bool"""


class ClipPlayer:
    """Environments that play clips; the same for every tracker of a configuration."""

    def __init__(
        self,
        config: TrackingConfig,
        library: MotionLibrary,
        clips: Sequence[int],
        *,
        device: str = "cpu",
        threads: int | None = None,
    ) -> None:
        self.config, self.clips = config, list(clips)
        self.encoders = list(config.networks.encoders)
        pairs = [(c, e) for c in range(len(self.clips)) for e in range(len(self.encoders))]
        self.pairs = pairs
        self.env = make_tracking(
            config,
            library,
            self.clips,
            num_envs=min(len(pairs), _AT_ONCE),
            device=device,
            threads=threads,
            playing=True,
        )
        self.task = tracking_task(self.env)

    def rounds(self) -> list[list[tuple[int, int]]]:
        """Return the clips and encoders that are played together."""
        size = self.env.num_envs
        parts = [self.pairs[at : at + size] for at in range(0, len(self.pairs), size)]
        return [part + part[-1:] * (size - len(part)) for part in parts]

    @torch.no_grad()
    def play(self, tracker: Tracker | None, pairs: Sequence[tuple[int, int]]) -> PlayTape:
        """Play one clip with one encoder in every environment; None: hold the resting pose."""
        env, task, device = self.env, self.task, self.env.device
        clip = torch.tensor([pair[0] for pair in pairs], device=device)
        encoder = torch.tensor([pair[1] for pair in pairs], device=device)
        task.assignment = ClipChoice(clip, torch.zeros_like(clip), encoder)
        rows = env.reset(0)
        live = torch.ones(env.num_envs, dtype=torch.bool, device=device)
        failed = torch.zeros_like(live)
        tape: dict[str, list[Tensor]] = {name: [] for name in (*_FIELDS, "played", "qpos")}
        codes: dict[str, list[Tensor]] = {name: [] for name in self.encoders}
        there: list[Tensor] = []
        for step in range(int(task.table.frames[clip].max())):
            if tracker is None:
                action = torch.zeros(env.num_envs, env.act_dim, device=device)
            else:
                action = tracker.act(rows)
            if tracker is not None and step % _LOOK_EVERY == 0:
                for name, own in tracker.codes(rows[live]).items():
                    codes[name].append(own.cpu())
                there.append(rows[live][:, slice(*tracker.shape.available)].cpu() > 0.5)
            taken = env.step(action)
            for name in _FIELDS:
                tape[name].append(taken.info[name].cpu())
            tape["qpos"].append(taken.info["qpos"].cpu())
            tape["played"].append(live.cpu())
            failed |= taken.terminated & live
            live = live & ~(taken.terminated | taken.truncated)
            rows = taken.obs
            if not bool(live.any()):
                break
        columns = {name: torch.stack(values) for name, values in tape.items()}
        return PlayTape(
            columns.pop("played"),
            failed.cpu(),
            columns,
            columns.pop("qpos"),
            {name: torch.cat(values) for name, values in codes.items() if values},
            torch.cat(there) if there else torch.empty(0),
        )

    def control(self) -> EncoderResult:
        """Measure a robot that only holds its resting pose: what a success rate is to be beside."""
        results: list[ClipResult] = []
        for pairs in self.rounds():
            tape = self.play(None, pairs)
            results += [self._result(tape, row, pair) for row, pair in enumerate(pairs)]
        own = [each for each in results[: len(self.pairs)] if each.encoder == self.encoders[0]]
        return summarise_encoder("resting", own)

    def evaluate(self, tracker: Tracker, split: str) -> TrackingReport:
        """Play everything and measure it."""
        results: list[ClipResult] = []
        tapes: list[PlayTape] = []
        for pairs in self.rounds():
            tape = self.play(tracker, pairs)
            tapes.append(tape)
            wanted = min(len(pairs), len(self.pairs) - len(results))
            results += [self._result(tape, row, pairs[row]) for row in range(wanted)]
        kept = [
            result for result, pair in zip(results, self.pairs, strict=True) if self._has(*pair)
        ]
        by = {name: [r for r in kept if r.encoder == name] for name in self.encoders}
        codes = {name: torch.cat([tape.codes[name] for tape in tapes]) for name in self.encoders}
        there = torch.cat([tape.available for tape in tapes])
        levels = self.config.networks.levels
        return TrackingReport(
            step=tracker.facts.step,
            member=tracker.facts.member,
            split=split,
            encoders=tuple(summarise_encoder(name, own) for name, own in by.items() if own),
            tokens=tuple(
                TokenUse(encoder=name, **code_use(own, levels)._asdict())
                for name, own in codes.items()
            ),
            agreement=tuple(
                _agreement(self.encoders, i, j, codes, there)
                for i, j in combinations(range(len(self.encoders)), 2)
            ),
            clips=tuple(kept),
        )

    def _has(self, clip: int, encoder: int) -> bool:
        """Say whether an encoder has anything to see of a clip."""
        return bool(self.task.available[clip, encoder] > 0)

    def _result(self, tape: PlayTape, row: int, pair: tuple[int, int]) -> ClipResult:
        played = int(tape.played[:, row].sum())
        robot = tape.columns["robot_places"][:played, row]
        target = tape.columns["target_places"][:played, row]
        failed = flags(tape.failed)[row]
        whole = int(self.task.table.frames[pair[0]]) - 1
        far = norm(robot - target).mean(1).amax().item() > self.config.evaluation.global_m
        return ClipResult(
            clip=self.task.table.names[pair[0]],
            encoder=self.encoders[pair[1]],
            success=not failed,
            global_success=not (failed or far),
            progress=min(1.0, (played - failed) / max(whole, 1)),
            frames=played,
            joint_rad=tape.columns["joint_error"][:played, row].mean().item(),
            turn_rad=tape.columns["turn_error"][:played, row].mean().item(),
            errors=follow_errors(robot, target, self.task.dt),
        )

    def close(self) -> None:
        """Free the environments."""
        self.env.close()


def _agreement(
    names: list[str], i: int, j: int, codes: dict[str, Tensor], available: Tensor
) -> PairAgreement:
    both = available[:, i] & available[:, j]
    one, other = codes[names[i]], codes[names[j]]
    found = agreement(one, other, both)
    # Of frames that have nothing to do with each other: a fixed shuffle.
    order = torch.randperm(len(other), generator=torch.Generator().manual_seed(0))
    chance = agreement(one, other[order], both & both[order])
    return PairAgreement(
        one=names[i],
        other=names[j],
        equal_share=found.equal_share,
        chance=chance.equal_share,
        distance=found.distance,
    )


def played_clips(config: TrackingConfig, library: MotionLibrary, split: Split) -> list[int]:
    """Return the clips that an evaluation plays: evenly chosen where there are too many."""
    clips = clips_of(library, split)
    most = config.evaluation.clips
    if most is None or len(clips) <= most:
        return clips
    chosen = integers(torch.linspace(0, len(clips) - 1, most).round().long())
    return [clips[place] for place in chosen]


# ---------------------------------------------------------------------------- during training


def tracker_path(folder: MemberFolder, step: int) -> Path:
    """Return where the tracker after so many steps goes."""
    return folder.checkpoints_dir / f"tracker_{step}.pt"


def report_path(folder: MemberFolder, step: int) -> Path:
    """Return where the report of a tracker that was measured during training goes."""
    return folder.path / "evaluations" / f"report_{step}.json"


class TrackEvaluator:
    """Plays held-out clips with every member. Implements `PolicyEvaluator`."""

    def __init__(
        self, setup: Setup, config: TrackingConfig, player: ClipPlayer, split: str
    ) -> None:
        self.setup, self.config, self.player, self.split = setup, config, player, split
        self.reports: list[TrackingReport] = []
        """of the latest evaluation, by member"""

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
        """Measure every member; the score of one is the share of each clip that it followed."""
        self.reports = [
            self.player.evaluate(self.tracker(member, global_step), self.split)
            for member in range(self.setup.population.size)
        ]
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
        agreed: Callable[[bool], bool] = bool,
    ) -> None:
        """Prepare; `agreed` says whether a flag is set in any of several processes."""
        super().__init__(job, run, emit, setup)
        self._agreed = agreed
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

    def save_is_due(self) -> bool:
        """Say whether it is time to save, in any of the processes: all do it at once."""
        return self._agreed(super().save_is_due())

    def keep_policy(self, setup: Setup, member: int) -> None:
        """Write a member's tracker, and the report of it."""
        folder = self.folders[member]
        save_tracker(tracker_path(folder, self.step), self._evaluator.tracker(member, self.step))
        path = report_path(folder, self.step)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, self._evaluator.reports[member])
