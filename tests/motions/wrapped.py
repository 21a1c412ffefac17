"""Arrays in pickles as joblib writes them: a wrapper, and the bytes of the array behind it."""

from __future__ import annotations

import io
import pickle
from typing import Any, ClassVar

import numpy as np

_ALIGNMENT = 16


class NumpyArrayWrapper:
    """Substitute that joblib pickles for an array."""

    def __init__(self, array: np.ndarray) -> None:
        self.subclass = np.ndarray
        self.shape, self.dtype = array.shape, array.dtype
        self.order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        self.allow_mmap = True
        self.numpy_array_alignment_bytes = _ALIGNMENT


NumpyArrayWrapper.__module__ = "joblib.numpy_pickle"


class _Writer(pickle._Pickler):
    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if type(obj) is not np.ndarray:
            super().save(obj, save_persistent_id)
            return
        wrapper = NumpyArrayWrapper(obj)
        super().save(wrapper, save_persistent_id)
        self.framer.commit_frame(force=True)
        padding = _ALIGNMENT - (self.stream.tell() + 1) % _ALIGNMENT
        self.stream.write(bytes([padding]) + b"\xff" * padding + obj.tobytes(wrapper.order))

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if obj is not NumpyArrayWrapper:
            super().save_global(obj, name)
            return
        self.save("joblib.numpy_pickle")
        self.save("NumpyArrayWrapper")
        self.write(pickle.STACK_GLOBAL)

    dispatch: ClassVar[dict[Any, Any]] = dict(pickle._Pickler.dispatch)
    dispatch[type] = save_global


def wrapped_dump(value: Any) -> bytes:
    """Return a pickle whose arrays are wrapped."""
    stream = io.BytesIO()
    writer = _Writer(stream, protocol=4)
    writer.stream = stream
    writer.dump(value)
    return stream.getvalue()
