"""Tasks over N simulations: initial states, observations, rewards and terminations.

`LatestTransition` computes info values of the latest step as they were before new episodes began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import mujoco
import numpy as np
import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from telic.core.config import Config, Record
from telic.core.seeds import normal, uniform
from telic.core.tensors import norm
from telic.envs.vector import Info, InfoSchema
from telic.errors import UsageError
from telic.sim.base import Simulation

Read = Callable[[str], Tensor]
"""Function returning a simulation field, or "action", at the end of the transition."""


class TaskArguments(Config):
    """Arguments of all tasks. Each task adds arguments with Gymnasium's names and defaults."""

    xml_file: str = Field(description="model, as the name of a Gymnasium asset or a path")
    frame_skip: PositiveInt = Field(description="physics steps per control step")
    max_episode_steps: PositiveInt | None = Field(1000, description="time limit in steps")
    phase_hz: float | None = Field(
        None,
        gt=0,
        description="frequency in Hz of a phase variable whose sine and cosine are appended to the "
        "observation, for gaits",
    )
    default_camera_config: dict[str, Any] = Field(
        default_factory=dict, description="accepted for compatibility, but without effect"
    )


ArgumentsT = TypeVar("ArgumentsT", bound=TaskArguments)
Applied = Literal["none", "sin", "cos"]


class ObservationBlock(Record):
    """Contiguous observation columns computed from columns of one field."""

    field: str = Field(description="flat field of mjData")
    first: int = Field(ge=0, description="index of the first column in the field")
    count: int = Field(ge=1, description="columns")
    minus: int | None = Field(
        default=None, description="index in the field of the first column to subtract"
    )
    applied: Applied = Field(default="none", description="function applied to each value")
    low: float | None = Field(default=None, description="lower clipping limit")
    high: float | None = Field(default=None, description="upper clipping limit")


class StepOutcome(NamedTuple):
    """Result of a transition."""

    reward: Tensor  # (N,)
    terminated: Tensor | None  # (N,) bool, or None if the task never terminates
    values: dict[str, Tensor]  # info values computed along the way, in new tensors
    truncated: Tensor | None = None  # (N,) bool, truncated by the task, or None


class Task(Generic[ArgumentsT]):
    """Base class of tasks, computed in batched torch from the fields of a simulation.

    Fields stored in the constructor are live views of the current state, which methods read when
    they are called. Floating-point results have the simulation's precision.
    """

    id: str
    description: str
    Arguments: ClassVar[type[TaskArguments]]
    meanings: ClassVar[Mapping[str, str]] = {}
    """Task-specific info values with their meanings."""
    normal_velocities: ClassVar[bool] = False
    """Whether initial velocities are distributed normally instead of uniformly."""
    notes: tuple[str, ...] = ()
    """Assumptions and limitations to report to the user."""
    action_limits: np.ndarray | None = None
    """Action limits, (nu, 2), or None for the control ranges."""
    obs_names: tuple[str, ...]
    readers: Mapping[str, Callable[[Read], Tensor]]
    """Task-specific info values that are computed lazily."""
    memory: dict[str, Tensor]
    """State outside the simulation, (N, ...), which each step replaces instead of modifying it."""

    @property
    def info_meanings(self) -> Mapping[str, str]:
        """Task-specific info values with their meanings, given the configuration."""
        return self.meanings

    def __init__(self, arguments: ArgumentsT, sim: Simulation) -> None:
        self.arguments = arguments
        self.readers = {}
        self.memory = {}
        self.seen: list[ObservationBlock] = []
        """Layout of the observation, or empty if the task overrides `observe`."""
        self._views: list[tuple[Tensor, Tensor | None, ObservationBlock]] = []
        self._amounts: dict[float, Tensor] = {}
        self.qpos = sim.field("qpos")
        self.qvel = sim.field("qvel")
        self.dt = sim.model.opt.timestep * arguments.frame_skip
        self.qpos0 = torch.tensor(sim.model.qpos0, dtype=self.qpos.dtype, device=sim.device)

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, ...]:
        """Sample initial qpos, (N, nq), and qvel, (N, nv), as a pure function of the arguments.

        A task may return further random values as a third tensor, (N, k), which is passed to
        `begin`. By default, uniform noise of ±reset_noise_scale is added to the default pose and to
        zero velocities. With `normal_velocities`, velocities are normal with the same scale.
        """
        scale: float = getattr(self.arguments, "reset_noise_scale", 0.0)
        positions, velocities = self.qpos.shape[1], self.qvel.shape[1]
        if self.normal_velocities:
            noise = uniform(seed, episode, positions) * 2.0 - 1.0
            return self.qpos0 + scale * noise, scale * normal(seed, episode, velocities, stream=1)
        noise = scale * (uniform(seed, episode, positions + velocities) * 2.0 - 1.0)
        return self.qpos0 + noise[:, :positions], noise[:, positions:]

    def begin(
        self, mask: Tensor, qpos: Tensor, qvel: Tensor, drawn: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Apply the samples of episodes that begin where `mask` is true. Returns qpos and qvel."""
        return qpos, qvel

    def control(self, action: Tensor) -> Tensor:
        """Return the controls for an action. This may also push the robot and store the action."""
        return action

    def see(self, sim: Simulation, field: str, first: int, count: int, **how: Any) -> None:
        """Append columns of a field to the observation. See `ObservationBlock` for `how`."""
        block = ObservationBlock(field=field, first=first, count=count, **how)
        whole = sim.field(field)
        whole = whole if whole.ndim == 2 else whole.flatten(1)  # a view; observations are copies
        other = None if block.minus is None else whole[:, block.minus : block.minus + count]
        self.seen.append(block)
        self._views.append((whole[:, first : first + count], other, block))

    def observe(self) -> Tensor:
        """Return the current observation, (N, obs_dim), as a new tensor."""
        parts: list[Tensor] = []
        for view, other, block in self._views:
            part = view if other is None else view - other
            if block.applied != "none":
                part = part.sin() if block.applied == "sin" else part.cos()
            if block.low is not None or block.high is not None:
                part = part.clamp(block.low, block.high)
            parts.append(part)
        return torch.cat(parts, dim=1)

    def track(self) -> Tensor:
        """Return a copy of the positions used to compute velocities, (N, k)."""
        return self.qpos[:, :0]

    def outcome(self, action: Tensor, moved: Tensor) -> StepOutcome:
        """Return the reward and termination of the last step, given its action, (N, act_dim).

        `moved`, (N, k), is the change of the tracked positions over the step.
        """
        raise NotImplementedError

    def where(self, condition: Tensor, amount: float) -> Tensor:
        """Return `amount`, (N,), where the condition holds, and 0 elsewhere."""
        if amount not in self._amounts:
            self._amounts[amount] = self.qpos.new_tensor(amount)
        # Multiplying by a 0-d tensor preserves its precision; a Python float would not.
        return condition * self._amounts[amount]


def strictly_within(value: Tensor, bounds: tuple[float, float]) -> Tensor:
    """Return a mask of the values strictly within bounds."""
    return (value > bounds[0]) & (value < bounds[1])


PHASE = ("phase_sin", "phase_cos")
"""Names of the columns that `phase_hz` appends to the observation."""

AnyTask = Task[Any]
"""Task with any arguments."""

# ---- the latest transition

_Reader = Callable[[Read], Tensor]

_DIVERGED = [
    mujoco.mjtWarning.mjWARN_BADQPOS.value,
    mujoco.mjtWarning.mjWARN_BADQVEL.value,
    mujoco.mjtWarning.mjWARN_BADQACC.value,
]
FIELDS = {
    "qpos": "generalized positions (N, nq)",
    "qvel": "generalized velocities (N, nv)",
    "qacc": "generalized accelerations of the last substep (N, nv)",
    "qfrc_actuator": "generalized forces of the actuators (N, nv)",
    "actuator_force": "force of each actuator (N, nu)",
    "xpos": "position of each body frame in the world (N, nbody, 3), m",
    "xquat": "orientation of each body frame, w first (N, nbody, 4)",
    "xipos": "center of mass of each body in the world (N, nbody, 3), m",
    "cvel": "velocity about the tree's center of mass: rotation, translation (N, nbody, 6)",
    "subtree_com": "center of mass of each body's subtree (N, nbody, 3), m",
    "cfrc_ext": "external force on each body: torque, force (N, nbody, 6)",
    "site_xpos": "position of each site in the world (N, nsite, 3), m",
    "sensordata": "sensor readings (N, nsensordata)",
    "time": "simulated time since the start of the episode (N,), s",
}
_COMPUTED = {
    "contacts": "magnitude of the net external force on each body (N, nbody), newtons",
    "action": "action as passed to step (N, act_dim)",
    "dt": "simulated seconds per step (N,)",
    "episode_start": "whether this was the first step of its episode (N,)",
    "diverged": "whether the simulation diverged in this episode (N,)",
}


def offered(model: mujoco.MjModel) -> dict[str, str]:
    """Return the info values that all tasks with a model provide, with their meanings."""
    sizes = {"site_xpos": model.nsite, "sensordata": model.nsensordata}
    return {name: words for name, words in FIELDS.items() if sizes.get(name, 1)} | _COMPUTED


class LatestTransition:
    """Lazily computed info values of the latest transition.

    Fields are read on first access. From then on, they are watched, i.e. copied before new episodes
    overwrite them.
    """

    def __init__(
        self, sim: Simulation, substeps: int, readers: Mapping[str, _Reader], dt: float
    ) -> None:
        """Read from a simulation with `substeps` physics steps per step of `dt` seconds."""
        self._sim = sim
        self._substeps = substeps
        self._serial = 0  # incremented by every step and reset to detect outdated infos
        self._readers: dict[str, _Reader] = {name: partial(_field, name) for name in FIELDS}
        self._readers |= {
            "action": lambda read: read("action").to(sim.field("qpos").dtype),
            "episode_start": partial(_field, "episode_start"),
            "contacts": lambda read: norm(read("cfrc_ext")[:, :, 3:]),
            "diverged": lambda read: (read("warning")[:, _DIVERGED] > 0).any(1),
            "dt": lambda read: torch.full_like(read("time"), dt),
            **readers,
        }
        # Warnings are counters, which `_recall` cannot recompute.
        self._watched = {"warning"}
        self.forget()

    def forget(self) -> None:
        """Discard the latest transition, so that its infos can no longer compute values."""
        self._serial += 1
        self._held: dict[str, Tensor] = {}
        self._is_overwritten = False

    def make(self, action: Tensor, control: Tensor, fresh: Tensor) -> None:
        """Step the simulation. `fresh` (N,) is true in the first step of an episode."""
        self.forget()
        self._control = control
        self._held = {"action": action, "episode_start": fresh}
        self._before = self._sim.state()
        self._sim.step(control, self._substeps)

    def hold(self) -> None:
        """Copy the watched fields before new episodes begin."""
        self._held |= {name: self._sim.field(name).clone() for name in self._watched}
        self._is_overwritten = True

    def info(self, schema: InfoSchema, values: dict[str, Tensor]) -> Info:
        """Return the info of the latest transition, with some precomputed values."""
        return Info(partial(self._value, self._serial), schema, values)

    def present(self, schema: InfoSchema) -> Info:
        """Return info on the current state, including new episodes."""
        return Info(self._present_value, schema)

    def _present_value(self, name: str) -> Tensor:
        if name not in FIELDS and name != "contacts":
            raise UsageError(
                f'"{name}" describes a transition and is not available for a single state.',
                hint=f"Available for a state: {', '.join(FIELDS)}, contacts.",
            )
        return self._readers[name](self._sim.field).clone()

    def _value(self, serial: int, name: str) -> Tensor:
        if serial != self._serial:
            raise UsageError(
                f'info["{name}"] was first accessed after the environment had advanced.',
                hint="Access it before the next step. Accessed values remain available.",
            )
        return self._readers[name](self._read).clone()

    def _read(self, name: str) -> Tensor:
        """Return a field's value at the end of the transition."""
        held = self._held.get(name)
        if held is not None:
            return held
        self._watched.add(name)
        return self._recall(name) if self._is_overwritten else self._sim.field(name)

    def _recall(self, name: str) -> Tensor:
        """Repeat the step to recompute a field that was overwritten without being watched.

        A field is recomputed at most once, because the field is watched from then on.
        """
        field = self._sim.field(name)
        now = self._sim.snapshot()
        self._sim.load_state(self._before)
        self._sim.step(self._control, self._substeps)
        self._held[name] = field.clone()
        self._sim.restore(now)
        return self._held[name]


def _field(name: str, read: Read) -> Tensor:
    return read(name)
