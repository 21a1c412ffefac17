"""Going over ground that is not flat: up and down stairs and slopes, across rough ground.

The environment lays the ground in fields from easy to hard, and training goes from field to field
as it gets on. Judged are fields that were drawn anew. Whoever is to climb starts at the foot of a
field with the way up ahead: to walk on beside it, to turn round and to fall off gain no height.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from telic.composer.draft import Draft, measure
from telic.composer.footing import go_in_steps
from telic.composer.frames import Direction, Frame
from telic.composer.gaits import STEPPING, gait_meant, keep_time
from telic.composer.scene import Scene
from telic.judges import metrics, tracks
from telic.rewards.signals import Climbed, Not
from telic.rewards.terms import Pay
from telic.robots.terrain import (
    STAIRS_M,
    TO_TOP_M,
    TerrainKind,
    hardest_step,
    steepest,
    steps_of,
)

_HARDEST: dict[TerrainKind, float] = {"stairs": 0.6, "slopes": 0.6, "rough": 0.7}
"""how hard the hardest fields are where the words do not say it"""
_PRACTICE = 3.0
"""times as long as going on flat ground"""
_ENOUGH, _LITTLE = 0.75, 0.1
"""of the way up or down: what earns everything, and nothing"""
_ONTO_TOP_M = 0.4
_SECONDS = (3.0, 16.0)
_GRIP = 0.1


class WayOver(NamedTuple):
    """Ground as an intent means it."""

    kind: TerrainKind
    hardest: float
    climbs: int
    """1 up, -1 down, 0 neither"""


def way_over(frame: Frame) -> WayOver | None:
    """Return the ground that a frame goes over; None: flat ground."""
    if frame.ground is None:
        return None
    ups = 0 if frame.ground == "rough" else -1 if frame.direction is Direction.DOWN else 1
    return WayOver(frame.ground, frame.hardest or _HARDEST[frame.ground], ups)


def require_ground(frame: Frame, scene: Scene) -> None:
    """Refuse to go up or down where there is nothing to climb, and ground that cannot be laid."""
    if frame.ground is not None and "terrain" not in scene.spec.arguments:
        why = "its environment is flat; robots that telic drives by position have it (telic robots)"
        raise scene.cannot(f"go over {frame.ground}", why)
    if frame.ground is None and frame.direction in (Direction.UP, Direction.DOWN):
        raise scene.cannot(
            f"go {frame.direction}",
            f'there is nothing to climb; say what: "go {frame.direction} the stairs", or the slope',
        )


def lay_ground(
    frame: Frame, scene: Scene, draft: Draft, speed: float, ways: tuple[str, str | None]
) -> None:
    """Ask the environment for the ground, and judge what is climbed of it.

    `ways` are the direction of travel, and a second one where it is half way between two.
    """
    way = way_over(frame)
    if way is None:
        return
    draft.env_args |= {
        "terrain": way.kind,
        "terrain_hardest": way.hardest,
        "terrain_start": "foot" if way.climbs > 0 else "top",
    }
    draft.practice = max(draft.practice, _PRACTICE)
    draft.settings |= {"log_std": STEPPING}
    draft.doubt(_words(frame, way, scene))
    if way.climbs:
        lasts = (TO_TOP_M + _ONTO_TOP_M) / max(speed, 0.05) + 1.0
        low, high = _SECONDS
        draft.seconds = frame.duration_s or min(max(lasts, low), high)
        _climb(way, scene, draft, ways)
    if frame.gait is None:
        _step(frame, scene, draft)


def _words(frame: Frame, way: WayOver, scene: Scene) -> str:
    tall = scene.stands
    sizes = {
        "stairs": f"steps of up to {100 * hardest_step(way.hardest, tall):.2g} cm",
        "slopes": f"slopes of up to {math.degrees(steepest(way.hardest)):.2g} degrees",
        "rough": f"lumps of up to {way.hardest * 18:.2g} % of its height",
    }
    return f'"{frame.word}": {sizes[way.kind]}, in fields from easy to hard'


def _climb(way: WayOver, scene: Scene, draft: Draft, ways: tuple[str, str | None]) -> None:
    """Pay and judge the share of the way up, or down, that is made."""
    stairs = way.kind == "stairs"
    count = float(steps_of(scene.stands)) if stairs else STAIRS_M
    share = Climbed(count)
    pays = Pay(share if way.climbs > 0 else Not(share))
    draft.pay("climb", 1.0, pays, "share of the way up or down that is made")
    verb = "climbs" if way.climbs > 0 else "gets down"
    what, unit = ("steps", "steps") if stairs else ("m of the slope", "m")
    goal = float(math.floor(_ENOUGH * count)) if stairs else _ENOUGH * count
    title = f"{verb} {goal:.2g} {what}"
    meaning = "height of the ground below it above where it began, in steps"
    if not stairs:
        meaning = "height of the ground below it above where it began, as way along the slope"
    if way.climbs < 0:
        meaning = meaning.replace("above", "below")
    value = measure(tracks.highest, measure(metrics.climbed, way.climbs))
    least = _LITTLE * count
    draft.total(title, meaning, value, least, goal, weight=4.0, unit=unit, tag="too_low")
    draft.guard(
        "does not go round it", meaning, value, least, 0.5 * goal, unit=unit, tag="never_moves"
    )
    meaning = "way ahead that it went back again in the end, of all it had made"
    value = measure(metrics.turned_back, *ways)
    draft.guard("does not turn back", meaning, value, 0.8, 0.4, tag="wrong_way")


def _step(frame: Frame, scene: Scene, draft: Draft) -> None:
    """Teach to step where no gait was said: who slides along does not get over anything."""
    gait = gait_meant(frame, scene)
    if gait is not None:
        keep_time(gait, scene, draft)
        go_in_steps(gait.name, scene, draft, _GRIP)
