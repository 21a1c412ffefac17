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
from typing import Any, ClassVar, cast

import numpy as np

from telic.core.text import is_dict, is_row
from telic.errors import BadFile
from telic.motions.formats.track import MOST_VALUES

_MOST_BYTES = 8 * MOST_VALUES
_KINDS = "fiub"
_ARRAYS = (
    "numpy.core.multiarray",
    "numpy._core.multiarray",
    "numpy.core.numeric",
    "numpy._core.numeric",
)


class _Refused(Exception):
    """The pickle contains something other than plain values."""


class _Kind:
    """Placeholder of a numpy dtype while it is built."""

    def __init__(self, *words: Any) -> None:
        name = words[0] if words else ""
        name = name.decode("latin-1") if isinstance(name, bytes) else name
        if not isinstance(name, str) or len(name) > 8:
            raise _Refused("an array of an unknown kind")
        self.name, self.order = name, "<"

    def __setstate__(self, state: Any) -> None:
        facts = _row(state)
        order = facts[1] if len(facts) > 1 else "<"
        order = order.decode("latin-1") if isinstance(order, bytes) else order
        if order not in ("<", ">", "|", "="):
            raise _Refused("an array of an unknown byte order")
        self.order = str(order)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its numbers; raises _Refused for other types."""
        try:
            kind = np.dtype(self.name)
        except Exception:
            raise _Refused(f"an array of {self.name!r}") from None
        if kind.kind not in _KINDS or kind.hasobject:
            raise _Refused(f"an array of {kind}")
        return kind.newbyteorder(">") if self.order == ">" else kind


class _Array:
    """Placeholder of a numpy array while it is built."""

    value: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        facts = _row(state)
        if len(facts) != 5:
            raise _Refused("an invalid array")
        _, shape, kind, fortran, content = facts
        if isinstance(content, str):  # how protocol 2 writes bytes
            content = content.encode("latin-1")
        if not isinstance(kind, _Kind) or not isinstance(content, bytes):
            raise _Refused("an array of objects")
        self.value = _filled(shape, kind.dtype, bool(fortran), content)


class _Wrapper:
    """Placeholder of joblib's wrapper: the array's bytes follow it in the file."""

    shape: Any = None
    order: Any = "C"
    dtype: Any = None
    numpy_array_alignment_bytes: Any = None
    value: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        if not is_dict(state):
            raise _Refused("an invalid wrapper")
        for name in ("shape", "order", "dtype", "numpy_array_alignment_bytes"):
            if name in state:
                setattr(self, name, state[name])


def _row(value: Any) -> list[Any]:
    """Return the items of a tuple; of anything else, an empty list."""
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else []


def _filled(shape: Any, dtype: np.dtype[Any], fortran: bool, content: bytes) -> np.ndarray:
    if _size(shape, dtype) != len(content):
        raise _Refused("an array whose size does not match its shape")
    array: np.ndarray = np.frombuffer(content, dtype)
    return array.reshape(_row(shape), order="F" if fortran else "C").copy()


def _size(shape: Any, dtype: np.dtype[Any]) -> int:
    """Return the bytes of an array; raises _Refused for an invalid shape."""
    lengths = _row(shape)
    whole = all(isinstance(n, int) and 0 <= n <= _MOST_BYTES for n in lengths)
    if not isinstance(shape, tuple) or not whole or len(lengths) > 8:
        raise _Refused("an array without a shape")
    size = math.prod(lengths) * dtype.itemsize
    if size > _MOST_BYTES:
        raise _Refused("an array that is too large")
    return size


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _from_buffer(content: Any, kind: Any, shape: Any, order: Any) -> np.ndarray:
    """Return an array as protocol 5 writes it."""
    if not isinstance(kind, _Kind) or not isinstance(content, bytes | bytearray):
        raise _Refused("an array of objects")
    return _filled(shape, kind.dtype, order == "F", bytes(content))


def _scalar(kind: Any, content: Any = b"") -> Any:
    content = content.encode("latin-1") if isinstance(content, str) else content
    if not isinstance(kind, _Kind) or not isinstance(content, bytes):
        raise _Refused("an invalid number")
    return _filled((), kind.dtype, False, content).item()


def _encoded(text: Any, _: Any = "latin-1") -> bytes:
    if not isinstance(text, str):
        raise _Refused("invalid bytes")
    return text.encode("latin-1")


_Reader: Any = vars(pickle)["_Unpickler"]
"""the implementation in Python: its instructions can be replaced"""


class _Plain(_Reader):
    """An unpickler of plain values."""

    dispatch: ClassVar[dict[int, Any]] = dict(_Reader.dispatch)

    def __init__(self, file: io.BytesIO) -> None:
        _Reader.__init__(self, file)
        self.source = file

    def find_class(self, module: str, name: str) -> Any:
        """Return the placeholder of a name; everything but arrays is rejected."""
        if module in _ARRAYS and name == "_reconstruct":
            return _reconstruct
        if module in _ARRAYS and name == "scalar":
            return _scalar
        if module in _ARRAYS and name == "_frombuffer":
            return _from_buffer
        if (module, name) == ("numpy", "ndarray"):
            return _Array
        if (module, name) == ("numpy", "dtype"):
            return _Kind
        if (module, name) == ("_codecs", "encode"):
            return _encoded
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        if (module, name) == ("joblib.numpy_pickle", "NumpyArrayWrapper"):
            return _Wrapper
        raise _Refused(f"{module}.{name}"[:100])

    def persistent_load(self, pid: Any) -> Any:
        """Reject references to data outside of the file."""
        raise _Refused("a reference to data outside of the file")

    def get_extension(self, code: int) -> None:
        """Reject the extension registry."""
        raise _Refused(f"extension {code}")

    def load_build(self) -> None:
        """Set the state of an object; only our own placeholders have one."""
        state = self.stack.pop()
        target = self.stack[-1]
        if not isinstance(target, _Kind | _Array | _Wrapper):
            raise _Refused(f"a state for {type(target).__name__}")
        target.__setstate__(state)
        if isinstance(target, _Wrapper):
            self.stack[-1] = self._following(target)

    dispatch[pickle.BUILD[0]] = load_build

    def _following(self, wrapper: _Wrapper) -> np.ndarray:
        if not isinstance(wrapper.dtype, _Kind):
            raise _Refused("an array of objects")
        if wrapper.numpy_array_alignment_bytes is not None:
            padding = self.source.read(1)
            self.source.read(padding[0] if padding else 0)
        dtype = wrapper.dtype.dtype
        content = self.source.read(_size(wrapper.shape, dtype))
        return _filled(wrapper.shape, dtype, wrapper.order == "F", content)


def read_pickle(content: bytes, where: str) -> Any:
    """Return the plain values of a pickle, or raise BadFile; nothing of it is executed."""
    try:
        return _plain(_Plain(io.BytesIO(_inflated(content))).load(), 0)
    except _Refused as refused:
        raise BadFile(
            f"{where} contains {refused}; only plain values and numeric arrays are read from "
            "pickles. Nothing was executed.",
            hint="Save the arrays as .npz instead.",
        ) from None
    except Exception as error:  # damaged pickles fail in as many ways as there are bytes
        reason = (str(error).splitlines() or [""])[0][:120] or type(error).__name__
        raise BadFile(f"{where} is a damaged pickle: {reason}.") from None


def _inflated(content: bytes) -> bytes:
    """Decompress what joblib compressed."""
    if content[:1] != b"x":
        return content
    inflater = zlib.decompressobj()
    out = inflater.decompress(content, _MOST_BYTES)
    if inflater.unconsumed_tail:
        raise _Refused("too much data")
    return out


def _plain(value: Any, depth: int) -> Any:
    """Return values without placeholders."""
    if depth > 12:
        raise _Refused("values nested too deeply")
    if isinstance(value, _Array):
        if value.value is None:
            raise _Refused("an empty array")
        return value.value
    if is_dict(value):
        return {str(key): _plain(each, depth + 1) for key, each in value.items()}
    if is_row(value):
        return [_plain(each, depth + 1) for each in value]
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if isinstance(value, np.ndarray):
        return cast("Any", value)
    raise _Refused(type(value).__name__)
