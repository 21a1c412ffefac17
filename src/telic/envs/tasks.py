"""Define the ten Gymnasium MuJoCo v5 tasks, with the same arguments, dynamics and info."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, ClassVar, NamedTuple

import gymnasium
import torch
from gymnasium.envs.registration import load_env_creator
from pydantic import Field, NonNegativeFloat, PositiveInt, create_model
from torch import Tensor

from telic.core.seeds import uniform
from telic.core.tensors import norm
from telic.envs.anatomy import body_names, position_names, velocity_names
from telic.envs.task import Read, StepOutcome, Task, TaskArguments, strictly_within
from telic.errors import BadEnvironment, UnknownName
from telic.sim.base import Simulation

_CLIPPED_AT_10 = {"low": -10.0, "high": 10.0}
_REACH = 0.2  # radius of the disc from which Reacher's target is sampled, m
_SPATIAL_FORCE = ("tx", "ty", "tz", "fx", "fy", "fz")
_SPATIAL_MOTION = ("wx", "wy", "wz", "vx", "vy", "vz")
_SPATIAL_INERTIA = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz", "mx", "my", "mz", "m")

_Range = tuple[float, float]
_MEANINGS = {
    "x_position": "position along x, m",
    "y_position": "position along y, m",
    "z_distance_from_origin": "height of the torso relative to its default, m",
    "distance_from_origin": "horizontal distance from the origin, m",
    "tendon_length": "length of each tendon (N, ntendon), m",
    "tendon_velocity": "rate of each tendon's length (N, ntendon), m/s",
    "x_velocity": "mean velocity along x over the step, m/s",
    "y_velocity": "mean velocity along y over the step, m/s",
    "reward_forward": "weighted forward velocity",
    "reward_ctrl": "negative control cost",
    "reward_quadctrl": "negative control cost",
    "reward_contact": "negative contact cost",
    "reward_impact": "negative contact cost",
    "reward_survive": "reward for being healthy",
    "reward_linup": "torso height divided by the physics time step",
    "reward_dist": "negative weighted distance to the target",
    "distance_penalty": "negative penalty for the distance of the tip from its target",
    "velocity_penalty": "negative penalty for the velocities of the poles",
}
_READERS: dict[str, Callable[[Read], Tensor]] = {
    "x_position": lambda read: read("qpos")[:, 0],
    "y_position": lambda read: read("qpos")[:, 1],
    "distance_from_origin": lambda read: norm(read("qpos")[:, :2]),
    "tendon_length": lambda read: read("ten_length"),
    "tendon_velocity": lambda read: read("ten_velocity"),
}
_CLIPPED = (_Range, "bounds for clipping the contact cost")
_SHOW = (bool, "include this block in the observation")
_ARGUMENTS: dict[str, tuple[Any, str]] = {
    "xml_file": (str, "model: name of a Gymnasium asset, or a path"),
    "frame_skip": (PositiveInt, "physics steps per control step"),
    "max_episode_steps": (PositiveInt | None, "time limit in steps; unlimited if None"),
    "main_body": (int | str, "body that defines the robot's motion, by number or name"),
    "forward_reward_weight": (float, "reward per m/s forward"),
    "ctrl_cost_weight": (float, "cost per squared action"),
    "contact_cost_weight": (float, "cost per squared contact force"),
    "impact_cost_weight": (float, "cost per squared contact force"),
    "uph_cost_weight": (float, "accepted without effect, as in Gymnasium"),
    "reward_dist_weight": (float, "cost per meter to the target"),
    "reward_control_weight": (float, "cost per squared action"),
    "contact_cost_range": _CLIPPED,
    "impact_cost_range": _CLIPPED,
    "contact_force_range": (_Range, "clipping range of contact forces, for observation and cost"),
    "healthy_reward": (float, "reward per step while healthy"),
    "terminate_when_unhealthy": (bool, "end the episode when unhealthy"),
    "healthy_z_range": (_Range, "healthy heights of the torso, m"),
    "healthy_angle_range": (_Range, "healthy angles of the torso, rad"),
    "healthy_state_range": (_Range, "healthy range of all other positions and velocities"),
    "reset_noise_scale": (NonNegativeFloat, "noise of the initial pose and velocity"),
    "exclude_current_positions_from_observation": (bool, "exclude x and y from the observation"),
    "include_cinert_in_observation": _SHOW,
    "include_cvel_in_observation": _SHOW,
    "include_qfrc_actuator_in_observation": _SHOW,
    "include_cfrc_ext_in_observation": _SHOW,
}


class Rules(NamedTuple):
    """Reward and termination rules as text, in which names refer to the task's arguments."""

    reward: str
    ends: str = "never"


def _arguments(env_id: str, **more: Any) -> type[TaskArguments]:
    """Create a task's argument model with the names and defaults of Gymnasium's environment."""
    entry = gymnasium.spec(env_id)
    assert entry.entry_point is not None
    constructor = inspect.signature(load_env_creator(str(entry.entry_point)))
    given = {name: each.default for name, each in constructor.parameters.items()}
    given |= {"max_episode_steps": entry.max_episode_steps, **more}
    fields: dict[str, Any] = {
        name: (kind, Field(given[name], description=description, validate_default=True))
        for name, (kind, description) in _ARGUMENTS.items()
        if name in given
    }
    return create_model("TaskArguments", __base__=TaskArguments, **fields)


def _info(names: str) -> dict[str, str]:
    return {name: _MEANINGS[name] for name in names.split()}


class GymnasiumTask(Task[Any]):
    """Base class of the Gymnasium tasks, with human-readable rules."""

    rules: ClassVar[Rules]


_UNHEALTHY = "when unhealthy, unless terminate_when_unhealthy=False: "
_FORWARD = "forward_reward_weight * x_velocity"
_EFFORT = " - ctrl_cost_weight * |action|^2"


class Locomotion(GymnasiumTask):
    """Locomotion with rewards for forward velocity and health, minus control and contact costs."""

    place: ClassVar[int] = 1
    """Number of leading qpos columns that hold the global position."""
    height_column: ClassVar[int] = 2
    clips_velocities: ClassVar[bool] = False
    """Whether observed velocities are clipped to [-10, 10]."""

    def __init__(self, arguments: Any, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        model = sim.model
        hidden = self.place * arguments.exclude_current_positions_from_observation
        self.see(sim, "qpos", hidden, model.nq - hidden)
        self.see(sim, "qvel", 0, model.nv, **(_CLIPPED_AT_10 if self.clips_velocities else {}))
        self.tracked = self.qpos[:, : self.place]
        self.obs_names = position_names(model)[hidden:] + velocity_names(model)
        column, default = self.height_column, float(model.qpos0[self.height_column])
        self._height = self.qpos[:, column]
        self._asked = type(arguments).model_fields
        if "contact_cost_weight" in self._asked:
            self._forces = sim.field("cfrc_ext").flatten(1)
        known = {
            **_READERS,
            "z_distance_from_origin": lambda read: read("qpos")[:, column] - default,
        }
        self.readers = {name: known[name] for name in self.meanings if name in known}

    def track(self) -> Tensor:
        """Return the tracked positions: x, and also y if the robot can move along it."""
        return self.tracked.clone()

    def is_healthy(self) -> Tensor:
        """Return a mask (N,) of the robots within all configured healthy ranges."""
        healthy = strictly_within(self._height, self.arguments.healthy_z_range)
        if "healthy_angle_range" in self._asked:
            healthy = healthy & strictly_within(self.qpos[:, 2], self.arguments.healthy_angle_range)
        if "healthy_state_range" in self._asked:
            state = torch.cat((self.qpos[:, 2:], self.qvel), dim=1)
            within = strictly_within(state, self.arguments.healthy_state_range)
            healthy = healthy & within.all(1)
        return healthy

    def contact_cost(self) -> Tensor:
        """Return the negative weighted sum of squared contact forces, clipped, (N,)."""
        low, high = self.arguments.contact_cost_range
        cost = self._forces.square().sum(1) * -self.arguments.contact_cost_weight
        return cost.clamp(-high, -low)

    def outcome(self, action: Tensor, moved: Tensor) -> StepOutcome:
        """Compute the reward from velocity and health, minus control and contact costs."""
        arguments = self.arguments
        velocities = (moved / self.dt).unbind(1)
        values = dict(zip(("x_velocity", "y_velocity"), velocities, strict=False))
        reward = values["reward_forward"] = velocities[0] * arguments.forward_reward_weight
        ends = None
        if "healthy_z_range" in self._asked:
            healthy = self.is_healthy()
            values["reward_survive"] = self.where(healthy, arguments.healthy_reward)
            reward = reward + values["reward_survive"]
            ends = ~healthy if arguments.terminate_when_unhealthy else None
        values["reward_ctrl"] = action.square().sum(1) * -arguments.ctrl_cost_weight
        reward = reward + values["reward_ctrl"]
        if "contact_cost_weight" in self._asked:
            values["reward_contact"] = self.contact_cost()
            reward = reward + values["reward_contact"]
        return StepOutcome(reward, ends, values)


class HalfCheetah(Locomotion):
    """Planar two-legged runner."""

    id = "HalfCheetah-v5"
    description = "A planar two-legged robot; the default task is to run forward fast."
    rules = Rules(_FORWARD + _EFFORT)
    normal_velocities = True
    meanings: ClassVar = _info("x_position x_velocity reward_forward reward_ctrl")
    Arguments = _arguments("HalfCheetah-v5")


class Swimmer(Locomotion):
    """Chain of links in a viscous fluid. Positions refer to the front tip."""

    id = "Swimmer-v5"
    description = "Three links in a viscous plane; the default task is to swim toward +x."
    rules = Rules(_FORWARD + _EFFORT)
    place = 2
    meanings: ClassVar = _info(
        "x_position y_position distance_from_origin x_velocity y_velocity reward_forward "
        "reward_ctrl"
    )
    Arguments = _arguments("Swimmer-v5")


_TILTED = "torso height or angle outside healthy_z_range or healthy_angle_range"


class Walker2d(Locomotion):
    """Planar biped."""

    id = "Walker2d-v5"
    description = "A planar biped; the default task is to walk forward without falling."
    height_column = 1
    clips_velocities = True
    rules = Rules(_FORWARD + " + healthy_reward" + _EFFORT, _UNHEALTHY + _TILTED)
    meanings: ClassVar = _info(
        "x_position z_distance_from_origin x_velocity reward_forward reward_ctrl reward_survive"
    )
    Arguments = _arguments("Walker2d-v5")


class Hopper(Walker2d):
    """Planar one-legged robot. Its other positions and velocities must also stay within bounds."""

    id = "Hopper-v5"
    description = "A planar one-legged robot; the default task is to hop forward without falling."
    rules = Rules(
        _FORWARD + " + healthy_reward" + _EFFORT,
        _UNHEALTHY + _TILTED + ", or another number outside healthy_state_range",
    )
    Arguments = _arguments("Hopper-v5")


class Ant(Locomotion):
    """Quadruped. Velocities refer to the main body."""

    id = "Ant-v5"
    description = (
        "A four-legged robot; the default task is to walk toward +x without falling or jumping."
    )
    rules = Rules(
        _FORWARD + " + healthy_reward" + _EFFORT + " - contact_cost_weight * |contact forces|^2",
        _UNHEALTHY + "torso height outside healthy_z_range, or a number is not finite",
    )
    place = 2
    normal_velocities = True
    meanings: ClassVar = _info(
        "x_position y_position distance_from_origin x_velocity y_velocity reward_forward "
        "reward_ctrl reward_contact reward_survive"
    )
    Arguments = _arguments("Ant-v5")

    def __init__(self, arguments: Any, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        bodies = body_names(sim.model)
        # Gymnasium computes the velocity from the body frame, which lags qpos by one substep.
        self.tracked = sim.field("xpos")[:, _row(arguments.main_body, bodies), :2]
        if arguments.include_cfrc_ext_in_observation:
            low, high = arguments.contact_force_range
            cut = {"low": low if isfinite(low) else None, "high": high if isfinite(high) else None}
            self.see(sim, "cfrc_ext", 6, 6 * (len(bodies) - 1), **cut)  # without the world
            self.obs_names += _by_body("cfrc_ext", bodies[1:], _SPATIAL_FORCE)

    def is_healthy(self) -> Tensor:
        """Return a mask (N,) of the robots that are within the healthy heights and finite."""
        low, high = self.arguments.healthy_z_range
        # A sum is finite if and only if all its terms are: MuJoCo keeps them below 1e10.
        finite = (self.qpos.sum(1) + self.qvel.sum(1)).isfinite()
        return (self._height >= low) & (self._height <= high) & finite

    def contact_cost(self) -> Tensor:
        """Return the negative weighted sum of squared contact forces, each clipped, (N,)."""
        forces = self._forces.clamp(*self.arguments.contact_force_range)
        return forces.square().sum(1) * -self.arguments.contact_cost_weight


def _row(body: int | str, bodies: tuple[str, ...]) -> int:
    if isinstance(body, int) and 0 <= body < len(bodies):
        return body
    if body in bodies:
        return bodies.index(str(body))
    raise UnknownName("body", str(body), list(bodies))


def _by_body(kind: str, bodies: tuple[str, ...], parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return names such as "cfrc_ext/torso/fx" for a (bodies, parts) block."""
    return tuple(f"{kind}/{body}/{part}" for body in bodies for part in parts)


class _Person(Locomotion):
    """Observation that both humanoids share."""

    place = 2

    def __init__(self, arguments: Any, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        model = sim.model
        bodies = body_names(model)[1:]
        driven = tuple(f"qfrc_actuator/{name}" for name in velocity_names(model)[6:])
        for name, skipped, names in (  # without the world body and the root's forces
            ("cinert", 10, _by_body("cinert", bodies, _SPATIAL_INERTIA)),
            ("cvel", 6, _by_body("cvel", bodies, _SPATIAL_MOTION)),
            ("qfrc_actuator", 6, driven),
            ("cfrc_ext", 6, _by_body("cfrc_ext", bodies, _SPATIAL_FORCE)),
        ):
            if getattr(arguments, f"include_{name}_in_observation"):
                self.see(sim, name, skipped, len(names))
                self.obs_names += names


class Humanoid(_Person):
    """Walking humanoid. Velocities refer to the center of mass."""

    id = "Humanoid-v5"
    description = "A humanoid robot; the default task is to walk toward +x without falling."
    rules = Rules(
        _FORWARD + " of the center of mass + healthy_reward" + _EFFORT + " - contact_cost_weight "
        "* |contact forces|^2, the last within contact_cost_range",
        _UNHEALTHY + "torso height outside healthy_z_range",
    )
    meanings: ClassVar = _info(
        "x_position y_position tendon_length tendon_velocity distance_from_origin x_velocity "
        "y_velocity reward_survive reward_forward reward_ctrl reward_contact"
    )
    Arguments = _arguments("Humanoid-v5")

    def __init__(self, arguments: Any, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        # Row 0 (world subtree) is the overall center of mass; it lags qpos by one substep.
        self.tracked = sim.field("subtree_com")[:, 0, :2]


class HumanoidStandup(_Person):
    """Humanoid that stands up. The reward is height / timestep + 1 minus costs."""

    id = "HumanoidStandup-v5"
    description = "A humanoid robot lying on its back; the default task is to stand up."
    rules = Rules(
        "uph_cost_weight * torso height / timestep + 1 - ctrl_cost_weight * |action|^2 "
        "- impact_cost_weight * |contact forces|^2, the last within impact_cost_range"
    )
    meanings: ClassVar = _info(
        "x_position y_position tendon_length tendon_velocity z_distance_from_origin reward_linup "
        "reward_quadctrl reward_impact"
    )
    Arguments = _arguments("HumanoidStandup-v5")

    def __init__(self, arguments: Any, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        self._timestep = sim.model.opt.timestep
        self._forces = sim.field("cfrc_ext").flatten(1)
        self.tracked = self.qpos[:, :0]

    def outcome(self, action: Tensor, moved: Tensor) -> StepOutcome:
        """Compute the reward from the height, minus control and impact costs."""
        arguments = self.arguments
        height = self.qpos[:, 2] / self._timestep
        control = action.square().sum(1) * -arguments.ctrl_cost_weight
        low, high = arguments.impact_cost_range
        impact = self._forces.square().sum(1) * -arguments.impact_cost_weight
        impact = impact.clamp(-high, -low)
        values = {"reward_linup": height, "reward_quadctrl": control, "reward_impact": impact}
        return StepOutcome(height + control + impact + 1.0, None, values)


class InvertedPendulum(GymnasiumTask):
    """Pole on a cart."""

    id = "InvertedPendulum-v5"
    description = "A cart with a pole; the default task is to keep the pole upright."
    rules = Rules("1 while the pole is upright", "when the pole leans by more than 0.2 rad")
    meanings: ClassVar = _info("reward_survive")
    Arguments = _arguments("InvertedPendulum-v5", terminate_when_unhealthy=True)

    def __init__(self, arguments: Any, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        self.obs_names = position_names(sim.model) + velocity_names(sim.model)
        self.see(sim, "qpos", 0, sim.model.nq)
        self.see(sim, "qvel", 0, sim.model.nv)

    def outcome(self, action: Tensor, moved: Tensor) -> StepOutcome:
        """Return a reward of 1 while the pole is upright."""
        finite = (self.qpos.sum(1) + self.qvel.sum(1)).isfinite()
        healthy = (self.qpos[:, 1].abs() <= 0.2) & finite
        reward = healthy.to(self.qpos.dtype)
        ends = ~healthy if self.arguments.terminate_when_unhealthy else None
        return StepOutcome(reward, ends, {"reward_survive": reward})


class InvertedDoublePendulum(GymnasiumTask):
    """Double pole on a cart."""

    id = "InvertedDoublePendulum-v5"
    description = "A cart with a double pole; the default task is to keep both poles upright."
    rules = Rules(
        "healthy_reward - 0.01 x^2 - (y - 2)^2 - 0.001 v1^2 - 0.005 v2^2, with the tip at (x, y) "
        "and joint velocities v1, v2",
        "when the tip is lower than 1 m",
    )
    normal_velocities = True
    meanings: ClassVar = _info("reward_survive distance_penalty velocity_penalty")
    obs_names = (
        *("slider", "hinge_sin", "hinge2_sin", "hinge_cos", "hinge2_cos", "slider_velocity"),
        *("hinge_velocity", "hinge2_velocity", "slider_constraint_force"),
    )
    Arguments = _arguments("InvertedDoublePendulum-v5", terminate_when_unhealthy=True)

    def __init__(self, arguments: Any, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        self._tip = sim.field("site_xpos")[:, 0]
        self.see(sim, "qpos", 0, 1)
        self.see(sim, "qpos", 1, 2, applied="sin")
        self.see(sim, "qpos", 1, 2, applied="cos")
        self.see(sim, "qvel", 0, 3, **_CLIPPED_AT_10)
        self.see(sim, "qfrc_constraint", 0, 1, **_CLIPPED_AT_10)

    def outcome(self, action: Tensor, moved: Tensor) -> StepOutcome:
        """Compute the survival reward minus distance and velocity penalties."""
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
        ends = fallen if self.arguments.terminate_when_unhealthy else None
        return StepOutcome(survive + distance + velocity, ends, values)


class Reacher(GymnasiumTask):
    """Planar two-link arm with a target within reach."""

    id = "Reacher-v5"
    description = "A planar two-link arm; the default task is to move the fingertip to a target."
    rules = Rules(
        "- reward_dist_weight * fingertip-target distance - reward_control_weight * |action|^2"
    )
    meanings: ClassVar = _info("reward_dist reward_ctrl")
    obs_names = (
        *("joint0_cos", "joint1_cos", "joint0_sin", "joint1_sin", "target_x", "target_y"),
        *("joint0_velocity", "joint1_velocity", "to_target_x", "to_target_y"),
    )
    Arguments = _arguments("Reacher-v5")

    def __init__(self, arguments: Any, sim: Simulation) -> None:
        super().__init__(arguments, sim)
        try:
            tip, target = (int(sim.model.body(name).id) for name in ("fingertip", "target"))
        except KeyError as error:
            raise BadEnvironment(
                f'The model "{arguments.xml_file}" lacks a body required by Reacher: {error}.',
                hint='Name the bodies "fingertip" and "target".',
            ) from error

        places = sim.field("xpos")
        self._fingertip, self._target = places[:, tip], places[:, target]
        self.see(sim, "qpos", 0, 2, applied="cos")
        self.see(sim, "qpos", 0, 2, applied="sin")
        self.see(sim, "qpos", 2, sim.model.nq - 2)
        self.see(sim, "qvel", 0, 2)
        self.see(sim, "xpos", 3 * tip, 2, minus=3 * target)

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, Tensor]:
        """Sample a pose near the default, and a target uniformly in its disc."""
        positions, velocities = self.qpos.shape[1], self.qvel.shape[1]
        u = uniform(seed, episode, positions + velocities)
        qpos = self.qpos0 + 0.1 * (2.0 * u[:, :positions] - 1.0)
        qvel = 0.005 * (2.0 * u[:, positions:] - 1.0)
        # Uniform in a disc: the radius is the root of a uniform sample. The target is static.
        radius = _REACH * u[:, positions - 2].sqrt()
        angle = 2.0 * math.pi * u[:, positions - 1]
        qpos[:, -2] = radius * angle.cos()
        qpos[:, -1] = radius * angle.sin()
        qvel[:, -2:] = 0.0
        return qpos, qvel

    def outcome(self, action: Tensor, moved: Tensor) -> StepOutcome:
        """Compute the negative distance and control costs."""
        distance = norm(self._fingertip - self._target) * -self.arguments.reward_dist_weight
        control = action.square().sum(1) * -self.arguments.reward_control_weight
        values = {"reward_dist": distance, "reward_ctrl": control}
        return StepOutcome(distance + control, None, values)


_ALL: tuple[type[GymnasiumTask], ...] = (
    *(HalfCheetah, Ant, Hopper, Walker2d, Humanoid, HumanoidStandup),
    *(Swimmer, Reacher, InvertedPendulum, InvertedDoublePendulum),
)
TASKS: Mapping[str, type[GymnasiumTask]] = {task.id: task for task in _ALL}
RULES: Mapping[str, Rules] = {name: task.rules for name, task in TASKS.items()}
