"""Draw episodes without a MuJoCo model: classic control tasks as lines, others as charts.

A chart shows the recorded observations over time, by name, with the future greyed out. A stick
figure in characters shows a robot in a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageDraw

from telic.storage.trajectories import Trajectory

_WIDTH, _HEIGHT = 480, 360
_PAPER, _INK, _GREY = (28, 34, 42), (235, 238, 240), (92, 102, 112)
_BLUE, _ORANGE, _GREEN = (64, 140, 214), (242, 130, 60), (88, 176, 116)
_MOST_ROWS = 8
_NAME_WIDTH = 132

_Stroke = tuple[Sequence[tuple[float, float]], float, tuple[int, int, int]]
"""points of a thick line, or one for a disc, in metres with y upwards; its width; its colour"""


def _cart(obs: np.ndarray) -> list[_Stroke]:
    x, angle = float(obs[0]), float(obs[2])
    return [
        ([(-2.4, -0.12), (2.4, -0.12)], 0.02, _GREY),
        ([(x - 0.2, 0.0), (x + 0.2, 0.0)], 0.2, _BLUE),
        ([(x, 0.1), (x + np.sin(angle), 0.1 + np.cos(angle))], 0.07, _ORANGE),
        ([(x, 0.1)], 0.1, _INK),
    ]


def _pendulum(obs: np.ndarray) -> list[_Stroke]:
    return [([(0, 0), (-float(obs[1]), float(obs[0]))], 0.18, _ORANGE), ([(0, 0)], 0.12, _INK)]


def _acrobot(obs: np.ndarray) -> list[_Stroke]:
    first = np.arctan2(obs[1], obs[0])
    second = first + np.arctan2(obs[3], obs[2])
    middle = (float(np.sin(first)), -float(np.cos(first)))
    end = (middle[0] + float(np.sin(second)), middle[1] - float(np.cos(second)))
    return [
        ([(-2.2, 1.0), (2.2, 1.0)], 0.02, _GREEN),
        ([(0, 0), middle], 0.14, _BLUE),
        ([middle, end], 0.14, _ORANGE),
        ([(0, 0)], 0.12, _INK),
    ]


def _valley(obs: np.ndarray) -> list[_Stroke]:
    hill = [(float(x), 0.45 * float(np.sin(3 * x))) for x in np.linspace(-1.2, 0.6, 40)]
    x, foot = float(obs[0]), 0.45 * float(np.sin(3 * 0.45))
    return [
        (hill, 0.015, _GREY),
        ([(0.45, foot), (0.45, foot + 0.2)], 0.012, _INK),
        ([(0.48, foot + 0.18), (0.51, foot + 0.18)], 0.04, _GREEN),
        ([(x, 0.45 * float(np.sin(3 * x)) + 0.06)], 0.08, _ORANGE),
    ]


DRAWINGS: dict[str, tuple[Callable[[np.ndarray], list[_Stroke]], float, tuple[float, float]]] = {
    "CartPole": (_cart, 5.2, (0.0, 0.6)),
    "Pendulum": (_pendulum, 3.4, (0.0, 0.0)),
    "Acrobot": (_acrobot, 5.8, (0.0, 0.0)),
    "MountainCar": (_valley, 2.0, (-0.3, 0.15)),
    "MountainCarContinuous": (_valley, 2.0, (-0.3, 0.15)),
}
"""by task: its strokes for an observation, metres that fit into the width, and the centre"""


class Sketcher:
    """Draws the rows of one episode."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._seen = np.asarray(trajectory["next_obs"], dtype=float)
        self._drawing = DRAWINGS.get(trajectory.facts.env_id.rpartition("-v")[0])
        if self._drawing is None or not np.isfinite(self._seen).all():
            self._drawing = None
            self._chart = _chart(self._seen, trajectory.facts.obs_names)

    def paint(self, row: int) -> np.ndarray:
        """Return a new (H, W, 3) uint8 picture."""
        if self._drawing is None:
            picture = self._chart.copy()
            now = _NAME_WIDTH + row * (_WIDTH - _NAME_WIDTH - 9) // max(len(self._seen) - 1, 1)
            picture[:, now + 1 :] = picture[:, now + 1 :] * 0.35 + 0.65 * np.array(_PAPER)
            picture[:, now] = _INK
            return picture
        strokes, metres, (x, y) = self._drawing
        image = Image.new("RGB", (2 * _WIDTH, 2 * _HEIGHT), _PAPER)
        draw, scale = ImageDraw.Draw(image), 2 * _WIDTH / metres
        for points, width, colour in strokes(self._seen[row]):
            pixels = [(_WIDTH + (a - x) * scale, _HEIGHT - (b - y) * scale) for a, b in points]
            draw.line(pixels, colour, round(width * scale), joint="curve")
            for end in (pixels[0], pixels[-1]):
                draw.circle(end, width * scale / 2, colour)
        return np.array(image.reduce(2))


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
