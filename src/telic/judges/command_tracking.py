"""Measure how well a robot tracks commanded velocities: errors by commanded speed and direction.

Recorded episodes draw commands from the whole range, so that their moments, sorted by command, are
a grid of speeds and directions. Moments shortly after a new command are left out.
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


class CommandErrors(NamedTuple):
    """Moments with commands of one kind, and the mean error of the robot."""

    kind: str
    seconds: float
    """recorded time; 0: nothing of the kind was commanded"""
    command: float
    """mean size of the command"""
    error: float
    unit: str

    @property
    def share(self) -> float | None:
        """The error as a share of that of standing still; None: it was commanded to stand."""
        return self.error / self.command if self.command > 0.0 else None


def command_errors(episodes: Iterable[Trajectory], spec: EnvSpec) -> list[CommandErrors]:
    """Return the errors by commanded speed and direction; empty where nothing is commanded."""
    if not QUANTITIES["command_error"].available(spec):
        return []
    pairs = [np.zeros((2, 0, 3))]
    for each in episodes:
        if set(COMMANDS) <= {*each.columns}:
            episode = RecordedEpisode(each, spec)
            commands, done = commanded_and_done(episode)
            pairs.append(np.stack((commands, done))[:, settled(commands, episode.dt)])
    commands, done = np.concatenate(pairs, axis=1)
    if not commands.any():
        return []
    speed, turn = np.hypot(commands[:, 0], commands[:, 1]), np.abs(commands[:, 2])
    missed = np.abs(done - commands)
    by_unit = {"m/s": (speed, np.hypot(*missed[:, :2].T)), "rad/s": (turn, missed[:, 2])}
    goes, turns = speed > _STILL * float(speed.max()), turn > _STILL * float(turn.max())
    way = np.round(np.arctan2(commands[:, 1], commands[:, 0]) / (0.5 * math.pi)).astype(int) % 4
    kinds = [(f"go {name}", goes & (way == place), "m/s") for place, name in enumerate(_WAYS)]
    kinds += [("turn left", turns & (commands[:, 2] > 0.0), "rad/s")]
    kinds += [("turn right", turns & (commands[:, 2] < 0.0), "rad/s")]
    rows: list[tuple[str, np.ndarray, str]] = []
    for words, mask, unit in kinds:
        size = by_unit[unit][0]
        edge = _FAST * float(size.max())
        rows.append((f"{words}, up to {edge:.2g} {unit}", mask & (size <= edge), unit))
        rows.append((f"{words}, faster", mask & (size > edge), unit))
    still = speed + turn == 0.0
    rows += [("stand: speed", still, "m/s"), ("stand: turning", still, "rad/s")]
    out: list[CommandErrors] = []
    for words, mask, unit in rows:
        size, error = (float(each[mask].mean()) if mask.any() else 0.0 for each in by_unit[unit])
        seconds = float(mask.sum()) * (spec.dt_s or 1.0)
        out.append(CommandErrors(words, seconds, size, error, unit))
    return out
