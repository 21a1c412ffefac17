"""Views of one environment that look like MuJoCo's data and model, over the values of an info.

Rewards written for other systems read `mj_data` and `mj_model`; these views give them the same
fields without giving them the simulation.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, ClassVar, cast

import numpy as np

from telic.envs.spec import EnvSpec, JointSpec
from telic.envs.vector import Info
from telic.errors import UnknownName

_WIDTHS = {"free": (7, 6), "ball": (4, 3), "slide": (1, 1), "hinge": (1, 1)}
"""columns of a joint in qpos and in qvel"""


class DataView:
    """Looks like MuJoCo's data of one environment: fields, and bodies and joints by name."""

    __offered__: ClassVar[str] = "mj_data"
    __slots__ = ("_info", "_read")

    def __init__(self, info: Info, read: Callable[[str], Any]) -> None:
        """Show the environment whose fields `read` returns by name."""
        self._info = info
        self._read = read

    def __getattr__(self, name: str) -> Any:
        if name == "ctrl":
            name = "action"
        if name.startswith("_") or name not in self._info:
            offered = ", ".join(each for each in self._info if "reward" not in each)
            raise AttributeError(f"mj_data has no {name} here; there are: {offered}")
        return self._read(name)

    def body(self, name: str | int) -> BodyView:
        """Return one body, by name or number."""
        return BodyView(self, _body_row(self._info, name))

    def joint(self, name: str) -> JointView:
        """Return the position and velocity of one joint, by name."""
        joint = _joint(self._info, name)
        position, velocity = _WIDTHS[joint.kind]
        return JointView(
            qpos=self.qpos[joint.qpos_address : joint.qpos_address + position],
            qvel=self.qvel[joint.dof_address : joint.dof_address + velocity],
        )


class BodyView:
    """Looks like MuJoCo's view of one body: xpos, xquat, cvel, cfrc_ext and so on."""

    __offered__: ClassVar[str] = "mj_data"
    __slots__ = ("_data", "id")

    def __init__(self, data: DataView, row: int) -> None:
        self._data = data
        self.id = row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._data, name)[self.id]


class JointView(types.SimpleNamespace):
    """Looks like MuJoCo's view of one joint: qpos and qvel."""

    __offered__: ClassVar[str] = "mj_data"


class ModelPart(types.SimpleNamespace):
    """Looks like MuJoCo's view of one body or joint, or the options of a model."""

    __offered__: ClassVar[str] = "mj_model"


class ModelView:
    """Looks like MuJoCo's model as far as an environment's description goes."""

    __offered__: ClassVar[str] = "mj_model"

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
        substeps = spec.arguments.get("frame_skip", 1)
        known = spec.dt_s if isinstance(substeps, int) else None
        self.opt = ModelPart(timestep=known and known / cast("int", substeps))

    def body(self, name: str | int) -> ModelPart:
        """Return one body: id, name and mass."""
        row = _body_row(self._info, name)
        mass = None if self.body_mass is None else self.body_mass[row : row + 1]
        return ModelPart(id=row, name=self._spec.body_names[row], mass=mass)

    def joint(self, name: str) -> ModelPart:
        """Return one joint: id, name, addresses and range."""
        joint = _joint(self._info, name)
        return ModelPart(
            id=self._spec.joints.index(joint),
            name=joint.name,
            qposadr=np.array([joint.qpos_address]),
            dofadr=np.array([joint.dof_address]),
            range=np.array([joint.low or 0.0, joint.high or 0.0]),
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"mj_model has no {name} here; it has body, joint, body_mass, opt, …")


def _body_row(info: Info, name: str | int) -> int:
    if isinstance(name, int):
        return name
    row = info.schema.bodies.get(name)
    if row is None:
        raise UnknownName("body", name, list(info.schema.bodies))
    return row


def _joint(info: Info, name: str) -> JointSpec:
    joints = {joint.name: joint for joint in (info.spec.joints if info.spec else ())}
    if name not in joints:
        raise UnknownName("joint", name, list(joints))
    return joints[name]
