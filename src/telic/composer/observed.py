"""Intents for environments without a robot: about what is observed, and about their own return.

    keep the pole upright · swing up the pendulum · reach the flag · reach the goal
    keep cart position near 0.5 within 0.2 · keep obs 2 below 1 · keep obs[0] between -1 and 1
    get a return of at least 200 · get a high return

Every word is accounted for: what no criterion came from is listed as not understood.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from telic.composer.blocks import compose_block, is_about_block, left_unread, plain
from telic.composer.draft import Draft, edit, exactly, measure, shortened
from telic.composer.observables import (
    Observable,
    Want,
    family_of,
    has_goal,
    observables,
)
from telic.composer.words import ignored_words
from telic.composer.write import judge_file, reward_file
from telic.envs.spec import EnvSpec
from telic.errors import Refused
from telic.judges import tracks
from telic.judges.criteria import Composition, Covered, Criterion
from telic.rewards.signals import Given, Less, Observed
from telic.rewards.terms import Alive, Hill, Missing, Off, Pay, Reached, Sigmoid

RETURN = "return"
_DIGITS = 6
_SHARE, _SHARE_OF_THE_WAY = 0.85, 0.6
"""of the episode that it should hold; less where it must get there first"""
_NOT = r"(?:not|never|don't|doesn't|without|no|avoid)"
_SIGNED = ("rad", "rad/s", "m/s", "m/step")
_UNLIMITED_STEPS = 500
"""length of an episode where the environment has no time limit"""
_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)"
_UNITS: dict[str, tuple[str, float]] = {
    "rad": ("rad", 1.0),
    "radians": ("rad", 1.0),
    "degrees": ("rad", math.pi / 180.0),
    "deg": ("rad", math.pi / 180.0),
    "m": ("m", 1.0),
    "metres": ("m", 1.0),
    "meters": ("m", 1.0),
    "cm": ("m", 0.01),
    "m/s": ("m/s", 1.0),
    "rad/s": ("rad/s", 1.0),
}
_UNIT = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
_OTHER_UNIT = r"(?: ?(?:hz|hertz|bpm|rpm|%|percent|times|s|secs?|seconds?|minutes?|kg|n)\b)"
_AMOUNT = rf"({_NUMBER})(?: ?({_UNIT})\b)?(?!{_OTHER_UNIT})"
_KEEP = (
    r"(?:(?:try to )?(?:keep|keeping|hold|holding|bring|bringing|get|make|let|leave|drive|move)"
    r"(?: the| its| your)? )?"
)
_IS = r"(?: value)?(?: stays?| staying| is| be| to stay| to be)?"
_MORE = r"(?:above|over|greater than|more than|larger than|higher than|at least|>=|>)"
_LESS = r"(?:below|under|less than|smaller than|lower than|at most|<=|<)"
_NEAR = r"(?:near|around|close to|about|at|to|equal to|=|==)"
_WITHIN = r"(?: (?:to )?(?:within|±|\+-|\+/-|give or take) {amount})?"
_LASTING = (
    r"(?:all the time|at all times|always|throughout|the whole time|the whole episode|"
    r"(?:for )?as long as possible|for the whole episode|until the end|forever)"
)
_RETURN_OF = (
    r"(?:get|getting|reach|achieve|earn|collect|score|make)?(?: a| an| its own)?"
    r"(?: total| mean| average)? ?(?:return|reward|score)(?: of)?"
    rf"(?: at least| more than| over| above)? ({_NUMBER})|(?:get|earn|collect|score|reach) "
    rf"(?:at least |more than )?({_NUMBER}) points"
)
_RETURN_HIGH = (
    r"(?:get|achieve|earn|collect|reach)(?: a| an| the| as)?"
    r"(?: high(?:est)?| good| large| best| maximum| maximal| much)(?: possible)?(?: total)?"
    r" (?:return|reward|score)(?: as possible| possible)?|"
    r"maximi[sz](?:e|ing) (?:the |its )?(?:own )?(?:total )?(?:return|reward|score)|"
    r"solve (?:it|the (?:task|environment|problem|game))|do (?:its|the|your) own task|play well"
)


def is_observed(intent: str, spec: EnvSpec) -> bool:
    """Say whether an intent is about what is observed: no robot, a goal, a block, a column."""
    if spec.robot is None or is_about_block(intent, spec):
        return True
    text = plain(intent)
    goal = has_goal(spec) and _matches(family_of(spec).phrases[0].pattern, text)
    column = re.search(r"\bobs(?:ervation)? ?\[?\d", text) is not None
    return goal or column or ("env_reward" in spec.info_keys and _matches(_RETURN_HIGH, text))


def compose_observed(
    intent: str, spec: EnvSpec, criteria: Sequence[Criterion] | None = None
) -> Composition:
    """Write criteria, reward and judge for an intent about observations; see `compose`.

    Raises:
        Refused: nothing of the intent was understood; says what can be asked here.
    """
    if is_about_block(intent, spec):
        return compose_block(intent, spec, criteria)
    reading = _Reading(plain(intent), spec)
    if not reading.wants:
        raise Refused(
            f'Nothing in "{intent}" can be measured in {spec.id}.', hint=what_can_be_said(spec)
        )
    draft = Draft(doubts=reading.doubts)
    titles: dict[Want, tuple[str, ...]] = {}
    for want in reading.wants:
        before = len(draft.parts)
        _ask(want, reading.known, draft)
        titles[want] = tuple(part.title for part in draft.parts[before:])
    if all(want.kind in ("near", "above", "below") for want in reading.wants):
        draft.pay("alive", 1.0, Alive(), "the episode goes on")
    if criteria is not None:
        edit([draft], criteria)
    steps = spec.max_episode_steps
    if steps is None:
        draft.doubt(f"episodes have no time limit here: {_UNLIMITED_STEPS} steps are taken")
    return Composition(
        intent=intent,
        env=spec.id,
        criteria=tuple(part.criterion() for part in draft.parts),
        reward=reward_file(intent, spec.id, draft),
        judge=judge_file(intent, spec.id, draft),
        env_args={"max_episode_steps": steps or _UNLIMITED_STEPS},
        settings=draft.settings,
        steps=family_of(spec).learns,
        doubts=tuple(draft.doubts),
        not_understood=reading.not_understood,
        **_scope(reading, titles, {part.title for part in draft.parts}),
    )


def _scope(
    reading: _Reading, titles: dict[Want, tuple[str, ...]], kept: set[str]
) -> dict[str, tuple[Any, ...]]:
    """Return which words the criteria that are left stand for, and those that none does."""
    covered: list[Covered] = []
    dropped: list[str] = []
    for want, own in titles.items():
        left = tuple(title for title in own if title in kept)
        if left:
            covered.append(Covered(words=reading.heard[want], criteria=left))
        else:
            dropped.append(reading.heard[want])
    return {"covered": tuple(covered), "dropped": tuple(dropped)}


def what_can_be_said(spec: EnvSpec) -> str:
    """Return what can be asked of an environment, by example."""
    known = family_of(spec)
    names = [each.name for each in observables(spec)]
    examples = [f'"{phrase.example}"' for phrase in known.phrases]
    examples += [f'"keep {names[0]} near 0 within 0.1"', f'"keep obs {len(spec.obs_names) - 1} ']
    examples[-1] += 'below 1"'
    examples.append(
        '"get a high return"'
        if spec.solved_return is not None
        else '"get a return of at least 100"'
    )
    listed = ", ".join(dict.fromkeys(names[:12])) + (", ..." if len(names) > 12 else "")
    missing = ""
    if not any("goal" in phrase.example for phrase in known.phrases):
        missing = (
            " To bring something somewhere, both must be observed by name: a Dict with puck and "
            "goal, say."
        )
    return f"Ask for example: {', '.join(examples)}. Observed are: {listed}.{missing}"


def _matches(pattern: str, text: str) -> bool:
    return re.search(rf"(?<![\w]){_grouped(pattern)}(?![\w])", text) is not None


def _grouped(pattern: str) -> str:
    return f"(?:{pattern})"


class _Reading:
    """What an intent wants, and which of its words were used for it."""

    def __init__(self, text: str, spec: EnvSpec) -> None:
        self._text = text
        self._spec = spec
        self.wants: list[Want] = []
        self.heard: dict[Want, str] = {}
        """the words that each was read from"""
        self._last = ""
        self.doubts: list[str] = []
        self.known: dict[str, Observable] = {}
        for each in observables(spec):
            for name in (each.name, *each.words):
                self.known.setdefault(plain(name), each)
        for phrase in family_of(spec).phrases:
            while self._take(phrase.pattern):
                self._want(*phrase.wants)
        self._returns()
        self._columns()
        self._take(_LASTING)
        if re.search(rf"(?<!\w){_NOT}(?: \w+)? ·", self._text):
            self.wants = []  # the opposite was asked, which is not what was read
        ignored = ignored_words() | {*re.findall(r"[a-z]+", spec.id.lower()), "and", "while"}
        self.not_understood = tuple(left_unread(self._text, ignored))

    def _want(self, *wants: Want) -> None:
        for want in wants:
            if want not in self.wants:
                self.wants.append(want)
                self.heard[want] = self._last

    def _take(self, pattern: str) -> re.Match[str] | None:
        """Match words that nothing has used yet, and use them."""
        found = re.search(rf"(?<![\w.·]){_grouped(pattern)}(?![\w]|\.\d)", self._text)
        if found is not None and found.group().strip():
            rest = f"{self._text[: found.start()]} · {self._text[found.end() :]}"
            self._text = " ".join(rest.split())
            self._last = found.group().strip()
            return found
        return None

    def _returns(self) -> None:
        if "env_reward" not in self._spec.info_keys:
            return
        while found := self._take(_RETURN_OF):
            value = float(found[1] or found[2])
            self._want(Want("return", RETURN, value, None, f"earns a return of {value:g}"))
        solved = self._spec.solved_return
        if solved is not None and self._take(_RETURN_HIGH):
            self.doubts.append(f"a high return is taken as {solved:g}, where it counts as solved")
            self._want(Want("return", RETURN, solved, None, f"earns a return of {solved:g}"))

    def _columns(self) -> None:
        names = "|".join(sorted(map(re.escape, self.known), key=len, reverse=True))
        head = rf"{_KEEP}(?:(?:the|its) )?({names}){_IS}"
        within = _WITHIN.format(amount=_AMOUNT)
        patterns = (
            (rf"{head} between {_AMOUNT} and {_AMOUNT}", self._between),
            (rf"{head} {_NEAR} {_AMOUNT}{within}", self._near),
            (
                rf"{head} within {_AMOUNT}(?: of (?:0|zero|the (?:middle|cent(?:er|re))))?",
                self._within,
            ),
            (rf"{head} {_MORE} {_AMOUNT}", self._above),
            (rf"{head} {_LESS} {_AMOUNT}", self._below),
        )
        for pattern, read in patterns:
            while found := self._take(pattern):
                is_known = not self._begins_otherwise()
                if not is_known or not read(self.known[found[1]], found.groups()[1:]):
                    self._text += f" {found.group()}"  # a unit that does not fit: not understood
                    break

    def _near(self, what: Observable, said: Sequence[str | None]) -> bool:
        value = _amount(said[0], said[1] or said[3], what)
        tolerance = _amount(said[2], said[3] or said[1], what)
        if value is None or (said[2] is not None and tolerance is None):
            return False
        if tolerance is None:
            tolerance = what.near
            self.doubts.append(f"near is taken as within {tolerance:g} of {value:g}")
        self._want(Want("near", what.name, value, abs(tolerance) or what.near))
        return True

    def _between(self, what: Observable, said: Sequence[str | None]) -> bool:
        low = _amount(said[0], said[1] or said[3], what)
        high = _amount(said[2], said[3] or said[1], what)
        if low is None or high is None or low == high:
            return False
        self._want(Want("near", what.name, 0.5 * (low + high), 0.5 * abs(high - low)))
        return True

    def _begins_otherwise(self) -> bool:
        """Say whether another deed than keeping was asked for: "oscillate the cart at 1 m"."""
        names_only = re.sub(r"^(?:the|its) ", "", self._last).startswith(tuple(self.known))
        before = self._text.partition("·")[0].split() if names_only else []
        return bool(before) and before[-1] not in ignored_words() | {"and", "while"}

    def _within(self, what: Observable, said: Sequence[str | None]) -> bool:
        """Keep it so near to 0, to either side."""
        value = _amount(said[0], said[1], what)
        if value is None or value <= 0.0:
            return False
        self._want(Want("near", what.name, 0.0, value))
        return True

    def _above(self, what: Observable, said: Sequence[str | None]) -> bool:
        return self._side("above", what, said)

    def _below(self, what: Observable, said: Sequence[str | None]) -> bool:
        # A small angle or speed is one that is small to either side.
        is_size = what.unit in _SIGNED and self._within(what, said)
        return is_size or self._side("below", what, said)

    def _side(self, kind: str, what: Observable, said: Sequence[str | None]) -> bool:
        value = _amount(said[0], said[1], what)
        if value is None:
            return False
        self._want(Want("above" if kind == "above" else "below", what.name, value))
        return True


def _amount(number: str | None, unit: str | None, what: Observable) -> float | None:
    """Return a number in the observable's unit; None: there is none, or of another unit."""
    if number is None:
        return None
    if unit is None:
        return float(number)
    kind, factor = _UNITS[unit]
    return float(number) * factor if what.unit in ("", kind) else None


# ------------------------------------------------------------------------- criteria of the wants


def _ask(want: Want, known: dict[str, Observable], draft: Draft) -> None:
    """Write the terms and the criterion of one want."""
    number = sum(name.startswith(("near", "there", "earned")) for name in draft.names) + 1
    if want.kind == "return":
        draft.pay(f"earned_{number}", 1.0, Pay(Given("env_reward")), "its own reward")
        zero = want.value - max(abs(want.value), 1.0)
        earned = measure(tracks.total, "env_reward")
        _once(want.title, earned, "return of the episode", zero, want.value, "", draft)
        return
    what = known[want.what]
    x, seen = Observed(what.kind, what.columns), measure(tracks.observed, what.kind, what.columns)
    if want.kind == "reach":
        _reach(want, what, known, number, draft)
        return
    unit, at = f" {what.unit}" if what.unit else "", shortened(want.value, _DIGITS)
    if want.kind == "near":
        tolerance = shortened(want.tolerance or what.near, _DIGITS)
        words = f"{what.name} near {want.value:g}"
        draft.pay(f"near_{number}", 1.0, Hill(x, at, tolerance), words)
        words = f"{what.name}: way to {want.value:g}"
        draft.pay(f"way_{number}", 0.5, Off(x, at, max(what.span, tolerance)), words)
        value = exactly(tracks.share_near, seen, at, tolerance)
        title = want.title or f"keeps {what.name} within {tolerance:g}{unit} of {want.value:g}"
        meaning = f"share of the time with {what.name} within {tolerance:g} of {want.value:g}"
    else:
        is_above = want.kind == "above"
        meaning = f"{what.name} {want.kind} {want.value:g}"
        pays = Sigmoid(Less(x, at, sign=1 if is_above else -1), what.near)
        draft.pay(f"there_{number}", 1.0, pays, meaning)
        value = exactly(tracks.share_above if is_above else tracks.share_below, seen, at)
        title = want.title or f"keeps {what.name} {want.kind} {want.value:g}{unit}"
        meaning = f"share of the time with {meaning}"
    goal = _SHARE_OF_THE_WAY if what.is_far and (want.value or not what.starts_at_0) else _SHARE
    draft.leaf(title, meaning, value, 0.2 * goal, goal, weight=2.0, tag="too_far")


def _reach(
    want: Want, what: Observable, known: dict[str, Observable], number: int, draft: Draft
) -> None:
    """Get there once: every step costs until then, for many environments end there."""
    start, led, low, high = want.value - what.span, what, want.value - what.span, want.value
    if want.helped_by is not None:
        led, low, high = known[want.helped_by[0]], *want.helped_by[1:]
    pays = Missing(Observed(led.kind, led.columns), high, shortened(high - low))
    draft.pay(f"way_{number}", 1.0, pays, f"{what.name}: what is missing")
    there = Reached(Observed(what.kind, what.columns), want.value)
    draft.pay(f"there_{number}", 20.0, there, f"{what.name} from {want.value:g} on")
    title = want.title or f"gets {what.name} to {want.value:g}"
    seen = measure(tracks.observed, what.kind, what.columns)
    value, meaning = measure(tracks.highest, seen), f"highest {what.name}"
    _once(title, value, meaning, start, want.value, what.unit, draft)


def _once(
    title: str, value: float, meaning: str, zero: float, goal: float, unit: str, draft: Draft
) -> None:
    """Judge what is done or not: how near it came earns a little, and never enough to pass."""
    done = exactly(tracks.reaches, value, shortened(goal, _DIGITS))
    words = f"1 if {meaning} is {goal:g} or more"
    draft.total(title, words, done, 0.0, 1.0, weight=3.0, tag="too_low")
    draft.total(f"{title}, nearly", meaning, value, zero, goal, unit=unit, tag="too_low")
