"""What a policy sees as columns of MuJoCo's own fields, so that it can be computed elsewhere.

Every task says in Python what it observes. A browser has MuJoCo, but no Python: it needs to know
that column 3 is `qpos[4]` and column 9 is `qvel[2]` cut at 10. That is not written a second time,
but found: the task is put into many states, and what it observes is compared with every field.
What cannot be found this way is refused; nothing is guessed.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field

from telic.core.config import Record
from telic.envs.mujoco import MujocoEnv
from telic.errors import UsageError

Array = np.ndarray[Any, np.dtype[Any]]
Applied = Literal["none", "sin", "cos"]
_FIELDS = (
    *("qpos", "qvel", "sensordata", "cinert", "cvel", "qfrc_actuator", "cfrc_ext"),
    *("qfrc_constraint", "site_xpos", "xpos", "mocap_pos", "actuator_force", "qacc"),
)
_AFTER_STEP = ("cfrc_ext",)
"""fields that a step leaves alone: mj_rnePostConstraint computes them"""
_ANGLES = "qpos"
_PLACES = ("xpos", "site_xpos")
"""fields of places, of which tasks see the way from one to another"""
_MOST_PLACES = 24
_TOLERANCE = 1e-9
_SPEEDS = (0.0, 1.0, 8.0, 40.0)
"""by how much velocities differ between the states: what is cut off must be seen to be cut off"""
_ROUNDS = 3


class SeenBlock(Record):
    """Columns of the observation that follow from columns of one field, in order."""

    field: str = Field(description="of mjData, flat")
    first: int = Field(ge=0, description="number in it of the first column")
    count: int = Field(ge=1, description="columns")
    minus: int | None = Field(
        default=None, description="number of the first column of the same field to subtract"
    )
    applied: Applied = Field(default="none", description="function of each number")
    low: float | None = Field(default=None, description="numbers below are cut to it")
    high: float | None = Field(default=None, description="numbers above are cut to it")


class _Candidate(NamedTuple):
    """A number that could be a column, in every state."""

    field: str
    at: int
    minus: int | None
    applied: Applied
    values: Array

    def follows(self, other: _Candidate) -> bool:
        """Say whether this is the next column of the same kind."""
        is_alike = (self.field, self.applied) == (other.field, other.applied)
        steps = self.minus is None or other.minus is None or self.minus == other.minus + 1
        return is_alike and self.at == other.at + 1 and steps


def seen_blocks(env: MujocoEnv) -> tuple[SeenBlock, ...]:
    """Return how an observation is computed from MuJoCo's fields; uses the environment up.

    Raises:
        UsageError: a column follows from none of them.
    """
    seen, fields = _samples(env)
    found = list(_candidates(fields))
    fits = np.stack([_fits(column, found) for column in seen.T])  # (columns, candidates)
    blocks: list[SeenBlock] = []
    column = 0
    while column < len(fits):
        runs = [_run(column, int(start), fits, found) for start in np.flatnonzero(fits[column])]
        if not runs:
            raise UsageError(
                f'The policy sees "{env.spec.obs_names[column]}", which follows from no single '
                "number that MuJoCo keeps."
            )
        best = max(runs, key=len)
        blocks.append(_block(best, seen[:, column : column + len(best)]))
        column += len(best)
    return tuple(blocks)


def needs_contact_forces(blocks: tuple[SeenBlock, ...]) -> bool:
    """Say whether forces have to be computed after every step."""
    return any(block.field in _AFTER_STEP for block in blocks)


def _samples(env: MujocoEnv) -> tuple[Array, dict[str, Array]]:
    """Return observations (S, columns) of many states, and all fields (S, ...) in them."""
    views = {name: env.sim.field(name) for name in _FIELDS if _has(env, name)}
    chance = torch.Generator().manual_seed(0)
    rows: dict[str, list[Array]] = {name: [] for name in ("", *views)}

    def keep() -> None:
        rows[""].append(env.exact_obs.numpy().copy())
        for name, view in views.items():
            rows[name].append(view.flatten(1).numpy().copy())

    for speed in _SPEEDS * _ROUNDS:
        env.reset()
        qpos, qvel = views["qpos"].clone(), views["qvel"].clone()
        env.place(qpos, qvel + speed * torch.randn(qvel.shape, generator=chance).to(qvel))
        keep()
        for _ in range(2):
            spread = torch.rand((env.num_envs, env.act_dim), generator=chance)
            env.step(torch.lerp(env.action_low, env.action_high, spread))
            keep()
    stacked = {name: np.concatenate(parts).astype(float) for name, parts in rows.items()}
    sound = np.all([np.isfinite(part).all(1) for part in stacked.values()], axis=0)
    seen = stacked.pop("")[sound]
    return seen, {name: part[sound] for name, part in stacked.items()}


def _has(env: MujocoEnv, name: str) -> bool:
    sizes = {
        "sensordata": env.model.nsensordata,
        "site_xpos": env.model.nsite,
        "mocap_pos": env.model.nmocap,
    }
    return sizes.get(name, 1) > 0


def _candidates(fields: dict[str, Array]) -> list[_Candidate]:
    found: list[_Candidate] = []
    for name, part in fields.items():
        found += [_Candidate(name, i, None, "none", column) for i, column in enumerate(part.T)]
    angles = list(enumerate(fields[_ANGLES].T))
    found += [_Candidate(_ANGLES, i, None, "sin", np.sin(column)) for i, column in angles]
    found += [_Candidate(_ANGLES, i, None, "cos", np.cos(column)) for i, column in angles]
    for name in _PLACES:
        places = fields.get(name)
        if places is None or places.shape[1] > _MOST_PLACES:
            continue
        for to in range(places.shape[1]):
            for away in range(to % 3, places.shape[1], 3):
                if away != to:
                    way = places[:, to] - places[:, away]
                    found.append(_Candidate(name, to, away, "none", way))
    return found


def _fits(column: Array, found: list[_Candidate]) -> Array:
    """Say which candidates are this column, cut off or not."""
    values = np.stack([each.values for each in found])
    low, high = column.min(), column.max()
    # A column that never changes is what is equal to it, not what could be cut to it.
    cut = values if low == high else values.clip(low, high)
    return np.abs(cut - column).max(1) <= _TOLERANCE * (1.0 + np.abs(column).max())


def _run(column: int, start: int, fits: Array, found: list[_Candidate]) -> list[_Candidate]:
    """Return the candidates that are this column and those after it, as far as that goes."""
    run = [found[start]]
    for ahead in range(1, min(len(fits) - column, len(found) - start)):
        follower = found[start + ahead]
        if not fits[column + ahead, start + ahead] or not follower.follows(run[-1]):
            break
        run.append(follower)
    return run


def _block(run: list[_Candidate], seen: Array) -> SeenBlock:
    lows, highs = list[float](), list[float]()
    for candidate, column in zip(run, seen.T, strict=True):
        if candidate.values.min() < column.min() - _TOLERANCE:
            lows.append(float(column.min()))
        if candidate.values.max() > column.max() + _TOLERANCE:
            highs.append(float(column.max()))
    first = run[0]
    return SeenBlock(
        field=first.field,
        first=first.at,
        count=len(run),
        minus=first.minus,
        applied=first.applied,
        low=min(lows, default=None),
        high=max(highs, default=None),
    )
