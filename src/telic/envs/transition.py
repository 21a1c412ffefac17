"""The latest transition of N simulations, as infos see it: fields before new episodes began."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import mujoco
import torch
from torch import Tensor

from telic.core.tensors import norm
from telic.envs.info import Info, InfoSchema
from telic.envs.task import Read
from telic.errors import UsageError
from telic.sim import Simulation, copy_fields, put_back_fields

Reader = Callable[[Read], Tensor]

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
    return {name: each for name, each in FIELDS.items() if sizes.get(name, 1)} | _COMPUTED


class LatestTransition:
    """Computes info values of the latest transition.

    Nothing is read before it is asked for. What was asked once is watched: copied whenever new
    episodes are about to overwrite it.
    """

    def __init__(
        self, sim: Simulation, substeps: int, readers: Mapping[str, Reader], dt: float
    ) -> None:
        """Read from a simulation that makes `substeps` per step of `dt` seconds.

        Args:
            sim: the simulation.
            substeps: physics steps per control step.
            readers: how to compute the values that the task adds.
            dt: simulated seconds per control step.
        """
        self._sim = sim
        self._substeps = substeps
        self._serial = 0  # grows with every step and reset; tells an info that it is of the past
        self._readers: dict[str, Reader] = {name: partial(_field, name) for name in FIELDS}
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

    def make(self, action: Tensor, fresh: Tensor) -> None:
        """Step the simulation; `fresh`, (N,) bool, tells whose episodes begin with this step."""
        self.forget()
        self._action = action.detach() if action.requires_grad else action
        self._held = {"action": self._action, "episode_start": fresh}
        self._before = self._sim.state()
        self._sim.step(self._action, self._substeps)

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
        """Make the step once more, for a field that nobody watched when it was overwritten.

        Happens at most once per field: from then on it is watched.
        """
        field = self._sim.field(name)
        now, fields = self._sim.state(), copy_fields(self._sim)
        self._sim.load_state(self._before)
        self._sim.step(self._action, self._substeps)
        self._held[name] = field.clone()
        self._sim.load_state(now)
        put_back_fields(self._sim, fields)
        return self._held[name]


def _field(name: str, read: Read) -> Tensor:
    return read(name)
