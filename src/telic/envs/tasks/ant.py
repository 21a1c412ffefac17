"""Ant: a four-legged robot walks forward."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from telic.envs.anatomy import body_names
from telic.envs.names import by_body, position_names, velocity_names
from telic.envs.task import Outcome, Task, TaskArguments
from telic.envs.tasks.arguments import (
    Camera,
    ContactWeight,
    ControlWeight,
    ForwardWeight,
    FrameSkip,
    HealthyHeight,
    HealthyReward,
    HidePosition,
    IncludeBlock,
    NoiseScale,
    Range,
    TerminateWhenUnhealthy,
)
from telic.errors import UnknownName
from telic.sim import Simulation

FORCE_PARTS = ("tx", "ty", "tz", "fx", "fy", "fz")


class AntArguments(TaskArguments):
    """Arguments of Ant-v5."""

    xml_file: str = "ant.xml"
    frame_skip: FrameSkip = 5
    default_camera_config: Camera = Field(default={"distance": 4.0})
    forward_reward_weight: ForwardWeight = 1.0
    ctrl_cost_weight: ControlWeight = 0.5
    contact_cost_weight: ContactWeight = 5e-4
    healthy_reward: HealthyReward = 1.0
    main_body: Annotated[
        int | str, Field(description="body whose motion is the robot's: number or name")
    ] = 1
    terminate_when_unhealthy: TerminateWhenUnhealthy = True
    healthy_z_range: HealthyHeight = (0.2, 1.0)
    contact_force_range: Annotated[
        Range, Field(description="contact forces are cut to it, where seen and where charged")
    ] = (-1.0, 1.0)
    reset_noise_scale: NoiseScale = 0.1
    exclude_current_positions_from_observation: HidePosition = True
    include_cfrc_ext_in_observation: IncludeBlock = True


class Ant(Task[AntArguments]):
    """Reward: w_f * x velocity + w_h * healthy - w_c * |action|^2 - w_k * |contact forces|^2."""

    id = "Ant-v5"
    description = (
        "A four-legged robot; its own task is to walk towards +x without falling or jumping."
    )
    Arguments = AntArguments
    meanings: ClassVar = {
        "x_position": "position of the torso along x, m",
        "y_position": "position of the torso along y, m",
        "distance_from_origin": "horizontal distance of the torso from the origin, m",
        "x_velocity": "mean velocity of the main body along x over the step, m/s",
        "y_velocity": "mean velocity of the main body along y over the step, m/s",
        "reward_forward": "weighted forward velocity",
        "reward_ctrl": "minus the control cost",
        "reward_contact": "minus the contact cost",
        "reward_survive": "reward for being healthy",
    }

    def __init__(self, arguments: AntArguments, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        self.readers = {
            "x_position": lambda read: read("qpos")[:, 0],
            "y_position": lambda read: read("qpos")[:, 1],
            "distance_from_origin": lambda read: read("qpos")[:, :2].norm(dim=1),
        }
        model = sim.model
        bodies = body_names(model)
        hidden = 2 * arguments.exclude_current_positions_from_observation
        self._seen = self.qpos[:, hidden:]
        self._height = self.qpos[:, 2]
        self._forces = sim.field("cfrc_ext").flatten(1)
        self._seen_forces = self._forces[:, 6:]  # but for the world's
        # Gymnasium's velocity is that of the body frame, which lags qpos by one substep.
        self._place = sim.field("xpos")[:, _row(arguments.main_body, bodies), :2]
        self.obs_names = position_names(model)[hidden:] + velocity_names(model)
        if arguments.include_cfrc_ext_in_observation:
            self.obs_names += by_body("cfrc_ext", bodies[1:], FORCE_PARTS)

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, Tensor]:
        """Start near the default pose, with normal velocities."""
        scale = self.arguments.reset_noise_scale
        return self.start_near_default(seed, episode, scale, normal_velocity=True)

    def observe(self) -> Tensor:
        """Observe joint positions and velocities, and contact forces."""
        if not self.arguments.include_cfrc_ext_in_observation:
            return torch.cat((self._seen, self.qvel), dim=1)
        forces = self._seen_forces.clamp(*self.arguments.contact_force_range)
        return torch.cat((self._seen, self.qvel, forces), dim=1)

    def track(self) -> Tensor:
        """Follow the main body's x and y."""
        return self._place.clone()

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Reward speed and standing, charge effort and contact."""
        arguments = self.arguments
        x_velocity, y_velocity = (moved / self.dt).unbind(1)
        low, high = arguments.healthy_z_range
        # A sum is finite exactly when all its terms are: MuJoCo keeps them below 1e10.
        finite = (self.qpos.sum(1) + self.qvel.sum(1)).isfinite()
        healthy = (self._height >= low) & (self._height <= high) & finite
        forward = x_velocity * arguments.forward_reward_weight
        survive = self.where(healthy, arguments.healthy_reward)
        control = action.square().sum(1) * -arguments.ctrl_cost_weight
        forces = self._forces.clamp(*arguments.contact_force_range)
        contact = forces.square().sum(1) * -arguments.contact_cost_weight
        values = {
            "x_velocity": x_velocity,
            "y_velocity": y_velocity,
            "reward_forward": forward,
            "reward_ctrl": control,
            "reward_contact": contact,
            "reward_survive": survive,
        }
        terminated = ~healthy if arguments.terminate_when_unhealthy else None
        return Outcome(forward + survive + control + contact, terminated, values)


def _row(body: int | str, bodies: tuple[str, ...]) -> int:
    if isinstance(body, int) and 0 <= body < len(bodies):
        return body
    if body in bodies:
        return bodies.index(str(body))
    raise UnknownName("body", str(body), list(bodies))
