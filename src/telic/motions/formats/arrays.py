"""Motions as named arrays, from NPZ or pickles, recognized by the names they have.

root_pos root_quat joint_pos              our own
joint_pos body_pos_w body_quat_w          mjlab and BeyondMimic; joints may begin with the root
dof_positions body_positions …            AMP of Isaac Lab
root_trans_offset root_rot dof            pickles of retargeted clips, x y z w
pose_aa transl, or poses trans            SMPL: rotations of 24 joints

A pickle is a program. This reader knows the few instructions that build dictionaries, lists, words
and arrays; anything else is refused before anything of it is called. Arrays that joblib put behind
their wrappers are read where they lie.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

import numpy as np

from telic.core.text import is_dict, is_row
from telic.errors import BadFile
from telic.motions.formats.track import (
    MOST_VALUES,
    SMPL_JOINTS,
    RobotTrack,
    SkeletonTrack,
    Track,
    frame_rate,
    from_axis_angle,
    moved,
    numbers,
    scalar_first,
    smpl_points_track,
    smpl_track,
)

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


_MOST_ARRAYS = 10_000
_RATES = ("fps", "mocap_framerate", "mocap_frame_rate", "frame_rate")
_DEEPEST = 4


def read_npz(content: bytes, where: str, name: str) -> Iterator[Track]:
    """Yield the motions of an archive of arrays; raises BadFile that says what is wrong."""
    yield from tracks(_unpacked(content, where), where, name)


def _unpacked(content: bytes, where: str) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
        size = sum(entry.file_size for entry in entries)
        if len(entries) > _MOST_ARRAYS or size > 8 * MOST_VALUES:
            raise BadFile(f"{where}: {len(entries)} arrays of {size:,} bytes are too much.")
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except BadFile:
        raise
    except Exception as error:  # damaged archives fail in as many ways as there are bytes
        said = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise BadFile(f"{where} holds no arrays: {said}.") from None


def tracks(values: Any, where: str, name: str, depth: int = 0) -> Iterator[Track]:
    """Yield the motions in arrays by name, or in such groups by the name of the clip."""
    if not is_dict(values) or not values:
        raise BadFile(f"{where} holds no arrays by name.")
    if (track := _track(values, where, name)) is not None:
        yield track
        return
    groups = {str(key)[:150]: value for key, value in values.items() if is_dict(value)}
    if len(groups) < len(values) or depth >= _DEEPEST:
        known = ", ".join(str(key)[:30] for key in list(values)[:8])
        raise BadFile(
            f"{where}: {known} are the arrays of no motion that is known.",
            hint="See docs/reference/motions.md for what each kind has.",
        )
    for key, value in groups.items():
        yield from tracks(value, f"{where}, clip {key},", key, depth + 1)


def _track(values: Mapping[str, Any], where: str, name: str) -> Track | None:
    names = set(values)
    if {"root_pos", "root_quat", "joint_pos"} <= names:
        return _own(values, where, name)
    if {"root_trans_offset", "dof"} <= names:
        return _retargeted(values, where, name)
    if {"joint_pos", "body_pos_w", "body_quat_w"} <= names or (
        "joint_pos" in names and "joint_names" in names
    ):
        return _mjlab(values, where, name)
    if {"dof_positions", "body_positions", "body_rotations"} <= names:
        return _amp(values, where, name)
    if "pose_aa" in names or {"poses", "trans"} <= names:
        return _smpl(values, where, name)
    return None


def _rate(values: Mapping[str, Any], where: str) -> float | None:
    for name in _RATES:
        if name in values:
            return frame_rate(values[name], f"{where}, {name},")
    return None


def _words(values: Mapping[str, Any], key: str, where: str) -> tuple[str, ...] | None:
    if key not in values:
        return None
    array: Any = np.asarray(values[key])
    if array.dtype.kind not in "US" or array.ndim != 1:
        raise BadFile(f"{where}, {key}: a row of names was expected.")
    return tuple(
        word.decode(errors="replace") if isinstance(word, bytes) else str(word) for word in array
    )


def _column(values: Mapping[str, Any], key: str, where: str, *shape: int | None) -> np.ndarray:
    if key not in values:
        raise BadFile(f"{where} has no {key}.")
    return numbers(values[key], f"{where}, {key}", shape)


def _own(values: Mapping[str, Any], where: str, name: str) -> RobotTrack:
    root = _column(values, "root_pos", where, None, 3)
    return RobotTrack(
        name,
        _rate(values, where),
        root,
        _column(values, "root_quat", where, len(root), 4),
        _column(values, "joint_pos", where, len(root), None),
        _named(values, "joint_names", where, np.shape(values["joint_pos"])[-1]),
    )


def _named(values: Mapping[str, Any], key: str, where: str, count: int) -> tuple[str, ...] | None:
    names = _words(values, key, where)
    if names is not None and len(names) != count:
        raise BadFile(f"{where}: {len(names)} {key} for {count} joints.")
    return names


def _retargeted(values: Mapping[str, Any], where: str, name: str) -> RobotTrack:
    root = _column(values, "root_trans_offset", where, None, 3)
    if "root_rot" in values:
        quat = scalar_first(_column(values, "root_rot", where, len(root), 4))
    else:
        pose = _column(values, "pose_aa", where, len(root), None, 3)
        if pose.shape[1] < 1:
            raise BadFile(f"{where}, pose_aa has no root.")
        quat = from_axis_angle(pose[:, 0])
    joints = _column(values, "dof", where, len(root), None)
    return RobotTrack(name, _rate(values, where), root, quat, joints, None)


def _mjlab(values: Mapping[str, Any], where: str, name: str) -> RobotTrack:
    joints = _column(values, "joint_pos", where, None, None)
    names = _words(values, "joint_names", where)
    rate = _rate(values, where)
    if names is not None and joints.shape[1] == len(names) + 7:
        root, quat, joints = joints[:, :3], joints[:, 3:7], joints[:, 7:]
    else:
        places = _column(values, "body_pos_w", where, len(joints), None, 3)
        turns = _column(values, "body_quat_w", where, len(joints), None, 4)
        if places.shape[1] < 1 or turns.shape[1] < 1:
            raise BadFile(f"{where} has no bodies, so nothing says where its root is.")
        root, quat = places[:, 0], turns[:, 0]
    if names is not None and len(names) != joints.shape[1]:
        raise BadFile(f"{where}: {len(names)} joint_names for {joints.shape[1]} joints.")
    return RobotTrack(name, rate, root, quat, joints, names, usual_fps=50.0)


def _amp(values: Mapping[str, Any], where: str, name: str) -> RobotTrack:
    joints = _column(values, "dof_positions", where, None, None)
    places = _column(values, "body_positions", where, len(joints), None, 3)
    turns = _column(values, "body_rotations", where, len(joints), places.shape[1], 4)
    if places.shape[1] < 1:
        raise BadFile(f"{where} has no bodies, so nothing says where its root is.")
    names = _named(values, "dof_names", where, joints.shape[1])
    return RobotTrack(
        name, _rate(values, where), places[:, 0], turns[:, 0], joints, names, usual_fps=60.0
    )


def _smpl(values: Mapping[str, Any], where: str, name: str) -> SkeletonTrack:
    key = "pose_aa" if "pose_aa" in values else "poses"
    given: Any = np.asarray(values[key])
    flat = given.reshape(len(given), -1) if given.ndim > 1 and len(given) else given
    pose = numbers(flat, f"{where}, {key}", (None, None))
    if pose.shape[1] < 66:
        raise BadFile(f"{where}, {key}: {pose.shape[1]} numbers a frame; 22 joints have 66.")
    own = np.zeros((len(pose), 3 * SMPL_JOINTS))
    own[:, :66] = pose[:, :66]
    # With fingers (156 or 165 numbers) what follows is no longer the hands of the 24 joints.
    if pose.shape[1] == 3 * SMPL_JOINTS:
        own = pose
    place_key = "transl" if "transl" in values else "trans"
    place = _column(values, place_key, where, len(pose), 3)
    fps = _rate(values, where) or 30.0
    own = own.reshape(-1, SMPL_JOINTS, 3)
    root = from_axis_angle(own[:, 0])
    up = moved(root, np.tile([0.0, 1.0, 0.0], (len(pose), 1))).mean(axis=0)
    z_is_up = bool(up[2] > up[1])
    if "smpl_joints" in values and np.any(np.asarray(values["smpl_joints"])):
        points = _column(values, "smpl_joints", where, len(pose), SMPL_JOINTS, 3)
        away = points - points[:, :1] + place[:, None]
        return smpl_points_track(name, fps, away, root, z_is_up=z_is_up)
    return smpl_track(name, fps, own, place, z_is_up=z_is_up)
