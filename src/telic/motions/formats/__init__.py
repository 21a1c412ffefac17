"""Files of motions that others write: read by what is in them, never by what they are called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from telic.errors import BadFile
from telic.motions.formats.arrays import read_npz, read_pickle, tracks
from telic.motions.formats.text import read_bvh, read_csv, read_deepmimic
from telic.motions.formats.track import Track
from telic.storage.reading import read_bytes

MotionFormat = Literal["bvh", "npz", "pickle", "deepmimic", "csv"]
_LARGEST = 2_000_000_000


def format_of(content: bytes, where: str) -> MotionFormat:
    """Return what kind of file this is; raises BadFile for all else."""
    start = content[:512].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:4] == b"PK\x03\x04":
        return "npz"
    if content[:1] in (b"\x80", b"x") or start[:2] in (b"(d", b"cn", b"(l"):
        return "pickle"
    if start[:9].upper() == b"HIERARCHY":
        return "bvh"
    if start[:1] in (b"{", b"["):
        return "deepmimic"
    if b"," in start.split(b"\n")[0] and b"\x00" not in start:
        return "csv"
    raise BadFile(
        f"{where} is no file of motions that is known.",
        hint="Known are BVH, NPZ, pickles of arrays, DeepMimic's JSON and tables (CSV).",
    )


def read_motions(path: Path) -> Iterator[Track]:
    """Yield the motions of a file; raises BadFile that says where in it something is wrong."""
    content = read_bytes(path, _LARGEST)
    where, name = path.name, path.stem[:150] or "clip"
    if not content.strip():
        raise BadFile(f"{where} is empty.")
    kind = format_of(content, where)
    if kind == "npz":
        yield from read_npz(content, where, name)
    elif kind == "pickle":
        yield from tracks(read_pickle(content, where), where, name)
    elif kind == "deepmimic":
        yield read_deepmimic(content, where, name)
    elif kind == "bvh":
        yield read_bvh(_text(content, where), where, name)
    else:
        yield read_csv(_text(content, where), where, name)


def _text(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(f"{where} is no UTF-8 text: byte {error.start} fits nowhere.") from None
