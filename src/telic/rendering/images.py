"""Put pictures together, and write them as PNG with the standard library."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from telic.storage.files import write_bytes


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
    write_bytes(path, b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks))


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


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
