"""Motion tracking task with N robots, each with a clip, a frame and an encoder.

A control step applies the actions, simulates, advances the clip, compares the robot with the
reference at the same time, counts failures, resets finished episodes and computes observations.
The current frame is the initial frame plus the simulated time, so they never drift apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from telic.core.rotations import about, multiply
from telic.core.seeds import uniform
from telic.core.tensors import cross, norm, split
from telic.envs.domain_randomization import RANDOMIZATIONS, RandomizedModel
from telic.envs.mujoco import MujocoEnv
from telic.envs.task import StepOutcome, Task, TaskArguments
from telic.envs.vector import VecEnv
from telic.errors import UsageError
from telic.motions.clip import Split
from telic.motions.generate import generated_library
from telic.motions.kinematics import BodyStates
from telic.motions.library import MotionLibrary
from telic.motions.robot import motion_robot
from telic.sim.base import Simulation
from telic.sim.simulation import simulate
from telic.tracking import _sampler as sampler
from telic.tracking import scores as scores
from telic.tracking._observations import RowView
from telic.tracking._parts import TrackedParts, substeps, tracked_parts
from telic.tracking._reference import ReferenceTable
from telic.tracking.config import TerminationsGroup, TrackingConfig
from telic.tracking.own_terms import load_terms

_DRAWS, _PUSH = 21, 23
"""random number streams"""
_ROOT_DRAWS = 12
_EMA = 0.1


CURRICULUM = ("leniency", "charges", "pushes")
"""schedulable factors of the task: termination thresholds, penalties and push velocities"""


class ClipChoice(NamedTuple):
    """Clips, frames and encoders that replace random sampling, each of shape (N,)."""

    clip: Tensor
    frame: Tensor
    encoder: Tensor


class TrackingTask(Task[TaskArguments]):
    """Task of tracking the clips of a reference table."""

    def __init__(
        self,
        sim: Simulation,
        parts: TrackedParts,
        table: ReferenceTable,
        config: TrackingConfig,
        arguments: TaskArguments,
        *,
        members: int = 1,
        playing: bool = False,
    ) -> None:
        """Prepare the task for N robots in a simulation."""
        super().__init__(arguments, sim)
        self.parts, self.table, self.config = parts, table, config
        self.id = f"track {parts.robot.name}"
        self.description = f"{parts.robot.name} tracks {table.clips} reference motions."
        self.members, self.playing = members, playing
        self.assignment: ClipChoice | None = None
        self.begins_off = not playing
        """whether to add noise to initial states (set before the first reset)"""
        device, everyone, model = sim.device, sim.num_sims, sim.model
        self.device = device
        self.curriculum = torch.ones(len(CURRICULUM), device=device)
        """factors in the order of CURRICULUM that schedules update in place"""
        self._fields = {name: sim.field(name) for name in ("xpos", "xquat", "cvel", "subtree_com")}
        self._time = sim.field("time")
        self._bodies = torch.tensor(parts.bodies, device=device)
        self._tree = int(model.body_rootid[parts.bodies[0]])
        limbs = parts.robot.facts.limbs
        self._qpos = torch.tensor([limb.qpos for limb in limbs], device=device)
        rest = torch.tensor(parts.robot.home.joint_pos, device=device)
        self._base = rest[parts.action_joints]
        self._limits = torch.tensor(np.stack((parts.robot.low, parts.robot.high)), device=device)
        self._reach = parts.action_size * config.robot.action_limit
        self.action_limits = np.tile(np.array([[-1.0, 1.0]]), (int(model.nu), 1))
        self._prepare_rewards(sim)
        self._prepare_events(sim)
        self._view = RowView(config, parts, table, self.dt, playing=playing)
        self.columns, self.available = self._view.columns, self._view.available
        self.obs_names = self.columns.names()
        self._prepare_memory(everyone, int(model.nu))

    def _prepare_rewards(self, sim: Simulation) -> None:
        config, device = self.config, self.device
        self._own = load_terms("" if self.playing else config.terms)
        terms = config.rewards.terms
        if self.playing:
            terms = {k: v for k, v in terms.items() if k in {**scores.ERRORS, **scores.CHARGES}}
        self._terms = terms
        scores.check_rewards(terms, self._own)
        self._acceleration = sim.field("qacc") if "foot_acceleration" in terms else None
        spared = {*self.parts.robot.facts.feet}
        spared |= {self.parts.bodies[int(i)] for i in self.parts.ends}
        body = [b for b in range(1, int(sim.model.nbody)) if b not in spared]
        self._undesired = torch.tensor(body, dtype=torch.long, device=device)
        self._forces = sim.field("cfrc_ext") if "contacts" in terms else None
        ending = config.evaluation
        self._failing = config.terminations
        if self.playing:
            self._failing = TerminationsGroup(
                anchor_height_m=ending.anchor_height_m,
                anchor_turn_rad=ending.anchor_turn_rad,
                end_height_m=ending.end_height_m,
                foot_place_m=None,
                anchor_place_m=None,
                low_below_m=None,
                low_height_m=config.terminations.low_height_m,
            )
        self._meanings = {f"reward_{name}": f"reward term {name}" for name in terms}
        if self.playing:
            self._meanings |= {
                "robot_places": "positions of tracked bodies (N, B, 3) in m",
                "target_places": "reference positions (N, B, 3) in m",
                "joint_error": "mean joint position error (N,) in rad",
                "turn_error": "orientation error of the root (N,) in rad",
            }

    @property
    def info_meanings(self) -> Mapping[str, str]:
        """Descriptions of the reward terms and, in evaluations, of positions and errors."""
        return self._meanings

    def _prepare_events(self, sim: Simulation) -> None:
        self._spread = None if self.playing else RANDOMIZATIONS.get(self.config.events.variation)
        self._varied = None
        if self._spread is not None:
            legs = [leg.length_m for leg in self.parts.robot.facts.legs] or [0.5]
            base = self.parts.bodies[0]
            self._varied = RandomizedModel(sim, self._spread, base, sum(legs) / len(legs))
        nu = int(sim.model.nu)
        self._sizes = [
            *(3, 1, 1, 1, _ROOT_DRAWS, self.parts.joints, nu),
            self._varied.numbers if self._varied else 0,
        ]
        quiet = torch.zeros(_ROOT_DRAWS, device=self.device)
        command = self.config.command
        pairs = (
            *(command.start_place, command.start_turn),
            *(command.start_velocity, command.start_spin),
        )
        loud = [x for a, b in pairs for x in (a, a, b)]
        self._start_noise = quiet.new_tensor(loud)
        self._joint_noise = command.start_joints

    def _prepare_memory(self, everyone: int, nu: int) -> None:
        config, device = self.config, self.device
        shares = [each.share for each in config.networks.encoders.values()]
        self._edges = (self._view.available * torch.tensor(shares, device=device)).cumsum(1)
        self._pieces = sampler.cut(self.table.frames, round(config.sampling.bin_s / self.dt))
        counts = sampler.fresh_counts(self._pieces, self.members)
        one = torch.zeros(everyone, dtype=torch.long, device=device)
        floats = torch.zeros(everyone, 1, device=device)
        width = self._view.sensed
        self.memory = {
            "clip": one,
            "frame": one.clone(),
            "encoder": one.clone(),
            "key": one.clone(),
            "late": floats[:, 0].clone(),
            "offset": floats.expand(-1, nu).clone(),
            "action": floats.expand(-1, nu).clone(),
            "last_action": floats.expand(-1, nu).clone(),
            "height": floats[:, 0].clone(),
            "sensed": floats.expand(-1, width).clone(),
            "past": torch.zeros(everyone, self.columns.history - 1, width, device=device),
            "played": counts.played,
            "failed": counts.failed,
        }

    # ---- episodes

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, ...]:
        """Draw the random numbers of an episode, which `begin` maps to an initial state."""
        drawn = uniform(seed, episode, sum(self._sizes), stream=_DRAWS).float()
        qpos = self.qpos0.expand(len(seed), -1)
        return qpos, self.qvel.new_zeros(len(seed), self.qvel.shape[1]), drawn

    def begin(
        self, mask: Tensor, qpos: Tensor, qvel: Tensor, drawn: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Select clip, frame and encoder from the draws. Returns the reference state with noise."""
        where, driver, key, late, root, joints, zero, world = split(
            drawn.float(), self._sizes, dim=1
        )
        clip, frame, encoder = self._chosen(where, driver)
        pose = self.table.pose(self.table.rows(clip, frame))
        scatter = float(self.begins_off)
        noise = (2.0 * root - 1.0) * self._start_noise * scatter
        place, turn, moving, spinning = split(noise, [3, 3, 3, 3], dim=1)
        turn = multiply(multiply(about(2, turn[:, 2]), about(1, turn[:, 1])), about(0, turn[:, 0]))
        quat = multiply(turn, pose.root_quat)
        bent = pose.joint_pos + (2.0 * joints - 1.0) * self._joint_noise * scatter
        bent = torch.maximum(torch.minimum(bent, self._limits[1]), self._limits[0])
        robot = self.parts.robot
        new_qpos = robot.to_qpos(pose.root_pos + place, quat, bent)
        new_qvel = robot.to_qvel(
            quat, pose.root_lin_vel + moving, pose.root_ang_vel + spinning, pose.joint_vel
        )
        rad = self._spread.encoder_rad if self._spread else 0.0
        fresh = {
            "clip": clip,
            "frame": frame,
            "encoder": encoder,
            "key": (key[:, 0] * 2.0**24).long(),
            "late": late[:, 0],
            "offset": (2.0 * zero - 1.0) * rad,
            "height": pose.root_pos[:, 2],
            "action": torch.zeros_like(self.memory["action"]),
            "last_action": torch.zeros_like(self.memory["last_action"]),
        }
        for name, value in fresh.items():
            old = self.memory[name]
            self.memory[name] = torch.where(mask.view(-1, *[1] * (old.ndim - 1)), value, old)
        if self._varied is not None:
            self._varied.begin(mask, world)
        return new_qpos.to(qpos.dtype), new_qvel.to(qvel.dtype)

    def _chosen(self, where: Tensor, driver: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.assignment is not None:
            return self.assignment
        counts = sampler.Counts(self.memory["played"], self.memory["failed"])
        group = self.config.sampling
        chance = sampler.chances(counts, self._pieces, group)
        u = where.view(self.members, -1, 3)
        begun = sampler.draw(chance, self._pieces, u, round(group.lead_s / self.dt))
        clip, frame = (each.flatten() for each in begun)
        edges = self._edges[clip]
        encoder = (driver * edges[:, -1:] >= edges).sum(1).clamp_max(edges.shape[1] - 1)
        return clip, frame, encoder

    def control(self, action: Tensor) -> Tensor:
        """Return the joint position targets and store the action and the previous observation."""
        memory = self.memory
        if self.columns.history > 1:
            past = torch.cat((memory["sensed"][:, None], memory["past"][:, :-1]), dim=1)
            memory["past"] = past
        asked = action.to(memory["action"].dtype)
        memory["last_action"], memory["action"] = memory["action"], asked
        if self._spread is not None and self._spread.late:
            late = (memory["late"] < self._spread.late)[:, None]
            asked = torch.where(late, memory["last_action"], asked)
        base = self._base
        if self.config.robot.action_base == "reference":
            rows = self.table.rows(memory["clip"], memory["frame"] + self._age() + 1)
            base = self.table.pose(rows).joint_pos[:, self.parts.action_joints]
        if not self.playing:
            self._push()
        return (base + asked * self._reach - memory["offset"]).to(self.qpos.dtype)

    def _push(self) -> None:
        along, up = self.config.events.push_velocity
        if not (along or up):
            return
        every = max(2, round(self.config.events.push_every_s / self.dt))
        age = self._age()
        is_due = ((age % every) == every // 2)[:, None]
        u = uniform(self.memory["key"], age, 3, stream=_PUSH).to(self.qvel.dtype)
        kick = (2.0 * u - 1.0) * is_due * self.curriculum[2]
        for slide in self.parts.robot.facts.root.slides:
            size = up if slide.axis == "z" else along
            self.qvel[:, slide.dof] += size * kick[:, "xyz".index(slide.axis)]

    # ---- tracking errors

    def _age(self) -> Tensor:
        """Return the number of control steps since the start of each episode, (N,)."""
        return (self._time / self.dt + 0.5).long()

    def _frame(self) -> Tensor:
        return self.memory["frame"] + self._age()

    def robot_bodies(self) -> BodyStates:
        """Return the states of the tracked bodies, which lag by one physics step."""
        pos = self._fields["xpos"][:, self._bodies].float()
        moving = self._fields["cvel"][:, self._bodies].float()
        center = self._fields["subtree_com"][:, self._tree : self._tree + 1].float()
        spin, linear = moving[..., :3], moving[..., 3:]
        quat = self._fields["xquat"][:, self._bodies].float()
        return BodyStates(pos, quat, linear + cross(spin, pos - center), spin)

    def outcome(self, action: Tensor, moved: Tensor) -> StepOutcome:
        """Compute rewards and terminations and update the failure counts of the pieces."""
        memory, frame = self.memory, self._frame()
        clip = memory["clip"]
        tracked = self._tracked(clip, frame)
        leniency, charges, _ = self.curriculum
        parts = scores.rewards(tracked, self._terms, self.dt, charges, self._own)
        low = self._is_low(tracked.target.pos[:, 0, 2])
        failed = torch.zeros_like(low)
        for ended in scores.failures(tracked, self._failing, low, leniency, self._own).values():
            failed = failed | ended
        finished = frame >= self.table.frames[clip] - 1
        if not self.playing:
            self._count(clip, frame, failed, failed | finished, tracked)
        values = {f"reward_{name}": value for name, value in parts.items()}
        reward = torch.stack(list(values.values())).sum(0)
        if self.playing:
            pose = self.table.pose(self.table.rows(clip, frame))
            values |= {
                "robot_places": tracked.bodies.pos,
                "target_places": tracked.target.pos,
                "joint_error": (pose.joint_pos - tracked.joint_pos).abs().mean(-1),
                "turn_error": scores.angle(tracked.target.quat[:, 0], tracked.bodies.quat[:, 0]),
            }
        return StepOutcome(reward, failed, values, finished & ~failed)

    def _tracked(self, clip: Tensor, frame: Tensor) -> scores.Tracked:
        bodies = self.robot_bodies()
        target = self.table.bodies(self.table.rows(clip, frame))
        forces = bodies.pos[:, :0, 0]
        if self._forces is not None:
            forces = norm(self._forces[:, self._undesired, 3:]).float()
        acceleration = self.qvel[:, :0] if self._acceleration is None else self._acceleration
        return scores.Tracked(
            parts=self.parts,
            bodies=bodies,
            target=target,
            relative=scores.relative(bodies, target),
            action=self.memory["action"] * self.config.robot.action_limit,
            last_action=self.memory["last_action"] * self.config.robot.action_limit,
            joint_pos=self.qpos[:, self._qpos].float(),
            joint_acc=acceleration.float(),
            limits=self._limits,
            contact=forces,
        )

    def _is_low(self, height: Tensor) -> Tensor:
        """Return a mask (N,) of robots whose reference was near the ground, with lax limits."""
        lately = torch.lerp(self.memory["height"], height, _EMA)
        self.memory["height"] = lately
        below = self._failing.low_below_m
        return torch.zeros_like(lately, dtype=torch.bool) if below is None else lately < below

    def _count(
        self, clip: Tensor, frame: Tensor, failed: Tensor, ended: Tensor, tracked: scores.Tracked
    ) -> None:
        blame = failed.float()
        if self.config.sampling.by == "error":
            off = norm(tracked.relative.pos - tracked.bodies.pos).mean(-1)
            blame = off / self._pieces.length[self._pieces.at(clip, frame)] + blame
        rows = self.members, -1
        counts = sampler.counted(
            sampler.Counts(self.memory["played"], self.memory["failed"]),
            self._pieces,
            self._pieces.at(clip, frame).view(rows),
            blame.view(rows),
            ended.view(rows),
            self.config.sampling.half_life,
        )
        self.memory["played"], self.memory["failed"] = counts

    def coverage(self, member: int = 0) -> sampler.Coverage:
        """Return statistics of the initial-state distribution of a member."""
        counts = sampler.Counts(self.memory["played"], self.memory["failed"])
        return sampler.coverage(counts, self._pieces, self.config.sampling, member)

    # ---- observations

    def observe(self) -> Tensor:
        """Return the observations of policy and critic, in the layout of `RowColumns`."""
        bodies, age = self.robot_bodies(), self._age()
        moment = self._view.moment(self.qpos, self.qvel, bodies, self._frame(), self.memory)
        rows, self.memory["sensed"] = self._view.rows(moment, self.memory, age)
        return rows


def open_motions(config: TrackingConfig) -> MotionLibrary:
    """Open the motion library of a configuration, or generate one for its robot."""
    robot = motion_robot(config.robot.name)
    group = config.motions
    if group.library is not None:
        library = MotionLibrary.open(Path(group.library))
        if library.robot.joint_names != robot.joint_names:
            raise UsageError(
                f"The motions in {group.library} are for {library.robot.name}, not {robot.name}.",
                hint="Retarget them with: telic motions import",
            )
        return library
    return generated_library(
        robot,
        group.generated,
        families=group.families,
        seed=group.seed,
        held_share=group.held_share,
    )


def clips_of(library: MotionLibrary, split: Split) -> list[int]:
    """Return the clips of a split, or raise UsageError if the split is empty."""
    found = library.chosen(split)
    if not found:
        raise UsageError(f"The library has no {split} clips.", hint="See: telic motions show")
    return found


def make_tracking(
    config: TrackingConfig,
    library: MotionLibrary,
    clips: Sequence[int],
    *,
    num_envs: int,
    seeds: Sequence[int] = (0,),
    device: str = "cpu",
    threads: int | None = None,
    playing: bool = False,
) -> MujocoEnv:
    """Create N environments that track the given clips of a library."""
    parts = tracked_parts(config.robot)
    model = parts.robot.model
    skip = substeps(config.robot, model.opt.timestep)
    sim = simulate(model, num_envs, device=device, num_threads=threads)
    table = ReferenceTable(
        library,
        clips,
        parts,
        dt=config.robot.control_s,
        lag_s=model.opt.timestep,
        proportions=config.motions.proportions,
        least_points=config.motions.person_points,
        device=sim.device,
    )
    arguments = TaskArguments(
        xml_file=str(parts.robot.file), frame_skip=skip, max_episode_steps=None
    )
    task = TrackingTask(
        sim,
        parts.to(sim.device),
        table,
        config,
        arguments,
        members=len(seeds),
        playing=playing,
    )
    return MujocoEnv(sim, task, seed=list(seeds))


def tracking_task(env: VecEnv) -> TrackingTask:
    """Return the `TrackingTask` of an environment."""
    assert isinstance(env, MujocoEnv) and isinstance(env.task, TrackingTask)
    return env.task
