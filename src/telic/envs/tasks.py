"""The ten MuJoCo tasks of Gymnasium, version 5, by id.

Here are the robots in a plane, which run, walk, hop and swim, and the machines on a fixed base: a
cart that balances one or two poles, and an arm that reaches a target. Those that move in space are
in `telic.envs.spatial`.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, TypeVar

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from telic.core.seeds import uniform
from telic.core.tensors import norm
from telic.envs.anatomy import position_names, velocity_names
from telic.envs.spatial import Ant, Humanoid, HumanoidStandup
from telic.envs.task import (
    AnyTask,
    ControlWeight,
    ForwardWeight,
    FrameSkip,
    HealthyAngle,
    HealthyHeight,
    HealthyReward,
    HidePosition,
    NoiseScale,
    Outcome,
    Range,
    Task,
    TaskArguments,
    TerminateWhenUnhealthy,
    between,
)
from telic.errors import BadEnvironment
from telic.sim import Simulation

_REACH = 0.2  # radius of the disc that Reacher's target lies in, m


class HalfCheetahArguments(TaskArguments):
    """Arguments of HalfCheetah-v5."""

    xml_file: str = "half_cheetah.xml"
    frame_skip: FrameSkip = 5
    forward_reward_weight: ForwardWeight = 1.0
    ctrl_cost_weight: ControlWeight = 0.1
    reset_noise_scale: NoiseScale = 0.1
    exclude_current_positions_from_observation: HidePosition = True


class SwimmerArguments(TaskArguments):
    """Arguments of Swimmer-v5."""

    xml_file: str = "swimmer.xml"
    frame_skip: FrameSkip = 4
    forward_reward_weight: ForwardWeight = 1.0
    ctrl_cost_weight: ControlWeight = 1e-4
    reset_noise_scale: NoiseScale = 0.1
    exclude_current_positions_from_observation: HidePosition = True


class Walker2dArguments(TaskArguments):
    """Arguments of Walker2d-v5."""

    xml_file: str = "walker2d_v5.xml"
    frame_skip: FrameSkip = 4
    forward_reward_weight: ForwardWeight = 1.0
    ctrl_cost_weight: ControlWeight = 1e-3
    healthy_reward: HealthyReward = 1.0
    terminate_when_unhealthy: TerminateWhenUnhealthy = True
    healthy_z_range: HealthyHeight = (0.8, 2.0)
    healthy_angle_range: HealthyAngle = (-1.0, 1.0)
    reset_noise_scale: NoiseScale = 5e-3
    exclude_current_positions_from_observation: HidePosition = True


class HopperArguments(Walker2dArguments):
    """Arguments of Hopper-v5."""

    xml_file: str = "hopper.xml"
    healthy_state_range: Annotated[
        Range, Field(description="all other positions and velocities must lie in it")
    ] = (-100.0, 100.0)
    healthy_z_range: HealthyHeight = (0.7, float("inf"))
    healthy_angle_range: HealthyAngle = (-0.2, 0.2)


PlanarT = TypeVar("PlanarT", bound=HalfCheetahArguments | SwimmerArguments | Walker2dArguments)


class PlanarTask(Task[PlanarT]):
    """Sees its joints, but not where it is: the first `place` columns of qpos."""

    place: ClassVar[int] = 1

    def __init__(self, arguments: PlanarT, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        hidden = self.place * arguments.exclude_current_positions_from_observation
        self._seen = self.qpos[:, hidden:]
        self._place = self.qpos[:, : self.place]
        self.obs_names = position_names(sim.model)[hidden:] + velocity_names(sim.model)
        self.readers = {"x_position": lambda read: read("qpos")[:, 0]}

    def observe(self) -> Tensor:
        """Observe joint positions and velocities."""
        return torch.cat((self._seen, self.qvel), dim=1)

    def track(self) -> Tensor:
        """Follow x, and y if it can go there."""
        return self._place.clone()

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Reward speed, charge effort."""
        values = self.speed_and_effort(action, moved)
        return Outcome(values["reward_forward"] + values["reward_ctrl"], None, values)

    def speed_and_effort(self, action: Tensor, moved: Tensor) -> dict[str, Tensor]:
        """Return the velocities of a step, its reward for speed and its cost of effort."""
        velocities = (moved / self.dt).unbind(1)
        return {
            **dict(zip(("x_velocity", "y_velocity"), velocities, strict=False)),
            "reward_forward": velocities[0] * self.arguments.forward_reward_weight,
            "reward_ctrl": action.square().sum(1) * -self.arguments.ctrl_cost_weight,
        }


class HalfCheetah(PlanarTask[HalfCheetahArguments]):
    """Reward is w_f * x velocity - w_c * |action|^2; never terminates."""

    id = "HalfCheetah-v5"
    description = "A two-legged robot in the vertical plane; its own task is to run forward fast."
    Arguments = HalfCheetahArguments
    normal_velocities = True
    meanings: ClassVar = {
        "x_position": "position along x, m",
        "x_velocity": "mean velocity along x over the step, m/s",
        "reward_forward": "weighted forward velocity",
        "reward_ctrl": "minus the control cost",
    }


class Swimmer(PlanarTask[SwimmerArguments]):
    """Reward is w_f * x velocity - w_c * |action|^2; never terminates."""

    id = "Swimmer-v5"
    description = "A chain of three links in a viscous plane; its own task is to swim towards +x."
    Arguments = SwimmerArguments
    place = 2
    meanings: ClassVar = {
        "x_position": "position of the front tip along x, m",
        "y_position": "position of the front tip along y, m",
        "distance_from_origin": "distance of the front tip from the origin, m",
        "x_velocity": "mean velocity along x over the step, m/s",
        "y_velocity": "mean velocity along y over the step, m/s",
        "reward_forward": "weighted forward velocity",
        "reward_ctrl": "minus the control cost",
    }

    def __init__(self, arguments: SwimmerArguments, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        self.readers = {
            **self.readers,
            "y_position": lambda read: read("qpos")[:, 1],
            "distance_from_origin": lambda read: norm(read("qpos")[:, :2]),
        }


class Walker2d(PlanarTask[Walker2dArguments]):
    """Reward is w_f * x velocity + w_h * healthy - w_c * |action|^2; ends when it falls."""

    id = "Walker2d-v5"
    description = "Two legs in the vertical plane; its own task is to walk forward without falling."
    Arguments = Walker2dArguments
    meanings: ClassVar = {
        "x_position": "position along x, m",
        "z_distance_from_origin": "height of the torso above its default, m",
        "x_velocity": "mean velocity along x over the step, m/s",
        "reward_forward": "weighted forward velocity",
        "reward_ctrl": "minus the control cost",
        "reward_survive": "reward for being healthy",
    }

    def __init__(self, arguments: Walker2dArguments, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        self._height, self._angle = self.qpos[:, 1], self.qpos[:, 2]
        height = float(sim.model.qpos0[1])
        self.readers = {
            **self.readers,
            "z_distance_from_origin": lambda read: read("qpos")[:, 1] - height,
        }

    def observe(self) -> Tensor:
        """Observe joint positions, and velocities cut at 10."""
        return torch.cat((self._seen, self.qvel.clamp(-10.0, 10.0)), dim=1)

    def is_healthy(self) -> Tensor:
        """Tell who stands, (N,) bool."""
        is_up = between(self._height, self.arguments.healthy_z_range)
        return is_up & between(self._angle, self.arguments.healthy_angle_range)

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Reward speed and standing, charge effort."""
        values = self.speed_and_effort(action, moved)
        healthy = self.is_healthy()
        survive = values["reward_survive"] = self.where(healthy, self.arguments.healthy_reward)
        reward = values["reward_forward"] + survive + values["reward_ctrl"]
        terminated = ~healthy if self.arguments.terminate_when_unhealthy else None
        return Outcome(reward, terminated, values)


class Hopper(Walker2d):
    """As Walker2d, and every other position and velocity must stay in bounds too."""

    id = "Hopper-v5"
    description = "One leg in the vertical plane; its own task is to hop forward without falling."
    Arguments = HopperArguments
    arguments: HopperArguments

    def is_healthy(self) -> Tensor:
        """Tell who stands and moves within bounds, (N,) bool."""
        state = torch.cat((self.qpos[:, 2:], self.qvel), dim=1)
        return super().is_healthy() & between(state, self.arguments.healthy_state_range).all(1)


class InvertedPendulumArguments(TaskArguments):
    """Arguments of InvertedPendulum-v5."""

    xml_file: str = "inverted_pendulum.xml"
    frame_skip: FrameSkip = 2
    reset_noise_scale: NoiseScale = 0.01
    terminate_when_unhealthy: TerminateWhenUnhealthy = True


class InvertedPendulum(Task[InvertedPendulumArguments]):
    """Reward is 1 while the pole stands within 0.2 rad; ends when it does not."""

    id = "InvertedPendulum-v5"
    description = "A cart with a pole; its own task is to keep the pole up."
    Arguments = InvertedPendulumArguments
    meanings: ClassVar = {"reward_survive": "1 while the pole stands, else 0"}

    def __init__(self, arguments: InvertedPendulumArguments, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        self.obs_names = position_names(sim.model) + velocity_names(sim.model)

    def observe(self) -> Tensor:
        """Observe positions and velocities of cart and pole."""
        return torch.cat((self.qpos, self.qvel), dim=1)

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Reward a standing pole."""
        finite = (self.qpos.sum(1) + self.qvel.sum(1)).isfinite()
        healthy = (self.qpos[:, 1].abs() <= 0.2) & finite
        reward = healthy.to(self.qpos.dtype)
        terminated = ~healthy if self.arguments.terminate_when_unhealthy else None
        return Outcome(reward, terminated, {"reward_survive": reward})


class InvertedDoublePendulumArguments(TaskArguments):
    """Arguments of InvertedDoublePendulum-v5."""

    xml_file: str = "inverted_double_pendulum.xml"
    frame_skip: FrameSkip = 5
    healthy_reward: HealthyReward = 10.0
    reset_noise_scale: NoiseScale = 0.1
    terminate_when_unhealthy: TerminateWhenUnhealthy = True


class InvertedDoublePendulum(Task[InvertedDoublePendulumArguments]):
    """Reward is w_h * standing - 0.01 x^2 - (y - 2)^2 - 1e-3 v1^2 - 5e-3 v2^2, (x, y) the tip."""

    id = "InvertedDoublePendulum-v5"
    description = "A cart with a pole on a pole; its own task is to keep both up."
    Arguments = InvertedDoublePendulumArguments
    normal_velocities = True
    meanings: ClassVar = {
        "reward_survive": "reward while the tip is above 1 m",
        "distance_penalty": "minus the penalty for the tip being away from its place",
        "velocity_penalty": "minus the penalty for the poles turning",
    }
    obs_names = (
        *("slider", "hinge_sin", "hinge2_sin", "hinge_cos", "hinge2_cos", "slider_velocity"),
        *("hinge_velocity", "hinge2_velocity", "slider_constraint_force"),
    )

    def __init__(self, arguments: InvertedDoublePendulumArguments, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        self._tip = sim.field("site_xpos")[:, 0]
        self._constraint = sim.field("qfrc_constraint")[:, :1]

    def observe(self) -> Tensor:
        """Observe the cart, sines and cosines of the poles, and velocities and force cut at 10."""
        angles = self.qpos[:, 1:]
        speeds = self.qvel.clamp(-10.0, 10.0)
        force = self._constraint.clamp(-10.0, 10.0)
        return torch.cat((self.qpos[:, :1], angles.sin(), angles.cos(), speeds, force), dim=1)

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Reward standing, charge distance and velocity."""
        x, y = self._tip[:, 0], self._tip[:, 2]
        fallen = y <= 1.0
        survive = self.where(~fallen, self.arguments.healthy_reward)
        distance = x.square() * -0.01 - (y - 2.0).square()
        velocity = self.qvel[:, 1].square() * -1e-3 - self.qvel[:, 2].square() * 5e-3
        values = {
            "reward_survive": survive,
            "distance_penalty": distance,
            "velocity_penalty": velocity,
        }
        terminated = fallen if self.arguments.terminate_when_unhealthy else None
        return Outcome(survive + distance + velocity, terminated, values)


class ReacherArguments(TaskArguments):
    """Arguments of Reacher-v5."""

    xml_file: str = "reacher.xml"
    frame_skip: FrameSkip = 2
    max_episode_steps: PositiveInt | None = Field(50, description="time limit; None: unlimited")
    reward_dist_weight: Annotated[float, Field(description="cost per metre to the target")] = 1.0
    reward_control_weight: ControlWeight = 1.0


class Reacher(Task[ReacherArguments]):
    """Reward is -w_d * distance - w_c * |action|^2; never terminates."""

    id = "Reacher-v5"
    description = (
        "An arm of two links in a plane; its own task is to bring the fingertip to a target."
    )
    Arguments = ReacherArguments
    meanings: ClassVar = {
        "reward_dist": "minus the weighted distance to the target",
        "reward_ctrl": "minus the control cost",
    }
    obs_names = (
        *("joint0_cos", "joint1_cos", "joint0_sin", "joint1_sin", "target_x", "target_y"),
        *("joint0_velocity", "joint1_velocity", "to_target_x", "to_target_y"),
    )

    def __init__(self, arguments: ReacherArguments, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        places = sim.field("xpos")
        try:
            self._fingertip = places[:, sim.model.body("fingertip").id]
            self._target = places[:, sim.model.body("target").id]
        except KeyError as error:
            raise BadEnvironment(
                f'The model "{arguments.xml_file}" lacks a body Reacher needs: {error}.',
                hint='Name the bodies "fingertip" and "target".',
            ) from error

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, Tensor]:
        """Start near the default pose, the target anywhere in its disc."""
        positions, velocities = self.qpos.shape[1], self.qvel.shape[1]
        u = uniform(seed, episode, positions + velocities)
        qpos = self.qpos0 + 0.1 * (2.0 * u[:, :positions] - 1.0)
        qvel = 0.005 * (2.0 * u[:, positions:] - 1.0)
        # Uniform in a disc: the radius goes with the square root. The target itself stands still.
        radius = _REACH * u[:, positions - 2].sqrt()
        angle = 2.0 * math.pi * u[:, positions - 1]
        qpos[:, -2] = radius * angle.cos()
        qpos[:, -1] = radius * angle.sin()
        qvel[:, -2:] = 0.0
        return qpos, qvel

    def observe(self) -> Tensor:
        """Observe the joints, the target, and the way from it to the fingertip."""
        angles = self.qpos[:, :2]
        way = self._fingertip[:, :2] - self._target[:, :2]
        return torch.cat(
            (angles.cos(), angles.sin(), self.qpos[:, 2:], self.qvel[:, :2], way), dim=1
        )

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Charge distance and effort."""
        way = self._fingertip - self._target
        distance = norm(way) * -self.arguments.reward_dist_weight
        control = action.square().sum(1) * -self.arguments.reward_control_weight
        values = {"reward_dist": distance, "reward_ctrl": control}
        return Outcome(distance + control, None, values)


_ALL: tuple[type[AnyTask], ...] = (
    *(HalfCheetah, Ant, Hopper, Walker2d, Humanoid, HumanoidStandup),
    *(Swimmer, Reacher, InvertedPendulum, InvertedDoublePendulum),
)
TASKS: dict[str, type[AnyTask]] = {task.id: task for task in _ALL}
