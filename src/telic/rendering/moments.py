"""Which moments of an episode are shown: a video in real time, or stills that are spread evenly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


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
