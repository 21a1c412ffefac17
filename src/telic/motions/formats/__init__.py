"""Readers for motion files of other tools. Formats are detected by content, not by file name.

BVH                 CMU, LAFAN1, SOMA, Mixamo and any other skeleton with two legs
NPZ, pickle         named arrays (see `LAYOUTS`)
CSV                 Unitree's LAFAN1 (no header), BONES-SEED, or named columns
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from telic.core.text import is_dict
from telic.errors import BadFile, TelicError
from telic.motions.formats import _people as people
from telic.motions.formats import _robots as robots
from telic.motions.formats._pickles import read_pickle
from telic.motions.formats._track import Arrays, MotionTrack, ReadOptions, most_bytes
from telic.storage.reading import bounded_entries, read_bytes

MAX_MOTION_FILE = 2_000_000_000
_MAX_ARRAYS = 10_000


class ArrayLayout(NamedTuple):
    """Format of motion files, identified by the names of its arrays."""

    title: str
    keys: str
    read: Callable[[Arrays, ReadOptions], MotionTrack]


LAYOUTS: tuple[ArrayLayout, ...] = (
    ArrayLayout("telic", "root_pos root_quat joint_pos", robots.read_joints),
    ArrayLayout("GMR, TWIST2", "root_pos root_rot dof_pos", robots.read_joints),
    ArrayLayout("ASAP, PBHC, SONIC", "root_trans_offset dof", robots.read_joints),
    ArrayLayout("BeyondMimic, mjlab", "joint_pos body_pos_w body_quat_w", robots.read_bodies),
    ArrayLayout("mjlab with a root", "joint_pos joint_names", robots.read_bodies),
    ArrayLayout(
        "AMP of Isaac Lab", "dof_positions body_positions body_rotations", robots.read_bodies
    ),
    ArrayLayout("SMPL", "pose_aa transl", people.read_smpl),
    ArrayLayout("SMPL", "pose_aa trans", people.read_smpl),
    ArrayLayout("AMASS (SMPL-H, SMPL-X)", "poses trans", people.read_smpl),
    ArrayLayout("AMASS, parts", "root_orient pose_body trans", people.read_smpl),
    ArrayLayout("SMPL, parts", "global_orient body_pose transl", people.read_smpl),
)


def read_motions(path: Path, options: ReadOptions = ReadOptions()) -> Iterator[MotionTrack]:  # noqa: B008
    """Yield the motions of a file, or raise BadFile with the location of the first error."""
    content = read_bytes(path, MAX_MOTION_FILE)
    where, name = path.name, path.stem[:150] or "clip"
    start = content[:512].lstrip(b"\xef\xbb\xbf \t\r\n")
    try:
        if start[:4] == b"PK\x03\x04":
            yield from _array_tracks(_unpacked(content), where, name, options)
        elif content[:1] in (b"\x80", b"x") or start[:2] in (b"(d", b"cn", b"(l"):
            yield from _array_tracks(read_pickle(content, where), where, name, options)
        elif start[:9].upper() == b"HIERARCHY":
            yield people.read_bvh(content, where, name, options)
        elif b"," in start.split(b"\n")[0] and b"\x00" not in start:
            yield robots.read_csv(content, where, name)
        else:
            raise BadFile(
                f"{where} is empty or has an unknown format.",
                hint="Supported: BVH, NPZ, pickles of arrays, and tables (CSV).",
            )
    except TelicError:
        raise
    except Exception as error:  # damaged files can raise any exception
        reason = (str(error).splitlines() or [""])[0][:120] or type(error).__name__
        raise BadFile(f"{where} is corrupted: {reason}.") from None


def _unpacked(content: bytes) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        bounded_entries(archive, _MAX_ARRAYS, most_bytes(content))
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        found: dict[str, np.ndarray] = {}
        for key in arrays.files:
            try:
                found[key] = arrays[key]
            except ValueError:  # skip object arrays, which would require unpickling
                continue
        return found


def _array_tracks(
    values: Any, where: str, name: str, options: ReadOptions, depth: int = 0
) -> Iterator[MotionTrack]:
    """Yield the motions in named arrays, or in groups of named arrays by clip name."""
    if not is_dict(values) or not values:
        raise BadFile(f"{where} contains no named arrays.")
    keys = {str(key) for key, value in values.items() if value is not None}
    for layout in LAYOUTS:
        if keys.issuperset(layout.keys.split()):
            yield layout.read(Arrays(values, where, name), options)
            return
    groups = {str(key)[:150]: value for key, value in values.items() if is_dict(value)}
    if len(groups) < len(values) or depth >= 4:
        known = ", ".join(str(key)[:30] for key in list(values)[:8])
        raise BadFile(
            f"{where}: the arrays {known} match no known format.",
            hint="See docs/reference/motions.md for the arrays of each format.",
        )
    for key, value in groups.items():
        yield from _array_tracks(value, f"{where}, clip {key},", key, options, depth + 1)
