"""Numbers that no episode can show: too far, too fast, too often, or no more than a stumble.

A criterion that nobody can meet trains in vain; one that is met by a tremble proves nothing. Both
are refused before training, with the number that could be asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from telic.composer.frames import Act, Frame
from telic.composer.scene import Scene
from telic.composer.sizes import FROUDE, froude_speed, known_bests

LONGEST_S = 40.0
"""of an episode"""
_MOST_SPEED, _MOST_JUMP = 3.0, 5.0
"""times the best speed that is known, and the length of the legs"""
_MOST_TIMES, _MOST_TURNS = 100.0, 80.0
_LEAST_WAY, _LEAST_JUMP = 0.5, 0.2
"""of the length of the legs: one lurch gets a body so far, and flailing so high"""
_LEAST_M, _LEAST_TURN, _LEAST_MPS = 0.05, 0.01, 0.01
_TURNING = (Act.TURN, Act.FLIP, Act.ROLL, Act.CIRCLE)
_GOES = (Act.GO, Act.HOP, Act.CIRCLE)
_LEAPS = (Act.JUMP, Act.HOP)


class _Size(NamedTuple):
    """A number that was said, and between which it can be shown."""

    value: float
    least: float
    most: float
    unit: str

    def why_not(self) -> str | None:
        """Return why it cannot be judged; None: it can."""
        if self.value > self.most:
            return f"an episode of {LONGEST_S:g} s has room for {self.most:.3g} {self.unit} at most"
        if 0.0 < self.value < self.least:
            return f"less than {self.least:.2g} {self.unit} is no more than a stumble"
        return None


def require_sizes(frames: Iterable[Frame], scene: Scene) -> None:
    """Refuse what takes longer than an episode, or is no more than a stumble.

    Raises:
        BadEnvironment: says how much could be asked for.
    """
    for frame in frames:
        for size in _sizes(frame, scene):
            if why := size.why_not():
                said = f"{size.value:g} {size.unit}"
                raise scene.cannot(f'show "{frame.word}" by {said}', why)


def _sizes(frame: Frame, scene: Scene) -> Iterator[_Size]:
    amount = frame.amount
    if frame.count is not None:
        yield _Size(float(frame.count), 0.0, _MOST_TIMES, "times")
    if amount is None:
        return
    fastest, leg = _fastest(scene), scene.leg or 0.0
    least_way = max(_LEAST_M, _LEAST_WAY * leg)
    match amount.unit:
        case "m/s" if frame.verb in _GOES:
            yield _Size(amount.value, _LEAST_MPS, _MOST_SPEED * fastest, "m/s")
        case "m" if frame.verb is Act.GO and frame.dimension == "distance":
            yield _Size(amount.value, least_way, fastest * LONGEST_S, "m")
        case "m" if frame.verb is Act.CIRCLE and frame.dimension == "distance":
            laps = 2.0 * math.pi * (frame.count or 1)
            yield _Size(amount.value, least_way, fastest * LONGEST_S / laps, "m of radius")
        case "m" if frame.verb in _LEAPS and frame.dimension == "height":
            yield _Size(amount.value, _LEAST_JUMP * leg, _MOST_JUMP * (leg or 1.0), "m high")
        case "turns" | "rad" if frame.verb in _TURNING:
            turns = amount.value / (2.0 * math.pi if amount.unit == "rad" else 1.0)
            yield _Size(turns, _LEAST_TURN, _MOST_TURNS, "turns")
        case _:
            return


def _fastest(scene: Scene) -> float:
    """Return the best speed that is known of a robot, or that its legs are good for."""
    known = known_bests().get(scene.spec.id, {}).get("speed", 0.0)
    legs = froude_speed(scene, FROUDE["sprint"]) if scene.leg is not None else 0.0
    return max(scene.top_speed, float(known), legs)
