"""Evaluate a tracker on whole clips and record and render the episodes.

Every encoder plays every clip with deterministic actions, without noise or domain randomization,
so evaluations are reproducible. Frames after a failure are ignored.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch
from torch import Tensor

from telic import __version__
from telic.core.events import Listener, LogMessage, ignore
from telic.core.stats import wilson
from telic.core.tensors import flags, integers, norm, table
from telic.errors import UnknownName
from telic.motions.clip import Split
from telic.motions.library import MotionLibrary
from telic.motions.robot import MotionRobot
from telic.rendering.job import Rendering
from telic.rendering.jobs import render_poses
from telic.storage.files import write_json
from telic.storage.layout import RunFolder
from telic.storage.trajectories import REFERENCE, Trajectory, TrajectoryFacts, write_trajectory
from telic.tracking._token_phases import settle
from telic.tracking._tokens import LOSSES, TokenNetworks
from telic.tracking.config import TrackingConfig
from telic.tracking.reports import (
    ClipResult,
    EncoderResult,
    FollowErrors,
    PairAgreement,
    TokenUsage,
    TrackingReport,
    summarize_encoder,
)
from telic.tracking.task import ClipChoice, clips_of, make_tracking, tracking_task
from telic.tracking.tracker import Tracker, TrackerFacts, member_tracker, save_tracker
from telic.training.evaluate import LABELS, Evaluation, evaluation_record
from telic.training.job import TrainJob
from telic.training.population import Actor, LearningResult
from telic.training.recorder import Recorder
from telic.training.results import EvaluationRecord
from telic.training.setup import Setup

_AT_ONCE = 1024
"""maximum number of environments per batch"""
_TOKENS_EVERY = 5
"""number of control steps between token samples"""
_MM = 1000.0
_linalg: Any = torch.linalg
_FIELDS = ("robot_places", "target_places", "joint_error", "turn_error")


class EpisodeTape(NamedTuple):
    """Recorded episodes, with columns (T, N, ...) on the CPU."""

    played: Tensor
    """whether a step belongs to the episode, (T, N) bool"""
    failed: Tensor
    """whether the episode failed, (N,) bool"""
    columns: dict[str, Tensor]
    qpos: Tensor
    """positions (T, N, nq)"""
    codes: dict[str, Tensor]
    """codes (n, width) by encoder, sampled every few steps"""
    available: Tensor
    """whether the input of an encoder is available, (n, encoders) bool"""


class ClipPlayer:
    """Play clips in environments that all trackers of a configuration share."""

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
        """Return the (clip, encoder) pairs in batches with one pair per environment."""
        size = self.env.num_envs
        parts = [self.pairs[at : at + size] for at in range(0, len(self.pairs), size)]
        return [part + part[-1:] * (size - len(part)) for part in parts]

    @torch.no_grad()
    def play(self, tracker: Tracker | None, pairs: Sequence[tuple[int, int]]) -> EpisodeTape:
        """Play a (clip, encoder) pair per environment. Without a tracker, hold the default pose."""
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
            if tracker is not None and step % _TOKENS_EVERY == 0:
                for name, own in tracker.codes(rows[live]).items():
                    codes[name].append(own.cpu())
                there.append(rows[live][:, tracker.shape.columns("available")].cpu() > 0.5)
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
        return EpisodeTape(
            columns.pop("played"),
            failed.cpu(),
            columns,
            columns.pop("qpos"),
            {name: torch.cat(values) for name, values in codes.items() if values},
            torch.cat(there) if there else torch.empty(0),
        )

    def control(self) -> EncoderResult:
        """Evaluate the baseline (a robot that holds its default pose)."""
        results: list[ClipResult] = []
        for pairs in self.rounds():
            tape = self.play(None, pairs)
            results += [self._result(tape, row, pair) for row, pair in enumerate(pairs)]
        own = [each for each in results[: len(self.pairs)] if each.encoder == self.encoders[0]]
        return summarize_encoder("resting", own)

    def measure(self, tracker: Tracker, split: str) -> tuple[TrackingReport, dict[str, Trajectory]]:
        """Play all clips. Returns the report and the p10, median and p90 episodes by progress."""
        results: list[ClipResult] = []
        tapes: list[EpisodeTape] = []
        for pairs in self.rounds():
            tape = self.play(tracker, pairs)
            tapes.append(tape)
            wanted = min(len(pairs), len(self.pairs) - len(results))
            results += [self._result(tape, row, pairs[row]) for row in range(wanted)]
        places = [place for place, pair in enumerate(self.pairs) if self.task.available[pair] > 0]
        kept = [results[place] for place in places]
        by = {name: [r for r in kept if r.encoder == name] for name in self.encoders}
        codes = {name: torch.cat([tape.codes[name] for tape in tapes]) for name in self.encoders}
        there = torch.cat([tape.available for tape in tapes])
        levels = self.config.networks.levels
        places.sort(key=lambda place: (results[place].progress, -results[place].joint_rad))
        chosen = {
            label: places[min(int(share * len(places)), len(places) - 1)]
            for label, share in LABELS.items()
        }
        size = self.env.num_envs
        episodes = {
            label: self.episode(tapes[place // size], place % size, self.pairs[place], label)
            for label, place in chosen.items()
        }
        report = TrackingReport(
            step=tracker.facts.step,
            member=tracker.facts.member,
            split=split,
            conditions=self.conditions(),
            encoders=tuple(summarize_encoder(name, own) for name, own in by.items() if own),
            tokens=tuple(_code_use(name, own, levels) for name, own in codes.items()),
            agreement=tuple(
                _agreement((one, other), (codes[one], codes[other]), there[:, i] & there[:, j])
                for (i, one), (j, other) in combinations(enumerate(self.encoders), 2)
            ),
            clips=tuple(kept),
        )
        return report, episodes

    def conditions(self) -> str:
        """Describe the robot, the motions and the tolerances of a success."""
        parts, limits = self.task.parts, self.config.evaluation
        ends = " and ".join(parts.body_names[place] for place in integers(parts.ends)) or "no ends"
        return (
            f"{parts.robot.name}, {self.config.motions.library or 'generated motions'}; tolerances "
            f"{limits.anchor_height_m:g} m (root height), {limits.anchor_turn_rad:g} rad (root), "
            f"{limits.end_height_m:g} m (height of {ends}), {limits.global_m:g} m (mean of "
            f"{len(parts.bodies)} of {len(parts.robot.body_names)} bodies)"
        )

    def episode(
        self, tape: EpisodeTape, row: int, pair: tuple[int, int], label: str | None = None
    ) -> Trajectory:
        """Return the trajectory of one environment together with its reference."""
        robot, clips, (clip, encoder) = self.task.parts.robot, self.task.table, pair
        played = int(tape.played[:, row].sum())
        frames = torch.arange(1, played + 1, device=clips.first.device)
        pose = clips.pose(clips.first[clip] + frames)
        wanted = robot.to_qpos(
            *(part.cpu() for part in (pose.root_pos, pose.root_quat, pose.joint_pos))
        )
        facts = TrajectoryFacts(
            env_id=str(robot.file),
            dt_s=self.task.dt,
            label=label,
            extra={"clip": clips.names[clip], "encoder": self.encoders[encoder]},
        )
        states = {"qpos": tape.qpos[:played, row], REFERENCE: wanted}
        columns = {name: state.numpy().astype(np.float32) for name, state in states.items()}
        return Trajectory(columns, facts)

    def _result(self, tape: EpisodeTape, row: int, pair: tuple[int, int]) -> ClipResult:
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
        """Close the environments."""
        self.env.close()


def played_clips(config: TrackingConfig, library: MotionLibrary, split: Split) -> list[int]:
    """Return the clips to evaluate, evenly spaced if limited by `evaluation.clips`."""
    clips = clips_of(library, split)
    most = config.evaluation.clips
    if most is None or len(clips) <= most:
        return clips
    chosen = integers(torch.linspace(0, len(clips) - 1, most).round().long())
    return [clips[place] for place in chosen]


# ---- tokens


def _code_use(encoder: str, codes: Tensor, levels: int) -> TokenUsage:
    """Return the usage of quantization levels by codes (n, d), averaged over dimensions."""
    share = torch.nn.functional.one_hot(codes.long(), levels).double().mean(0)  # (d, L)
    entropy = -(share * share.clamp_min(1e-300).log2()).sum(1).mean()
    return TokenUsage(
        encoder=encoder,
        entropy_bits=entropy.item(),
        dead_share=(share == 0).double().mean().item(),
        saturated_share=(share[:, 0] + share[:, -1]).mean().item(),
    )


def _agreement(names: tuple[str, str], codes: tuple[Tensor, Tensor], both: Tensor) -> PairAgreement:
    """Compare the codes (n, d) of two encoders on the rows where both have input."""

    def apart(other: Tensor, there: Tensor) -> Tensor:
        return (codes[0][there].long() - other[there].long()).abs()

    # Pair unrelated frames by a fixed permutation to estimate chance agreement.
    order = torch.randperm(len(codes[1]), generator=torch.Generator().manual_seed(0))
    found, chance = apart(codes[1], both), apart(codes[1][order], both & both[order])
    return PairAgreement(
        one=names[0],
        other=names[1],
        equal_share=(found == 0).double().mean().item() if len(found) else None,
        chance=(chance == 0).double().mean().item() if len(chance) else None,
        distance=found.double().mean().item() if len(found) else None,
    )


# ---- body errors over the played frames


def similarity(robot: Tensor, target: Tensor) -> Tensor:
    """Align body positions (T, B, 3) to the target with the best similarity transform per frame.

    The method is described in Umeyama (1991).
    """
    a, b = robot.double(), target.double()
    middle_a, middle_b = a.mean(1, keepdim=True), b.mean(1, keepdim=True)
    x, y = a - middle_a, b - middle_b
    u, s, vt = _linalg.svd(y.transpose(1, 2) @ x)
    sign = torch.ones_like(s)
    sign[:, -1] = torch.sign(_linalg.det(u @ vt))
    turn = u @ torch.diag_embed(sign) @ vt
    spread = x.square().sum((1, 2)).clamp_min(1e-12)
    scale = ((s * sign).sum(1) / spread)[:, None, None]
    return scale * (x @ turn.transpose(1, 2)) + middle_b


def follow_errors(robot: Tensor, target: Tensor, dt: float) -> FollowErrors:
    """Compute the errors in m of body positions (T, B, 3) against the reference.

    Local errors compare positions relative to the roots of robot and reference.
    """
    robot, target = robot.double(), target.double()
    off = robot - target
    local = off - off[:, :1]
    speed = norm(off[1:] - off[:-1]).mean().item() if len(off) > 1 else None
    second = off[2:] - 2.0 * off[1:-1] + off[:-2]
    jolt = norm(second).mean().item() if len(off) > 2 else None
    return FollowErrors(
        mpjpe_g_mm=_MM * norm(off).mean().item(),
        mpjpe_l_mm=_MM * norm(local).mean().item(),
        mpjpe_pa_mm=_MM * norm(similarity(robot, target) - target).mean().item(),
        velocity_mm=None if speed is None else _MM * speed,
        velocity_m_s=None if speed is None else speed / dt,
        acceleration_mm=None if jolt is None else _MM * jolt,
        acceleration_m_s2=None if jolt is None else jolt / dt**2,
        drift_m=norm(off[-1, 0, :2]).item(),
    )


class TrackEvaluator:
    """Evaluator of all members on held-out clips that implements `PolicyEvaluator`."""

    def __init__(
        self,
        setup: Setup,
        config: TrackingConfig,
        player: ClipPlayer,
        split: str,
        on_event: Listener = ignore,
    ) -> None:
        self.setup, self.config, self.player, self.split = setup, config, player, split
        self._on_event = on_event
        self.reports: list[TrackingReport] = []
        """reports of the latest evaluation by member"""
        self.episodes: list[dict[str, Trajectory]] = []

    def tracker(self, member: int, step: int) -> Tracker:
        """Return the current policy of a member."""
        policy, task = self.setup.job.members[member], tracking_task(self.setup.env)
        facts = TrackerFacts(
            step=step,
            member=policy.name,
            seed=policy.seed,
            row=task.columns.facts._asdict(),
            clips=task.table.names,
            telic=__version__,
        )
        return member_tracker(self.setup.population, member, self.config, facts)

    def evaluate(self, actor: Actor, global_step: int) -> Evaluation:
        """Evaluate every member. A member's score is the mean tracked fraction of the clips.

        Before the final evaluation, the settling phase aligns the encoders.
        """
        job = self.setup.job
        if global_step >= job.iterations * job.settings.batch_size:
            settle(self.setup, self.config, self._on_event)
        plays = len(self.player.pairs) * self.setup.population.size
        self._on_event(LogMessage(message=f"evaluating: {plays} episodes of held-out clips"))
        measured = [
            self.player.measure(self.tracker(member, global_step), self.split)
            for member in range(self.setup.population.size)
        ]
        self.reports = [report for report, _ in measured]
        self.episodes = [episodes for _, episodes in measured]
        records = [_record(report) for report in self.reports]
        return Evaluation(records, [{} for _ in records])


def _record(report: TrackingReport) -> EvaluationRecord:
    """Convert a report to a generic evaluation record, with the progress as its return.

    Wilson intervals are used, because bootstrap intervals of equal values have zero width.
    """
    progress = np.array([clip.progress for clip in report.clips])
    low = wilson(math.floor(progress.sum()), len(progress))
    high = wilson(math.ceil(progress.sum()), len(progress))
    record = evaluation_record(
        report.step,
        progress,
        episode_length=fmean(clip.frames for clip in report.clips),
        terminated_share=1.0 - report.success_rate,
        env_return=None,
        reward_terms={
            f"{each.encoder}_{name}": getattr(each, name)
            for each in report.encoders
            for name in ("success_rate", "mpjpe_l_mm", "mpjpe_g_mm")
        },
    )
    return record.model_copy(update={"interval": low and high and (low.low, high.high)})


class TrackRecorder(Recorder):
    """Recorder of trackers, reports, and metrics of tokens and initial states."""

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
        self._task = tracking_task(setup.env)

    def numbers(self, learned: LearningResult) -> dict[str, list[float]]:
        """Return the metrics of an update, including token losses and initial-state statistics."""
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
        """Save a member's tracker, its report and its recorded episodes."""
        folder, step = self.folders[member], self.step
        tracker = self._evaluator.tracker(member, step)
        save_tracker(folder.checkpoints_dir / f"tracker_{step}.pt", tracker)
        reports = folder.path / "evaluations"
        reports.mkdir(parents=True, exist_ok=True)
        write_json(reports / f"report_{step}.json", self._evaluator.reports[member])
        for label, episode in self._evaluator.episodes[member].items():
            write_trajectory(reports / f"clip_{step}_{label}.npz", episode)


_OVERLAY = "ghost_"
_SHADE = (0.45, 0.75, 0.55, 0.35)


def _write_overlay(robot: MotionRobot, file: Path) -> None:
    """Write a model with a second, non-colliding copy of the robot as an overlay."""
    spec = mujoco.MjSpec.from_file(str(robot.file.absolute()))
    shown = mujoco.MjSpec.from_file(str(robot.file.absolute()))
    for kind in (shown.worldbody.geoms, shown.lights, shown.actuators, shown.sensors, shown.keys):
        for each in list(kind):
            shown.delete(each)
    for geom in shown.geoms:
        geom.rgba = _SHADE
        geom.material = ""
        geom.contype, geom.conaffinity = 0, 0
    for key in list(spec.keys):
        spec.delete(key)
    spec.attach(shown, prefix=_OVERLAY, frame=spec.worldbody.add_frame())
    spec.compile()
    file.write_text(spec.to_xml())


def clip_video(
    player: ClipPlayer, tracker: Tracker, result: ClipResult, output: Path, **settings: Any
) -> Rendering:
    """Replay one clip, save its trajectory, and render a video (.mp4) or an image strip (.png)."""
    names = player.task.table.names
    if result.clip not in names:
        raise UnknownName("clip", result.clip, names)
    pair = names.index(result.clip), player.encoders.index(result.encoder)
    tape = player.play(tracker, [pair] * player.env.num_envs)
    played = player.episode(tape, 0, pair)
    write_trajectory(output.with_suffix(".npz"), played)  # for replay
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "ghost.xml"
        _write_overlay(player.task.parts.robot, file)
        qpos = np.concatenate((played["qpos"], played[REFERENCE]), axis=1)
        return render_poses(file, qpos, output, dt_s=player.task.dt, **settings)
