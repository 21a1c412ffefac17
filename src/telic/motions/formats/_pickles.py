"""Safe reader for pickles that contain plain values and numeric arrays.

Unpickling can execute arbitrary code. This reader supports only the opcodes and globals that build
dictionaries, lists, strings and arrays, and rejects everything else without calling it. joblib
stores the bytes of an array behind its wrapper, where they are read.
"""

from __future__ import annotations

import io
import math
import pickle
import zlib
from collections.abc import Iterator
from typing import Any, ClassVar, Self, cast

import numpy as np

from telic.core.text import is_dict, is_row
from telic.errors import BadFile
from telic.motions.formats._track import MAX_VALUES, most_bytes

_MAX_BYTES, _MAX_PARTS = 8 * MAX_VALUES, 10_000_000


class _Refused(Exception):
    """Raised for pickles with unsupported contents."""


class _Built:
    """Placeholder for an object during unpickling, with its arguments and value."""

    args: tuple[Any, ...]
    value: Any

    def __new__(cls, *args: Any) -> Self:
        self = super().__new__(cls)
        self.args, self.value = args, None
        return self


class _Dtype(_Built):
    """Placeholder for a NumPy dtype, whose value is the byte order."""


class _Array(_Built):
    """Placeholder for a NumPy array."""


class _Wrapper(_Built):
    """Placeholder for joblib's array wrapper, whose bytes follow it in the file."""


def _row(value: Any) -> tuple[Any, ...]:
    """Return a tuple unchanged, or () for any other value."""
    return cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()


def _text(value: Any) -> str:
    value = value.decode("latin-1") if isinstance(value, bytes) else value
    return value if isinstance(value, str) else ""


def _dtype(kind: Any) -> np.dtype[Any]:
    """Return the numeric dtype of a placeholder."""
    name = _text(kind.args[0]) if isinstance(kind, _Dtype) and kind.args else ""
    try:
        dtype = np.dtype(name) if 0 < len(name) <= 8 else np.dtype(object)
    except Exception:
        dtype = np.dtype(object)
    if dtype.kind not in "fiub":
        raise _Refused(f"an array of {name[:8] or 'objects'!r}")
    return dtype.newbyteorder(">") if kind.value == ">" else dtype


def _bytes_of(shape: Any, dtype: np.dtype[Any]) -> int:
    lengths = _row(shape)
    whole = all(isinstance(n, int) and 0 <= n <= _MAX_BYTES for n in lengths)
    size = math.prod(lengths) * dtype.itemsize if whole and len(lengths) <= 8 else _MAX_BYTES + 1
    if not isinstance(shape, tuple) or size > _MAX_BYTES:
        raise _Refused("an array without a valid shape")
    return size


def _array(content: Any, kind: Any, shape: Any, order: Any) -> np.ndarray:
    """Build an array from bytes, or from text as written by protocol 2."""
    dtype = _dtype(kind)
    content = content.encode("latin-1") if isinstance(content, str) else content
    if not isinstance(content, bytes | bytearray) or len(content) != _bytes_of(shape, dtype):
        raise _Refused("an array whose size does not match its shape")
    array: np.ndarray = np.frombuffer(bytes(content), dtype)
    return array.reshape(shape, order="F" if order == "F" else "C").copy()


def _encoded(text: Any, _: Any = "latin-1") -> bytes:
    if not isinstance(text, str):
        raise _Refused("invalid bytes")
    return text.encode("latin-1")


_NAMES: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encoded,
    ("collections", "OrderedDict"): dict,
    ("joblib.numpy_pickle", "NumpyArrayWrapper"): _Wrapper,
    **{
        (f"numpy.{core}.{module}", name): made
        for core in ("core", "_core")
        for module in ("multiarray", "numeric")
        for name, made in (
            ("_reconstruct", _Array),
            ("scalar", lambda kind, content=b"": _array(content, kind, (), "C").item()),
            ("_frombuffer", _array),
        )
    },
}
"""allowed globals and their replacements"""
_Reader: Any = vars(pickle)["_Unpickler"]
"""unpickler in pure Python, whose opcodes can be overridden"""


class _Plain(_Reader):
    """Unpickler restricted to plain values."""

    dispatch: ClassVar[dict[int, Any]] = dict(_Reader.dispatch)

    def __init__(self, file: io.BytesIO) -> None:
        _Reader.__init__(self, file)
        self.source, self.left = file, most_bytes(file.getvalue())

    def find_class(self, module: str, name: str) -> Any:
        """Return the placeholder class for an allowed global, or reject other globals."""
        if (module, name) not in _NAMES:
            raise _Refused(f"{module}.{name}"[:100])
        return _NAMES[module, name]

    def persistent_load(self, pid: Any) -> Any:
        """Reject persistent references to external data."""
        raise _Refused("a reference to external data")

    def get_extension(self, code: int) -> None:
        """Reject codes of the extension registry."""
        raise _Refused(f"extension {code}")

    def load_build(self) -> None:
        """Set the state of a placeholder object."""
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, _Dtype):
            target.value = _text(_row(state)[1]) if len(_row(state)) > 1 else "<"
            if target.value not in ("<", ">", "|", "="):
                raise _Refused("an array of an unknown byte order")
        elif isinstance(target, _Array) and len(_row(state)) == 5:
            _, shape, kind, fortran, content = _row(state)
            target.value = _array(content, kind, shape, "F" if fortran else "C")
        elif isinstance(target, _Wrapper) and is_dict(state):
            if state.get("numpy_array_alignment_bytes") is not None:
                padding = self.source.read(1)
                self.source.read(padding[0] if padding else 0)
            kind, shape = state.get("dtype"), state.get("shape")
            content = self.source.read(_bytes_of(shape, _dtype(kind)))
            target.value = _array(content, kind, shape, state.get("order"))
        else:
            raise _Refused(f"a state for {type(target).__name__}")
        self.count(target.value)

    def load_reduce(self) -> None:
        """Call an allowed global."""
        _Reader.load_reduce(self)
        self.count(self.stack[-1])

    def count(self, made: Any) -> None:
        """Limit the data made from a file, because a pickle can use the same bytes repeatedly."""
        self.left -= len(made) if isinstance(made, bytes) else getattr(made, "nbytes", 0)
        if self.left < 0:
            raise _Refused("too much data")

    dispatch[pickle.BUILD[0]] = load_build
    dispatch[pickle.REDUCE[0]] = load_reduce


def read_pickle(content: bytes, where: str) -> Any:
    """Return the plain values of a pickle without executing code, or raise BadFile."""
    try:
        if content[:1] == b"x":  # compressed by joblib
            inflater = zlib.decompressobj()
            content = inflater.decompress(content, most_bytes(content))
            if inflater.unconsumed_tail:
                raise _Refused("too much data")
        return _plain(_Plain(io.BytesIO(content)).load(), 0, iter(range(_MAX_PARTS)))
    except _Refused as refused:
        raise BadFile(
            f"{where} contains {refused}, but only plain values and numeric arrays are read from "
            "pickles. Nothing was executed.",
            hint="Save the arrays as .npz instead.",
        ) from None
    except Exception as error:  # damaged pickles can raise any exception
        reason = (str(error).splitlines() or [""])[0][:120] or type(error).__name__
        raise BadFile(f"{where} is a corrupted pickle: {reason}.") from None


def _plain(value: Any, depth: int, left: Iterator[int]) -> Any:
    """Recursively replace placeholders with their values, up to a number of parts.

    Parts may occur many times in a small file, because pickles can refer to earlier parts.
    """
    if depth > 12 or next(left, None) is None:
        raise _Refused("values nested too deeply")
    if isinstance(value, _Array | _Wrapper):
        value = value.value
        if value is None:
            raise _Refused("an empty array")
    if is_dict(value):
        return {str(key): _plain(each, depth + 1, left) for key, each in value.items()}
    if is_row(value):
        return [_plain(each, depth + 1, left) for each in value]
    if value is None or isinstance(value, bool | int | float | str | bytes | np.ndarray):
        return cast("Any", value)
    raise _Refused(type(value).__name__)
