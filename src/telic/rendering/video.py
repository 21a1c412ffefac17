"""Encode frames as H.264 video that browsers play."""

from __future__ import annotations

import contextlib
import itertools
import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from telic.errors import TelicError
from telic.storage.disk import disk_full
from telic.storage.files import replacing

_NO_SPACE = "No space left on device"


class VideoFacts(NamedTuple):
    """What a video file holds."""

    codec: str
    pixel_format: str
    width: int
    height: int
    fps: float
    duration_s: float


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
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=words
        )
        assert process.stdin is not None
        try:
            count = _feed(process.stdin, itertools.chain((first,), frames), first.shape)
        except BaseException:
            process.kill()
            raise
        finally:
            status = process.wait()
        if status != 0 or count is None:
            raise _explained(path, words, status)
    return count


def read_video_facts(path: Path) -> VideoFacts:
    """Return what a video holds, as ffmpeg sees it."""
    answer = subprocess.run(
        [ffmpeg_path(), "-hide_banner", "-i", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    stream = re.search(r"Video: (\w+).*?, (\w+)[(,].*?(\d+)x(\d+).*?([\d.]+) fps", answer.stderr)
    length = re.search(r"Duration: (\d+):(\d+):([\d.]+)", answer.stderr)
    if not stream or not length:
        raise TelicError(f"{path} is not a video: {answer.stderr.strip().splitlines()[-1]}")
    hours, minutes, seconds = map(float, length.groups())
    return VideoFacts(
        codec=stream[1],
        pixel_format=stream[2],
        width=int(stream[3]),
        height=int(stream[4]),
        fps=float(stream[5]),
        duration_s=3600 * hours + 60 * minutes + seconds,
    )


def read_frames(path: Path) -> np.ndarray:
    """Return all frames of a video, (frames, H, W, 3) uint8."""
    facts = read_video_facts(path)
    answer = subprocess.run(
        [ffmpeg_path(), "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"],
        capture_output=True,
        check=True,
    )
    return np.frombuffer(answer.stdout, np.uint8).reshape(-1, facts.height, facts.width, 3)


def _command(width: int, height: int, fps: float, output: Path) -> list[str]:
    rate = f"{fps:.6g}"
    even = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"] if width % 2 or height % 2 else []
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", rate, "-i", "-"]
    # A key frame every two seconds lets a browser jump; faststart lets it begin before the end.
    code = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "23", "-pix_fmt", "yuv420p"]
    seek = ["-g", str(max(1, round(2 * fps))), "-movflags", "+faststart", "-f", "mp4", "-y"]
    quiet = ["-hide_banner", "-loglevel", "error", "-nostdin"]
    return [ffmpeg_path(), *quiet, *raw, *even, *code, *seek, str(output)]


def _feed(pipe: IO[bytes], frames: Iterable[np.ndarray], shape: tuple[int, ...]) -> int | None:
    """Write frames to ffmpeg; return how many, or None when it closed the pipe early."""
    count = 0
    try:
        for frame in frames:
            if frame.shape != shape or frame.dtype != np.uint8:
                raise ValueError(
                    f"frame {count} is {frame.shape} {frame.dtype}, the first was {shape} uint8"
                )
            pipe.write(np.ascontiguousarray(frame).data)
            count += 1
        pipe.flush()
    except BrokenPipeError:
        return None
    finally:
        # What is left unwritten after an error does not matter, that the pipe is closed does.
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
    return count


def _explained(path: Path, words: IO[bytes], status: int) -> TelicError:
    words.seek(0)
    lines = words.read().decode(errors="replace").strip().splitlines()
    if any(_NO_SPACE in line for line in lines):
        return disk_full(path)
    last = lines[-1] if lines else f"nothing, and ended with status {status}"
    return TelicError(f"{path} could not be encoded: ffmpeg said: {last}")
