"""How well a robot tracks commanded velocities: errors by commanded speed and direction.

Recorded episodes draw commands from the whole range, so that their moments, sorted by what was
commanded, are a grid of speeds and directions. Moments shortly after a new command are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from telic.envs.spec import EnvSpec
from telic.judges.episode import RecordedEpisode
from telic.judges.metrics import commanded_and_done, settled
from telic.quantities import QUANTITIES
from telic.storage.trajectories import COMMANDS, Trajectory

_FAST, _STILL = 0.5, 0.05
"""of the largest command: from where it is a fast one, and up to where it is none"""
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


def obedience(episodes: Iterable[Trajectory], spec: EnvSpec) -> list[ObeyedCommands]:
    """Return the errors by commanded speed and direction; empty where nothing is commanded."""
    if not QUANTITIES["command_error"].available(spec):
        return []
    found: list[tuple[np.ndarray, np.ndarray]] = []
    for each in episodes:
        if set(COMMANDS) <= {*each.columns}:
            episode = RecordedEpisode(each, spec)
            commands, done = commanded_and_done(episode)
            counts = settled(commands, episode.dt)
            found.append((commands[counts], done[counts]))
    told, done = (np.concatenate([pair[k] for pair in found] or [np.zeros((0, 3))]) for k in (0, 1))
    if not told.any():
        return []
    speed, turn = np.hypot(told[:, 0], told[:, 1]), np.abs(told[:, 2])
    off, off_turn = np.hypot(*(done - told)[:, :2].T), np.abs(done - told)[:, 2]
    goes, turns = speed > _STILL * float(speed.max()), turn > _STILL * float(turn.max())
    way = np.round(np.arctan2(told[:, 1], told[:, 0]) / (0.5 * math.pi)).astype(int) % 4
    kinds = [(f"go {name}", goes & (way == place), True) for place, name in enumerate(_WAYS)]
    kinds += [("turn left", turns & (told[:, 2] > 0.0), False)]
    kinds += [("turn right", turns & (told[:, 2] < 0.0), False)]
    dt, rows = spec.dt_s or 1.0, list[ObeyedCommands]()

    def add(words: str, mask: np.ndarray, is_speed: bool) -> None:
        size, error, unit = (speed, off, "m/s") if is_speed else (turn, off_turn, "rad/s")
        means = [float(each[mask].mean()) if mask.any() else 0.0 for each in (size, error)]
        rows.append(ObeyedCommands(words, float(mask.sum()) * dt, means[0], means[1], unit))

    for words, mask, is_speed in kinds:
        size, unit = (speed, "m/s") if is_speed else (turn, "rad/s")
        edge = _FAST * float(size.max())
        add(f"{words}, up to {edge:.2g} {unit}", mask & (size <= edge), is_speed)
        add(f"{words}, faster", mask & (size > edge), is_speed)
    still = speed + turn == 0.0
    add("stand: speed", still, True)
    add("stand: turning", still, False)
    return rows
