"""What a reward for one environment at a time is given: rows of numpy arrays and Python numbers."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from telic.envs.info import Info
from telic.envs.spec import JointSpec
from telic.errors import UnknownName
from telic.rewards.scan import Scan

_WIDTHS = {"free": (7, 6), "ball": (4, 3), "slide": (1, 1), "hinge": (1, 1)}


def to_rows(batch: Tensor) -> np.ndarray:
    """Return a float64 copy of a batch, (N, ...); foreign code may do with it as it likes."""
    return batch.detach().to("cpu", torch.float64, copy=True).numpy()


class Columns:
    """Info values of one step as arrays (N, ...), each computed at first ask."""

    __slots__ = ("_arrays", "info")

    def __init__(self, info: Info) -> None:
        self.info = info
        self._arrays: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        array = self._arrays.get(name)
        if array is None:
            array = self._arrays[name] = self.info.exact(name).detach().cpu().numpy().copy()
        return array


class RowReader:
    """Cuts infos into one plain dictionary per environment, of the names a source can ask for."""

    def __init__(self, scan: Scan | None) -> None:
        """Read the names found in a source; all names when there is no scan, or it cannot tell."""
        self._scan = None if scan is None or scan.open_info else scan
        self._names: list[str] | None = None
        self._simulator: dict[str, Any] = {}

    def read(self, info: Info, num_envs: int) -> list[dict[str, Any]]:
        """Return the info of each environment."""
        if self._names is None:
            self._names = self._choose(info)
        names, columns = self._names, Columns(info)
        values = zip(*(_cut(columns[name]) for name in names), strict=True)
        rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True)) for row in values]
        rows = rows or [{} for _ in range(num_envs)]
        if self._simulator:
            for index, row in enumerate(rows):
                read = functools.partial(_field, columns, index)
                row.update(self._simulator, mj_data=SimulatorRow(info, read))
        return rows

    def _choose(self, info: Info) -> list[str]:
        names = [name for name in (*info, "_episode_start") if name in info]
        if "qpos" in info and (self._scan is None or self._scan.simulator):
            self._simulator = {"mj_model": model_of(info)}
        return names if self._scan is None else [n for n in names if n in self._scan.strings]


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
    """Return a copy of the MuJoCo model, for a reward to read and not to harm; None: unknown."""
    model = getattr(info.schema, "model", None)
    return copy.copy(model)


def missing_field(name: str, info: Info) -> str:
    """Return what to say of a simulator field that infos do not offer."""
    offered = ", ".join(each for each in info if "reward" not in each)
    return f"mj_data has no {name} here; there are: {offered}"


def _field(columns: Columns, row: int, name: str) -> Any:
    return columns[name][row]


def _cut(column: np.ndarray) -> list[Any]:
    """Return one value per environment: Python numbers, or arrays."""
    return column.tolist() if column.ndim == 1 else list(column)
