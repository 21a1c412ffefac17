"""Pictures of environments that cannot draw themselves: simple drawings, or charts.

The classic control tasks need a library of games to draw themselves. Here they are lines and discs
of the recorded observations. Whatever else cannot be drawn is shown as its observations over
time, by name, with what has happened so far in ink and what is to come in grey.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from telic.rendering.media import draw_text
from telic.storage.trajectories import Trajectory

WIDTH, HEIGHT = 480, 360
_PAPER, _INK, _GREY = (28, 34, 42), (235, 238, 240), (92, 102, 112)
_BLUE, _ORANGE, _GREEN = (64, 140, 214), (242, 130, 60), (88, 176, 116)
_MOST_ROWS = 8
_NAME_WIDTH = 132

_Colour = tuple[int, int, int]
_Point = tuple[float, float]


class Stroke(NamedTuple):
    """A thick line between two points; equal points are a disc. Metres, y upwards."""

    start: _Point
    end: _Point
    width: float
    colour: _Colour


def _cart(obs: np.ndarray) -> list[Stroke]:
    x, angle = float(obs[0]), float(obs[2])
    tip = (x + np.sin(angle), 0.1 + np.cos(angle))
    return [
        Stroke((-2.4, -0.12), (2.4, -0.12), 0.02, _GREY),
        Stroke((x - 0.2, 0.0), (x + 0.2, 0.0), 0.2, _BLUE),
        Stroke((x, 0.1), tip, 0.07, _ORANGE),
        Stroke((x, 0.1), (x, 0.1), 0.1, _INK),
    ]


def _pendulum(obs: np.ndarray) -> list[Stroke]:
    tip = (-float(obs[1]), float(obs[0]))
    return [Stroke((0, 0), tip, 0.18, _ORANGE), Stroke((0, 0), (0, 0), 0.12, _INK)]


def _acrobot(obs: np.ndarray) -> list[Stroke]:
    first = np.arctan2(obs[1], obs[0])
    second = first + np.arctan2(obs[3], obs[2])
    middle = (float(np.sin(first)), -float(np.cos(first)))
    end = (middle[0] + float(np.sin(second)), middle[1] - float(np.cos(second)))
    return [
        Stroke((-2.2, 1.0), (2.2, 1.0), 0.02, _GREEN),
        Stroke((0, 0), middle, 0.14, _BLUE),
        Stroke(middle, end, 0.14, _ORANGE),
        Stroke((0, 0), (0, 0), 0.12, _INK),
    ]


def _valley(obs: np.ndarray) -> list[Stroke]:
    xs = np.linspace(-1.2, 0.6, 40)
    hill = [(float(x), 0.45 * float(np.sin(3 * x))) for x in xs]
    x = float(obs[0])
    car = (x, 0.45 * float(np.sin(3 * x)) + 0.06)
    ground = [Stroke(a, b, 0.015, _GREY) for a, b in itertools.pairwise(hill)]
    foot = (0.45, 0.45 * float(np.sin(3 * 0.45)))
    flag = [
        Stroke(foot, (foot[0], foot[1] + 0.2), 0.012, _INK),
        Stroke((foot[0] + 0.03, foot[1] + 0.18), (foot[0] + 0.06, foot[1] + 0.18), 0.04, _GREEN),
    ]
    return [*ground, *flag, Stroke(car, car, 0.08, _ORANGE)]


class Drawing(NamedTuple):
    """How a task is drawn: from an observation, and how many metres fit into the width."""

    strokes: Callable[[np.ndarray], list[Stroke]]
    metres: float
    centre: _Point


DRAWINGS: dict[str, Drawing] = {
    "CartPole": Drawing(_cart, 5.2, (0.0, 0.6)),
    "Pendulum": Drawing(_pendulum, 3.4, (0.0, 0.0)),
    "Acrobot": Drawing(_acrobot, 5.8, (0.0, 0.0)),
    "MountainCar": Drawing(_valley, 2.0, (-0.3, 0.15)),
    "MountainCarContinuous": Drawing(_valley, 2.0, (-0.3, 0.15)),
}


class Sketcher:
    """Draws the rows of one episode."""

    def __init__(self, trajectory: Trajectory) -> None:
        self._seen = np.asarray(trajectory["next_obs"], dtype=float)
        self._drawing = DRAWINGS.get(trajectory.facts.env_id.rpartition("-v")[0])
        names = trajectory.facts.obs_names
        columns = _lively(self._seen)
        self._columns = columns
        self._names = [names[i] if i < len(names) else f"obs[{i}]" for i in columns]
        self._chart = None if self._drawing else self._tracks()

    def paint(self, row: int) -> np.ndarray:
        """Return a new (H, W, 3) uint8 picture."""
        if self._drawing is not None and np.isfinite(self._seen[row]).all():
            return draw_strokes(self._drawing.strokes(self._seen[row]), self._drawing)
        if self._chart is None:
            self._chart = self._tracks()
        picture = self._chart.copy()
        now = _NAME_WIDTH + round(row / max(len(self._seen) - 1, 1) * (WIDTH - _NAME_WIDTH - 8))
        later = picture[:, now + 1 :]
        later[:] = (later * np.float32(0.35) + np.float32(0.65) * np.array(_PAPER)).astype(np.uint8)
        picture[:, now] = _INK
        return picture

    def _tracks(self) -> np.ndarray:
        """Return the observations over the whole episode, one band each."""
        picture = np.full((HEIGHT, WIDTH, 3), _PAPER, dtype=np.uint8)
        band = (HEIGHT - 24) // max(len(self._columns), 1)
        for place, (column, name) in enumerate(zip(self._columns, self._names, strict=True)):
            track = np.nan_to_num(self._seen[:, column])
            low, high = float(track.min()), float(track.max())
            top = 4 + place * band
            draw_text(picture, name[:16], 6, top)
            if band > 34:
                draw_text(picture, f"{low:.3g} .. {high:.3g}", 6, top + 16)
            xs = np.linspace(_NAME_WIDTH, WIDTH - 9, WIDTH - 9 - _NAME_WIDTH).astype(int)
            rows = np.linspace(0, len(track) - 1, len(xs)).round().astype(int)
            share = (track[rows] - low) / max(high - low, 1e-9)
            ys = (top + band - 6 - share * (band - 10)).round().astype(int)
            colour = (_BLUE, _ORANGE, _GREEN)[place % 3]
            for x, a, b in zip(xs, ys, np.roll(ys, 1), strict=True):
                first, last = sorted((int(a), int(b))) if x > xs[0] else (int(a), int(a))
                picture[first : last + 2, x] = colour
        return picture


def _lively(seen: np.ndarray) -> list[int]:
    """Return the columns that are shown: the first few of those that change at all."""
    moving = [int(i) for i in np.flatnonzero(np.nan_to_num(np.ptp(seen, axis=0)) > 1e-9)]
    return (moving or list(range(seen.shape[1])))[:_MOST_ROWS]


def draw_strokes(strokes: list[Stroke], drawing: Drawing) -> np.ndarray:
    """Return a picture of lines and discs with soft edges."""
    picture = np.full((HEIGHT, WIDTH, 3), _PAPER, dtype=np.float32)
    scale = WIDTH / drawing.metres
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    px = (x - WIDTH / 2) / scale + np.float32(drawing.centre[0])
    py = (HEIGHT / 2 - y) / scale + np.float32(drawing.centre[1])
    for stroke in strokes:
        (ax, ay), (bx, by) = stroke.start, stroke.end
        dx, dy = bx - ax, by - ay
        along = ((px - ax) * dx + (py - ay) * dy) / max(dx * dx + dy * dy, 1e-12)
        along = np.clip(along, 0.0, 1.0)
        away = np.hypot(px - ax - along * dx, py - ay - along * dy)
        ink = np.clip((stroke.width / 2 - away) * scale + 0.5, 0.0, 1.0)[..., None]
        picture += ink * (np.array(stroke.colour, np.float32) - picture)
    return picture.astype(np.uint8)


COLUMNS, LINES = 64, 14
_ASPECT = 2.0
"""a character is so many times as high as it is wide"""
_MARK_M = 0.5
"""between two marks on the ground"""


def stick_figure(
    places: np.ndarray,
    parents: Sequence[int],
    facing: float,
    gone_m: float,
    width: int = COLUMNS,
    height: int = LINES,
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
