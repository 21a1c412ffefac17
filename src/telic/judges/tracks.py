"""Measures (expressions that judge an episode) and the metrics they consist of.

A *metric* is a registered function of a recorded episode. Called without an episode, it returns a
`Measure`, which arithmetic, comparisons and further metrics extend. The code of a measure is the
expression that people and models write for a criterion.

    lean = abs(track("pitch"))
    share((lean < 0.2) & (track("height") > 0.9))  # share((abs(pitch) < 0.2) & (height > 0.9))

A *track* is an array with one value per step, and a *mask* is a track of conditions. The docstring
of a metric is its description, in which the arguments of the call replace placeholders in braces.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from telic.core.text import is_row, parse_python
from telic.judges.episode import RecordedEpisode as Episode
from telic.quantities import QUANTITIES
from telic.quantities.quantity import observed_value
from telic.rewards.node import bind, parameters_of, shortened, written

Array = np.ndarray[Any, np.dtype[Any]]
Track = Array | str
METRICS: dict[str, Metric] = {}
"""all metrics by name"""
_OF_TRACK = "as the track"
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Measure:
    """Expression in quantities and metrics that is evaluated on the judged episode."""

    code: str
    words: str
    unit: str = ""
    is_total: bool = False
    """whether it summarizes the whole episode rather than a state held over time"""
    digits: int = _DIGITS
    """significant digits of the numbers in operations"""

    def __str__(self) -> str:
        return self.code

    def until(self, direction: str | float, meters: float) -> Measure:
        """Return a copy of the measure that is limited to the time until a distance is covered."""
        return replace(self, code=until(direction, meters, self.code))

    def __gt__(self, other: float) -> Measure:
        return self._with(">", "is above", other, "")

    def __lt__(self, other: float) -> Measure:
        return self._with("<", "is below", other, "")

    def __ge__(self, other: float) -> Measure:
        return self._with(">=", "is at least", other, "")

    def __le__(self, other: float) -> Measure:
        return self._with("<=", "is at most", other, "")

    def __and__(self, other: Measure) -> Measure:
        return self._with("&", "and", other, "")

    def __add__(self, other: Measure | float) -> Measure:
        return self._with("+", "plus", other, self.unit)

    def __sub__(self, other: Measure | float) -> Measure:
        return self if other == 0.0 else self._with("-", "minus", other, self.unit)

    def __mul__(self, other: Measure | float) -> Measure:
        return self._with("*", "times", other, self.unit or _unit(other))

    def __truediv__(self, other: Measure | float) -> Measure:
        is_ratio = _unit(other) in ("", self.unit)
        return self._with("/", "relative to", other, "" if is_ratio else self.unit)

    def __neg__(self) -> Measure:
        return replace(self, code=f"-{_operand(self.code)}", words=f"minus {self.words}")

    def __abs__(self) -> Measure:
        return replace(self, code=f"abs({self.code})", words=f"size of {self.words}")

    def _with(self, sign: str, words: str, other: Measure | float, unit: str) -> Measure:
        other = _measure(other, self.digits)
        code = f"{_operand(self.code)} {sign} {_operand(other.code)}"
        return replace(self, code=code, words=f"{self.words} {words} {other.words}", unit=unit)


def _unit(value: Measure | float) -> str:
    return value.unit if isinstance(value, Measure) else ""


def _measure(value: Measure | float, digits: int) -> Measure:
    if isinstance(value, Measure):
        return value
    number = shortened(value, digits)
    return Measure(written(number), f"{number:.3g}")


def _operand(code: str) -> str:
    is_compound = isinstance(parse_python(code, mode="eval").body, ast.BinOp | ast.Compare)
    return f"({code})" if is_compound else code


def until(direction: str | float, meters: float, code: str) -> str:
    """Return an expression that is evaluated only until the robot has covered a distance."""
    return f"on_way({written(direction)}, {meters:.4g}, {code})"


def track(name: str, *arguments: str, minus: float = 0.0, sign: int = 1) -> Measure:
    """Return a quantity minus an offset as a measure. A `sign` of -1 negates it."""
    code = f"{name}({', '.join(map(written, arguments))})" if arguments else name
    words = f"{name} of {' and '.join(arguments)}" if arguments else name
    value = Measure(code, words, _shown(QUANTITIES[name].unit)) - minus
    return -value if sign < 0 else value


def column(measure: Measure, place: int) -> Measure:
    """Return one column of a measure with several values per step."""
    return replace(measure, code=f"{measure.code}[{place}]", words=f"{measure.words}[{place}]")


def combined(
    function: Literal["minimum", "maximum", "hypot"], first: Measure, *others: Measure | float
) -> Measure:
    """Combine measures, or measures and numbers, at every step."""
    found = first
    for other in others:
        other = _measure(other, first.digits)
        words = f"{function} of {found.words} and {other.words}"
        found = replace(found, code=f"{function}({found.code}, {other.code})", words=words)
    return found


@dataclass(frozen=True, eq=False)
class Metric:
    """Function of an episode, with its unit and the quantities that it uses internally."""

    function: Callable[..., Any]
    unit: str
    uses: tuple[str, ...]
    is_total: bool

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Measure an episode, or return a `Measure` if called without an episode."""
        if args and isinstance(args[0], Episode):
            return self.function(*args, **named)
        name = self.function.__name__
        given = dict(bind(name, self.defaults, args, named, _DIGITS))
        return Measure(
            f"{name}({self._arguments(given)})",
            self._words(given),
            self._unit(next(iter(given.values()), None)),
            self.is_total,
        )

    def _arguments(self, given: dict[str, Any]) -> str:
        codes, by_place = list[str](), True
        for name, value in given.items():
            if not isinstance(value, Measure) and value == self.defaults[name]:
                by_place = False
                continue
            code = value.code if isinstance(value, Measure) else written(value)
            code = value if name == "track" and value in QUANTITIES else code
            codes.append(code if by_place else f"{name}={code}")
        return ", ".join(codes)

    def _words(self, given: dict[str, Any]) -> str:
        args = dict(given)
        if isinstance(args.get("direction"), float):
            args["direction"] = f"at {args['direction']:g} degrees to the left of the start"
        if args.get("aside"):
            args["direction"] = f"{args['direction']} and {args['aside']}"
        template = (inspect.getdoc(self.function) or "").splitlines()[0].rstrip(".")
        text = template.format_map({name: _described(value) for name, value in args.items()})
        return text[:1].lower() + text[1:] if text[1:2].islower() else text

    def _unit(self, track: Any) -> str:
        if self.unit != _OF_TRACK:
            return _shown(self.unit)
        if isinstance(track, Measure):
            return track.unit
        name = next(iter(_texts(track)), "")
        return _shown(QUANTITIES[name].unit) if name in QUANTITIES else ""

    @functools.cached_property
    def defaults(self) -> dict[str, Any]:
        """Names and defaults of the arguments, except for the episode."""
        return parameters_of(self.function, "episode")


def _shown(unit: str) -> str:
    return "" if unit in ("1", "times") else unit


def _described(value: Any) -> str:
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
first = _reduction("first", "{track} at the start.", lambda track: track[0])
last = _reduction("last", "{track} at the end.", lambda track: track[-1])


@metric()
def share(episode: Episode, mask: Array) -> float:
    """Fraction of the time in which {mask}."""
    return episode.share(mask)


@_of_track(is_total=True)
def widest(episode: Episode, tracks: Sequence[str]) -> float:
    """Widest range of {tracks}."""
    return float(max(np.ptp(values_of(episode, track)) for track in tracks))


@metric("per second", is_total=True)
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


@metric("s")
def full_seconds(episode: Episode) -> float:
    """Full duration of the episode."""
    return episode.full_seconds


@metric()
def share_until(episode: Episode, mask: Array) -> float:
    """Fraction of the recording until {mask}; 1 if that never happens."""
    return float(np.argmax(mask)) / len(mask) if np.any(mask) else 1.0


@metric()
def spread(episode: Episode, track: Track) -> float:
    """Standard deviation of {track} relative to its mean, after the first quarter."""
    values = values_of(episode, track)[len(episode) // 4 :]
    return float(np.std(values) / max(float(np.mean(values)), 1e-6))


# ---- tracks derived from others


@_of_track()
def change(episode: Episode, track: Track) -> Array:
    """Change of {track} since the start."""
    values = values_of(episode, track)
    return values - values[0]


@_of_track()
def since(episode: Episode, track: Track, mask: Array) -> Array:
    """Change of {track} since the last time when {mask}."""
    return episode.since(values_of(episode, track), mask)


@metric("times")
def repeats(episode: Episode, mask: Array, end: Array) -> Array:
    """Number of times that {mask} and then {end}."""
    return episode.count(mask, end)


@metric("times")
def cycles(episode: Episode, track: Track, high: float, low: float) -> Array:
    """Number of times that {track} was above {high} and then below {low}."""
    values = values_of(episode, track)
    return episode.count(values > high, values < low)


@metric("per second")
def pace_of(episode: Episode, track: Track) -> Array:
    """{track} per second, averaged over half seconds."""
    return episode.pace(values_of(episode, track))


@metric("per second")
def rate_of(episode: Episode, track: Track) -> Array:
    """Rate of {track}."""
    values = values_of(episode, track)
    return np.gradient(values) / episode.dt if len(values) > 1 else np.zeros(len(values))


@metric()
def observed(episode: Episode, kind: str, columns: Sequence[int]) -> Array:
    """{kind} of the observation's columns {columns}."""
    obs = torch.as_tensor(np.asarray(episode["next_obs"]))
    return observed_value(obs, kind, columns).numpy()
