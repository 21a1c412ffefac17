"""Examples of episodes whose worth is known beforehand, and those that are led by hand.

`telic.judges.habits` makes the bad ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from telic.core.seeds import derive
from telic.envs import make
from telic.envs.driven import RobotTask
from telic.envs.mujoco import MujocoEnv
from telic.envs.spec import EnvSpec, Robot
from telic.envs.vector import Info, VecEnv
from telic.errors import UsageError
from telic.judges.criteria import JointCourse, Motion
from telic.judges.puppet import Below, Poses, Solved, lead
from telic.quantities import QUANTITIES
from telic.rewards.recording import Transition, TransitionRecording, concatenated, keep
from telic.storage.trajectories import COMMANDS, RECORDED, Trajectory, TrajectoryFacts

GOOD = "good"
MOST_STEPS = 3000
_UNLIMITED = 1000
"""steps of an episode without a time limit, as the recorder cuts it"""
_AT_ONCE = 64
_SETTLE_S = 2.0
_SLOW, _UP = 0.1, 0.9


@dataclass(frozen=True)
class Examples:
    """Several episodes of one environment side by side, T steps each."""

    env_id: str
    env_args: dict[str, Any]
    spec: EnvSpec
    names: tuple[str, ...]
    recording: TransitionRecording
    lengths: tuple[int, ...]
    """steps until each one's episode ends"""

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """What is recorded of all of them, (T, K, ...) each."""
        moments = self.recording.transitions
        columns = {
            "obs": [moment.obs for moment in moments],
            "action": [moment.action for moment in moments],
            "next_obs": [moment.next_obs for moment in moments],
            "env_reward": [moment.env_reward for moment in moments],
            "terminated": [moment.ended for moment in moments],
            "truncated": [torch.zeros_like(moment.ended) for moment in moments],
            **{
                field: [moment.info[field] for moment in moments]
                for field in RECORDED
                if field in self.spec.info_keys
            },
        }
        return {name: torch.stack(column).numpy() for name, column in columns.items()}

    def trajectory(self, name: str) -> Trajectory:
        """Return one of them as a recorded episode."""
        row = self.names.index(name)
        length = self.lengths[row]
        columns = {
            key: np.ascontiguousarray(column[:length, row]) for key, column in self.columns.items()
        }
        facts = TrajectoryFacts(
            env_id=self.env_id,
            env_kwargs=self.env_args,
            dt_s=self.spec.dt_s,
            label=name,
            obs_names=self.spec.obs_names,
            action_names=self.spec.action_names,
            body_names=self.spec.body_names,
            joint_names=self.spec.joint_names,
        )
        return Trajectory(columns, facts)


def puppet(env_id: str, env_args: dict[str, Any], motions: Sequence[Motion]) -> Trajectory:
    """Return the episode of a robot led through motions; see `telic.judges.puppet`."""
    return good_examples(env_id, env_args, {GOOD: tuple(motions)}).trajectory(GOOD)


def good_examples(
    env_id: str,
    env_args: dict[str, Any],
    motions: Mapping[str, tuple[Motion, ...]],
    joints: Mapping[str, Sequence[JointCourse]] | None = None,
) -> Examples:
    """Return puppets: from every pose on the way the environment makes one real step.

    `joints` are led in the motions of those names.
    """
    led = joints or {}
    look = _posed(env_id, env_args, 1)
    steps = length_of(look)
    rest = _standing(_posed(env_id, {**env_args, "max_episode_steps": MOST_STEPS}, 1))
    rest, below = set_down(look, rest), ground_below(look)
    solved: Solved = {}
    poses = [
        lead(
            *(look.model, look.robot, motion, look.dt or 1.0, steps, rest, solved, below),
            joints=led.get(name, ()),
        )
        for name, motion in motions.items()
    ]
    look.close()
    env = _posed(env_id, env_args, min(_AT_ONCE, steps * len(poses)))
    states = [_stacked(poses, field) for field in Poses._fields]
    pieces = [
        _step_from(env, *(state[first : first + env.num_envs] for state in states))
        for first in range(0, len(states[0]), env.num_envs)
    ]
    whole = concatenated(pieces)
    count = len(poses)
    moments = [
        whole.map(lambda x, t=t: x[t * count : (t + 1) * count].clone()) for t in range(steps)
    ]
    return assemble(env_id, env_args, env, tuple(motions), moments)


def _step_from(
    env: MujocoEnv, qpos: Tensor, qvel: Tensor, feet: Tensor, told: Tensor
) -> Transition:
    """Make one step from each of some poses; fewer than the environment has are filled up.

    The feet of a gait are led by hand, too: they carry its weight exactly when they should.
    """
    count = len(qpos)
    rows = torch.arange(env.num_envs).clamp(max=count - 1)
    obs = env.place(qpos[rows], qvel[rows])
    action = env.action_rest.repeat(env.num_envs, 1)
    step = env.step(action)
    info = _with_start(_on_feet(keep(step.info), env.robot, feet[rows]), is_start=False)
    whole = Transition(obs, action, step.final_obs, info, step.terminated, step.reward)
    whole = _as_told(whole, env.spec, told[rows])
    return whole.map(lambda x: x[:count].clone())


def _as_told(whole: Transition, spec: EnvSpec, told: Tensor) -> Transition:
    """Return transitions in which it is told these commands, (N, 3), where they are not NaN."""
    if bool(told.isnan().all()) or not set(COMMANDS) <= set(spec.info_keys):
        return whole
    values = {name: whole.info.exact(name) for name in whole.info}
    seen = {"obs": whole.obs.clone(), "next_obs": whole.next_obs.clone()}
    for place, name in enumerate(COMMANDS):
        own = told[:, place]
        values[name] = torch.where(own.isnan(), values[name], own.to(values[name].dtype))
        for obs in seen.values() if name in spec.obs_names else ():
            column = obs[:, spec.obs_names.index(name)]
            column.copy_(torch.where(own.isnan(), column, own.to(column.dtype)))
    return whole._replace(info=Info.of(values, whole.info.schema), **seen)


def _on_feet(info: Info, robot: Robot, feet: Tensor) -> Info:
    """Return an info whose feet touch the ground where they are led, (N, F), not NaN."""
    if not robot.feet or bool(feet.isnan().all()):
        return info
    own, values = list(robot.feet), {name: info.exact(name) for name in info}
    # A foot on the ground carries its share of the weight, upward.
    each = 100.0 * robot.contact_threshold * feet / feet.sum(-1, keepdim=True).clamp_min(1.0)
    if "cfrc_ext" in values:
        force = values["cfrc_ext"]
        led = torch.zeros_like(force[:, own])
        led[..., 5] = each.to(force.dtype)
        force[:, own] = torch.where(feet.isnan().unsqueeze(-1), force[:, own], led)
    if "contacts" in values:
        force = values["contacts"]
        force[:, own] = torch.where(feet.isnan(), force[:, own], each.to(force.dtype))
    return Info.of(values, info.schema)


# ---------------------------------------------------------------------------------------- parts


def open_env(env_id: str, env_args: dict[str, Any], num_envs: int) -> VecEnv:
    """Return an environment that always begins the same way."""
    env = make(env_id, num_envs=num_envs, seed=derive("examples", env_id), **env_args)
    env.reset()
    return env


def _posed(env_id: str, env_args: dict[str, Any], num_envs: int) -> MujocoEnv:
    env = open_env(env_id, env_args, num_envs)
    if not isinstance(env, MujocoEnv):
        raise UsageError(
            f"{env_id} has no poses to lead a robot through.",
            hint="Only robots that MuJoCo simulates here can be led by hand.",
        )
    return env


def _standing(env: MujocoEnv) -> np.ndarray | None:
    """Return the pose in which the robot comes to rest by itself; None if it falls over."""
    rest, still = torch.tensor(env.robot.rest_qpos)[None], torch.zeros(1, env.model.nv)
    env.place(rest, still)
    for _ in range(round(_SETTLE_S / (env.dt or 1.0))):
        step = env.step(env.action_rest[None])
        if step.terminated.any() or step.truncated.any():
            return None
    info, upright = env.present(), QUANTITIES["uprightness"]
    is_at_rest = float(info["qvel"].abs().max()) < _SLOW
    is_up = not upright.available(env.spec) or float(upright(info)) > _UP
    return info.exact("qpos")[0].numpy() if is_at_rest and is_up else None


def ground_below(env: MujocoEnv) -> Below | None:
    """Return the ground of an environment where it is not flat."""
    board = env.task.board if isinstance(env.task, RobotTask) else None
    if board is None:
        return None
    return lambda x, y: board.below.height(torch.tensor(x), torch.tensor(y)).numpy()


def set_down(env: MujocoEnv, pose: np.ndarray | None) -> np.ndarray | None:
    """Return a pose where the environment has begun an episode, if its ground is not flat."""
    below = ground_below(env)
    if below is None:
        return pose
    placed = np.array(env.robot.rest_qpos if pose is None else pose)
    placed[:2] = env.sim.field("qpos")[0, :2].numpy()
    placed[2] += float(below(placed[:1], placed[1:2])[0])
    return placed


def length_of(env: VecEnv) -> int:
    """Return the steps of an example."""
    return min(env.max_episode_steps or _UNLIMITED, MOST_STEPS)


def _stacked(poses: list[Poses], field: str) -> Tensor:
    """Return a field of all puppets, those of one moment side by side."""
    values = np.stack([getattr(pose, field) for pose in poses], axis=1)
    return torch.tensor(values.reshape(len(values) * len(poses), values.shape[-1]))


def _with_start(info: Info, *, is_start: bool) -> Info:
    """Return the info with every row marked as the start of an episode, or none."""
    values = {name: info.exact(name) for name in info}
    if "episode_start" in values:
        values["episode_start"] = torch.full_like(values["episode_start"], is_start)
    return Info.of(values, info.schema)


def assemble(
    env_id: str,
    env_args: dict[str, Any],
    env: VecEnv,
    names: tuple[str, ...],
    moments: list[Transition],
) -> Examples:
    """Return steps of several rows as examples; the environment is closed."""
    moments[0] = moments[0]._replace(info=_with_start(moments[0].info, is_start=True))
    ended = torch.stack([moment.ended for moment in moments]).numpy()
    lengths = tuple(
        int(np.argmax(column)) + 1 if column.any() else len(moments) for column in ended.T
    )
    spec = env.spec
    env.close()
    return Examples(env_id, env_args, spec, names, TransitionRecording(moments), lengths)
