"""Write PNG pictures with the standard library."""

from __future__ import annotations

import struct
import zlib
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


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
