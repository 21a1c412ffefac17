"""Robots in space: Ant walks on four legs, Humanoid on two, and HumanoidStandup gets up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, TypeVar

import torch
from pydantic import Field
from torch import Tensor

from telic.core.tensors import norm
from telic.envs.anatomy import body_names, by_body, position_names, velocity_names
from telic.envs.task import (
    ContactWeight,
    ControlWeight,
    ForwardWeight,
    FrameSkip,
    HealthyHeight,
    HealthyReward,
    HidePosition,
    IncludeBlock,
    NoiseScale,
    Outcome,
    Range,
    Read,
    Task,
    TaskArguments,
    TerminateWhenUnhealthy,
    between,
)
from telic.errors import UnknownName
from telic.sim import Simulation

_FORCE_PARTS = ("tx", "ty", "tz", "fx", "fy", "fz")


class AntArguments(TaskArguments):
    """Arguments of Ant-v5."""

    xml_file: str = "ant.xml"
    frame_skip: FrameSkip = 5
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
    normal_velocities = True
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
            "distance_from_origin": lambda read: norm(read("qpos")[:, :2]),
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
            self.obs_names += by_body("cfrc_ext", bodies[1:], _FORCE_PARTS)

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


_INERTIA_PARTS = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz", "mx", "my", "mz", "m")
_MOTION_PARTS = ("wx", "wy", "wz", "vx", "vy", "vz")
_MEANINGS = {
    "x_position": "position of the torso along x, m",
    "y_position": "position of the torso along y, m",
    "tendon_length": "length of each tendon (N, ntendon), m",
    "tendon_velocity": "rate of each tendon's length (N, ntendon), m/s",
}
_READERS: dict[str, Callable[[Read], Tensor]] = {
    "x_position": lambda read: read("qpos")[:, 0],
    "y_position": lambda read: read("qpos")[:, 1],
    "tendon_length": lambda read: read("ten_length"),
    "tendon_velocity": lambda read: read("ten_velocity"),
}


ContactRange = Annotated[Range, Field(description="the contact cost is cut to it")]


class PersonArguments(TaskArguments):
    """What both humanoids take."""

    frame_skip: FrameSkip = 5
    ctrl_cost_weight: ControlWeight = 0.1
    reset_noise_scale: NoiseScale = 1e-2
    exclude_current_positions_from_observation: HidePosition = True
    include_cinert_in_observation: IncludeBlock = True
    include_cvel_in_observation: IncludeBlock = True
    include_qfrc_actuator_in_observation: IncludeBlock = True
    include_cfrc_ext_in_observation: IncludeBlock = True


class HumanoidArguments(PersonArguments):
    """Arguments of Humanoid-v5."""

    xml_file: str = "humanoid.xml"
    forward_reward_weight: ForwardWeight = 1.25
    contact_cost_weight: ContactWeight = 5e-7
    contact_cost_range: ContactRange = (-float("inf"), 10.0)
    healthy_reward: HealthyReward = 5.0
    terminate_when_unhealthy: TerminateWhenUnhealthy = True
    healthy_z_range: HealthyHeight = (1.0, 2.0)


class HumanoidStandupArguments(PersonArguments):
    """Arguments of HumanoidStandup-v5."""

    xml_file: str = "humanoidstandup.xml"
    uph_cost_weight: Annotated[
        float, Field(description="accepted and without effect, as in Gymnasium")
    ] = 1.0
    impact_cost_weight: ContactWeight = 0.5e-6
    impact_cost_range: ContactRange = (-float("inf"), 10.0)


PersonT = TypeVar("PersonT", bound=PersonArguments)


class PersonTask(Task[PersonT]):
    """What both humanoids observe, and the sum over contact forces."""

    def __init__(self, arguments: PersonT, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        self.readers = _READERS
        model = sim.model
        bodies = body_names(model)[1:]
        hidden = 2 * arguments.exclude_current_positions_from_observation
        self._forces = sim.field("cfrc_ext").flatten(1)
        self._blocks = [self.qpos[:, hidden:], self.qvel]
        self.obs_names = position_names(model)[hidden:] + velocity_names(model)
        if arguments.include_cinert_in_observation:
            self._blocks.append(sim.field("cinert")[:, 1:].flatten(1))
            self.obs_names += by_body("cinert", bodies, _INERTIA_PARTS)
        if arguments.include_cvel_in_observation:
            self._blocks.append(sim.field("cvel")[:, 1:].flatten(1))
            self.obs_names += by_body("cvel", bodies, _MOTION_PARTS)
        if arguments.include_qfrc_actuator_in_observation:
            self._blocks.append(sim.field("qfrc_actuator")[:, 6:])
            self.obs_names += tuple(f"qfrc_actuator/{name}" for name in velocity_names(model)[6:])
        if arguments.include_cfrc_ext_in_observation:
            self._blocks.append(sim.field("cfrc_ext")[:, 1:].flatten(1))
            self.obs_names += by_body("cfrc_ext", bodies, _FORCE_PARTS)

    def observe(self) -> Tensor:
        """Observe positions, velocities, inertias, actuator and contact forces."""
        return torch.cat(self._blocks, dim=1)  # they are live views, so this is the only copy

    def contact(self, weight: float, bounds: Range) -> Tensor:
        """Return minus the weighted squared contact forces within bounds, (N,)."""
        low, high = bounds
        return (self._forces.square().sum(1) * -weight).clamp(-high, -low)


class Humanoid(PersonTask[HumanoidArguments]):
    """Reward: w_f * x velocity + w_h * healthy - w_c * |action|^2 - w_k * |contact forces|^2."""

    id = "Humanoid-v5"
    description = "A person-like robot; its own task is to walk towards +x without falling."
    Arguments = HumanoidArguments
    meanings: ClassVar = {
        **_MEANINGS,
        "distance_from_origin": "horizontal distance of the torso from the origin, m",
        "x_velocity": "mean velocity of the centre of mass along x over the step, m/s",
        "y_velocity": "mean velocity of the centre of mass along y over the step, m/s",
        "reward_survive": "reward for being healthy",
        "reward_forward": "weighted forward velocity",
        "reward_ctrl": "minus the control cost",
        "reward_contact": "minus the contact cost",
    }

    def __init__(self, arguments: HumanoidArguments, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        self.readers = {**_READERS, "distance_from_origin": lambda read: norm(read("qpos")[:, :2])}
        self._height = self.qpos[:, 2]
        # Row 0, the world's subtree, has the centre of mass of all; it lags qpos by one substep.
        self._centre = sim.field("subtree_com")[:, 0, :2]

    def track(self) -> Tensor:
        """Follow the centre of mass in x and y."""
        return self._centre.clone()

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Reward speed and standing, charge effort and contact."""
        arguments = self.arguments
        x_velocity, y_velocity = (moved / self.dt).unbind(1)
        healthy = between(self._height, arguments.healthy_z_range)
        forward = x_velocity * arguments.forward_reward_weight
        survive = self.where(healthy, arguments.healthy_reward)
        control = action.square().sum(1) * -arguments.ctrl_cost_weight
        contact = self.contact(arguments.contact_cost_weight, arguments.contact_cost_range)
        values = {
            "x_velocity": x_velocity,
            "y_velocity": y_velocity,
            "reward_survive": survive,
            "reward_forward": forward,
            "reward_ctrl": control,
            "reward_contact": contact,
        }
        terminated = ~healthy if arguments.terminate_when_unhealthy else None
        return Outcome(forward + survive + control + contact, terminated, values)


class HumanoidStandup(PersonTask[HumanoidStandupArguments]):
    """Reward: height / timestep + 1 - w_c * |action|^2 - w_k * |contact forces|^2."""

    id = "HumanoidStandup-v5"
    description = "A person-like robot lying on its back; its own task is to get up."
    Arguments = HumanoidStandupArguments
    meanings: ClassVar = {
        **_MEANINGS,
        "z_distance_from_origin": "height of the torso above its default, m",
        "reward_linup": "height of the torso over the physics time step",
        "reward_quadctrl": "minus the control cost",
        "reward_impact": "minus the contact cost",
    }

    def __init__(self, arguments: HumanoidStandupArguments, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        self._timestep = sim.model.opt.timestep
        height = float(sim.model.qpos0[2])
        self.readers = {
            **_READERS,
            "z_distance_from_origin": lambda read: read("qpos")[:, 2] - height,
        }

    def outcome(self, action: Tensor, moved: Tensor) -> Outcome:
        """Reward height, charge effort and impact."""
        arguments = self.arguments
        height = self.qpos[:, 2] / self._timestep
        control = action.square().sum(1) * -arguments.ctrl_cost_weight
        impact = self.contact(arguments.impact_cost_weight, arguments.impact_cost_range)
        values = {"reward_linup": height, "reward_quadctrl": control, "reward_impact": impact}
        return Outcome(height + control + impact + 1.0, None, values)
