"""Tracks of an episode: what an array with one value per step comes to, as a number with a unit.

A *track* is such an array, a *mask* one that says when something held. Where a track is asked for,
the name of a quantity serves as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from telic.judges.episode import RecordedEpisode as Episode
from telic.quantities.observed import observed as observed_value

Array = np.ndarray[Any, np.dtype[Any]]
Track = Array | str
_Metric = TypeVar("_Metric", bound=Callable[..., Any])
METRICS: dict[str, Callable[..., Any]] = {}
"""every metric by name"""
_UNITS: dict[str, str] = {}
_USES: dict[str, frozenset[str]] = {}
_FULL = 6.2832


def metric(unit: str = "1", *uses: str) -> Callable[[_Metric], _Metric]:
    """Register a metric with its unit and the quantities that it measures by itself."""

    def register(function: _Metric) -> _Metric:
        METRICS[function.__name__] = function
        _UNITS[function.__name__], _USES[function.__name__] = unit, frozenset(uses)
        return function

    return register


def unit_of(name: str) -> str:
    """Return the unit of a metric."""
    return _UNITS[name]


def uses_of(name: str) -> frozenset[str]:
    """Return the quantities that a metric measures besides those it is given."""
    return _USES[name]


def values_of(episode: Episode, track: Track) -> Array:
    """Return a track, given as such or as the name of a quantity."""
    return episode[track] if isinstance(track, str) else track


# ---- statistics of a track or mask


@metric()
def share(episode: Episode, mask: Array) -> float:
    """Share of the full episode in which a mask holds."""
    return episode.share(mask)


@metric()
def share_above(episode: Episode, track: Track, limit: float) -> float:
    """Share of the full episode in which a track is above a limit."""
    return episode.share(values_of(episode, track) > limit)


@metric()
def share_below(episode: Episode, track: Track, limit: float) -> float:
    """Share of the full episode in which a track is below a limit."""
    return episode.share(values_of(episode, track) < limit)


@metric()
def share_between(episode: Episode, track: Track, low: float, high: float) -> float:
    """Share of the full episode in which a track is between two limits."""
    return episode.share(between(episode, track, low, high))


@metric()
def share_near(episode: Episode, track: Track, value: float, within: float) -> float:
    """Share of the full episode in which a track is near a value."""
    return episode.share(np.abs(values_of(episode, track) - value) < within)


@metric("as the track")
def highest(episode: Episode, track: Track) -> float:
    """The largest value of a track."""
    return float(np.max(values_of(episode, track)))


@metric("as the track")
def lowest(episode: Episode, track: Track) -> float:
    """The smallest value of a track."""
    return float(np.min(values_of(episode, track)))


@metric("as the track")
def farthest(episode: Episode, track: Track) -> float:
    """The largest size of a track, whatever its sign."""
    return float(np.max(np.abs(values_of(episode, track))))


@metric("as the tracks")
def widest(episode: Episode, tracks: Sequence[str]) -> float:
    """The widest range that one of some tracks covers."""
    return float(max(np.ptp(episode[track]) for track in tracks))


@metric("as the track")
def mean(episode: Episode, track: Track) -> float:
    """The mean of a track, or the share of the recorded steps in which a mask holds."""
    return float(np.mean(values_of(episode, track)))


@metric("as the track")
def total(episode: Episode, track: Track) -> float:
    """The sum of a track."""
    return float(np.sum(values_of(episode, track)))


@metric("as the track")
def last(episode: Episode, track: Track) -> float:
    """The value of a track at the end."""
    return float(values_of(episode, track)[-1])


@metric("as the track")
def last_in_full_time(episode: Episode, track: Track, seconds: float) -> float:
    """The value at the end of a track that adds up, for so many seconds of the full time."""
    return last(episode, track) * seconds / episode.full_seconds


@metric("1/s")
def per_second(episode: Episode, track: Track) -> float:
    """The value at the end of a track that adds up, per second of the full time."""
    return last(episode, track) / episode.full_seconds


@metric("as the track")
def mean_of_last(episode: Episode, track: Track, seconds: float) -> float:
    """The mean of a track over its last seconds."""
    return float(np.mean(values_of(episode, track)[-max(1, int(seconds / episode.dt)) :]))


@metric()
def mean_of_end(episode: Episode, mask: Array, part: int) -> float:
    """The share of the last half, tenth, ... of the recording in which a mask holds."""
    return float(np.mean(mask[len(mask) - math.ceil(len(mask) / part) :]))


@metric("s")
def longest(episode: Episode, mask: Array) -> float:
    """The longest unbroken time for which a mask holds."""
    return episode.longest(mask)


@metric()
def longest_below(episode: Episode, track: Track, limit: float) -> float:
    """The longest unbroken time for which a track is below a limit, as a share of the full time."""
    return episode.longest(values_of(episode, track) < limit) / episode.full_seconds


@metric("s")
def time_above(episode: Episode, track: Track, limit: float) -> float:
    """The time in all for which a track is above a limit."""
    return float(np.sum(values_of(episode, track) > limit)) * episode.dt


@metric()
def share_until(episode: Episode, mask: Array) -> float:
    """The share of the recording until a mask first holds; 1 if it never does."""
    return float(np.argmax(mask)) / len(mask) if np.any(mask) else 1.0


@metric()
def reaches(episode: Episode, value: float, goal: float) -> float:
    """1 if a measured value is its goal or more, else 0."""
    return float(value >= goal)


@metric()
def spread(episode: Episode, track: Track) -> float:
    """The standard deviation of a track over its mean, after the first quarter."""
    values = values_of(episode, track)[len(episode) // 4 :]
    return float(np.std(values) / max(float(np.mean(values)), 1e-6))


# ---- masks and tracks of tracks


@metric()
def above(episode: Episode, track: Track, limit: float) -> Array:
    """When a track is above a limit."""
    return values_of(episode, track) > limit


@metric()
def below(episode: Episode, track: Track, limit: float) -> Array:
    """When a track is below a limit."""
    return values_of(episode, track) < limit


@metric()
def between(episode: Episode, track: Track, low: float, high: float) -> Array:
    """When a track is between two limits."""
    values = values_of(episode, track)
    return (values > low) & (values < high)


@metric("as the track")
def less(episode: Episode, track: Track, minus: float = 0.0, sign: int = 1) -> Array:
    """A track less a number; `sign` -1 turns it round."""
    values = values_of(episode, track) - minus if minus else values_of(episode, track)
    return -values if sign < 0 else values


@metric("times")
def cycles(episode: Episode, track: Track, high: float, low: float) -> Array:
    """How often a track was above `high` and then below `low`, up to each step."""
    values = values_of(episode, track)
    return episode.count(values > high, values < low)


@metric("per second")
def pace_of(episode: Episode, track: Track) -> Array:
    """How fast a track changes, over half seconds."""
    return episode.pace(values_of(episode, track))


@metric("rad/s")
def turning_rate(episode: Episode, track: Track) -> Array:
    """How fast a track of turns changes at each step."""
    turns = values_of(episode, track)
    return np.gradient(turns) * _FULL / episode.dt if len(turns) > 1 else np.zeros(len(turns))


@metric()
def observed(episode: Episode, kind: str, columns: Sequence[int]) -> Array:
    """What follows from columns of the observation; see `telic.quantities.observed`."""
    obs = torch.as_tensor(np.asarray(episode["next_obs"]))
    return observed_value(obs, kind, columns).numpy()
