"""Contents of a written video, read with ffmpeg."""

import re
import subprocess
from typing import NamedTuple

import numpy as np

from telic.errors import TelicError
from telic.rendering.media import ffmpeg_path


class VideoFacts(NamedTuple):
    """Contents of a video file."""

    codec: str
    pixel_format: str
    width: int
    height: int
    fps: float
    duration_s: float


def read_video_facts(path):
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


def read_frames(path):
    """Return all frames of a video, (frames, H, W, 3) uint8."""
    facts = read_video_facts(path)
    answer = subprocess.run(
        [ffmpeg_path(), "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"],
        capture_output=True,
        check=True,
    )
    return np.frombuffer(answer.stdout, np.uint8).reshape(-1, facts.height, facts.width, 3)


def pixels(path):
    """Return the values of a picture, flat."""
    command = [ffmpeg_path(), "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "rgb24"]
    answer = subprocess.run([*command, "-"], capture_output=True, check=True)
    return np.frombuffer(answer.stdout, np.uint8)
