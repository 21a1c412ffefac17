"""Read pickles of plain values and numeric arrays without running them.

A pickle is a program. This reader implements the few instructions that build dictionaries, lists,
strings and arrays; anything else is rejected before it is called. Arrays that joblib appends after
their wrappers are read in place.
"""

from __future__ import annotations

import io
import math
import pickle
import zlib
from typing import Any, ClassVar, Self, cast

import numpy as np

from telic.core.text import is_dict, is_row
from telic.errors import BadFile
from telic.motions.formats._track import MOST_VALUES

_MOST_BYTES = 8 * MOST_VALUES


class _Refused(Exception):
    """The pickle contains something other than plain values."""


class _Built:
    """Placeholder of an object while it is built: its arguments, and its value once known."""

    args: tuple[Any, ...]
    value: Any

    def __new__(cls, *args: Any) -> Self:
        self = super().__new__(cls)
        self.args, self.value = args, None
        return self


class _Dtype(_Built):
    """A numpy dtype; its value is the byte order."""


class _Array(_Built):
    """A numpy array."""


class _Wrapper(_Built):
    """Joblib's wrapper of an array whose bytes follow it in the file."""


def _row(value: Any) -> tuple[Any, ...]:
    """Return the items of a tuple; of anything else, nothing."""
    return cast("tuple[Any, ...]", value) if isinstance(value, tuple) else ()


def _text(value: Any) -> str:
    value = value.decode("latin-1") if isinstance(value, bytes) else value
    return value if isinstance(value, str) else ""


def _dtype(kind: Any) -> np.dtype[Any]:
    """Return the type of numbers that a placeholder stands for."""
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
    whole = all(isinstance(n, int) and 0 <= n <= _MOST_BYTES for n in lengths)
    size = math.prod(lengths) * dtype.itemsize if whole and len(lengths) <= 8 else _MOST_BYTES + 1
    if not isinstance(shape, tuple) or size > _MOST_BYTES:
        raise _Refused("an array without a valid shape")
    return size


def _array(content: Any, kind: Any, shape: Any, order: Any) -> np.ndarray:
    """Return the array of some bytes; text is how protocol 2 writes them."""
    dtype = _dtype(kind)
    content = content.encode("latin-1") if isinstance(content, str) else content
    if not isinstance(content, bytes | bytearray) or len(content) != _bytes_of(shape, dtype):
        raise _Refused("an array whose size does not match its shape")
    array: np.ndarray = np.frombuffer(bytes(content), dtype)
    return array.reshape(shape, order="F" if order == "F" else "C").copy()


def _scalar(kind: Any, content: Any = b"") -> Any:
    return _array(content, kind, (), "C").item()


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
            ("scalar", _scalar),
            ("_frombuffer", _array),
        )
    },
}
"""everything that a pickle may name, and what stands in for it"""
_Reader: Any = vars(pickle)["_Unpickler"]
"""the implementation in Python: its instructions can be replaced"""


class _Plain(_Reader):
    """An unpickler of plain values."""

    dispatch: ClassVar[dict[int, Any]] = dict(_Reader.dispatch)

    def __init__(self, file: io.BytesIO) -> None:
        _Reader.__init__(self, file)
        self.source = file

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands in for a name."""
        if (module, name) not in _NAMES:
            raise _Refused(f"{module}.{name}"[:100])
        return _NAMES[module, name]

    def persistent_load(self, pid: Any) -> Any:
        """Reject references to data outside of the file."""
        raise _Refused("a reference to data outside of the file")

    def get_extension(self, code: int) -> None:
        """Reject the extension registry."""
        raise _Refused(f"extension {code}")

    def load_build(self) -> None:
        """Set the state of an object; only our own placeholders have one."""
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

    dispatch[pickle.BUILD[0]] = load_build


def read_pickle(content: bytes, where: str) -> Any:
    """Return the plain values of a pickle, or raise BadFile; nothing of it is executed."""
    try:
        if content[:1] == b"x":  # joblib compressed it
            inflater = zlib.decompressobj()
            content = inflater.decompress(content, _MOST_BYTES)
            if inflater.unconsumed_tail:
                raise _Refused("too much data")
        return _plain(_Plain(io.BytesIO(content)).load(), 0)
    except _Refused as refused:
        raise BadFile(
            f"{where} contains {refused}; only plain values and numeric arrays are read from "
            "pickles. Nothing was executed.",
            hint="Save the arrays as .npz instead.",
        ) from None
    except Exception as error:  # damaged pickles fail in as many ways as there are bytes
        reason = (str(error).splitlines() or [""])[0][:120] or type(error).__name__
        raise BadFile(f"{where} is a damaged pickle: {reason}.") from None


def _plain(value: Any, depth: int) -> Any:
    """Return values without placeholders."""
    if depth > 12:
        raise _Refused("values nested too deeply")
    if isinstance(value, _Array | _Wrapper):
        value = value.value
        if value is None:
            raise _Refused("an empty array")
    if is_dict(value):
        return {str(key): _plain(each, depth + 1) for key, each in value.items()}
    if is_row(value):
        return [_plain(each, depth + 1) for each in value]
    if value is None or isinstance(value, bool | int | float | str | bytes | np.ndarray):
        return cast("Any", value)
    raise _Refused(type(value).__name__)
