"""What can be measured where there is no robot: the observation, by documented name or by number.

Gymnasium's classic control tasks have names, units and phrases of their own; environments with
goals have the distance to them; any other has its columns, `obs[0]`, and its own return.
"""

from __future__ import annotations

import math
import re
from typing import Literal, NamedTuple

from telic.envs.spec import EnvSpec
from telic.quantities.observed import ObservedKind

WantKind = Literal["near", "above", "below", "reach", "return"]


class Observable(NamedTuple):
    """Something that follows from one observation."""

    name: str
    kind: ObservedKind
    columns: tuple[int, ...]
    """which columns of the observation it follows from, see `telic.quantities.observed`"""
    unit: str = ""
    near: float = 0.1
    """what counts as near a value, where no tolerance is said"""
    span: float = 1.0
    """how far off it may be at first"""
    words: tuple[str, ...] = ()
    """other names of it"""
    is_far: bool = False
    """whether it takes a part of the episode to get to where it should be"""
    starts_at_0: bool = False
    """whether it begins at 0, so that only other values are far"""


class Want(NamedTuple):
    """What shall be true of an observable, or of the return (an observable without a name)."""

    kind: WantKind
    what: str
    value: float
    tolerance: float | None = None
    title: str = ""
    helped_by: tuple[str, float, float] | None = None
    """another observable that leads to it, with its value at the start and at the goal"""


class Phrase(NamedTuple):
    """Words that mean something in one family of environments."""

    pattern: str
    wants: tuple[Want, ...]
    example: str


class Family(NamedTuple):
    """What is known of environments of one kind."""

    observables: tuple[Observable, ...] = ()
    phrases: tuple[Phrase, ...] = ()
    learns: int = 400_000
    """steps that it takes to learn"""


_UP = r"(?: (?:up|upright|balanced|vertical|standing|steady|still|in balance))"
_THERE = rf"(?: and (?:then )?(?:keep|hold|balance|stay)(?: it)?(?: there)?{_UP}?(?: there)?)?"


def _upright(noun: str, want: Want) -> tuple[Phrase, ...]:
    """Return the ways to ask that something is kept up."""
    it = rf"(?:(?:the|its|a|your) )?(?:{noun})"
    return (
        Phrase(
            rf"(?:keep|hold)(?:ing)? {it}{_UP}+|balanc(?:e|ing) {it}(?: on the cart)?{_UP}*|"
            rf"balance(?! upside)|(?:stay|stand) upright|"
            rf"(?:keep|prevent)(?:ing)? {it} from (?:falling|tipping)(?: over| down)?|"
            rf"(?:do not|don't|never|not) (?:let|letting) {it} (?:fall|tip|drop)(?: over| down)?|"
            rf"without (?:dropping|letting) {it}(?: (?:fall|drop)(?: over)?)?",
            (want,),
            f"keep the {noun.partition('|')[0]} upright",
        ),
    )


_POLE = Want("near", "pole angle", 0.0, 0.1, "keeps the pole upright")
_FLAG = Want("reach", "position", 0.45, None, "reaches the flag", ("energy", -0.000833, 0.000813))
_VALLEY = (
    Observable("position", "column", (0,), "m", 0.05, 1.0, ("place", "car position")),
    Observable("velocity", "column", (1,), "m/step", 0.01, 0.07, ("speed", "car velocity")),
    Observable("energy", "car energy", (0, 1)),
)
_CLIMB = Phrase(
    r"(?:reach|get to|get up|climb|climb up|drive up|go up|arrive at|touch|drive to|go to|get)"
    r"(?: to)? (?:the |up the )?(?:flag|goal|top|hill|mountain|summit|hilltop)"
    r"(?: of the (?:hill|mountain))?",
    (_FLAG,),
    "reach the flag",
)
_END = r"(?:(?:the|its) (?:tip|end|arm|links?|lower link|foot|free end|acrobot)|it)"
_LINE = r"(?:above|over|to|past) the (?:line|bar)"

FAMILIES: dict[str, Family] = {
    "CartPole": Family(
        (
            Observable(
                "cart position",
                "column",
                (0,),
                "m",
                0.5,
                2.4,
                ("cart", "position of the cart"),
                is_far=True,
                starts_at_0=True,
            ),
            Observable("cart velocity", "column", (1,), "m/s", 0.3, 2.0, ("speed of the cart",)),
            Observable(
                "pole angle", "column", (2,), "rad", 0.1, 0.2, ("angle", "angle of the pole")
            ),
            Observable("pole angular velocity", "column", (3,), "rad/s", 0.5, 2.0),
        ),
        (
            *_upright("pole|stick|rod|beam|it", _POLE),
            Phrase(
                r"(?:keep|hold)(?:ing)? the cart (?:in|near|at|close to) the "
                r"(?:middle|cent(?:er|re))|keep(?:ing)? the cart cent(?:ered|red)",
                (Want("near", "cart position", 0.0, 0.5, "keeps the cart in the middle"),),
                "keep the cart in the middle",
            ),
            Phrase(
                r"(?:move|drive|push|go|bring)(?:ing)?(?: the cart)?(?: to the)? left",
                (_POLE, Want("below", "cart position", -0.5, None, "is on the left")),
                "move the cart to the left",
            ),
            Phrase(
                r"(?:move|drive|push|go|bring)(?:ing)?(?: the cart)?(?: to the)? right",
                (_POLE, Want("above", "cart position", 0.5, None, "is on the right")),
                "move the cart to the right",
            ),
        ),
        100_000,
    ),
    "Pendulum": Family(
        (
            Observable("angle", "angle", (0, 1), "rad", 0.3, math.pi, is_far=True),
            Observable("height", "column", (0,), "m", 0.1, 2.0, ("height of the tip",)),
            Observable(
                "angular velocity", "column", (2,), "rad/s", 0.5, 8.0, ("speed", "velocity")
            ),
        ),
        (
            *_upright("pendulum|pole|rod|it", Want("near", "angle", 0.0, 0.3, "is upright")),
            Phrase(
                r"swing(?:ing)? (?:up(?: the (?:pendulum|pole|rod)| it)?|"
                rf"(?:(?:the (?:pendulum|pole|rod)|it) )?up(?:right)?){_THERE}",
                (Want("near", "angle", 0.0, 0.3, "is upright"),),
                "swing up the pendulum",
            ),
            Phrase(
                r"(?:let it |let the pendulum )?hang(?: down)?(?: still)?|"
                r"(?:keep|hold) (?:it|the pendulum) (?:down|hanging|at rest|still)",
                (
                    Want("below", "height", -0.9, None, "hangs down"),
                    Want("near", "angular velocity", 0.0, 0.5, "is at rest"),
                ),
                "let the pendulum hang still",
            ),
        ),
        400_000,
    ),
    "Acrobot": Family(
        (
            Observable(
                "tip height",
                "tip height",
                (0, 1, 2, 3),
                "m",
                0.2,
                3.0,
                ("height", "height of the tip", "end height"),
            ),
            Observable("first velocity", "column", (4,), "rad/s", 0.5, 4.0),
            Observable("second velocity", "column", (5,), "rad/s", 0.5, 9.0),
        ),
        (
            Phrase(
                rf"swing(?:ing)?(?: {_END})?(?: up)?(?: {_LINE})?|"
                rf"(?:bring|get|lift|raise|move)(?:ing)? {_END}(?: up(?: {_LINE})?| {_LINE})|"
                r"(?:reach|touch)(?: above)? the line",
                (Want("reach", "tip height", 1.0, None, "swings its end above the line"),),
                "swing the tip above the line",
            ),
        ),
        400_000,
    ),
    "MountainCar": Family(_VALLEY, (_CLIMB,), 500_000),
    "MountainCarContinuous": Family(_VALLEY, (_CLIMB,), 300_000),
}
GOAL_DISTANCE = "distance to the goal"
_GOAL_STEPS = 100_000
_GOAL = Phrase(
    r"(?:reach|touch|hit)(?:ing)?(?: for| out for)? (?:the |its |a )?"
    r"(?:goal|target|point|position|desired goal)s?|"
    r"(?:go|get|move|come)(?:ing)? to (?:the |its )?(?:goal|target|point|position)|"
    r"(?:push|slide|move|bring|put|carry|lift|take|pick|place|get)(?:ing)?(?: up)?"
    r"(?: (?:the|its) (?:block|puck|object|cube|box|gripper|hand|arm|fingertips?|end effector)| it)"
    r"(?: up)?(?: to| onto| into| on| at)(?: the)? (?:goal|target|position)",
    (Want("near", GOAL_DISTANCE, 0.0, 0.05, "is at its goal"),),
    "reach the goal",
)


_GOALS = ("goal", "target", "goal_position", "target_position", "goal_pos", "target_pos")
_NO_PLACE = r"vel|speed|rate|quat|angle|force|achieved_goal|desired_goal"
_BRING = (
    r"(?:push|slide|move|bring|put|carry|take|roll|drag|pull|shove|get|place|drive|steer)(?:ing)?"
)


def _brought(spec: EnvSpec) -> list[tuple[Observable, Phrase]]:
    """Return what can be brought to a goal: things that are observed by name, as the goal is.

    Names are those of a Dict or of columns: puck_0 and puck_1, or puck_x and puck_y.
    """
    stems: dict[str, list[int]] = {}
    for index, name in enumerate(spec.obs_names):
        if match := re.fullmatch(r"(.+)_(?:\d|[xyz])", name.lower()):
            stems.setdefault(match[1], []).append(index)
    goal = next((stem for stem in _GOALS if stem in stems), None)
    found: list[tuple[Observable, Phrase]] = []
    for stem, columns in stems.items() if goal is not None else ():
        if stem in _GOALS or re.search(_NO_PLACE, stem) or len(columns) != len(stems[goal or ""]):
            continue
        thing = re.sub(r"_(?:pos|position|place|xy|xyz)$", "", stem).replace("_", " ")
        name, both = f"distance of the {thing} to the goal", (*columns, *stems[goal or ""])
        distance = Observable(name, "distance", both, "", 0.05, 0.5, is_far=True)
        pattern = (
            rf"{_BRING}(?: (?:the|its|a))? {re.escape(thing)}(?: over)?(?: to| onto| into| on| at)"
            r"(?: the| its| a)? (?:goal|target)(?: position)?"
        )
        title = f"brings the {thing} within 0.05 of the goal"
        want = Want("near", name, 0.0, 0.05, title)
        found.append((distance, Phrase(pattern, (want,), f"push the {thing} to the goal")))
    return found


def family_of(spec: EnvSpec) -> Family:
    """Return what is known of an environment besides its columns."""
    known = FAMILIES.get(spec.id.rpartition("-v")[0], Family())
    if brought := _brought(spec):
        known = known._replace(
            observables=(*(distance for distance, _ in brought), *known.observables),
            phrases=(*(phrase for _, phrase in brought), *known.phrases),
            learns=_GOAL_STEPS,
        )
    distance = _goal_distance(spec)
    if distance is None:
        return known
    return known._replace(
        observables=(distance, *known.observables),
        phrases=(_GOAL, *known.phrases),
        learns=_GOAL_STEPS,
    )


def observables(spec: EnvSpec) -> tuple[Observable, ...]:
    """Return everything that an observation tells: by documented name, then column by column."""
    columns = tuple(
        Observable(
            re.sub(r"[_\W]+", " ", name).strip() or f"obs {index}",
            "column",
            (index,),
            words=(name.lower(), f"obs {index}", f"obs[{index}]", f"observation {index}"),
        )
        for index, name in enumerate(spec.obs_names)
    )
    return (*family_of(spec).observables, *columns)


def has_goal(spec: EnvSpec) -> bool:
    """Say whether an environment observes a goal and what of it is achieved."""
    return _goal_distance(spec) is not None


def _goal_distance(spec: EnvSpec) -> Observable | None:
    """Return the distance to the goal of an environment that observes both."""
    places: list[list[int]] = [
        [i for i, name in enumerate(spec.obs_names) if re.fullmatch(rf"{stem}(_\d+)?", name)]
        for stem in ("achieved_goal", "desired_goal")
    ]
    achieved, desired = places
    if not achieved or len(achieved) != len(desired):
        return None
    words = ("distance to the target", "goal distance", "distance")
    both = (*achieved, *desired)
    return Observable(GOAL_DISTANCE, "distance", both, "m", 0.05, 0.3, words, is_far=True)
