"""How well a robot obeys, by what it was told: errors by commanded speed and direction.

Recorded episodes draw commands from the whole range, so many of them are a grid of speeds and
directions: their moments are sorted by what was commanded. What is done is measured over half
seconds, and moments shortly after a new command, while the robot answers it, are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from telic.envs.spec import EnvSpec
from telic.judges.episode import RecordedEpisode
from telic.quantities import QUANTITIES
from telic.storage.trajectories import COMMANDS, Trajectory

_ANSWER_S, _AHEAD_S = 0.75, 0.25
_NEW = 0.05
_FAST = 0.5
"""of the largest command, from which it is a fast one"""
_STILL = 0.05
"""of the largest command, up to which it is none"""
_WAYS = ("ahead", "to the left", "back", "to the right")


class ObeyedCommands(NamedTuple):
    """Moments with commands of one kind, and how far off the robot was."""

    told: str
    seconds: float
    """so much of the recorded time; 0: nothing of the kind was commanded"""
    command: float
    """mean size of what was commanded"""
    error: float
    unit: str

    @property
    def share(self) -> float | None:
        """The error as a share of that of standing still; None: it was told to stand."""
        return self.error / self.command if self.command > 0.0 else None


class _Moments(NamedTuple):
    """What was commanded and what was done at every moment that counts, (M, 3) each."""

    told: np.ndarray
    done: np.ndarray


def obedience(episodes: Iterable[Trajectory], spec: EnvSpec) -> list[ObeyedCommands]:
    """Return the errors by commanded speed and direction; empty where nothing is commanded.

    Args:
        episodes: recorded with their commands.
        spec: their environment.
    """
    if not QUANTITIES["command_error"].available(spec):
        return []
    found = [
        _moments(RecordedEpisode(each, spec))
        for each in episodes
        if set(COMMANDS) <= {*each.columns}
    ]
    told = np.concatenate([each.told for each in found] or [np.zeros((0, 3))])
    done = np.concatenate([each.done for each in found] or [np.zeros((0, 3))])
    if not len(told) or not told.any():
        return []
    dt = spec.dt_s or 1.0
    speed, turn = np.hypot(told[:, 0], told[:, 1]), np.abs(told[:, 2])
    off = np.hypot(*(done - told)[:, :2].T)
    off_turn = np.abs(done - told)[:, 2]
    rows: list[ObeyedCommands] = []
    goes = speed > _STILL * float(speed.max())
    way = np.round(np.arctan2(told[:, 1], told[:, 0]) / (0.5 * math.pi)).astype(int) % 4
    for place, name in enumerate(_WAYS):
        rows += _by_size(f"go {name}", goes & (way == place), speed, off, dt, "m/s")
    turns = turn > _STILL * float(turn.max())
    for name, side in (("left", told[:, 2] > 0.0), ("right", told[:, 2] < 0.0)):
        rows += _by_size(f"turn {name}", turns & side, turn, off_turn, dt, "rad/s")
    still = speed + turn == 0.0
    return [
        *rows,
        _row("stand: speed", still, speed, off, dt, "m/s"),
        _row("stand: turning", still, turn, off_turn, dt, "rad/s"),
    ]


def _by_size(
    told: str, mask: np.ndarray, size: np.ndarray, off: np.ndarray, dt: float, unit: str
) -> list[ObeyedCommands]:
    edge = _FAST * float(size.max())
    return [
        _row(f"{told}, up to {edge:.2g} {unit}", mask & (size <= edge), size, off, dt, unit),
        _row(f"{told}, faster", mask & (size > edge), size, off, dt, unit),
    ]


def _row(
    told: str, mask: np.ndarray, size: np.ndarray, off: np.ndarray, dt: float, unit: str
) -> ObeyedCommands:
    if not mask.any():
        return ObeyedCommands(told, 0.0, 0.0, 0.0, unit)
    return ObeyedCommands(
        told, float(mask.sum()) * dt, float(size[mask].mean()), float(off[mask].mean()), unit
    )


def _moments(episode: RecordedEpisode) -> _Moments:
    """Return what was told and done, once an answer could be expected."""
    told = np.stack([episode[name] for name in COMMANDS], -1).astype(float)
    facing = np.unwrap(episode["heading"])
    x, y = episode.pace(episode["x_position"]), episode.pace(episode["y_position"])
    ahead = x * np.cos(facing) + y * np.sin(facing)
    aside = y * np.cos(facing) - x * np.sin(facing)
    done = np.stack((ahead, aside, episode.pace(facing)), -1)
    counts = settled(told, episode.dt)
    return _Moments(told[counts], done[counts])


def settled(told: np.ndarray, dt: float) -> np.ndarray:
    """Say of each moment whether its command is neither new nor about to change, (T,)."""
    steps = np.arange(len(told))
    new = np.concatenate(([True], np.abs(np.diff(told, axis=0)).max(-1) > _NEW))
    since = steps - np.maximum.accumulate(np.where(new, steps, 0))
    following = np.where(np.concatenate((new[1:], [False])), steps, len(told) + math.ceil(1.0 / dt))
    until = np.minimum.accumulate(following[::-1])[::-1] - steps
    return (since * dt >= _ANSWER_S) & (until * dt >= _AHEAD_S)
