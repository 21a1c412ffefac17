"""General metrics, and the decorator that defines metrics of recorded episodes.

A *track* is an array with one value per step, and a *mask* is a track of conditions. Names of
quantities are accepted in place of tracks. The docstring of a metric is its description, in which
the arguments of the call replace placeholders in braces.

    highest(episode, "height")       # measures an episode
    highest("height")                # a `Measure`: the same call, deferred
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from telic.core.text import is_row
from telic.judges.episode import RecordedEpisode as Episode
from telic.quantities import QUANTITIES
from telic.quantities.observed import observed_value
from telic.rewards.node import bind, parameters_of, written

Array = np.ndarray[Any, np.dtype[Any]]
Track = Array | str
METRICS: dict[str, Metric] = {}
"""all metrics by name"""
_OF_TRACK = "as the track"


@dataclass(frozen=True, eq=False)
class Metric:
    """Function of an episode, with its unit and the quantities that it uses internally."""

    function: Callable[..., Any]
    unit: str
    uses: tuple[str, ...]
    is_total: bool
    """whether it summarizes the whole episode rather than a state held over time"""

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Measure an episode, or return a deferred `Measure` if called without an episode."""
        if args and isinstance(args[0], Episode):
            return self.function(*args, **named)
        return self.later(args, named)

    def exactly(self, *args: Any) -> Any:
        """Return the `Measure` of a call without rounding its numbers."""
        return self.later(args, {}, digits=None)

    def later(self, args: Sequence[Any], named: Mapping[str, Any], digits: int | None = 4) -> Any:
        """Return the `Measure` of a call, with numbers rounded as in files."""
        name = self.function.__name__
        return Measure(self, bind(name, self.defaults, args, named, digits))

    @functools.cached_property
    def defaults(self) -> dict[str, Any]:
        """Names and defaults of the arguments, except for the episode."""
        return parameters_of(self.function, "episode")

    @functools.cached_property
    def template(self) -> str:
        """Description with placeholders for arguments."""
        return (inspect.getdoc(self.function) or "").splitlines()[0].rstrip(".")


@dataclass(frozen=True, slots=True)
class Measure:
    """Deferred call of a metric on the judged episode."""

    metric: Metric
    arguments: tuple[tuple[str, Any], ...]
    part: str = ""
    """direction and distance that end the measured part, or empty for the whole episode"""

    def until(self, direction: str | float, metres: float) -> Measure:
        """Return the same measure, limited to the time until a distance is covered."""
        return replace(self, part=f"{written(direction)}, {metres:.4g}")

    @property
    def name(self) -> str:
        """Name of the metric."""
        return self.metric.function.__name__

    def __str__(self) -> str:
        """Return the call as a criterion expression."""
        given, by_place = list[str](), True
        for name, value in self.arguments:
            if value == self.metric.defaults[name] and not isinstance(value, Measure):
                by_place = False
                continue
            given.append(_code(value) if by_place else f"{name}={_code(value)}")
        code = f"{self.name}({', '.join(given)})"
        return f"on_way({self.part}, {code})" if self.part else code

    @property
    def args(self) -> tuple[Any, ...]:
        """Values of the arguments."""
        return tuple(value for _, value in self.arguments)

    @property
    def words(self) -> str:
        """Description of the call in words and names of quantities."""
        args = dict(self.arguments)
        if self.name == "less":
            track = _said(args["track"]) + (f" less {args['minus']:g}" if args.get("minus") else "")
            return f"minus {track}" if args.get("sign", 1) < 0 else track
        if isinstance(args.get("direction"), float):
            args["direction"] = f"at {args['direction']:g} degrees to the left of the start"
        if args.get("aside"):
            args["direction"] = f"{args['direction']} and {args['aside']}"
        text = self.metric.template.format_map({name: _said(value) for name, value in args.items()})
        return text[:1].lower() + text[1:] if text[1:2].islower() else text

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names of all quantities that the measure uses, including those of inner calls."""
        found = [*self.metric.uses]
        for _, value in self.arguments:
            if isinstance(value, Measure):
                found += value.quantities
            found += [each for each in _texts(value) if each in QUANTITIES]
        return tuple(dict.fromkeys(found))

    @property
    def unit(self) -> str:
        """Unit of the value, or "" if it is dimensionless."""
        unit = self.metric.unit
        if unit == _OF_TRACK:
            track = self.arguments[0][1]
            name = track if isinstance(track, str) else next(iter(_texts(track)), "")
            known = QUANTITIES[name].unit if name in QUANTITIES else ""
            unit = track.unit if isinstance(track, Measure) else known
        return "" if unit in ("1", "times") else unit


def _code(value: Any) -> str:
    return str(value) if isinstance(value, Measure) else written(value)


def _said(value: Any) -> str:
    if isinstance(value, Measure):
        return value.words
    if isinstance(value, float):
        return f"{value:.3g}"
    texts = _texts(value)
    return " and ".join(texts) if texts else str(value)


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(each for each in value if isinstance(each, str)) if is_row(value) else ()


def metric(
    unit: str = "1", *uses: str, is_total: bool = False
) -> Callable[[Callable[..., Any]], Metric]:
    """Register a metric with its unit and the quantities that it uses internally."""

    def register(function: Callable[..., Any]) -> Metric:
        made = METRICS[function.__name__] = Metric(function, unit, uses, is_total)
        return made

    return register


def values_of(episode: Episode, track: Track) -> Array:
    """Return a track that is given as an array or as the name of a quantity."""
    return episode[track] if isinstance(track, str) else track


_of_track = functools.partial(metric, _OF_TRACK)


# ---- statistics of a track or mask


def _reduction(
    name: str, about: str, reduce: Callable[[Array], Any], *, is_total: bool = True
) -> Metric:
    """Register a metric that reduces a track to a single number."""

    def measure(episode: Episode, track: Track) -> float:
        return float(reduce(values_of(episode, track)))

    measure.__name__, measure.__doc__ = name, about
    return _of_track(is_total=is_total)(measure)


highest = _reduction("highest", "Highest {track}.", np.max)
lowest = _reduction("lowest", "Lowest {track}.", np.min)
farthest = _reduction("farthest", "Largest size of {track}.", lambda track: np.max(np.abs(track)))
mean = _reduction("mean", "Mean {track}.", np.mean, is_total=False)
total = _reduction("total", "Sum of {track}.", np.sum)
last = _reduction("last", "{track} at the end.", lambda track: track[-1])


@metric()
def share(episode: Episode, mask: Array) -> float:
    """Fraction of the time in which {mask}."""
    return episode.share(mask)


@metric()
def share_above(episode: Episode, track: Track, limit: float) -> float:
    """Fraction of the time with {track} above {limit}."""
    return episode.share(values_of(episode, track) > limit)


@metric()
def share_below(episode: Episode, track: Track, limit: float) -> float:
    """Fraction of the time with {track} below {limit}."""
    return episode.share(values_of(episode, track) < limit)


@metric()
def share_between(episode: Episode, track: Track, low: float, high: float) -> float:
    """Fraction of the time with {track} between {low} and {high}."""
    return episode.share(between(episode, track, low, high))


@metric()
def share_near(episode: Episode, track: Track, value: float, within: float) -> float:
    """Fraction of the time with {track} within {within} of {value}."""
    return episode.share(np.abs(values_of(episode, track) - value) < within)


@_of_track(is_total=True)
def widest(episode: Episode, tracks: Sequence[str]) -> float:
    """Widest range of {tracks}."""
    return float(max(np.ptp(values_of(episode, track)) for track in tracks))


@_of_track(is_total=True)
def last_in_full_time(episode: Episode, track: Track, seconds: float) -> float:
    """Final {track}, relative to {seconds} s of the full time."""
    return last(episode, track) * seconds / episode.full_seconds


@metric("1/s", is_total=True)
def per_second(episode: Episode, track: Track) -> float:
    """{track} per second of the full time."""
    return last(episode, track) / episode.full_seconds


@_of_track()
def mean_of_last(episode: Episode, track: Track, seconds: float) -> float:
    """Mean {track} over the last {seconds} s."""
    return float(np.mean(values_of(episode, track)[-max(1, int(seconds / episode.dt)) :]))


@metric()
def mean_of_end(episode: Episode, mask: Array, part: int) -> float:
    """Fraction of the last 1/{part} of the recording in which {mask}."""
    return float(np.mean(mask[len(mask) - math.ceil(len(mask) / part) :]))


@metric("s")
def longest(episode: Episode, mask: Array) -> float:
    """Longest continuous time in which {mask}."""
    return episode.longest(mask)


@metric()
def longest_below(episode: Episode, track: Track, limit: float) -> float:
    """Longest continuous time with {track} below {limit}, as a fraction of the full time."""
    return episode.longest(values_of(episode, track) < limit) / episode.full_seconds


@metric("s")
def time_above(episode: Episode, track: Track, limit: float) -> float:
    """Total time with {track} above {limit}."""
    return float(np.sum(values_of(episode, track) > limit)) * episode.dt


@metric()
def share_until(episode: Episode, mask: Array) -> float:
    """Fraction of the recording until {mask}; 1 if that never happens."""
    return float(np.argmax(mask)) / len(mask) if np.any(mask) else 1.0


@metric(is_total=True)
def reaches(episode: Episode, value: float, goal: float) -> float:
    """1 if {value} is at least {goal}, else 0."""
    return float(value >= goal)


@metric()
def spread(episode: Episode, track: Track) -> float:
    """Standard deviation of {track} relative to its mean, after the first quarter."""
    values = values_of(episode, track)[len(episode) // 4 :]
    return float(np.std(values) / max(float(np.mean(values)), 1e-6))


# ---- masks and derived tracks


@metric()
def above(episode: Episode, track: Track, limit: float) -> Array:
    """{track} is above {limit}."""
    return values_of(episode, track) > limit


@metric()
def below(episode: Episode, track: Track, limit: float) -> Array:
    """{track} is below {limit}."""
    return values_of(episode, track) < limit


@metric()
def between(episode: Episode, track: Track, low: float, high: float) -> Array:
    """{track} is between {low} and {high}."""
    values = values_of(episode, track)
    return (values > low) & (values < high)


@_of_track()
def less(episode: Episode, track: Track, minus: float = 0.0, sign: int = 1) -> Array:
    """A track minus a number; `sign` -1 negates it."""
    values = values_of(episode, track) - minus if minus else values_of(episode, track)
    return -values if sign < 0 else values


@metric("times")
def cycles(episode: Episode, track: Track, high: float, low: float) -> Array:
    """Number of times that {track} was above {high} and then below {low}."""
    values = values_of(episode, track)
    return episode.count(values > high, values < low)


@metric("per second")
def pace_of(episode: Episode, track: Track) -> Array:
    """{track} per second, averaged over half seconds."""
    return episode.pace(values_of(episode, track))


@metric("rad/s")
def turning_rate(episode: Episode, track: Track) -> Array:
    """Rate of {track}."""
    turns = values_of(episode, track)
    return np.gradient(turns) * 6.2832 / episode.dt if len(turns) > 1 else np.zeros(len(turns))


@metric()
def observed(episode: Episode, kind: str, columns: Sequence[int]) -> Array:
    """{kind} of the observation's columns {columns}."""
    obs = torch.as_tensor(np.asarray(episode["next_obs"]))
    return observed_value(obs, kind, columns).numpy()
