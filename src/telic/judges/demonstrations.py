"""Scripted demonstrations, in which a robot follows a kinematic reference.

The torso follows a path while the feet stay on the ground. From every pose along the path, the
environment simulates one step. Demonstrations show the intended behavior without a policy, so
judges and rewards are validated on demonstrations before training. `telic.judges.failure_modes`
provides the negative examples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import mujoco
import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch import Tensor

from telic.core.rotations import from_euler, multiply
from telic.core.seeds import derive
from telic.envs.driven import RobotTask
from telic.envs.factory import make
from telic.envs.mujoco import MujocoEnv
from telic.envs.spec import EnvSpec, Leg, Robot
from telic.envs.vector import Info, VecEnv, cut_episode
from telic.errors import UsageError
from telic.judges.criteria import JointWave, Motion
from telic.judges.metrics import periodic
from telic.quantities import QUANTITIES
from telic.rewards.recording import Transition, TransitionRecording, concatenated, keep
from telic.storage.trajectories import COMMANDS, RECORDED, Trajectory

MAX_STEPS = 3000
_UNLIMITED = 1000
"""episode length without a time limit, which equals the recorder's"""
_AT_ONCE = 64
_COLUMNS = ("obs", "action", "next_obs", "env_reward")
_SETTLE_S, _SLOW, _UP = 2.0, 0.1, 0.9
_GRAVITY = 9.81
_HOVER_M, _MOVING = 0.012, 0.1
"""height in m to which feet are raised if they would slide faster than this, in m/s or rad/s"""
_FLY_M = 0.03
"""height of the lowest foot during the flight phase of a gait, in m"""
_STRIDE_RAD = 0.25
_WAVER_RAD, _WAVER_HZ, _WAVER_S = 0.04, (0.3, 1.5), 0.4
"""perturbation of joints: amplitude and frequency of the noise, decay time of the initial offset"""
_PLANE, _SPHERE, _CAPSULE = (
    int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}")) for name in ("PLANE", "SPHERE", "CAPSULE")
)
_LOOK_AHEAD_S = 0.3
"""look-ahead time on uneven ground, in which the torso starts to rise"""
_POSES = 13
"""number of poses per stance and per swing, including both ends"""
_ITERATIONS, _DAMPING = 12, 1e-4
_ROTATION_M = 0.05
"""weight of keeping the sole level, in meters per radian"""
_LIFT, _SWEEP = 0.15, 0.6
"""swing height and maximum sweep of a foot, relative to leg length"""

_Below = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""function that maps positions, x and y, to the height of the ground"""
_Solved = dict[tuple[int, tuple[float, ...]], tuple[np.ndarray, np.ndarray]]
"""joint angles during a stance and a swing, by foot and sweep"""


@dataclass(frozen=True)
class Examples:
    """Several parallel episodes of one environment, T steps each."""

    env_id: str
    env_args: dict[str, Any]
    spec: EnvSpec
    names: tuple[str, ...]
    recording: TransitionRecording
    lengths: tuple[int, ...]
    """number of steps until each episode ends"""

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """Return the recorded columns of all episodes, each of shape (T, K, ...)."""
        moments = self.recording.transitions
        fields = [field for field in RECORDED if field in self.spec.info_keys]
        columns = {
            **{name: [getattr(each, name) for each in moments] for name in _COLUMNS},
            "terminated": [moment.ended for moment in moments],
            "truncated": [torch.zeros_like(moment.ended) for moment in moments],
            **{field: [moment.info[field] for moment in moments] for field in fields},
        }
        return {name: torch.stack(column).numpy() for name, column in columns.items()}

    def trajectory(self, name: str) -> Trajectory:
        """Return one episode by name."""
        row = self.names.index(name)
        where = self.env_id, self.env_args
        return cut_episode(self.columns, row, self.lengths[row], self.spec, where, label=name)

    @classmethod
    def of(
        cls,
        env_id: str,
        env_args: dict[str, Any],
        env: VecEnv,
        names: tuple[str, ...],
        moments: list[Transition],
    ) -> Examples:
        """Return the recorded episodes as examples and close the environment."""
        if "episode_start" in moments[0].info:
            moments[0].info.exact("episode_start").fill_(True)
        ended = torch.stack([moment.ended for moment in moments]).numpy()
        lengths = tuple(
            int(np.argmax(column)) + 1 if column.any() else len(moments) for column in ended.T
        )
        env.close()
        return cls(env_id, env_args, env.spec, names, TransitionRecording(moments), lengths)


def open_env(env_id: str, env_args: dict[str, Any], num_envs: int) -> VecEnv:
    """Return an environment with a fixed initial state."""
    env = make(env_id, num_envs=num_envs, seed=derive("examples", env_id), **env_args)
    env.reset()
    return env


def _open_mujoco(env_id: str, env_args: dict[str, Any], num_envs: int) -> MujocoEnv:
    env = open_env(env_id, env_args, num_envs)
    if not isinstance(env, MujocoEnv):
        raise UsageError(
            f"{env_id} does not support setting poses.",
            hint="Only MuJoCo robots simulated by telic can follow a kinematic reference.",
        )
    return env


def length_of(env: VecEnv) -> int:
    """Return the number of steps in a demonstration."""
    return min(env.max_episode_steps or _UNLIMITED, MAX_STEPS)


def ground_below(env: MujocoEnv) -> _Below | None:
    """Return a function for the ground height of an environment, or None on flat ground."""
    board = env.task.board if isinstance(env.task, RobotTask) else None
    if board is None:
        return None
    return lambda x, y: board.height(torch.tensor(x), torch.tensor(y)).numpy()


def set_down(env: MujocoEnv, pose: np.ndarray | None) -> np.ndarray | None:
    """Return a pose moved to the starting position of an episode on uneven ground."""
    below = ground_below(env)
    if below is None:
        return pose
    placed = np.array(env.robot.rest_qpos if pose is None else pose)
    placed[:2] = env.sim.field("qpos")[0, :2].numpy()
    placed[2] += float(below(placed[:1], placed[1:2])[0])
    return placed


# ---- real steps from reference poses


def demonstrate(
    env_id: str,
    env_args: dict[str, Any],
    motions: Mapping[str, tuple[Motion, ...]],
    joints: Mapping[str, Sequence[JointWave]] | None = None,
    seed: int | None = None,
) -> Examples:
    """Return demonstrations in which every reference pose is followed by one simulated step.

    `joints` prescribes the joint motions by name. With a seed, demonstrations are perturbed: they
    start in random initial states, like judged episodes, and all joints have smooth noise.
    """
    look = _open_mujoco(env_id, env_args, 1)
    steps, below = length_of(look), ground_below(look)
    rest = set_down(look, _standing(env_id, env_args))
    solved: _Solved = {}
    led: list[Poses] = []
    for row, (name, motion) in enumerate(motions.items()):
        drawn = None
        if seed is not None:
            look.reset(derive("perturbed", seed, row))
            drawn = look.sim.field("qpos")[0].numpy().copy()
        given = look.model, look.robot, motion, look.dt or 1.0, steps, rest, solved, below
        led.append(lead(*given, joints=(joints or {}).get(name, ()), drawn=drawn))
    look.close()
    env = _open_mujoco(env_id, env_args, min(_AT_ONCE, steps * len(led)))
    states = [  # all demonstrations at one time step are consecutive
        torch.tensor(np.stack(field, axis=1)).flatten(0, 1) for field in zip(*led, strict=True)
    ]
    states.append(torch.arange(1, steps + 1).repeat_interleave(len(led)) * (env.dt or 1.0))
    pieces = [
        _step_from(env, *(state[first : first + env.num_envs] for state in states))
        for first in range(0, len(states[0]), env.num_envs)
    ]
    whole, count = concatenated(pieces), len(led)
    moments = [
        whole.map(lambda x, t=t: x[t * count : (t + 1) * count].clone()) for t in range(steps)
    ]
    return Examples.of(env_id, env_args, env, tuple(motions), moments)


def _standing(env_id: str, env_args: dict[str, Any]) -> np.ndarray | None:
    """Return the pose in which the robot comes to rest by itself, or None if it falls."""
    env = _open_mujoco(env_id, {**env_args, "max_episode_steps": MAX_STEPS}, 1)
    env.place(torch.tensor(env.robot.rest_qpos)[None], torch.zeros(1, env.model.nv))
    for _ in range(round(_SETTLE_S / (env.dt or 1.0))):
        step = env.step(env.action_rest[None])
        if step.terminated.any() or step.truncated.any():
            return None
    info, upright = env.present(), QUANTITIES["uprightness"]
    is_at_rest = float(info["qvel"].abs().max()) < _SLOW
    is_up = not upright.available(env.spec) or float(upright(info)) > _UP
    return info.exact("qpos")[0].numpy() if is_at_rest and is_up else None


def _step_from(
    env: MujocoEnv, qpos: Tensor, qvel: Tensor, feet: Tensor, commands: Tensor, time: Tensor
) -> Transition:
    """Simulate one step from each of several poses, padded to the number of environments.

    Foot contacts of a gait are prescribed, so that feet support the robot exactly when they should.
    Commands and episode time are also prescribed. Where feet or commands are NaN, the values of the
    environment apply.
    """
    count, robot, spec = len(qpos), env.robot, env.spec
    rows = torch.arange(env.num_envs).clamp(max=count - 1)
    feet, commands = feet[rows], commands[rows]
    obs = env.place(qpos[rows], qvel[rows]).clone()
    action = env.action_rest.repeat(env.num_envs, 1)
    step = env.step(action)
    next_obs, info = step.final_obs.clone(), keep(step.info)
    values = {name: info.exact(name) for name in info}
    if "episode_start" in values:
        values["episode_start"].fill_(False)
    if "time" in values:
        values["time"].copy_(time[rows])
    if robot.feet and not bool(feet.isnan().all()):
        # A foot in contact carries its share of the weight, as an upward force.
        own = list(robot.feet)
        each = 100.0 * robot.contact_threshold * feet / feet.sum(-1, keepdim=True).clamp_min(1.0)
        if "cfrc_ext" in values:
            force = values["cfrc_ext"]
            led = torch.zeros_like(force[:, own])
            led[..., 5] = each.to(force.dtype)
            force[:, own] = torch.where(feet.isnan().unsqueeze(-1), force[:, own], led)
        if "contacts" in values:
            force = values["contacts"]
            force[:, own] = torch.where(feet.isnan(), force[:, own], each.to(force.dtype))
    if set(COMMANDS) <= set(spec.info_keys):
        for place, name in enumerate(COMMANDS):
            given, columns = commands[:, place], [values[name]]
            if name in spec.obs_names:
                column = spec.obs_names.index(name)
                columns += [obs[:, column], next_obs[:, column]]
            for each in columns:
                each.copy_(torch.where(given.isnan(), each, given.to(each.dtype)))
    info = Info.of(values, info.schema)
    whole = Transition(obs, action, next_obs, info, step.terminated, step.reward)
    return whole.map(lambda x: x[:count].clone())


# ---- the kinematic reference


class Poses(NamedTuple):
    """States along a path, (T, ...)."""

    qpos: np.ndarray
    qvel: np.ndarray
    feet: np.ndarray
    """contact after each state: 1 on the ground, 0 in the air, NaN to use the simulated one"""
    commands: np.ndarray
    """commands of shape (T, 3), or NaN to use those of the environment"""


class _Path(NamedTuple):
    """Torso motion relative to the resting pose, as arrays of shape (T,)."""

    x: np.ndarray
    y: np.ndarray
    lift: np.ndarray
    heading: np.ndarray
    pitch: np.ndarray
    roll: np.ndarray
    stride: np.ndarray
    """phase of the legs in radians, or NaN while they rest"""
    motion: np.ndarray
    """index of the current motion"""


def lead(
    model: mujoco.MjModel,
    robot: Robot,
    motions: Sequence[Motion],
    dt: float,
    steps: int,
    rest: np.ndarray | None = None,
    solved: _Solved | None = None,
    below: _Below | None = None,
    joints: Sequence[JointWave] = (),
    drawn: np.ndarray | None = None,
) -> Poses:
    """Return one pose per control step of a robot that performs motions.

    Motions that the robot's root does not allow (such as moving left in a plane) are ignored. The
    last motion continues to the end. `rest` is the initial pose, `solved` caches leg solutions for
    that pose, `below` is the ground if uneven, and `joints` prescribes motions of joints.
    """
    path, root = _path(motions, dt, steps + 1), robot.root
    start = np.asarray(robot.rest_qpos) if rest is None else rest
    poses = np.tile(start, (steps + 1, 1))
    feet = np.full((steps + 1, len(robot.feet)), np.nan)
    commands = np.full((steps + 1, 3), np.nan)
    for index, limb in enumerate(robot.limbs):  # neighboring limbs swing in antiphase
        swung = poses[:, limb.qpos] + np.nan_to_num(
            _STRIDE_RAD * np.sin(path.stride + np.pi * (index % 2))
        )
        poses[:, limb.qpos] = swung if limb.range is None else np.clip(swung, *limb.range)
    for index, motion in enumerate(motions):
        during = path.motion == index
        if motion.command is not None:
            commands[during] = motion.command
        if motion.feet and during.any():
            legs = np.tile(start, (int(during.sum()), 1))
            phase = np.nan_to_num(path.stride[during]) / (2.0 * np.pi)
            if not joints:
                _step(legs, model, robot, motion, phase, {} if solved is None else solved)
            poses[during] = legs
            feet[during, : len(motion.feet)] = foot_times(motion, phase).is_down
    _follow(poses, robot, path, joints)
    for axis, way in (("x", path.x), ("y", path.y)):
        slide = root.slide(axis)
        if slide is not None:
            poses[:, slide.qpos] += slide.sign * way
    if root.hinge is not None:
        turned = {"x": path.roll, "y": path.pitch, "z": path.heading}[root.hinge.axis]
        poses[:, root.hinge.qpos] += root.hinge.sign * turned
    if root.quaternion is not None:
        columns = slice(root.quaternion, root.quaternion + 4)
        angles = torch.tensor(np.stack((path.heading, path.pitch, path.roll), -1))
        poses[:, columns] = multiply(
            from_euler("ZYX", angles), torch.tensor(poses[0, columns])
        ).numpy()
    if drawn is not None:
        _perturb(poses, robot, drawn - start, dt * np.arange(steps + 1)[:, None])
    _put_on_ground(model, robot, poses, path.lift, below, max(1, round(_LOOK_AHEAD_S / dt)))
    qvel = np.zeros((steps, model.nv))
    for t in range(steps):
        mujoco.mj_differentiatePos(model, qvel[t], dt, poses[t], poses[t + 1])
    return Poses(poses[:-1], qvel, feet[1:], commands[1:])


def _perturb(poses: np.ndarray, robot: Robot, offset: np.ndarray, clock: np.ndarray) -> None:
    """Offset the initial pose and add smooth noise to the joints."""
    chance = np.random.default_rng(derive("waver", *map(str, offset.tolist())))
    own, fading = [limb.qpos for limb in robot.limbs], np.exp(-clock / _WAVER_S)
    hertz, phase = chance.uniform(*_WAVER_HZ, len(own)), chance.uniform(0.0, 2.0 * np.pi, len(own))
    poses[:, own] += (1.0 - fading) * _WAVER_RAD * np.sin(2.0 * np.pi * hertz * clock + phase)
    poses += fading * offset
    if robot.root.quaternion is not None:
        turned = poses[:, robot.root.quaternion : robot.root.quaternion + 4]
        turned /= np.linalg.norm(turned, axis=1, keepdims=True)


def _follow(poses: np.ndarray, robot: Robot, path: _Path, joints: Sequence[JointWave]) -> None:
    """Set joints to their periodic motions, or without a stride to the initial values."""
    columns = {limb.name: limb.qpos for limb in robot.limbs}
    for course in joints:
        poses[:, columns[course.joint]] = periodic(course.terms, np.nan_to_num(path.stride))


def _path(motions: Sequence[Motion], dt: float, length: int) -> _Path:
    rows: list[np.ndarray] = []
    at = np.zeros(8)
    for index, motion in enumerate(motions):
        is_last = index == len(motions) - 1
        steps = length - len(rows) if is_last else round(motion.seconds / dt)
        base, clock = at.copy(), np.arange(1, steps + 1) * dt
        flown, lift = _flights(motion, np.minimum(clock, motion.seconds))
        if motion.feet and not motion.jumps:
            times = foot_times(motion, motion.stride_hz * clock)
            lift = np.where(times.is_down.any(1), 0.0, _FLY_M)
        heading = base[3] + motion.turn_rps * clock
        along = heading if motion.circle else np.zeros(steps)
        ahead, aside = motion.forward_mps * dt, motion.left_mps * dt
        stride = 2 * np.pi * motion.stride_hz * clock if motion.stride_hz else clock * np.nan
        part = np.stack(
            [
                base[0] + np.cumsum(ahead * np.cos(along) - aside * np.sin(along)),
                base[1] + np.cumsum(ahead * np.sin(along) + aside * np.cos(along)),
                lift,
                heading,
                base[4] + 2 * np.pi * motion.pitch_turns * flown,
                base[5] + 2 * np.pi * motion.roll_turns * flown,
                stride,
                np.full(steps, index),
            ],
            axis=1,
        )
        rows += list(part[: length - len(rows)])
        at = rows[-1] if rows else at
    start = np.array([0, 0, 0, 0, 0, 0, np.nan, 0])
    return _Path(*np.array([start, *rows])[:length].T)


def _flights(motion: Motion, clock: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the completed fraction of the rotation and the height at each time."""
    if motion.jumps == 0:
        fastest = max(abs(motion.forward_mps), abs(motion.left_mps), abs(motion.turn_rps))
        hover = _HOVER_M if fastest > _MOVING else 0.0
        return clock / motion.seconds, np.full_like(clock, hover)
    period = motion.seconds / motion.jumps
    flight = min(2 * np.sqrt(2 * motion.height_m / _GRAVITY), 0.8 * period)
    number, since = np.divmod(clock, period)
    share = np.clip((since - 0.5 * (period - flight)) / max(flight, 1e-6), 0.0, 1.0)
    return (number + share) / motion.jumps, motion.height_m * 4 * share * (1 - share)


def _put_on_ground(
    model: mujoco.MjModel,
    robot: Robot,
    poses: np.ndarray,
    lift: np.ndarray,
    below: _Below | None,
    look: int,
) -> None:
    """Shift every pose vertically until its lowest point is `lift` above the ground.

    On uneven ground, the pose clears everything within `look` steps and changes height gradually.
    The lowest points are exact for spheres and capsules, and conservative for other shapes.
    """
    slide = robot.root.slide("z")
    if slide is None or _PLANE not in model.geom_type:
        return
    data = mujoco.MjData(model)
    floor = float(model.geom_pos[list(model.geom_type).index(_PLANE), 2])
    own = np.flatnonzero(model.geom_bodyid)
    size: np.ndarray = model.geom_size[own]
    kind: np.ndarray = model.geom_type[own]
    needed = np.zeros(len(poses))
    for row, pose in enumerate(poses):
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        up: np.ndarray = np.abs(data.geom_xmat[own].reshape(-1, 3, 3)[:, 2])
        capsule = size[:, 0] + up[:, 2] * size[:, 1]
        reach = np.where(kind == _CAPSULE, capsule, (up * size).sum(1))
        reach = np.where(kind == _SPHERE, size[:, 0], reach)
        ground = floor if below is None else below(*data.geom_xpos[own, :2].T)
        needed[row] = -float((data.geom_xpos[own, 2] - reach - ground).min())
    if below is not None:
        wide = np.pad(needed, look, mode="edge")
        highest = sliding_window_view(wide, 2 * look + 1).max(-1)
        needed = sliding_window_view(np.pad(highest, look, mode="edge"), 2 * look + 1).mean(-1)
    poses[:, slide.qpos] += slide.sign * (lift + needed)


# ---- stepping legs
# A foot stays in place on the ground while the torso moves over it, is lifted, and is put down in
# front again. Joint angles are solved by damped least squares on the foot's position, for a dozen
# poses per stride; everything else is interpolated between them.


class _FootTimes(NamedTuple):
    """Stance and swing phases of each foot over time, (T, F)."""

    is_down: np.ndarray
    part: np.ndarray
    """completed fraction of the stance or the swing"""


def foot_times(motion: Motion, phase: np.ndarray) -> _FootTimes:
    """Return the stance and swing phases of the feet for stride phases (T,) in turns."""
    down, part = (np.zeros((len(phase), len(motion.feet))) for _ in range(2))
    for foot, landings in enumerate(motion.feet):
        since = (phase[:, None] - np.asarray(landings)) % 1.0
        ahead = (np.asarray(landings) - phase[:, None]) % 1.0
        ago, left = since.min(1), np.where(ahead == 0.0, 1.0, ahead).min(1)
        down[:, foot] = ago < motion.duty
        swing = np.maximum(ago + left - motion.duty, 1e-6)
        part[:, foot] = np.where(ago < motion.duty, ago / motion.duty, (ago - motion.duty) / swing)
    return _FootTimes(down > 0, np.clip(part, 0.0, 1.0))


def _step(
    poses: np.ndarray,
    model: mujoco.MjModel,
    robot: Robot,
    motion: Motion,
    phase: np.ndarray,
    solved: _Solved,
) -> None:
    """Replace the leg joints of resting poses (T, nq) with those of the gait at each phase."""
    times, grid = foot_times(motion, phase), np.linspace(0.0, 1.0, _POSES)
    seconds = motion.duty / max(motion.stride_hz, 1e-3)
    # When stepping in place or turning, feet are only lifted.
    velocity = np.array([motion.forward_mps, motion.left_mps, 0.0])
    for index, (foot, leg) in enumerate(zip(robot.feet, robot.legs, strict=True)):
        if index >= len(motion.feet) or not leg.qpos:
            continue
        sweep = velocity * seconds
        sweep *= min(1.0, _SWEEP * leg.length_m / max(float(np.linalg.norm(sweep)), 1e-9))
        key = (foot, tuple(sweep.tolist()))
        if key not in solved:
            solved[key] = _angles(model, robot, poses[0], foot, leg, sweep)
        stance, swing = solved[key]
        for place, column in enumerate(leg.qpos):
            poses[:, column] = np.where(
                times.is_down[:, index],
                np.interp(times.part[:, index], grid, stance[:, place]),
                np.interp(times.part[:, index], grid, swing[:, place]),
            )


def _angles(
    model: mujoco.MjModel, robot: Robot, rest: np.ndarray, foot: int, leg: Leg, sweep: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the joint angles of a leg during stance and swing, each of shape (P, joints)."""
    limbs = {limb.qpos: limb for limb in robot.limbs}
    columns, dofs = list(leg.qpos), [limbs[column].dof for column in leg.qpos]
    data = mujoco.MjData(model)
    data.qpos[:] = rest
    mujoco.mj_kinematics(model, data)
    start, level = data.xipos[foot].copy(), data.xquat[foot].copy()
    moving, turning = np.zeros((3, model.nv)), np.zeros((3, model.nv))

    def reach(way: np.ndarray) -> np.ndarray:
        """Return the angles that bring the foot closest to an offset from its resting position."""
        data.qpos[:] = rest
        for _ in range(_ITERATIONS):
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_jacBodyCom(model, data, moving, turning, foot)
            twist, world = np.zeros(3), np.zeros(3)
            mujoco.mju_subQuat(twist, level, data.xquat[foot])
            mujoco.mju_rotVecQuat(world, twist, data.xquat[foot])
            error = np.concatenate((start + way - data.xipos[foot], _ROTATION_M * world))
            slope = np.concatenate((moving, _ROTATION_M * turning))[:, dofs]
            change = slope.T @ np.linalg.solve(slope @ slope.T + _DAMPING * np.eye(6), error)
            for column, more in zip(columns, change, strict=True):
                value, limits = float(data.qpos[column] + more), limbs[column].range
                data.qpos[column] = value if limits is None else float(np.clip(value, *limits))
        return data.qpos[columns].copy()

    parts = np.linspace(0.0, 1.0, _POSES)[:, None]
    up = np.array([0.0, 0.0, _LIFT * leg.length_m])
    # In stance the foot moves backward relative to the torso, then forward through the air.
    back, forth = sweep * (0.5 - parts), sweep * (parts - 0.5) + up * np.sin(np.pi * parts)
    return np.array([reach(way) for way in back]), np.array([reach(way) for way in forth])
