"""Look-alikes of MuJoCo's data and model, over the values of an info."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from telic.envs.info import Info
from telic.envs.spec import EnvSpec, JointSpec
from telic.errors import UnknownName

_WIDTHS = {"free": (7, 6), "ball": (4, 3), "slide": (1, 1), "hinge": (1, 1)}


class SimulatorRow:
    """Looks like MuJoCo's data of one environment: fields, and bodies and joints by name."""

    __slots__ = ("_info", "_read")

    def __init__(self, info: Info, read: Callable[[str], Any]) -> None:
        """Look like the data of one environment, whose fields `read` gives by name."""
        self._info = info
        self._read = read

    def __getattr__(self, name: str) -> Any:
        if name == "ctrl":
            name = "action"
        if name.startswith("_") or name not in self._info:
            raise AttributeError(missing_field(name, self._info))
        value = self._read(name)
        return value if value.ndim else value.item()

    def body(self, name: str | int) -> BodyRow:
        """Return one body, by name or number."""
        return BodyRow(self, body_row(self._info, name))

    def joint(self, name: str) -> JointRow:
        """Return one joint, by name."""
        return JointRow(self, joint_of(self._info, name))


class BodyRow:
    """Looks like MuJoCo's view of one body: xpos, xquat, cvel, cfrc_ext and so on."""

    __slots__ = ("_data", "id")

    def __init__(self, data: Any, row: int) -> None:
        self._data = data
        self.id = row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._data, name)[self.id]


class JointRow:
    """Looks like MuJoCo's view of one joint: qpos and qvel."""

    __slots__ = ("_data", "_joint")

    def __init__(self, data: Any, joint: JointSpec) -> None:
        self._data = data
        self._joint = joint

    @property
    def qpos(self) -> Any:
        """Position: one number for a hinge or slide, 4 or 7 for a ball or free joint."""
        first = self._joint.qpos_address
        return self._data.qpos[first : first + _WIDTHS[self._joint.kind][0]]

    @property
    def qvel(self) -> Any:
        """Velocity: one number for a hinge or slide, 3 or 6 for a ball or free joint."""
        first = self._joint.dof_address
        return self._data.qvel[first : first + _WIDTHS[self._joint.kind][1]]


def body_row(info: Info, name: str | int) -> int:
    """Return the row of a body in values such as xpos."""
    if isinstance(name, int):
        return name
    row = info.schema.bodies.get(name)
    if row is None:
        raise UnknownName("body", name, list(info.schema.bodies))
    return row


def joint_of(info: Info, name: str) -> JointSpec:
    """Return the description of a joint."""
    joints = {joint.name: joint for joint in (info.spec.joints if info.spec else ())}
    if name not in joints:
        raise UnknownName("joint", name, list(joints))
    return joints[name]


def model_of(info: Info) -> Any:
    """Return the model of an info's environment, or what is known of it; None: nothing.

    A real model is copied: writing to the copy changes no simulation.
    """
    model = getattr(info.schema, "model", None)
    if model is not None:
        return copy.copy(model)
    return ModelFacts(info, info.spec) if info.spec else None


def missing_field(name: str, info: Info) -> str:
    """Return what to say of a simulator field that infos do not offer."""
    offered = ", ".join(each for each in info if "reward" not in each)
    return f"mj_data has no {name} here; there are: {offered}"


class ModelFacts:
    """Looks like MuJoCo's model as far as an environment's description goes."""

    def __init__(self, info: Info, spec: EnvSpec) -> None:
        self._info = info
        self._spec = spec
        self.nq = info.exact("qpos").shape[1]
        self.nv = info.exact("qvel").shape[1]
        self.nu = spec.act_dim
        self.nbody = len(spec.body_names)
        self.njnt = len(spec.joints)
        self.body_mass = np.array(spec.robot.body_mass) if spec.robot else None
        self.jnt_qposadr = np.array([joint.qpos_address for joint in spec.joints])
        self.jnt_dofadr = np.array([joint.dof_address for joint in spec.joints])
        self.actuator_ctrlrange = np.array([spec.action_low, spec.action_high]).T
        self.opt = types.SimpleNamespace(timestep=_timestep(spec))

    def body(self, name: str | int) -> types.SimpleNamespace:
        """Return one body: id, name and mass."""
        row = body_row(self._info, name)
        mass = None if self.body_mass is None else self.body_mass[row : row + 1]
        return types.SimpleNamespace(id=row, name=self._spec.body_names[row], mass=mass)

    def joint(self, name: str) -> types.SimpleNamespace:
        """Return one joint: id, name, addresses and range."""
        joint = joint_of(self._info, name)
        return types.SimpleNamespace(
            id=self._spec.joints.index(joint),
            name=joint.name,
            qposadr=np.array([joint.qpos_address]),
            dofadr=np.array([joint.dof_address]),
            range=np.array([joint.low or 0.0, joint.high or 0.0]),
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"mj_model has no {name} here; it has body, joint, body_mass, opt, …")


def _timestep(spec: EnvSpec) -> float | None:
    """Return the seconds of one physics step."""
    substeps = spec.arguments.get("frame_skip", 1)
    return spec.dt_s / substeps if spec.dt_s and isinstance(substeps, int) else None
