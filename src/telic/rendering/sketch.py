"""Draw episodes without a MuJoCo model as charts, and robots in a terminal.

A chart shows the recorded observations over time, by name, with the future greyed out. A stick
figure in characters shows a robot in a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from telic.storage.trajectories import Trajectory

_WIDTH, _HEIGHT = 480, 360
_PAPER, _INK = (28, 34, 42), (235, 238, 240)
_BLUE, _ORANGE, _GREEN = (64, 140, 214), (242, 130, 60), (88, 176, 116)
_MOST_ROWS = 8
_NAME_WIDTH = 132


class Sketcher:
    """Draws the rows of one episode."""

    def __init__(self, trajectory: Trajectory) -> None:
        seen = np.asarray(trajectory["next_obs"], dtype=float)
        self._last = max(len(seen) - 1, 1)
        self._chart = _chart(seen, trajectory.facts.obs_names)

    def paint(self, row: int) -> np.ndarray:
        """Return a new (H, W, 3) uint8 picture."""
        picture = self._chart.copy()
        now = _NAME_WIDTH + row * (_WIDTH - _NAME_WIDTH - 9) // self._last
        picture[:, now + 1 :] = picture[:, now + 1 :] * 0.35 + 0.65 * np.array(_PAPER)
        picture[:, now] = _INK
        return picture


def _chart(seen: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Return the first few observations that change, over the whole episode, one band each."""
    moving = np.flatnonzero(np.nan_to_num(np.ptp(seen, axis=0)) > 1e-9).tolist()
    columns = (moving or list(range(seen.shape[1])))[:_MOST_ROWS]
    image = Image.new("RGB", (_WIDTH, _HEIGHT), _PAPER)
    draw = ImageDraw.Draw(image)
    band = (_HEIGHT - 24) // max(len(columns), 1)
    for place, column in enumerate(columns):
        track = np.nan_to_num(seen[:, column])
        low, high = float(track.min()), float(track.max())
        top = 4 + place * band
        draw.text((6, top), (names[column] if column < len(names) else f"obs[{column}]")[:20], _INK)
        if band > 34:
            draw.text((6, top + 16), f"{low:.3g} .. {high:.3g}", _INK)
        xs = np.linspace(_NAME_WIDTH, _WIDTH - 9, len(track))
        ys = top + band - 6 - (track - low) / max(high - low, 1e-9) * (band - 10)
        colour = (_BLUE, _ORANGE, _GREEN)[place % 3]
        draw.line(list(zip(xs.tolist(), ys.tolist(), strict=True)), colour, 2)
    return np.array(image)


COLUMNS, LINES = 64, 14
_ASPECT = 2.0
"""height of a character in its width"""
_MARK_M = 0.5
"""distance between two marks on the ground"""


def stick_figure(
    places: np.ndarray, parents: Sequence[int], facing: float, gone_m: float
) -> list[str]:
    """Return lines that show the robot from its right side over marks on the ground.

    Args:
        places: positions of its bodies in the world, (B, 3); the first is the world.
        parents: the parent of each body.
        facing: its heading, rad; it looks to the right.
        gone_m: distance travelled so far, which moves the marks.
    """
    own = np.asarray(places, dtype=float)[1:]
    along = own[:, 0] * np.cos(facing) + own[:, 1] * np.sin(facing)
    along = along - along.mean()
    # As large as its height allows, with some space above it.
    metres = max(1.4 * float(own[:, 2].max()), 2.2 * float(np.abs(along).max()) / 4.0, 0.1)
    per_line = metres / (LINES - 1)
    canvas = np.full((LINES, COLUMNS), " ")
    ahead = (np.arange(-1, COLUMNS) - COLUMNS // 2) * per_line / _ASPECT + gone_m
    canvas[-1] = np.where(np.diff(np.floor(ahead / _MARK_M)) != 0, "|", "_")
    points = np.stack((COLUMNS // 2 + along * _ASPECT / per_line, own[:, 2] / per_line), -1)
    links = enumerate(parents[1 : len(own) + 1])
    for body, parent in sorted(links, key=lambda each: each[1] <= 0):  # the trunk is drawn last
        start, end = points[parent - 1] if parent > 0 else points[body], points[body]
        count = int(np.ceil(np.abs(end - start).max())) + 1
        for x, z in start + np.linspace(0.0, 1.0, count + 1)[:, None] * (end - start):
            column, line = round(x), LINES - 1 - round(z)
            if 0 <= column < COLUMNS and 0 <= line < LINES:
                canvas[line, column] = "o" if parent <= 0 else "#"
    return ["".join(line) for line in canvas]
