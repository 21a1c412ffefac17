"""Write images (PNG) and videos (mp4) with captions, and select the displayed frames."""

from __future__ import annotations

import contextlib
import io
import itertools
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from telic.errors import TelicError
from telic.jobs.process import PIPE, Process
from telic.rendering.job import FootTrace
from telic.storage.files import disk_full, replacing, write_bytes

_TEXT_RGB = (235, 235, 235)
_SHADE = np.float32(0.42)  # brightness of the image below text
_MARGIN = 8
_DOTS = 4  # pixels between the dots of a ruler's line


def write_png(path: Path, picture: np.ndarray) -> None:
    """Write an (H, W, 3) uint8 image atomically."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG")
    write_bytes(path, buffer.getvalue())


def tiled(pictures: Sequence[np.ndarray], columns: int, gap: int) -> np.ndarray:
    """Tile equally sized images row by row, with white gaps."""
    height, width = pictures[0].shape[:2]
    lines = -(-len(pictures) // columns)
    shape = (lines * (height + gap) - gap, min(columns, len(pictures)) * (width + gap) - gap, 3)
    sheet = np.full(shape, 255, dtype=np.uint8)
    for i, picture in enumerate(pictures):
        top, left = i // columns * (height + gap), i % columns * (width + gap)
        sheet[top : top + height, left : left + width] = picture
    return sheet


# ---- text


@cache
def _font(height: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return the font for pictures of a given height."""
    return ImageFont.load_default(12 if height < 600 else 24)


def strip_height(height: int) -> int:
    """Return the height of the caption strip in pictures of a given height."""
    return 20 if height < 600 else 36


def draw_caption(picture: np.ndarray, words: Sequence[str]) -> None:
    """Draw a caption on a darkened strip at the bottom of an (H, W, 3) uint8 image."""
    height, width = picture.shape[:2]
    font = _font(height)
    band = picture[height - strip_height(height) :]
    image = Image.fromarray((band * _SHADE).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    sizes = [draw.textlength(text, font) for text in words]
    gap = max((width - 2 * _MARGIN - sum(sizes)) / max(len(words) - 1, 1), _MARGIN)
    left = float(_MARGIN)
    for text, size in zip(words, sizes, strict=True):
        draw.text((left, 2), text, _TEXT_RGB, font)
        left += size + gap
    band[:] = np.asarray(image)


def draw_ruler(picture: np.ndarray, marks: Sequence[tuple[float, int]]) -> None:
    """Label pixel rows of an (H, W, 3) uint8 image with heights in m and dotted lines."""
    size = strip_height(len(picture)) - 4
    for height, row in marks:
        picture[row, ::_DOTS] = picture[row, ::_DOTS] // 2
        top = min(max(row - size // 2, 0), len(picture) - size)
        label = picture[top : top + size, : 2 * size]
        image = Image.fromarray((label * _SHADE).astype(np.uint8))
        ImageDraw.Draw(image).text((2, 0), f"{height:g}", _TEXT_RGB, _font(len(picture)))
        label[:] = np.asarray(image)


# ---- contact sheets

_COLUMNS, _GAP, _HEADING, _TRACE, _NAMES = 6, 4, 22, 56, 120
_PAPER, _INK, _GRAY = (255, 255, 255), (20, 24, 28), (150, 158, 166)
_LINE, _FAINT = (26, 110, 190), (222, 226, 230)


def contact_sheet(
    rows: Sequence[tuple[str, Sequence[np.ndarray]]],
    legend: Sequence[tuple[tuple[int, ...], str]],
    traces: Sequence[FootTrace],
) -> np.ndarray:
    """Draw a contact sheet: rows of stills with headings, a color legend, and foot heights.

    Foot traces span the width of the sheet, with dark bars during ground contact.
    """
    height, width = rows[0][1][0].shape[:2]
    blocks = [(words, tiled(stills, _COLUMNS, _GAP)) for words, stills in rows]
    wide = _COLUMNS * (width + _GAP) - _GAP
    tall = sum(_HEADING + len(block) + _GAP for _, block in blocks)
    tall += _HEADING * bool(legend) + (_HEADING + _TRACE * len(traces)) * bool(traces)
    sheet = Image.new("RGB", (wide, tall), _PAPER)
    draw, font, top = ImageDraw.Draw(sheet), _font(height), 0
    left = _MARGIN
    for color, names in legend:
        draw.rectangle((left, 5, left + 12, 17), color, _GRAY)
        draw.text((left + 18, 4), names, _INK, font)
        left += 30 + round(draw.textlength(names, font))
    top += _HEADING * bool(legend)
    for words, block in blocks:
        draw.text((_MARGIN, top + 4), words, _INK, font)
        sheet.paste(Image.fromarray(block), (0, top + _HEADING))
        top += _HEADING + len(block) + _GAP
    heights = [height for trace in traces for height in trace.heights_m] or [0.0]
    least, most = min(0.0, *heights), max(heights)
    for place, trace in enumerate(traces):
        if not place:
            words = f"height of each foot, {least:.2f} to {most:.2f} m, over {trace.seconds:.2f} s"
            words += "; dark bars: ground contact; vertical lines: one second"
            draw.text((_MARGIN, top + 4), words, _INK, font)
            top += _HEADING
        for second in range(1, int(trace.seconds) + 1):
            x = _NAMES + round((wide - _MARGIN - _NAMES) * second / trace.seconds)
            draw.line((x, top, x, top + _TRACE), _FAINT)
        draw.text((_MARGIN, top + 16), trace.name, _INK, font)
        xs = np.linspace(_NAMES, wide - _MARGIN, len(trace.heights_m) + 1).round().astype(int)
        bottom, scale = top + _TRACE - 12, (_TRACE - 20) / max(most - least, 1e-6)
        ys = [bottom - round((value - least) * scale) for value in trace.heights_m]
        draw.line(list(zip(xs[:-1].tolist(), ys, strict=True)), _LINE, 2)
        draw.line((_NAMES, bottom + 2, wide - _MARGIN, bottom + 2), _GRAY)
        for at in np.flatnonzero(trace.touches).tolist():
            draw.rectangle((xs[at], bottom + 2, xs[at + 1], bottom + 8), _INK)
        top += _TRACE
    return np.array(sheet)


# ---- videos


def ffmpeg_path() -> str:
    """Return the path of ffmpeg, or raise TelicError if it is missing."""
    try:
        import imageio_ffmpeg

        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError) as error:
        raise TelicError(
            f"Videos cannot be encoded: ffmpeg was not found ({error}).",
            hint="Install it with: pip install imageio-ffmpeg",
        ) from None


def write_video(path: Path, frames: Iterable[np.ndarray], fps: float) -> int:
    """Encode (H, W, 3) uint8 frames to `path` atomically, and return their number.

    An odd width or height is padded with one black line, because browsers require 4:2:0 colors and
    therefore even sizes. Raises TelicError with ffmpeg's last line if encoding fails, and
    ResourceError if the disk is full.
    """
    frames = iter(frames)
    first = next(frames, None)
    if first is None:
        raise TelicError(f"{path} was not written: the video has no frames.")
    with replacing(path) as temporary, tempfile.TemporaryFile() as log:
        height, width = first.shape[:2]
        even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"] if width % 2 or height % 2 else []
        # A key frame every two seconds lets a browser seek; faststart lets it begin before the end.
        command = [
            *(ffmpeg_path(), "-hide_banner", "-loglevel", "error", "-nostdin"),
            *("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"),
            *("-r", f"{fps:.6g}", "-i", "-", *even, "-c:v", "libx264", "-preset", "veryfast"),
            *("-crf", "23", "-pix_fmt", "yuv420p", "-g", str(max(1, round(2 * fps)))),
            *("-movflags", "+faststart", "-f", "mp4", "-y", str(temporary)),
        ]
        # A sandboxed process cannot create a process group.
        process = Process(command, stdin=PIPE, stderr=log, own_group=False)
        count, has_closed = 0, False
        try:
            for frame in itertools.chain((first,), frames):
                if frame.shape != first.shape:
                    raise ValueError(f"frame {count} is {frame.shape}, not {first.shape}")
                process.write(np.ascontiguousarray(frame).data)
                count += 1
        except BrokenPipeError:
            has_closed = True
        except BaseException:
            process.kill()
            raise
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            status = process.wait() or 0
        if status != 0 or has_closed:
            log.seek(0)
            lines = log.read().decode(errors="replace").strip().splitlines()
            if any("No space left on device" in line for line in lines):
                raise disk_full(path)
            last = lines[-1] if lines else f"no message, exit status {status}"
            raise TelicError(f"{path} could not be encoded: ffmpeg: {last}")
    return count


# ---- frame selection


def still_rows(length: int, count: int) -> np.ndarray:
    """Return the steps of the stills of an episode, from the first step to the last.

    They are irregular, because regular steps may fall on the same phase of every stride.
    """
    evenly = np.linspace(0, length - 1, count)
    shifts = np.random.default_rng(0).uniform(-0.45, 0.45, max(count - 2, 0))
    evenly[1:-1] += shifts * (length - 1) / max(count - 1, 1)
    return np.unique(evenly.round().astype(int))


def playback_rows(length: int, dt_s: float, most_fps: float) -> tuple[np.ndarray, float]:
    """Return the rows to show in real time, and the frame rate, given rows `dt_s` apart."""
    fps = min(most_fps, 1 / dt_s)
    frames = max(1, round(length * dt_s * fps))
    rows = np.minimum((np.arange(frames) / (fps * dt_s)).round().astype(int), length - 1)
    return rows, fps
