"""Run a reward that is written for one environment at a time, by calling it once for each.

It is given rows of numpy arrays, Python numbers, and look-alikes of MuJoCo's data and model.
"""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from telic.core.tensors import from_numpy, integers
from telic.envs.spec import EnvSpec, JointSpec
from telic.envs.vector import Info
from telic.errors import RewardError, UnknownName
from telic.rewards.contract import Device, RewardStep
from telic.rewards.definition import Definition, Instance
from telic.rewards.mistakes import Circumstances, explain, wrong_value
from telic.rewards.runners import unpack
from telic.rewards.source import Scan
from telic.rewards.state import CannotCapture, capture, restore

_WIDTHS = {"free": (7, 6), "ball": (4, 3), "slide": (1, 1), "hinge": (1, 1)}
"""columns of a joint in qpos and in qvel"""


class LoopedRunner:
    """Calls the reward N times per step. Implements `Runner`.

    A reward that keeps state gets one instance per environment, renewed with every episode, as if
    each environment ran in a process of its own.
    """

    def __init__(
        self,
        definition: Definition,
        weights: Mapping[str, float],
        term_names: tuple[str, ...] | None,
        *,
        is_stateful: bool,
        whole_info: bool = False,
        raises: bool = False,
    ) -> None:
        """Prepare; nothing is executed before `start`.

        Args:
            definition: makes the instances.
            weights: values that replace the reward's own.
            term_names: the terms to give out; None: those returned in each step.
            is_stateful: whether environments need instances of their own.
            whole_info: give every info value, not only those whose names are in the source.
            raises: make numpy raise where a number stops being finite, to find the line.
        """
        self._definition = definition
        self._weights = weights
        self._source = source = definition.source
        self._term_names = term_names
        self._is_stateful = is_stateful
        self._reader = RowReader(source.scan if source and not whole_info else None)
        self._on_bad_number: Literal["raise", "ignore"] = "raise" if raises else "ignore"
        self.instances: list[Instance] = []
        self._device: Device = "cpu"
        self._steps = 0

    def start(self, num_envs: int, device: Device) -> None:
        """Begin anew; see `Runner.start`."""
        self._device, self._steps = device, 0
        if self._is_stateful:
            self.instances = [self._create() for _ in range(num_envs)]
        else:
            self.instances = [self._create()] * num_envs

    def run(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> RewardStep:
        """Reward one step; see `Runner.run`."""
        actions: Iterable[Any] = to_rows(action) if action.is_floating_point() else integers(action)
        calls = zip(
            self.instances,
            to_rows(obs),
            actions,
            to_rows(next_obs),
            self._reader.read(info, len(obs)),
            strict=True,
        )
        results: list[Any] = []
        try:
            # A division by zero shows as inf and is reported as such, not as a warning per step.
            with np.errstate(all=self._on_bad_number, under="ignore"):
                for instance, *row in calls:
                    results.append(instance.call(*row))
        except Exception as error:
            when = Circumstances.of(self._steps, len(results), info, obs, action)
            raise explain(error, self._source, when) from error
        self._steps += 1
        return self._gather(results)

    def reset(self, mask: Tensor) -> None:
        """Give ended episodes a new instance; see `Runner.reset`."""
        if self._is_stateful:
            for row in integers(mask.nonzero()[:, 0]):
                self.instances[row] = self._create()

    def state_dict(self) -> dict[str, Any]:
        """Return what each environment's instance keeps; nothing where that is not plain data."""
        if not self._is_stateful:
            return {}
        try:
            return {"instances": [capture(each) for each in self.instances]}
        except CannotCapture:
            return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back into fresh instances."""
        for instance, data in zip(self.instances, state.get("instances", ()), strict=False):
            restore(instance, data)

    def _create(self) -> Instance:
        return self._definition.create(self._weights)

    def _gather(self, results: list[Any]) -> RewardStep:
        pairs = [unpack(each, self._source) for each in results]
        names = self._term_names
        if names is None:
            names = tuple(dict.fromkeys(name for _, terms in pairs for name in terms))
        columns = {name: [terms.get(name, 0.0) for _, terms in pairs] for name in names}
        return RewardStep(
            self._column([total for total, _ in pairs], ""),
            {name: self._column(values, name) for name, values in columns.items()},
        )

    def _column(self, values: list[Any], term: str) -> Tensor:
        try:
            array = np.array(values, dtype=np.float64)
            # numpy reads None as NaN
            if array.size != len(values) or (np.isnan(array).any() and None in values):
                raise ValueError(f"shape {array.shape[1:]}")
        except (TypeError, ValueError) as error:
            raise self._not_a_number(values, term) from error
        return from_numpy(array.reshape(-1)).to(self._device, torch.float32)

    def _not_a_number(self, values: list[Any], term: str) -> RewardError:
        example = next((x for x in values if np.size(x) != 1 or not np.isscalar(x)), values[0])
        shape = np.shape(example)
        kind = f"an array of shape {shape}" if shape else f"a {type(example).__name__}"
        hint = "Reduce it, e.g. with np.sum(...), or return 0.0 where there is nothing."
        return wrong_value(self._source, term, f"is {kind}; it must be one number", hint)


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


def _field(columns: Columns, row: int, name: str) -> Any:
    return columns[name][row]


def _cut(column: np.ndarray) -> list[Any]:
    """Return one value per environment: Python numbers, or arrays."""
    return column.tolist() if column.ndim == 1 else list(column)


# ---- look-alikes of MuJoCo's data and model, over the values of an info


class SimulatorRow:
    """Looks like MuJoCo's data of one environment: fields, and bodies and joints by name."""

    __offered__: ClassVar[str] = "mj_data"
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

    __offered__: ClassVar[str] = "mj_data"
    __slots__ = ("_data", "id")

    def __init__(self, data: Any, row: int) -> None:
        self._data = data
        self.id = row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._data, name)[self.id]


class JointRow:
    """Looks like MuJoCo's view of one joint: qpos and qvel."""

    __offered__: ClassVar[str] = "mj_data"
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


class ModelPart(types.SimpleNamespace):
    """Looks like MuJoCo's view of one body, joint or the options of a model."""

    __offered__: ClassVar[str] = "mj_model"


class ModelFacts:
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
        self.opt = ModelPart(timestep=_timestep(spec))

    def body(self, name: str | int) -> ModelPart:
        """Return one body: id, name and mass."""
        row = body_row(self._info, name)
        mass = None if self.body_mass is None else self.body_mass[row : row + 1]
        return ModelPart(id=row, name=self._spec.body_names[row], mass=mass)

    def joint(self, name: str) -> ModelPart:
        """Return one joint: id, name, addresses and range."""
        joint = joint_of(self._info, name)
        return ModelPart(
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
