"""Tasks over N simulations: initial states, observations, rewards and terminations.

`LatestTransition` computes info values of the latest step, before new episodes began.
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
from telic.sim.base import Simulation, copy_fields, put_back_fields

Read = Callable[[str], Tensor]
"""gives a field of the simulation, or "action", as it was at the end of the transition"""


class TaskArguments(Config):
    """Arguments every task takes; each task adds its own, named and preset as in Gymnasium."""

    xml_file: str = Field(description="model: the name of a Gymnasium asset, or a path")
    frame_skip: PositiveInt = Field(description="physics steps per control step")
    max_episode_steps: PositiveInt | None = Field(1000, description="time limit; None: unlimited")
    phase_hz: float | None = Field(
        None,
        gt=0,
        description="adds a phase variable to the observation: sine and cosine of so many turns a "
        "second since the episode began, for gaits",
    )
    default_camera_config: dict[str, Any] = Field(
        default_factory=dict, description="taken as in Gymnasium; videos place their own camera"
    )


ArgumentsT = TypeVar("ArgumentsT", bound=TaskArguments)
Applied = Literal["none", "sin", "cos"]


class SeenBlock(Record):
    """Columns of the observation that follow from columns of one field, in order."""

    field: str = Field(description="of mjData, flat")
    first: int = Field(ge=0, description="number in it of the first column")
    count: int = Field(ge=1, description="columns")
    minus: int | None = Field(
        default=None, description="number of the first column of the same field to subtract"
    )
    applied: Applied = Field(default="none", description="function of each number")
    low: float | None = Field(default=None, description="numbers below are cut to it")
    high: float | None = Field(default=None, description="numbers above are cut to it")


class StepOutcome(NamedTuple):
    """The result of a transition."""

    reward: Tensor  # (N,)
    terminated: Tensor | None  # (N,) bool; None: this task never terminates
    values: dict[str, Tensor]  # info values that came out on the way, fresh memory
    truncated: Tensor | None = None  # (N,) bool, cut off by the task; None: only by the time limit


class Task(Generic[ArgumentsT]):
    """A task over the fields of a simulation, in batched torch; each of the ten derives from it.

    Fields taken in the constructor are live views: they show the present state, so a method reads
    them at the moment it is called. Floating-point results have the simulation's precision.
    """

    id: str
    description: str
    Arguments: ClassVar[type[TaskArguments]]
    meanings: ClassVar[Mapping[str, str]] = {}
    """the task's own info values and what they mean"""
    normal_velocities: ClassVar[bool] = False
    """whether episodes start with normal velocities, not uniform ones"""
    notes: tuple[str, ...] = ()
    """guesses made and limits a user should know of"""
    action_limits: np.ndarray | None = None
    """(nu, 2) that a policy chooses from; None: the controls' own range"""
    obs_names: tuple[str, ...]
    readers: Mapping[str, Callable[[Read], Tensor]]
    """the info values of the task that are computed only when asked for"""
    memory: dict[str, Tensor]
    """state outside the simulation, (N, ...); replaced at each step, never changed in place"""

    @property
    def info_meanings(self) -> Mapping[str, str]:
        """The task's own info values and what they mean, as it was configured."""
        return self.meanings

    def __init__(self, arguments: ArgumentsT, sim: Simulation) -> None:
        self.arguments = arguments
        self.readers = {}
        self.memory = {}
        self.seen: list[SeenBlock] = []
        """the layout of the observation; empty: the task computes it in another way"""
        self._views: list[tuple[Tensor, Tensor | None, SeenBlock]] = []
        self._amounts: dict[float, Tensor] = {}
        self.qpos = sim.field("qpos")
        self.qvel = sim.field("qvel")
        self.dt = sim.model.opt.timestep * arguments.frame_skip
        self.qpos0 = torch.tensor(sim.model.qpos0, dtype=self.qpos.dtype, device=sim.device)

    def start(self, seed: Tensor, episode: Tensor) -> tuple[Tensor, ...]:
        """Return initial qpos, (N, nq), and qvel, (N, nv), as a pure function of the arguments.

        A task may draw more for an episode: a third tensor, (N, k), which `begin` is given.
        By default they are near the default pose: uniform noise of ± the argument
        reset_noise_scale, or of the same scale and normal for velocities of `normal_velocities`.
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
        """Take up what the episodes have drawn that begin where `mask`; return qpos and qvel."""
        return qpos, qvel

    def control(self, action: Tensor) -> Tensor:
        """Return the controls for an action; may push the robot and remember the action."""
        return action

    def see(self, sim: Simulation, field: str, first: int, count: int, **how: Any) -> None:
        """Observe columns of a field next; `how` as in `SeenBlock`."""
        block = SeenBlock(field=field, first=first, count=count, **how)
        whole = sim.field(field)
        whole = whole if whole.ndim == 2 else whole.flatten(1)  # live: an observation is a copy
        other = None if block.minus is None else whole[:, block.minus : block.minus + count]
        self.seen.append(block)
        self._views.append((whole[:, first : first + count], other, block))

    def observe(self) -> Tensor:
        """Return the observation of the present state, (N, obs_dim), in memory of its own."""
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
        """Return a copy of the positions whose change over a step is the velocity, (N, k)."""
        return self.qpos[:, :0]

    def outcome(self, action: Tensor, moved: Tensor) -> StepOutcome:
        """Judge the step to the present state by an action as applied, (N, act_dim).

        `moved`, (N, k), is the change of the tracked positions over it.
        """
        raise NotImplementedError

    def where(self, condition: Tensor, amount: float) -> Tensor:
        """Return `amount` where a condition holds and 0 elsewhere, (N,)."""
        if amount not in self._amounts:
            self._amounts[amount] = self.qpos.new_tensor(amount)
        # A tensor without dimensions gives a bool its precision; a Python float would not.
        return condition * self._amounts[amount]


def strictly_within(value: Tensor, bounds: tuple[float, float]) -> Tensor:
    """Return where a value is strictly within bounds."""
    return (value > bounds[0]) & (value < bounds[1])


PHASE = ("phase_sin", "phase_cos")
"""the columns that `phase_hz` adds to the observation, the last ones"""

AnyTask = Task[Any]
"""a task whatever its arguments are"""

# ---- the latest transition

_Reader = Callable[[Read], Tensor]

_DIVERGED = [
    mujoco.mjtWarning.mjWARN_BADQPOS.value,
    mujoco.mjtWarning.mjWARN_BADQVEL.value,
    mujoco.mjtWarning.mjWARN_BADQACC.value,
]
FIELDS = {
    "qpos": "generalised positions (N, nq)",
    "qvel": "generalised velocities (N, nv)",
    "qacc": "generalised accelerations of the last substep (N, nv)",
    "qfrc_actuator": "generalised forces of the actuators (N, nv)",
    "actuator_force": "force of each actuator (N, nu)",
    "xpos": "position of each body frame in the world (N, nbody, 3), m",
    "xquat": "orientation of each body frame, w first (N, nbody, 4)",
    "xipos": "centre of mass of each body in the world (N, nbody, 3), m",
    "cvel": "velocity about the tree's centre of mass: rotation, translation (N, nbody, 6)",
    "subtree_com": "centre of mass of each body with all that hangs on it (N, nbody, 3), m",
    "cfrc_ext": "external force on each body: torque, force (N, nbody, 6)",
    "site_xpos": "position of each site in the world (N, nsite, 3), m",
    "sensordata": "sensor readings (N, nsensordata)",
    "time": "simulated time since the episode began (N,), s",
}
_COMPUTED = {
    "contacts": "size of the net external force on each body (N, nbody), newtons",
    "action": "action as given (N, act_dim)",
    "dt": "simulated seconds per step (N,)",
    "episode_start": "whether this was the first step of its episode (N,)",
    "diverged": "whether numbers exploded in this episode (N,)",
}


def offered(model: mujoco.MjModel) -> dict[str, str]:
    """Return the info values every task on a model has, with their meanings."""
    sizes = {"site_xpos": model.nsite, "sensordata": model.nsensordata}
    return {name: words for name, words in FIELDS.items() if sizes.get(name, 1)} | _COMPUTED


class LatestTransition:
    """Computes info values of the latest transition.

    Nothing is read before it is asked for. What was asked once is watched: copied whenever new
    episodes are about to overwrite it.
    """

    def __init__(
        self, sim: Simulation, substeps: int, readers: Mapping[str, _Reader], dt: float
    ) -> None:
        """Read from a simulation that makes `substeps` per step of `dt` seconds."""
        self._sim = sim
        self._substeps = substeps
        self._serial = 0  # grows with every step and reset: an info knows that it is outdated
        self._readers: dict[str, _Reader] = {name: partial(_field, name) for name in FIELDS}
        self._readers |= {
            "action": lambda read: read("action").to(sim.field("qpos").dtype),
            "episode_start": partial(_field, "episode_start"),
            "contacts": lambda read: norm(read("cfrc_ext")[:, :, 3:]),
            "diverged": lambda read: (read("warning")[:, _DIVERGED] > 0).any(1),
            "dt": lambda read: torch.full_like(read("time"), dt),
            **readers,
        }
        # Warnings are counters: no later look could restore them.
        self._watched = {"warning"}
        self.forget()

    def forget(self) -> None:
        """Leave the latest transition behind; its infos can compute no more."""
        self._serial += 1
        self._held: dict[str, Tensor] = {}
        self._is_overwritten = False

    def make(self, action: Tensor, control: Tensor, fresh: Tensor) -> None:
        """Step the simulation; episodes begin with this step where `fresh`, (N,) bool."""
        self.forget()
        self._control = control
        self._held = {"action": action, "episode_start": fresh}
        self._before = self._sim.state()
        self._sim.step(control, self._substeps)

    def hold(self) -> None:
        """Copy what infos use to read; new episodes are about to begin."""
        self._held |= {name: self._sim.field(name).clone() for name in self._watched}
        self._is_overwritten = True

    def info(self, schema: InfoSchema, values: dict[str, Tensor]) -> Info:
        """Return the info of the latest transition, some of whose values are known."""
        return Info(partial(self._value, self._serial), schema, values)

    def present(self, schema: InfoSchema) -> Info:
        """Return an info of the state as it is now, new episodes included."""
        return Info(self._present_value, schema)

    def _present_value(self, name: str) -> Tensor:
        if name not in FIELDS and name != "contacts":
            raise UsageError(
                f'"{name}" belongs to a transition, not to a state.',
                hint=f"A state has: {', '.join(FIELDS)}, contacts.",
            )
        return self._readers[name](self._sim.field).clone()

    def _value(self, serial: int, name: str) -> Tensor:
        if serial != self._serial:
            raise UsageError(
                f'info["{name}"] was first asked for after the environment had moved on.',
                hint="Ask before the next step; what was asked once can be kept.",
            )
        return self._readers[name](self._read).clone()

    def _read(self, name: str) -> Tensor:
        """Return a field as it was at the end of the transition."""
        held = self._held.get(name)
        if held is not None:
            return held
        self._watched.add(name)
        return self._recall(name) if self._is_overwritten else self._sim.field(name)

    def _recall(self, name: str) -> Tensor:
        """Repeat the step, for a field that was not watched when it was overwritten.

        Happens at most once per field: from then on it is watched.
        """
        field = self._sim.field(name)
        now, fields = self._sim.state(), copy_fields(self._sim)
        self._sim.load_state(self._before)
        self._sim.step(self._control, self._substeps)
        self._held[name] = field.clone()
        self._sim.load_state(now)
        put_back_fields(self._sim, fields)
        return self._held[name]


def _field(name: str, read: Read) -> Tensor:
    return read(name)
