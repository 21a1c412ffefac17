"""Ground that is not flat: rough, sloped, or stairs, in fields from easy to hard.

The ground is a board of fields. Along x they get harder from row to row; those of a row are alike
and differ in chance. Each rises to a level place in its middle, where robots start: whoever walks
away from it goes down, and up again in the next field. Sizes are in heights of the standing robot.
"""

from __future__ import annotations

import functools
from typing import Literal, NamedTuple

import mujoco
import numpy as np

TerrainKind = Literal["flat", "rough", "slopes", "stairs"]
TERRAINS: tuple[TerrainKind, ...] = ("rough", "slopes", "stairs")
"""those that are laid"""
ROWS, COLUMNS = 5, 4
FIELD_M = 8.0
_CELL_M = 0.05
_LEVEL_M = 0.6
"""half the side of the level place in a field's middle"""
_TREAD_M = 0.3
_ROUGH, _LUMP_M = 0.18, 0.2
_STEEPEST = 0.4
_STEPS = (0.06, 0.32)
"""heights of a step in the easiest and the hardest field"""
_SUNK_M = 0.02
"""how far the floor lies below the board, so that nothing touches both"""
NAME = "telic_terrain"


class Terrain(NamedTuple):
    """A board of fields."""

    heights: np.ndarray
    """(points along y, points along x), m"""
    starts: np.ndarray
    """(rows, columns, 3): where robots start, m"""


@functools.lru_cache(maxsize=4)
def terrain(kind: TerrainKind, tall_m: float) -> Terrain:
    """Return the ground for a robot that stands so tall."""
    side = round(FIELD_M / _CELL_M)
    heights = np.zeros((COLUMNS * side, ROWS * side), dtype=np.float32)
    starts = np.zeros((ROWS, COLUMNS, 3))
    chance = np.random.default_rng(20261116)
    axis = (np.arange(side) + 0.5) * _CELL_M - FIELD_M / 2.0
    away = np.maximum(np.abs(axis)[:, None], np.abs(axis)[None, :])  # from the middle, square
    for row in range(ROWS):
        for column in range(COLUMNS):
            hard = (row + 0.5 + 0.4 * (column / max(COLUMNS - 1, 1) - 0.5)) / ROWS
            field = _FIELDS[kind](away, hard, tall_m, chance)
            heights[column * side : (column + 1) * side, row * side : (row + 1) * side] = field
            starts[row, column] = (
                (row - (ROWS - 1) / 2.0) * FIELD_M,
                (column - (COLUMNS - 1) / 2.0) * FIELD_M,
                float(field[away <= _LEVEL_M].max()),
            )
    return Terrain(heights, starts)


def lay(spec: mujoco.MjSpec, kind: TerrainKind) -> mujoco.MjModel:
    """Lay the ground into a model that has a floor and a pose to start from; return it compiled."""
    plain = spec.compile()
    if kind == "flat":
        return plain
    board = terrain(kind, standing_m(plain)).heights
    highest = max(float(board.max()), 1e-3)
    spec.add_hfield(
        name=NAME,
        nrow=board.shape[0],
        ncol=board.shape[1],
        size=(ROWS * FIELD_M / 2.0, COLUMNS * FIELD_M / 2.0, highest, 0.1),
        userdata=(board / highest).flatten().tolist(),
    )
    plane = mujoco.mjtGeom.mjGEOM_PLANE
    floors = [geom for geom in spec.worldbody.geoms if geom.type == plane]
    alike = floors[0] if floors else None
    for floor in floors:
        floor.pos = (*floor.pos[:2], floor.pos[2] - _SUNK_M)
    spec.worldbody.add_geom(
        name=NAME,
        type=mujoco.mjtGeom.mjGEOM_HFIELD,
        hfieldname=NAME,
        contype=alike.contype if alike else 1,
        conaffinity=alike.conaffinity if alike else 1,
        friction=alike.friction if alike else (1.0, 0.005, 0.0001),
        rgba=(0.55, 0.58, 0.56, 1.0),
    )
    return spec.compile()


def standing_m(model: mujoco.MjModel) -> float:
    """Return how high the base of a robot is when it stands: in its first pose, else by default."""
    qpos = model.key_qpos[0] if model.nkey else model.qpos0
    return max(round(float(qpos[2]), 3), 0.1)


def _flat(away: np.ndarray, hard: float, tall_m: float, chance: np.random.Generator) -> np.ndarray:
    return np.zeros_like(away)


def _rough(away: np.ndarray, hard: float, tall_m: float, chance: np.random.Generator) -> np.ndarray:
    """Lumps of a fifth of a metre, with flat rims so that fields fit together."""
    every = round(_LUMP_M / _CELL_M)
    count = -(-len(away) // every)
    lumps = chance.uniform(0.0, _ROUGH * hard * tall_m, (count, count))
    field = np.kron(lumps, np.ones((every, every)))[: len(away), : len(away)]
    level = (away <= _LEVEL_M) | (away >= FIELD_M / 2.0 - _LUMP_M)
    return np.where(level, 0.0, field)


def _slopes(
    away: np.ndarray, hard: float, tall_m: float, chance: np.random.Generator
) -> np.ndarray:
    rise = np.tan(_STEEPEST * hard)
    return np.maximum(FIELD_M / 2.0 - np.maximum(away, _LEVEL_M), 0.0) * rise


def _stairs(
    away: np.ndarray, hard: float, tall_m: float, chance: np.random.Generator
) -> np.ndarray:
    step = (_STEPS[0] + (_STEPS[1] - _STEPS[0]) * hard) * tall_m
    tread = _TREAD_M * max(1.0, tall_m / 0.3) ** 0.5
    return step * np.floor((FIELD_M / 2.0 - np.maximum(away, _LEVEL_M)) / tread)


_FIELDS = {"flat": _flat, "rough": _rough, "slopes": _slopes, "stairs": _stairs}
