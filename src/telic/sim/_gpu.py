"""Batched GPU simulation with MuJoCo Warp, exposed as live torch tensors without copying.

Differences from the CPU:

- The PGS solver, used by Humanoid and HumanoidStandup, is not available. It is replaced by Newton,
  which solves the same problem to convergence, while PGS stops after 50 sweeps.
- The solver is warm-started only from the last step, while the CPU also tries the unconstrained
  solution. This is 3 to 4 % faster and equal at convergence.
- Precision is float32, and the solver tolerance is 1e-6 instead of 1e-8.
- A diverging simulation keeps its last valid state and is truncated. The CPU resets it to the
  default pose and continues.

docs/explanation/gpu.md reports the effect of the adaptations on each environment.
"""

from __future__ import annotations

import copy
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import mujoco
import torch
from torch import Tensor

from telic.core.seeds import derive
from telic.core.tensors import from_numpy, integers, norm
from telic.errors import BadEnvironment, MissingExtra, ResourceError, UnknownName
from telic.sim.base import Simulation
from telic.sim.cpu import CpuSimulation
from telic.sim.cuda_graph import launch_physics

_STATE = ("time", "qpos", "qvel", "act", "qacc_warmstart", "ctrl", "mocap_pos", "mocap_quat")

# Fields not updated by a step, and the function that computes them afterwards.
_COMPUTED_BY = {
    "cacc": "rne_postconstraint",
    "cfrc_int": "rne_postconstraint",
    "cfrc_ext": "rne_postconstraint",
    "subtree_linvel": "subtree_vel",
    "subtree_angmom": "subtree_vel",
}

# Functions that update each field after a reset, cheapest first. Full forward dynamics would cost
# as much as a whole substep.
_PLACES = ("kinematics", "com_pos")
_MOTION = (*_PLACES, "com_vel")
_MOTORS = (*_PLACES, "tendon", "transmission", "fwd_velocity", "fwd_actuation")
_ALL = ("forward",)
_AFTER_RESET = {
    **dict.fromkeys(("xpos", "xquat", "xmat", "xipos", "ximat", "xanchor", "xaxis"), _PLACES),
    **dict.fromkeys(("geom_xpos", "geom_xmat", "site_xpos", "site_xmat"), _PLACES),
    **dict.fromkeys(("subtree_com", "cinert", "cdof"), _PLACES),
    **dict.fromkeys(("cvel", "cdof_dot"), _MOTION),
    **dict.fromkeys(
        ("actuator_force", "qfrc_actuator", "actuator_length", "actuator_velocity"), _MOTORS
    ),
}

_WARNINGS = int(mujoco.mjtWarning.mjNWARNING)
_DIVERGED = int(mujoco.mjtWarning.mjWARN_BADQACC)
_HUGE = 1e10
"""MuJoCo's bound on valid positions and velocities."""
_TOO_LITTLE_ROOM = ("NEFC", "NJMAX_NNZ", "BROADPHASE", "NARROWPHASE", "CCD", "HFIELD")


def engine() -> tuple[ModuleType, ModuleType]:
    """Import Warp and MuJoCo Warp. Raises MissingExtra if they are not installed."""
    try:
        import warp

        warp.config.log_level = warp.LOG_WARNING  # `telic doctor` reports devices
        import mujoco_warp
    except ImportError as error:
        raise MissingExtra(error.name or "mujoco-warp", "gpu", "Simulating on a GPU") from error
    from telic.sim._warp import correct

    correct()
    return warp, mujoco_warp


class GpuSimulation(Simulation):
    """Batch of N simulations of one model on a GPU.

    A control step replays a CUDA graph of all substeps and of the computations for bound fields,
    followed by a guard that reverts diverging simulations. No step synchronizes with the GPU.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        num_sims: int,
        *,
        device: str = "cuda",
        sizes: BufferSizes | None = None,
    ) -> None:
        """Allocate simulations of an adapted copy of the model. Device "cpu" is only for tests.

        Without `sizes`, a short trial simulation determines the sizes of the contact buffers.
        """
        place = torch.device(device)
        if place.type == "cuda":
            place = torch.device("cuda", place.index or 0)
        adapted, notes = adapt(model)
        super().__init__(adapted, num_sims, place)
        self.notes = notes
        self._warp, self._mjw = engine()
        if place.type == "cuda":
            torch.zeros(1, device=place)  # creates the CUDA context, shared with Warp
        self.sizes = sizes or buffer_sizes(self.model)
        self._place = self._warp.get_device(str(self.device))
        try:
            with self._warp.ScopedDevice(self._place):
                self._warp_model = self._mjw.put_model(self.model)
                self._warp_model.opt.run_qacc_smooth = False
                self._warp_model.opt.warn_overflow = 0  # counted below instead of printed
                self._data = self._mjw.make_data(
                    self.model, nworld=num_sims, nconmax=self.sizes.contacts, njmax=self.sizes.rows
                )
        except NotImplementedError as error:
            raise BadEnvironment(
                f"MuJoCo Warp cannot simulate this model: {error}.", hint="Use --device cpu."
            ) from error
        except RuntimeError as error:
            raise ResourceError(
                f"There is not enough GPU memory for {num_sims} simulations of this model.",
                hint="Lower num_envs.",
            ) from error
        self._after_step: list[str] = []
        self._graphs: dict[tuple[str, ...], Any] = {}
        self._qpos, self._qvel, self._ctrl = map(self.field, ("qpos", "qvel", "ctrl"))
        self._state_parts = [part for name in _STATE if (part := self._array(name)).numel()]
        self._start_values = {
            name: self._array(name)
            for name in ("time", "act", "qacc_warmstart", "ctrl")
            if self._array(name).numel()
        }
        self._before = torch.zeros_like(self._qpos), torch.zeros_like(self._qvel)
        self.failed = torch.zeros(num_sims, dtype=torch.bool, device=self.device)
        self._warning = torch.zeros(num_sims, _WARNINGS, dtype=torch.int32, device=self.device)
        self._overflow = self._array("overflow")
        flags = [int(self._mjw.OverflowType[name]) for name in _TOO_LITTLE_ROOM]
        self._flags = torch.tensor(flags, dtype=torch.int32, device=self.device)
        self._complaints = torch.zeros(len(flags), dtype=torch.int64, device=self.device)

    # ---- fields

    def field(self, name: str) -> Tensor:
        """Return the live view of a field. See `Simulation.field`."""
        view = self._fields.get(name)
        if view is None:
            view = self._warning if name == "warning" else self._bind(name)
            self._fields[name] = view
        return view

    def _bind(self, name: str) -> Tensor:
        template = getattr(self._template, name, None)
        if template is None or not hasattr(self._data, name):
            shared = set(dir(self._template)) & set(dir(self._data))
            raise UnknownName("simulation field", name, [n for n in sorted(shared) if n[0] != "_"])
        function = _COMPUTED_BY.get(name)
        if function and function not in self._after_step:
            self._after_step.append(function)
            self._graphs.clear()
            with self._on_stream():
                getattr(self._mjw, function)(self._warp_model, self._data)
        shape = getattr(template, "shape", ())
        view = self._array(name)
        if shape and view.ndim == len(shape) + 1:  # remove padding
            view = view[(slice(None), *(slice(0, size) for size in shape))]
        elif shape:  # flatten matrices as in MuJoCo
            view = view.flatten(2)
        return view

    def _array(self, name: str) -> Tensor:
        return self._warp.to_torch(getattr(self._data, name))

    def vary(self, name: str) -> Tensor:
        """Expand a model field to one value per simulation. See `Simulation.vary`."""
        view = self._varied.get(name)
        if view is None:
            shared: Any = getattr(self._warp_model, name, None)
            if not hasattr(self.model, name) or not isinstance(shared, self._warp.array):
                known = {*dir(self.model)} & {*dir(self._warp_model)}
                raise UnknownName("model field", name, sorted(known))
            first = self._warp.to_torch(shared)[:1]
            view = first.repeat(self.num_sims, *[1] * (first.ndim - 1)).contiguous()
            own = self._warp.from_torch(view, dtype=shared.dtype)
            setattr(self._warp_model, name, own)
            self._graphs.clear()
            self._varied[name] = view
            self._state_parts.append(view)
        return view

    # ---- time

    def step(self, ctrl: Tensor, substeps: int) -> None:
        """Advance every simulation. See `Simulation.step`."""
        self._ctrl.copy_(ctrl)
        self._before[0].copy_(self._qpos)
        self._before[1].copy_(self._qvel)
        calls = ("step",) * substeps + tuple(self._after_step)
        launch_physics(lambda: self._run(calls))
        self._guard()

    def reset(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Reset simulations selected by `mask`. See `Simulation.reset`."""
        rows = mask[:, None]
        self._qpos.copy_(torch.where(rows, qpos.to(self._qpos.dtype), self._qpos))
        self._qvel.copy_(torch.where(rows, qvel.to(self._qvel.dtype), self._qvel))
        for value in self._start_values.values():
            value.masked_fill_(mask if value.ndim == 1 else rows, 0.0)
        self._warning.masked_fill_(rows, 0)
        self._refresh(mask)

    def compile(self, shared: Path | None = None) -> None:
        """Compile the kernels needed by any field. See `Simulation.compile`."""
        every = tuple(dict.fromkeys((*_MOTION, *_MOTORS, *_ALL, "step", *_COMPUTED_BY.values())))
        from telic.sim._warp import load_modules

        with self._on_stream(), self._undone():
            load_modules(lambda: self._call(every), shared)
            if shared is None:
                self._call(every)

    def complaints(self) -> dict[str, int]:
        """Return the number of buffer overflows by kind since the last call. Waits for the GPU."""
        counts = integers(self._complaints)
        self._complaints.zero_()
        return {name: n for name, n in zip(_TOO_LITTLE_ROOM, counts, strict=True) if n}

    # ---- internals

    def _guard(self) -> None:
        """Revert diverged simulations and count buffer overflows."""
        size = self._qpos.abs().amax(1) + self._qvel.abs().amax(1)
        failed = ~(size < _HUGE)  # true for NaN
        rows = failed[:, None]
        self._qpos.copy_(torch.where(rows, self._before[0], self._qpos))
        self._qvel.copy_(torch.where(rows, self._before[1], self._qvel))
        self._start_values["qacc_warmstart"].masked_fill_(rows, 0.0)
        self._warning[:, _DIVERGED] += failed
        self.failed = failed
        self._complaints += ((self._overflow[:, None] & self._flags) != 0).sum(0)
        self._overflow.zero_()

    def _refresh(self, mask: Tensor) -> None:
        """Update bound fields to the new state where `mask` is true, and nowhere else."""
        derived = [name for name in self._fields if name not in (*_STATE, "warning", *_COMPUTED_BY)]
        for name in _COMPUTED_BY:
            if name in self._fields:
                self._masked(name, mask, torch.zeros_like(self._fields[name]))
        if not derived:
            return
        calls = _calls_after_reset(derived)
        kept = {name: self._fields[name].clone() for name in derived}
        launch_physics(lambda: self._run(calls))
        for name, value in kept.items():
            self._masked(name, ~mask, value)

    def _masked(self, name: str, mask: Tensor, value: Tensor) -> None:
        field = self._fields[name]
        field.copy_(torch.where(mask.view(-1, *[1] * (field.ndim - 1)), value, field))

    def _run(self, calls: tuple[str, ...]) -> None:
        """Run MuJoCo Warp functions on torch's stream, as a CUDA graph on a GPU."""
        if self.device.type != "cuda":
            self._call(calls)
            return
        graph = self._graphs.get(calls)
        if graph is None:
            with self._on_stream(), self._undone():  # run each function once to compile its kernels
                self._call(tuple(dict.fromkeys(calls)))
            with self._warp.ScopedDevice(self._place), self._warp.ScopedCapture() as capture:
                self._call(calls)
            graph = self._graphs[calls] = capture.graph
        stream = self._warp.stream_from_torch(torch.cuda.current_stream(self.device))
        self._warp.capture_launch(graph, stream=stream)

    @contextmanager
    def _undone(self) -> Generator[None]:
        """Restore the state and the bound fields when the context exits."""
        state, fields = self.state(), {name: view.clone() for name, view in self._fields.items()}
        yield
        self._warp.synchronize_device(self._place)
        self.load_state(state)
        for name, value in fields.items():
            self._fields[name].copy_(value)
        self._overflow.zero_()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _call(self, calls: tuple[str, ...]) -> None:
        with self._warp.ScopedDevice(self._place):
            for name in calls:
                getattr(self._mjw, name)(self._warp_model, self._data)

    def _on_stream(self) -> Any:
        if self.device.type != "cuda":
            return self._warp.ScopedDevice(self._place)
        stream = self._warp.stream_from_torch(torch.cuda.current_stream(self.device))
        return self._warp.ScopedStream(stream)


def _calls_after_reset(fields: list[str]) -> tuple[str, ...]:
    """Return the minimal sequence of functions that updates the given fields."""
    needed = [_AFTER_RESET.get(name, _ALL) for name in fields]
    if _ALL in needed:
        return _ALL
    order: dict[str, None] = {}
    for calls in sorted(needed, key=len):
        order |= dict.fromkeys(calls)
    if "com_vel" in order and "fwd_velocity" in order:
        del order["com_vel"]  # included in fwd_velocity
    return tuple(order)


def adapt(model: mujoco.MjModel) -> tuple[mujoco.MjModel, list[str]]:
    """Return a copy of the model adapted to Warp, and notes on the changes.

    Raises BadEnvironment for features that cannot be adapted without changing the task.
    """
    adapted = copy.copy(model)
    notes: list[str] = []
    if model.opt.solver == mujoco.mjtSolver.mjSOL_PGS:
        adapted.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
        notes.append("solved with Newton instead of PGS")
    if model.nplugin:
        raise BadEnvironment(
            "A model with engine plugins cannot be simulated on a GPU.", hint="Use --device cpu."
        )
    return adapted, notes


# ---- contact buffers, whose sizes are fixed in advance on a GPU

_TRIAL_SIMS = 32
_TRIAL_STEPS = 60
_TRIAL_SUBSTEPS = 5
_MARGIN = 1.5
_ROWS_MULTIPLE = 16  # constraint rows are padded to tiles of this size
_MIN_CONTACTS = 4
_MIN_ROWS = 48  # for models with contacts; costs 1 % of HalfCheetah's speed


class BufferSizes(NamedTuple):
    """Sizes of the contact buffers on a GPU, fixed for the lifetime of a simulation."""

    contacts: int
    """Mean number of contacts per simulation. All simulations share one buffer."""
    rows: int
    """Maximum number of constraint rows of each simulation."""


def buffer_sizes(model: mujoco.MjModel) -> BufferSizes:
    """Estimate the contact buffer sizes of a model by a short random rollout on the CPU."""
    sim = CpuSimulation(model, _TRIAL_SIMS, num_threads=1)
    contacts, rows = sim.field("ncon"), sim.field("nefc")
    generator = torch.Generator().manual_seed(derive("room"))
    sim.reset(torch.ones(_TRIAL_SIMS, dtype=torch.bool), *_tumbled(model, generator))
    low, high = from_numpy(model.actuator_ctrlrange.T.copy())
    limited = from_numpy(model.actuator_ctrllimited.astype(bool))
    low, high = torch.where(limited, low, -1.0), torch.where(limited, high, 1.0)
    most_contacts = most_rows = 0
    for _ in range(_TRIAL_STEPS):
        share = torch.rand(_TRIAL_SIMS, model.nu, generator=generator, dtype=torch.float64)
        sim.step(low + (high - low) * share, _TRIAL_SUBSTEPS)
        most_contacts = max(most_contacts, int(contacts.max()))
        most_rows = max(most_rows, int(rows.max()))
    rows_needed = -(-int(_MARGIN * most_rows + 1) // _ROWS_MULTIPLE) * _ROWS_MULTIPLE
    if most_contacts:
        rows_needed = max(_MIN_ROWS, rows_needed)
    return BufferSizes(max(_MIN_CONTACTS, int(_MARGIN * most_contacts)), rows_needed)


def _tumbled(model: mujoco.MjModel, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return initial states for the trial. One half are the default pose, and the rest random."""
    rows = _TRIAL_SIMS
    qpos = torch.tensor(model.qpos0).repeat(rows, 1)
    turned = slice(rows // 2, rows)
    for joint in range(model.njnt):
        kind, first = model.jnt_type[joint], int(model.jnt_qposadr[joint])
        if kind == mujoco.mjtJoint.mjJNT_FREE or kind == mujoco.mjtJoint.mjJNT_BALL:
            first += 3 if kind == mujoco.mjtJoint.mjJNT_FREE else 0
            turn = torch.randn(rows // 2, 4, generator=generator, dtype=torch.float64)
            qpos[turned, first : first + 4] = turn / norm(turn, dim=1, keepdim=True)
        elif kind == mujoco.mjtJoint.mjJNT_HINGE:
            low, high = model.jnt_range[joint] if model.jnt_limited[joint] else (-1.5, 1.5)
            share = torch.rand(rows // 2, generator=generator, dtype=torch.float64)
            qpos[turned, first] = low + (high - low) * share
    return qpos, torch.zeros(rows, model.nv, dtype=torch.float64)
