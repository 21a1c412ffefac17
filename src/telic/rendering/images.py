"""Put pictures together, write words into them, and write them as PNG with the standard library."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np

from telic.storage.files import write_bytes

_FIRST = 32
_INK = 235.0
_STRIP_SHADE = 0.42  # what is left of the picture under the strip
_MARGIN = 8


def write_png(path: Path, picture: np.ndarray) -> None:
    """Write an (H, W, 3) uint8 picture in one stroke."""
    height, width, channels = picture.shape
    if channels != 3 or picture.dtype != np.uint8:
        raise ValueError(f"a picture is (H, W, 3) uint8, not {picture.shape} {picture.dtype}")
    # Every line begins with its filter, here 0: none.
    lines = np.zeros((height, 1 + 3 * width), dtype=np.uint8)
    lines[:, 1:] = picture.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, RGB
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    write_bytes(path, b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in chunks))


def tiled(pictures: Sequence[np.ndarray], columns: int, gap: int) -> np.ndarray:
    """Return pictures of one size as one, line by line, with white between them."""
    height, width = pictures[0].shape[:2]
    lines = -(-len(pictures) // columns)
    shape = (lines * (height + gap) - gap, min(columns, len(pictures)) * (width + gap) - gap, 3)
    sheet = np.full(shape, 255, dtype=np.uint8)
    for i, picture in enumerate(pictures):
        top, left = i // columns * (height + gap), i % columns * (width + gap)
        sheet[top : top + height, left : left + width] = picture
    return sheet


def draw_caption(picture: np.ndarray, words: list[str]) -> None:
    """Darken a strip at the bottom of an (H, W, 3) uint8 picture and spread words along it."""
    height, width = picture.shape[:2]
    size = font_size(height)
    band = picture[height - strip_height(height) :]
    band[:] = (band * np.float32(_STRIP_SHADE)).astype(np.uint8)
    rendered = [_word(text, size) for text in words]
    room = width - 2 * _MARGIN - sum(word.shape[1] for word in rendered)
    gap = room // max(len(words) - 1, 1)
    left = _MARGIN
    for word in rendered:
        stamp(band, word, left, 2)
        left += word.shape[1] + max(gap, _MARGIN)


def strip_height(height: int) -> int:
    """Return the height of the caption strip of pictures of this height."""
    return _font(font_size(height)).glyphs.shape[0] + 4


def draw_text(picture: np.ndarray, text: str, left: int, top: int, size: int = 15) -> None:
    """Draw text into an (H, W, 3) uint8 picture; what does not fit is cut off."""
    stamp(picture, _word(text, size), left, top)


def text_width(text: str, size: int = 15) -> int:
    """Return how many pixels wide `draw_text` draws a text."""
    return _word(text, size).shape[1] if text else 0


def font_size(height: int) -> int:
    """Return the size of letters that suits pictures of this height."""
    return 15 if height < 600 else 30


def stamp(picture: np.ndarray, coverage: np.ndarray, left: int, top: int) -> None:
    """Blend ink into a picture where `coverage` (h, w) uint8 says so."""
    place = picture[top : top + coverage.shape[0], left : left + coverage.shape[1]]
    share = coverage[: place.shape[0], : place.shape[1], None] * np.float32(1 / 255)
    place[:] = (place + (np.float32(_INK) - place) * share).astype(np.uint8)


class _Font(NamedTuple):
    glyphs: np.ndarray  # (height, width of all) uint8
    starts: np.ndarray  # (characters + 1,)


@cache
def _font(size: int) -> _Font:
    with files("telic.rendering").joinpath("font.npz").open("rb") as file, np.load(file) as arrays:
        return _Font(arrays[f"glyphs_{size}"], arrays[f"starts_{size}"])


@cache
def _word(text: str, size: int) -> np.ndarray:
    font = _font(size)
    codes = [
        ord(c) - _FIRST if c.isascii() and c.isprintable() else ord("?") - _FIRST for c in text
    ]
    cells = [font.glyphs[:, font.starts[code] : font.starts[code + 1]] for code in codes]
    return np.concatenate(cells, axis=1)


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
