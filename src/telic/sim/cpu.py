"""Batched CPU simulation with MuJoCo's thread pool."""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_bool, c_char, c_char_p, c_int, c_void_p
from pathlib import Path
from typing import Any, cast

import mujoco
import numpy as np
import torch
from torch import Tensor

from telic.core.tensors import from_numpy
from telic.errors import BadEnvironment, ConfigError, TelicError, UnknownName
from telic.sim.base import Simulation
from telic.storage.resources import usable_cores

_NONE = mujoco.mjtStage.mjSTAGE_NONE.value
_ACC = mujoco.mjtStage.mjSTAGE_ACC.value
# Fields stored in the state rows; all others are outputs, copied by the batch after each call.
_STATE_FIELDS = {
    "time": mujoco.mjtState.mjSTATE_TIME,
    "qpos": mujoco.mjtState.mjSTATE_QPOS,
    "qvel": mujoco.mjtState.mjSTATE_QVEL,
    "act": mujoco.mjtState.mjSTATE_ACT,
    "qacc_warmstart": mujoco.mjtState.mjSTATE_WARMSTART,
    "ctrl": mujoco.mjtState.mjSTATE_CTRL,
    "qfrc_applied": mujoco.mjtState.mjSTATE_QFRC_APPLIED,
    "xfrc_applied": mujoco.mjtState.mjSTATE_XFRC_APPLIED,
    "mocap_pos": mujoco.mjtState.mjSTATE_MOCAP_POS,
    "mocap_quat": mujoco.mjtState.mjSTATE_MOCAP_QUAT,
}
# Fields not updated by mj_step, and the function that computes them afterwards.
_COMPUTED_BY = {
    "cacc": "mj_rnePostConstraint",
    "cfrc_int": "mj_rnePostConstraint",
    "cfrc_ext": "mj_rnePostConstraint",
    "subtree_linvel": "mj_subtreeVel",
    "subtree_angmom": "mj_subtreeVel",
}


class _Memory:
    """Handle of the C batch. The batch is freed with the last tensor that views its memory."""

    def __init__(self, model: mujoco.MjModel, num_sims: int, num_threads: int) -> None:
        # One MjData per simulation: derived fields persist between calls, contact forces are zero
        # after a reset as in a new MjData, and fields can be bound in the middle of an episode.
        config = BatchConfig(nthread=num_threads, persistent=True)
        reason = ctypes.create_string_buffer(1024)
        self.pointer = library().mjb_makeBatch(
            model._address, num_sims, ctypes.byref(config), reason, len(reason)
        )
        if not self.pointer:
            raise BadEnvironment(
                f"MuJoCo cannot batch this model: {reason.value.decode(errors='replace')}."
            )
        self._delete = library().mjb_deleteBatch  # modules may be gone at shutdown

    def __del__(self) -> None:
        if getattr(self, "pointer", None):
            self._delete(self.pointer)

    def view(self, where: int, kind: np.dtype[Any], shape: tuple[int, ...]) -> Tensor:
        """Return memory of the batch as a tensor that keeps the batch alive."""
        if 0 in shape:
            return from_numpy(np.empty(shape, kind))
        count = int(np.prod(shape))
        buffer = (ctypes.c_byte * (count * kind.itemsize)).from_address(where)
        buffer.owner = self  # pyrefly: ignore[missing-attribute]
        array = np.frombuffer(memoryview(buffer), kind).reshape(shape)
        with torch.inference_mode(False):  # inference tensors could not be written to
            return from_numpy(array)


class CpuSimulation(Simulation):
    """Batch of N simulations. The number of threads does not affect the results."""

    def __init__(
        self, model: mujoco.MjModel, num_sims: int, *, num_threads: int | None = None
    ) -> None:
        """Allocate simulations of a copy of the model, by default on all usable CPUs."""
        super().__init__(model, num_sims, torch.device("cpu"))
        if num_threads is not None and num_threads < 1:
            raise ConfigError(
                f"num_threads={num_threads} must be positive.",
                hint="Omit it to use all CPUs.",
            )
        self.num_threads = num_threads or len(usable_cores())
        self._library = library()
        self._memory = _Memory(model, num_sims, self.num_threads)
        self._batch = self._memory.pointer
        self._after_step: list[int] = []  # addresses of functions called after each step
        self._state = self._memory.view(
            self._library.mjb_state(self._batch),
            np.dtype(np.float64),
            (num_sims, self._library.mjb_nstate(self._batch)),
        )
        self._status = self._memory.view(
            self._library.mjb_status(self._batch), np.dtype(np.int32), (num_sims,)
        )
        self._state_parts = [self._state]
        self._ctrl = self.field("ctrl")
        self._qpos = self.field("qpos")
        self._qvel = self.field("qvel")

    def field(self, name: str) -> Tensor:
        """Return the live view of a field. See `Simulation.field`."""
        view = self._fields.get(name)
        if view is None:
            if name in _STATE_FIELDS:
                view = self._bind_state(name)
            elif name == "warning":
                view = self._bind_warning()
            else:
                view = self._bind_output(name)
            self._fields[name] = view
        return view

    def vary(self, name: str) -> Tensor:
        """Expand a model field to one value per simulation. See `Simulation.vary`."""
        view = self._varied.get(name)
        if view is None:
            like: Any = getattr(self.model, name, None)
            where = self._library.mjb_expand(self._batch, name.encode(), None, None)
            if where is None or not isinstance(like, np.ndarray):
                fields = [field for field in dir(self.model) if not field.startswith("_")]
                raise UnknownName("model field", name, fields)
            held = cast(Any, like)
            view = self._memory.view(where, held.dtype, (self.num_sims, *held.shape))
            self._varied[name] = view
            self._state_parts.append(view)
        return view

    def step(self, ctrl: Tensor, substeps: int) -> None:
        """Advance every simulation. See `Simulation.step`."""
        self._ctrl.copy_(ctrl)
        bad = self._library.mjb_step(self._batch, None, 0, substeps, _NONE)
        self.failed = self._status != 0 if bad else None
        if self._after_step:
            self._run_after_step()

    def reset(self, mask: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        """Reset simulations selected by `mask`. See `Simulation.reset`."""
        ids = mask.nonzero().to(torch.int32)
        if len(ids) == 0:
            return
        chosen = (ids.data_ptr(), len(ids))
        self._require(self._library.mjb_reset(self._batch, *chosen, None, _NONE))
        where = mask[:, None]
        torch.where(where, qpos, self._qpos, out=self._qpos)
        torch.where(where, qvel, self._qvel, out=self._qvel)
        self._require(self._library.mjb_forward(self._batch, *chosen, _ACC))

    def _run_after_step(self) -> None:
        for function in self._after_step:
            self._library.mjb_apply(self._batch, None, 0, function, None, 0)
        # mjb_apply does not copy outputs; a forward pass without stages does only that.
        self._library.mjb_forward(self._batch, None, 0, _NONE)

    def _bind_state(self, name: str) -> Tensor:
        size = ctypes.c_int()
        start = self._library.mjb_stateComponent(
            self._batch, _STATE_FIELDS[name].value, ctypes.byref(size)
        )
        column = (start - self._state.data_ptr()) // 8
        if name == "time":
            return self._state[:, column]
        shape = getattr(self._template, name).shape
        view: Any = self._state[:, column : column + size.value]
        return view.unflatten(1, shape) if len(shape) > 1 else view

    def _bind_warning(self) -> Tensor:
        shape = (self.num_sims, mujoco.mjtWarning.mjNWARNING.value, 2)
        stats = self._memory.view(self._library.mjb_warning(self._batch), np.dtype(np.int32), shape)
        return stats[:, :, 1]  # each is (last info, count)

    def _bind_output(self, name: str) -> Tensor:
        template: Any = getattr(self._template, name, None)
        if isinstance(template, int):
            template = np.zeros((), np.int32)
        where = self._library.mjb_output(self._batch, name.encode(), None, None)
        if where is None or not isinstance(template, np.ndarray):
            fields = [field for field in dir(self._template) if not field.startswith("_")]
            raise UnknownName("simulation field", name, fields)
        if (function := _COMPUTED_BY.get(name)) and address(function) not in self._after_step:
            self._after_step.append(address(function))
            self._run_after_step()
        like = cast(Any, template)
        return self._memory.view(where, like.dtype, (self.num_sims, *like.shape))

    def _require(self, failures: int) -> None:
        """Raise TelicError if a reset failed, e.g. because of an invalid initial pose."""
        if failures:
            first = int((self._status != 0).nonzero()[0, 0])
            reason = self._library.mjb_error(self._batch, first).decode(errors="replace")
            raise TelicError(
                f"MuJoCo could not start {failures} of {self.num_sims} simulations. Simulation "
                f"{first} failed: {reason}.",
                hint="Open the model in MuJoCo's viewer and check its initial pose.",
            )


# ---- C API of MuJoCo's batch (mujoco/mjbatch.h)
# `mujoco.batch.Batch` lacks `mjb_apply`, which contact forces need. The functions are called
# through ctypes, which releases the GIL during a call.


class BatchConfig(ctypes.Structure):
    """Parameters of mjb_makeBatch."""

    _fields_ = (("nthread", c_int), ("persistent", c_bool))


class _LogConfig(ctypes.Structure):
    _fields_ = (
        ("logto_console", c_bool),
        ("logto_file", c_bool),
        ("logfile", c_char * 1024),
        ("topics", c_int),
    )


_SIGNATURES = {
    "mjb_makeBatch": (c_void_p, (c_void_p, c_int, POINTER(BatchConfig), c_char_p, c_int)),
    "mjb_deleteBatch": (None, (c_void_p,)),
    "mjb_nstate": (c_int, (c_void_p,)),
    "mjb_state": (c_void_p, (c_void_p,)),
    "mjb_stateComponent": (c_void_p, (c_void_p, c_int, POINTER(c_int))),
    "mjb_warning": (c_void_p, (c_void_p,)),
    "mjb_step": (c_int, (c_void_p, c_void_p, c_int, c_int, c_int)),
    "mjb_forward": (c_int, (c_void_p, c_void_p, c_int, c_int)),
    "mjb_reset": (c_int, (c_void_p, c_void_p, c_int, c_void_p, c_int)),
    "mjb_status": (c_void_p, (c_void_p,)),
    "mjb_error": (c_char_p, (c_void_p, c_int)),
    "mjb_output": (c_void_p, (c_void_p, c_char_p, POINTER(c_int), POINTER(c_int))),
    "mjb_expand": (c_void_p, (c_void_p, c_char_p, POINTER(c_int), POINTER(c_int))),
    "mjb_apply": (c_int, (c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_int)),
    "mju_getLogConfig": (_LogConfig, ()),
    "mju_setLogConfig": (None, (_LogConfig,)),
}


@functools.cache
def library() -> ctypes.CDLL:
    """Return MuJoCo's shared library, which its Python package has already loaded."""
    folder = Path(mujoco.__file__).parent
    libraries = sorted(
        path
        for pattern in ("libmujoco.so*", "libmujoco*.dylib", "mujoco.dll")
        for path in folder.glob(pattern)
    )
    if not libraries:
        raise BadEnvironment(
            f"The mujoco package (version {mujoco.__version__}) has no shared library.",
            hint="Install the official wheel: pip install --force-reinstall mujoco==4.0.0",
        )
    loaded = ctypes.CDLL(str(libraries[0]))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    # Worker threads would log each divergence to the console and to MUJOCO_LOG.TXT in the working
    # directory. The "warning" field contains the same information.
    config = loaded.mju_getLogConfig()
    config.logto_console = False
    config.logto_file = False
    loaded.mju_setLogConfig(config)
    return loaded


def address(function_name: str) -> int:
    """Return the address of a MuJoCo function for use with mjb_apply.

    mjb_apply passes (model, data, simulation, argument). Functions of (model, data) also work,
    because the C calling conventions of x86-64 and AArch64 let them ignore the other two.
    """
    pointer = ctypes.cast(getattr(library(), function_name), c_void_p).value
    assert pointer is not None
    return pointer
