"""Pickles read without running anything: plain values and arrays of numbers, nothing else.

A pickle is a program. This reader knows the few instructions that build dictionaries, lists, words
and arrays; whatever else one asks for, by whatever name, is refused before anything of it is
called. Arrays that joblib put behind their wrappers are read where they lie.
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
_ARRAYS = ("numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric")


class _Refused(Exception):
    """The pickle asks for something that is not plain."""


class _Kind:
    """Stands for a numpy dtype while it is built."""

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
        """The kind of numbers; raises _Refused for all else."""
        try:
            kind = np.dtype(self.name)
        except Exception:
            raise _Refused(f"an array of {self.name!r}") from None
        if kind.kind not in _KINDS or kind.hasobject:
            raise _Refused(f"an array of {kind}")
        return kind.newbyteorder(">") if self.order == ">" else kind


class _Array:
    """Stands for a numpy array while it is built."""

    value: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        facts = _row(state)
        if len(facts) != 5:
            raise _Refused("an array that is none")
        _, shape, kind, fortran, content = facts
        if isinstance(content, str):  # what old pickles have for bytes
            content = content.encode("latin-1")
        if not isinstance(kind, _Kind) or not isinstance(content, bytes):
            raise _Refused("an array of objects")
        self.value = _filled(shape, kind.dtype, bool(fortran), content)


class _Wrapper:
    """Stands for joblib's wrapper: the array's bytes follow it in the file."""

    shape: Any = None
    order: Any = "C"
    dtype: Any = None
    numpy_array_alignment_bytes: Any = None
    value: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        if not is_dict(state):
            raise _Refused("a wrapper without facts")
        for name in ("shape", "order", "dtype", "numpy_array_alignment_bytes"):
            if name in state:
                setattr(self, name, state[name])


def _row(value: Any) -> list[Any]:
    """Return the items of a tuple; none of anything else."""
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else []


def _filled(shape: Any, dtype: np.dtype[Any], fortran: bool, content: bytes) -> np.ndarray:
    if _size(shape, dtype) != len(content):
        raise _Refused("an array that does not hold what its shape says")
    array: np.ndarray = np.frombuffer(content, dtype)
    return array.reshape(_row(shape), order="F" if fortran else "C").copy()


def _size(shape: Any, dtype: np.dtype[Any]) -> int:
    """Return the bytes of an array; raises _Refused for a shape that is none."""
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


def _scalar(kind: Any, content: Any = b"") -> Any:
    content = content.encode("latin-1") if isinstance(content, str) else content
    if not isinstance(kind, _Kind) or not isinstance(content, bytes):
        raise _Refused("a number that is none")
    return _filled((), kind.dtype, False, content).item()


def _encoded(text: Any, _: Any = "latin-1") -> bytes:
    if not isinstance(text, str):
        raise _Refused("bytes that are none")
    return text.encode("latin-1")


_Reader: Any = vars(pickle)["_Unpickler"]
"""the one written in Python: it lets each instruction be replaced"""


class _Plain(_Reader):
    """An unpickler that knows nothing but plain values."""

    dispatch: ClassVar[dict[int, Any]] = dict(_Reader.dispatch)

    def __init__(self, file: io.BytesIO) -> None:
        _Reader.__init__(self, file)
        self.source = file

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name; everything but arrays is refused."""
        if module in _ARRAYS and name == "_reconstruct":
            return _reconstruct
        if module in _ARRAYS and name == "scalar":
            return _scalar
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
        """Refuse what lies outside of the file."""
        raise _Refused("something outside of the file")

    def get_extension(self, code: int) -> None:
        """Refuse names that only a register knows."""
        raise _Refused(f"extension {code}")

    def load_build(self) -> None:
        """Give an object its state; only our own stand-ins have one."""
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
    """Return the plain values of a pickle; raises BadFile, and runs nothing."""
    try:
        return _plain(_Plain(io.BytesIO(_inflated(content))).load(), 0)
    except _Refused as refused:
        raise BadFile(
            f"{where} holds {refused}, and a pickle is believed in nothing but plain values and "
            "arrays of numbers. Nothing of it was run.",
            hint="Save the arrays as .npz instead.",
        ) from None
    except Exception as error:  # damaged pickles fail in as many ways as there are bytes
        said = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise BadFile(f"{where} is a damaged pickle: {said or type(error).__name__}.") from None


def _inflated(content: bytes) -> bytes:
    """Return what joblib compressed; other content is as it is."""
    if content[:1] != b"x":
        return content
    inflater = zlib.decompressobj()
    out = inflater.decompress(content, _MOST_BYTES)
    if inflater.unconsumed_tail:
        raise _Refused("more than can be read")
    return out


def _plain(value: Any, depth: int) -> Any:
    """Return values without stand-ins."""
    if depth > 12:
        raise _Refused("values within values without end")
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
