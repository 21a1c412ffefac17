"""Terrain generation: rough ground, slopes and stairs in a grid of increasing difficulty.

The terrain is a grid of fields. Difficulty increases along x from row to row, and varies slightly
and randomly within a row. Each field rises from a flat border to a flat platform in its middle.
Robots start on the platform, or at the foot with the ascent ahead. Obstacle sizes are in units of
the standing robot's height.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import mujoco

TerrainKind = Literal["flat", "rough", "slopes", "stairs"]
TERRAINS: tuple[TerrainKind, ...] = ("rough", "slopes", "stairs")
"""Kinds of terrain other than flat."""
ArmTask = Literal["reach", "push", "pick"]
HANDLING: tuple[ArmTask, ...] = ("push", "pick")
"""Arm tasks that use a block."""
ROWS, COLUMNS = 5, 4
FIELD_M = 8.0
_CELL_M = 0.05
_LEVEL_M = 0.6
"""Half the side of the flat platform in the middle of a field."""
_RIM_M, FOOT_M = 0.75, 0.4
"""Width of a field's flat border, and distance of the foot start from its edge."""
STAIRS_M = FIELD_M / 2.0 - _RIM_M - _LEVEL_M
"""Horizontal length of the ascent."""
TO_TOP_M = FIELD_M / 2.0 - _LEVEL_M - FOOT_M
"""Horizontal distance from the foot start to the platform."""
_TREAD_M = 0.3
_ROUGH, _LUMP_M = 0.18, 0.2
_STEEPEST = 0.4
_STEPS = (0.06, 0.32)
"""Step heights in the easiest and the hardest field, in standing heights."""
_CHANCE = 0.08
"""Relative random variation of difficulty and tread depth."""
_SUNK_M = 0.02
"""Depth of the floor below the height field, so that nothing touches both."""
_MAX_SEED = 2**31
NAME = "telic_terrain"


class Ground(NamedTuple):
    """Configuration of the ground: terrain kind, maximum difficulty, seed, and a block."""

    kind: TerrainKind = "flat"
    hardest: float = 1.0
    """Difficulty of the hardest fields, in (0, 1]."""
    seed: int = 0
    block: bool = False
    """Whether to add a block for an arm."""


class Terrain(NamedTuple):
    """Generated terrain."""

    heights: np.ndarray
    """Height field, (points along y, points along x), in m."""
    starts: np.ndarray
    """Middle of each field, (rows, columns, 3), in m."""
    feet: np.ndarray
    """Start at the foot of each field, (rows, columns, 3), in m."""
    sizes: np.ndarray
    """Step height (m), slope (m/m) or maximum lump height (m) of each field, (rows, columns)."""


def ground_in(arguments: Mapping[str, Any]) -> Ground:
    """Return the ground specified by environment arguments, ignoring invalid values."""
    named, hardest, seed = (
        arguments.get(name) for name in ("terrain", "terrain_hardest", "terrain_seed")
    )
    ground = next((Ground(kind) for kind in TERRAINS if kind == named), None)
    if ground is None:
        return Ground(block=arguments.get("task") in HANDLING)
    if isinstance(hardest, int | float) and 0.0 < hardest <= 1.0:
        ground = ground._replace(hardest=float(hardest))
    if isinstance(seed, int) and 0 <= seed < _MAX_SEED:
        ground = ground._replace(seed=seed)
    return ground


def on_fresh_ground(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with a terrain seed that is not used in training."""
    ground = ground_in(arguments)
    if ground.kind == "flat":
        return arguments
    return {**arguments, "terrain_seed": (ground.seed + 1) % _MAX_SEED}


@functools.lru_cache(maxsize=4)
def terrain(ground: Ground, tall_m: float) -> Terrain:
    """Generate the terrain for a robot with a standing height of `tall_m`."""
    side = round(FIELD_M / _CELL_M)
    heights = np.zeros((COLUMNS * side, ROWS * side), dtype=np.float32)
    starts, feet = np.zeros((2, ROWS, COLUMNS, 3))
    sizes = np.zeros((ROWS, COLUMNS))
    chance = np.random.default_rng((20261116, ground.seed) if ground.seed else 20261116)
    axis = (np.arange(side) + 0.5) * _CELL_M - FIELD_M / 2.0
    away = np.maximum(np.abs(axis)[:, None], np.abs(axis)[None, :])  # from the middle (Chebyshev)
    for row in range(ROWS):
        for column in range(COLUMNS):
            hard = (row + 0.5 + 0.4 * (column / max(COLUMNS - 1, 1) - 0.5)) / ROWS
            hard *= ground.hardest * (1.0 + _CHANCE * chance.uniform(-1.0, 1.0))
            field, sizes[row, column] = _FIELDS[ground.kind](away, hard, tall_m, chance)
            heights[column * side : (column + 1) * side, row * side : (row + 1) * side] = field
            x = (row - (ROWS - 1) / 2.0) * FIELD_M
            y = (column - (COLUMNS - 1) / 2.0) * FIELD_M
            starts[row, column] = x, y, float(field[away <= _LEVEL_M].max())
            feet[row, column] = x - FIELD_M / 2.0 + FOOT_M, y, 0.0
    return Terrain(heights, starts, feet, sizes)


def lay(spec: mujoco.MjSpec, ground: Ground) -> mujoco.MjModel:
    """Add the ground to a model with a floor and an initial pose. Returns the compiled model."""
    plain = spec.compile()
    if ground.block:
        from telic.robots.arm import add_block  # imported lazily, as mujoco below

        add_block(spec, plain)
        return spec.compile()
    if ground.kind == "flat":
        return plain
    board = terrain(ground, standing_m(plain)).heights
    highest = max(float(board.max()), 1e-3)
    spec.add_hfield(
        name=NAME,
        nrow=board.shape[0],
        ncol=board.shape[1],
        size=(ROWS * FIELD_M / 2.0, COLUMNS * FIELD_M / 2.0, highest, 0.1),
        userdata=(board / highest).flatten().tolist(),
    )
    import mujoco  # imported lazily, because some users of this module need no physics

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


def hardest_step(hard: float, tall_m: float) -> float:
    """Return the step height in m of stairs of difficulty `hard`."""
    return (_STEPS[0] + (_STEPS[1] - _STEPS[0]) * hard) * tall_m


def steepest(hard: float) -> float:
    """Return the angle in rad of a slope of difficulty `hard`."""
    return _STEEPEST * hard


def steps_of(tall_m: float) -> int:
    """Return the maximum number of steps of the stairs."""
    return int(STAIRS_M / _tread(tall_m) + 1e-9)


def _tread(tall_m: float) -> float:
    """Return the tread depth, which increases with the robot's height."""
    return _TREAD_M * max(1.0, tall_m / 0.3) ** 0.5


def standing_m(model: mujoco.MjModel) -> float:
    """Return the base height in the first keyframe, or in the default pose."""
    qpos = model.key_qpos[0] if model.nkey else model.qpos0
    return max(round(float(qpos[2]), 3), 0.1)


Field = tuple[np.ndarray, float]
"""Heights of a field, and its obstacle size."""


def _rough(away: np.ndarray, hard: float, tall_m: float, chance: np.random.Generator) -> Field:
    """Generate random 0.2 m blocks with a flat border."""
    every = round(_LUMP_M / _CELL_M)
    count = -(-len(away) // every)
    highest = _ROUGH * hard * tall_m
    lumps = chance.uniform(0.0, highest, (count, count))
    field = np.kron(lumps, np.ones((every, every)))[: len(away), : len(away)]
    level = (away <= _LEVEL_M) | (away >= FIELD_M / 2.0 - _LUMP_M)
    return np.where(level, 0.0, field), highest


def _slopes(away: np.ndarray, hard: float, tall_m: float, chance: np.random.Generator) -> Field:
    rise = float(np.tan(steepest(hard)))
    return _way_up(away) * rise, rise


def _stairs(away: np.ndarray, hard: float, tall_m: float, chance: np.random.Generator) -> Field:
    step = hardest_step(hard, tall_m)
    # The number of steps is fixed; a shorter tread leaves a longer flat top.
    tread = _tread(tall_m) * (1.0 - _CHANCE * chance.uniform())
    steps = np.floor(_way_up(away) / tread + 1e-9)
    return step * np.minimum(steps, steps_of(tall_m)), step


def _way_up(away: np.ndarray) -> np.ndarray:
    """Return the distance from the flat border (constant on the platform)."""
    return np.maximum(FIELD_M / 2.0 - _RIM_M - np.maximum(away, _LEVEL_M), 0.0)


_FIELDS = {"rough": _rough, "slopes": _slopes, "stairs": _stairs}
