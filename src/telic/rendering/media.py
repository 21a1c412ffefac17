"""Pictures and films as files: put together, captioned, and written as PNG or mp4."""

from __future__ import annotations

import itertools
import struct
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from telic.errors import TelicError
from telic.jobs.process import PIPE, Process
from telic.storage.files import disk_full, replacing, write_bytes

_FIRST = 32
_INK = 235.0
_STRIP_SHADE = 0.42  # what is left of the picture under the strip
_MARGIN = 8
_DOTS = 4  # pixels from one dot of a ruler's line to the next
_NO_SPACE = "No space left on device"


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


def draw_ruler(picture: np.ndarray, marks: Sequence[tuple[float, int]]) -> None:
    """Write heights in metres at the left of a picture, with a dotted line across at each.

    Args:
        picture: (H, W, 3) uint8.
        marks: each height, and the line of the picture where it is.
    """
    for height, row in marks:
        picture[row, ::_DOTS] = picture[row, ::_DOTS] // 2
        word = _word(f"{height:g}", font_size(len(picture)))
        top = min(max(row - word.shape[0] // 2, 0), len(picture) - word.shape[0])
        label = picture[top : top + word.shape[0], : word.shape[1] + 4]
        label[:] = (label * np.float32(_STRIP_SHADE)).astype(np.uint8)
        stamp(label, word, 2, 0)


def strip_height(height: int) -> int:
    """Return the height of the caption strip of pictures of this height."""
    return _font(font_size(height)).glyphs.shape[0] + 4


def draw_text(picture: np.ndarray, text: str, left: int, top: int, size: int = 15) -> None:
    """Draw text into an (H, W, 3) uint8 picture; what does not fit is cut off."""
    stamp(picture, _word(text, size), left, top)


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


def ffmpeg_path() -> str:
    """Return the ffmpeg program; raises TelicError when there is none."""
    try:
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise TelicError(
            f"Videos cannot be encoded: ffmpeg was not found ({error}).",
            hint="Install it with: pip install imageio-ffmpeg",
        ) from None


def write_video(path: Path, frames: Iterable[np.ndarray], fps: float) -> int:
    """Encode (H, W, 3) uint8 frames into `path` in one stroke and return how many there were.

    An odd width or height is padded by one black line: the 4:2:0 colours of browsers need even
    ones. Raises TelicError with ffmpeg's last words when encoding fails, ResourceError when the
    disk is full.
    """
    frames = iter(frames)
    first = next(frames, None)
    if first is None:
        raise TelicError(f"{path} was not written: there is not a single frame.")
    with replacing(path) as temporary, tempfile.TemporaryFile() as words:
        command = _command(first.shape[1], first.shape[0], fps, temporary)
        # Where this process is confined, it can make no group.
        process = Process(command, stdin=PIPE, stderr=words, own_group=False)
        try:
            count = _feed(process, itertools.chain((first,), frames), first.shape)
        except BaseException:
            process.kill()
            raise
        finally:
            status = process.wait() or 0
        if status != 0 or count is None:
            raise _explained(path, words, status)
    return count


def _command(width: int, height: int, fps: float, output: Path) -> list[str]:
    rate = f"{fps:.6g}"
    even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"] if width % 2 or height % 2 else []
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", rate, "-i", "-"]
    # A key frame every two seconds lets a browser jump; faststart lets it begin before the end.
    code = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-pix_fmt", "yuv420p"]
    seek = ["-g", str(max(1, round(2 * fps))), "-movflags", "+faststart", "-f", "mp4", "-y"]
    quiet = ["-hide_banner", "-loglevel", "error", "-nostdin"]
    return [ffmpeg_path(), *quiet, *raw, *even, *code, *seek, str(output)]


def _feed(process: Process, frames: Iterable[np.ndarray], shape: tuple[int, ...]) -> int | None:
    """Write frames to ffmpeg; return how many, or None when it closed the pipe early."""
    count = 0
    try:
        for frame in frames:
            if frame.shape != shape or frame.dtype != np.uint8:
                raise ValueError(
                    f"frame {count} is {frame.shape} {frame.dtype}, the first was {shape} uint8"
                )
            process.write(np.ascontiguousarray(frame).data)
            count += 1
    except BrokenPipeError:
        return None
    finally:
        process.stdin.close()
    return count


def _explained(path: Path, words: IO[bytes], status: int) -> TelicError:
    words.seek(0)
    lines = words.read().decode(errors="replace").strip().splitlines()
    if any(_NO_SPACE in line for line in lines):
        return disk_full(path)
    last = lines[-1] if lines else f"nothing, and ended with status {status}"
    return TelicError(f"{path} could not be encoded: ffmpeg said: {last}")


# ---- which moments are shown


class Pace(NamedTuple):
    """Which rows are shown, and how fast, so that playback is in real time."""

    rows: np.ndarray  # (frames,)
    fps: float


def pace(length: int, dt_s: float, most_fps: float) -> Pace:
    """Return the rows to show of `length` rows that are `dt_s` apart."""
    fps = min(most_fps, 1 / dt_s)
    frames = max(1, round(length * dt_s * fps))
    return Pace(np.minimum((np.arange(frames) / (fps * dt_s)).round().astype(int), length - 1), fps)


def spread(
    length: int,
    frames: int,
    dt_s: float | None = None,
    between_s: tuple[float, float] | None = None,
    shift: float = 0.0,
) -> np.ndarray:
    """Return the rows of `frames` still pictures, evenly from the first to the last.

    Of `length` rows that are `dt_s` apart, those `between_s`; all of them where there is no clock.
    With a `shift` each one is that share of their distance later, the last one stays.
    """
    first, last = 0, length - 1
    if between_s is not None and dt_s is not None:
        # Row n is the state after its step, at (n + 1) dt_s.
        first, last = (min(max(round(at / dt_s) - 1, 0), last) for at in between_s)
    later = shift * (last - first) / max(frames - 1, 1)
    rows = np.minimum(np.linspace(first, last, frames) + later, last)
    return np.unique(rows.round().astype(int))
