"""A robot as lines of text, seen from its side: enough to steer it by in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

WIDTH, HEIGHT = 64, 14
_ASPECT = 2.0
"""a character is so many times as high as it is wide"""
_MARK_M = 0.5
"""between two marks on the ground"""


def stick_figure(
    places: np.ndarray,
    parents: Sequence[int],
    facing: float,
    gone_m: float,
    width: int = WIDTH,
    height: int = HEIGHT,
) -> list[str]:
    """Return lines that show the robot from its right side, and marks on the ground pass by.

    Args:
        places: where its bodies are in the world, (B, 3); the first is the world.
        parents: the body each one hangs on.
        facing: where it faces, rad; it looks to the right.
        gone_m: how far it went ahead so far, which moves the marks.
        width: characters of a line.
        height: lines, the ground included.
    """
    own = np.asarray(places, dtype=float)[1:]
    along = own[:, 0] * np.cos(facing) + own[:, 1] * np.sin(facing)
    along = along - along.mean()
    # As large as its height allows, with some air above it.
    metres = max(1.4 * float(own[:, 2].max()), 2.2 * float(np.abs(along).max()) / 4.0, 0.1)
    per_line = metres / (height - 1)
    canvas = [[" "] * width for _ in range(height)]
    for column in range(width):
        at = (column - width // 2) * per_line / _ASPECT + gone_m
        is_mark = int(np.floor(at / _MARK_M)) != int(np.floor((at - per_line / _ASPECT) / _MARK_M))
        canvas[-1][column] = "|" if is_mark else "_"
    points = np.stack((width // 2 + along * _ASPECT / per_line, own[:, 2] / per_line), -1)
    hung = list(enumerate(parents[1 : len(own) + 1]))
    for body, parent in sorted(hung, key=lambda each: each[1] <= 0):  # the trunk is drawn last
        start = points[parent - 1] if parent > 0 else points[body]
        for x, z in _between(start, points[body]):
            column, line = round(x), height - 1 - round(z)
            if 0 <= column < width and 0 <= line < height:
                canvas[line][column] = "o" if parent <= 0 else "#"
    return ["".join(line) for line in canvas]


def _between(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return points from one place to another, less than a character apart."""
    count = int(np.ceil(np.abs(end - start).max())) + 1
    return start + np.linspace(0.0, 1.0, count + 1)[:, None] * (end - start)
