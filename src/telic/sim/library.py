"""The C functions of MuJoCo's batch (mujoco/mjbatch.h), which its Python module exposes in part.

`mujoco.batch.Batch` has no `mjb_apply`, and contact forces need it; everything here is that header,
called through ctypes. ctypes releases the interpreter lock for the time of a call.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_bool, c_char, c_char_p, c_int, c_void_p
from pathlib import Path

import mujoco

from telic.errors import BadEnvironment


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
    "mjb_apply": (c_int, (c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_int)),
    "mju_getLogConfig": (_LogConfig, ()),
    "mju_setLogConfig": (None, (_LogConfig,)),
}


@functools.cache
def library() -> ctypes.CDLL:
    """Load MuJoCo's shared library, the one its Python package has already loaded."""
    folder = Path(mujoco.__file__).parent
    found = sorted(
        path
        for pattern in ("libmujoco.so*", "libmujoco*.dylib", "mujoco.dll")
        for path in folder.glob(pattern)
    )
    if not found:
        raise BadEnvironment(
            f"The mujoco package (version {mujoco.__version__}) comes without its shared library.",
            hint="Install the official wheel: pip install --force-reinstall mujoco==4.0.0",
        )
    loaded = ctypes.CDLL(str(found[0]))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    # Worker threads would print each diverging simulation and write MUJOCO_LOG.TXT into the current
    # folder. The counters of the "warning" field tell the same to whom it concerns.
    config = loaded.mju_getLogConfig()
    config.logto_console = False
    config.logto_file = False
    loaded.mju_setLogConfig(config)
    return loaded


def address(function_name: str) -> int:
    """Return the address of a MuJoCo function, to be run on each simulation by mjb_apply.

    mjb_apply passes (model, data, simulation, argument). A function of (model, data) may stand in:
    in the C calling conventions of x86-64 and AArch64 it does not look at the other two.
    """
    pointer = ctypes.cast(getattr(library(), function_name), c_void_p).value
    assert pointer is not None
    return pointer
