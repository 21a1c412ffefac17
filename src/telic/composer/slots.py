"""Fill the slots of one frame from the items of its sketch, and record which words filled which."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from telic.composer.amounts import Reading
from telic.composer.frames import (
    Act,
    Amount,
    Degree,
    Direction,
    Frame,
    Posture,
    Style,
    Unit,
)
from telic.composer.grammar import Item
from telic.composer.lexicon import Sense, table
from telic.composer.parts import BodyPart
from telic.composer.sketches import Sketch, implied_verb
from telic.robots.terrain import TERRAINS, TerrainKind

# What "as much as possible" is about when only the verb says it.
_VERBS_ABOUT = {
    "speed": (Act.GO, Act.CIRCLE, Act.STAND_UP, Act.STOP, Act.OBEY),
    "height": (Act.JUMP, Act.HOP, Act.SWING, Act.LIFT, Act.KICK),
    "turning": (Act.FLIP, Act.ROLL, Act.TURN),
    "distance": (Act.REACH,),
    "duration": (Act.STAND, Act.SIT, Act.LIE, Act.BALANCE),
}
_ABOUT = {verb: dimension for dimension, verbs in _VERBS_ABOUT.items() for verb in verbs}
_TURNING = {Act.TURN, Act.FLIP, Act.ROLL}
_HIGH = {Act.JUMP, Act.HOP, Act.LIFT, Act.KICK, Act.SWING, Act.STAND, Act.STAND_UP}
_LIMB_VERBS = {Act.KICK, Act.LIFT, Act.SWING}
_COUNTED = {Act.JUMP, Act.HOP, Act.CIRCLE, Act.SIT, Act.STAND_UP, *_TURNING, *_LIMB_VERBS}
_STRONGER = {Degree.FAST: Degree.VERY_FAST, Degree.SLOW: Degree.VERY_SLOW}
_LEAST = {Degree.SLOW: Degree.VERY_SLOW, Degree.LITTLE: Degree.LITTLE}
_DIMENSION_OF = {"m/s": "speed", "rad/s": "turning", "rad": "turning", "turns": "turning"}
_UNIT_OF: dict[str, Unit] = {"speed": "m/s", "height": "m", "distance": "m", "turning": "rad/s"}
_LIMBS = ("leg", "foot", "feet", "arm", "hand", "thigh", "shin", "tail", "link")
_ONE_LEG = {"left leg", "right leg", "left foot", "right foot"}
_NOT_AHEAD = {Direction.BACKWARD, Direction.LEFT, Direction.RIGHT, Direction.SIDEWAYS}
_LEVEL = {Direction.FORWARD, Direction.BACKWARD, Direction.LEFT, Direction.RIGHT}
_BESIDES = (Direction.UP, Direction.IN_PLACE)
"""directions that another one goes before"""


class Slots:
    """The items of one sketch, taken slot by slot."""

    def __init__(self, sketch: Sketch) -> None:
        self.sketch = sketch
        self.claims: list[tuple[str, Item, Sense | None]] = []
        """slots that were filled, each with the words and their meaning"""
        self.in_place: list[Item] = []
        """items that ask not to leave the place"""
        self.part, self.has_target = self._part()
        self.verb = self._verb()

    def frame(self) -> Frame:
        """Return what the sketch asks for."""
        says = self.sketch.says
        direction = self._direction()
        ground, hardest, direction = self._ground(direction)
        degree, dimension = self._degree()
        numbers = self._numbers(dimension)
        amount, turns = numbers.pop("amount", None), says.get("turns")
        if amount is None and turns is not None and "count" not in numbers:
            amount = Amount(value=turns, unit="turns", rule="about")
        if amount is None and degree is None:
            dimension = None
        if amount is not None and amount.value < 0:
            # "at -2 m/s" is backward, "by -90 degrees" to the right
            amount = amount.model_copy(update={"value": -amount.value})
            is_turn = self.verb is Act.TURN
            direction = direction or (Direction.RIGHT if is_turn else Direction.BACKWARD)
        if amount is not None and amount.unit == "share" and degree is Degree.MOST:
            degree = None  # "80 % of top speed"
        return Frame(
            verb=self.verb,
            word=self.sketch.word,
            gait=says.get("gait"),
            direction=direction,
            degree=degree,
            dimension=self._dimension(degree, dimension, amount, direction),
            amount=amount,
            until_end=self._until_end(timed="duration_s" in numbers),
            ground=ground,
            hardest=hardest,
            part=self.part.name if self.part else None,
            bodies=self.part.bodies if self.part else (),
            postures=self._postures(),
            styles=self._styles(),
            phase=self.sketch.phase,
            **numbers,
        )

    def _senses(self, slot: str) -> Iterator[tuple[Item, Sense]]:
        for item in self.sketch.items:
            sense = item.sense(self.verb)
            if sense is not None and sense.slot == slot and item.slot != "until_end":
                yield item, sense

    def _use(self, slot: str, item: Item, sense: Sense | None = None) -> None:
        self.claims.append((slot, item, sense))

    def _used(self, slot: str) -> set[str]:
        """Use all words for a slot; return their values."""
        found = list(self._senses(slot))
        self.claims += [(slot, item, sense) for item, sense in found]
        return {sense.value for _, sense in found}

    def _part(self) -> tuple[BodyPart | None, bool]:
        """Return the part it is about; a target is what is reached, not a part."""
        part, has_target = None, False
        for item in self.sketch.items:
            if item.part is not None and item.part.name == "target":
                self._use("target", item)
                has_target = True
            elif item.part is not None and part is None:
                self._use("part", item)
                part = item.part
        return part, has_target

    def _verb(self) -> Act:
        """Return what is meant: moving to a target is reaching, moving an arm is swinging it."""
        verb, weak = self.sketch.verb, self.sketch.says.get("weak")
        if verb is Act.GO and self.has_target:
            return Act.REACH
        if verb is Act.REACH and not self.has_target:
            # "reach 2 m/s": nothing is reached for.
            said = [implied_verb(item) for item in self.sketch.items if item.reading]
            return next((each for each in said if each is not None), verb)
        if verb is Act.LIFT and self.part is not None and self.part.name == "torso":
            return Act.STAND  # tall: see _postures
        limb = self.part is not None and any(word in self.part.name for word in _LIMBS)
        return Act.SWING if verb is Act.GO and weak and limb else verb

    def _direction(self) -> Direction | None:
        found = [(Direction(sense.value), item, sense) for item, sense in self._senses("direction")]
        own = self.sketch.says.get("direction")
        exact = [value for value, _, _ in found if value not in _BESIDES]
        if Direction.LEFT in exact or Direction.RIGHT in exact:
            exact = [value for value in exact if value is not Direction.SIDEWAYS]
        is_exact = bool(exact or own)
        for value, item, sense in found:
            if is_exact and value is Direction.IN_PLACE and own != Direction.IN_PLACE:
                self.in_place.append(item)
            elif value not in exact[1:]:
                self._use("direction", item, sense)
        if is_exact:
            return exact[0] if exact else Direction(own)
        named = found[0][0] if found else None
        return None if self.verb in _TURNING and named is Direction.UP else named

    def _ground(
        self, direction: Direction | None
    ) -> tuple[TerrainKind | None, float | None, Direction | None]:
        """Return what it goes over, how hard that is, and where to, as far as is said."""
        named, hardest = self.sketch.says.get("ground"), None
        for item, sense in self._senses("ground"):
            if named not in (None, sense.value):
                continue  # one kind of ground at a time
            climbs = Direction(sense.says["direction"]) if "direction" in sense.says else None
            if {climbs, direction} == {Direction.UP, Direction.DOWN}:
                # Not both at once: the first is meant, the other is left unread, and so reported.
                said = [
                    claim
                    for claim in self.claims
                    if claim[2] and direction in (claim[2].value, claim[2].says.get("direction"))
                ]
                if not all(item.at < other.at for _, other, _ in said):
                    continue
                self.claims = [claim for claim in self.claims if claim not in said]
            own = str(self.sketch.says.get("direction", ""))
            if climbs is not None and own in _NOT_AHEAD and direction == own and self.sketch.at:
                # "reverse up the ramp": on slopes and stairs it goes ahead, and that is reported.
                self._use("direction", Item("verb", self.sketch.at), Sense("direction", own))
            direction = climbs or direction
            self._use("ground", item, sense)
            named, hardest = sense.value, sense.says.get("hardest")
        return next((kind for kind in TERRAINS if kind == named), None), hardest, direction

    def _degree(self) -> tuple[Degree | None, str | None]:
        """Return the degree in words and its dimension, where words say so."""
        says = self.sketch.says
        nouns, found = list(self._senses("dimension")), list(self._senses("degree"))
        for item, sense in (*found, *nouns):
            self._use("degree", item, sense)
        named = [s.says["dimension"] for _, s in found if "dimension" in s.says]
        dimension = next(iter((*named, *(s.value for _, s in nouns))), None)
        # Of "1 m high" the degree only says what the number measures.
        measured = {item.end for item in self.sketch.items if item.unit}
        found = [each for each in found if each[0].at[0] not in measured]
        if any(sense.value == "most" and self._is_about_manner(item) for item, sense in found):
            return None, dimension
        degree = _combined([sense.value for _, sense in found])
        if degree is None and not dimension and says.get("degree"):
            return Degree(says["degree"]), says.get("dimension", _ABOUT[self.verb])
        postures = {sense.value for _, sense in self._senses("posture")}
        if degree is Degree.MOST and dimension is None and postures & {Posture.LOW, Posture.HIGH}:
            dimension = "height"
        return degree, dimension or (says.get("dimension") if degree else None)

    def _is_about_manner(self, most: Item) -> bool:
        """Return whether "as possible" belongs to a manner: "as smoothly as possible"."""
        for item in self.sketch.items:
            sense = item.sense(self.verb)
            if sense is not None and len(most.at) > 1 and item.end == most.at[1]:
                posed = sense.slot == "posture" and sense.value not in (Posture.LOW, Posture.HIGH)
                return sense.slot == "style" or posed
        return False

    def _numbers(self, dimension: str | None) -> dict[str, Any]:
        """Return the numbers of the frame by slot; a second one of a kind stays unused."""
        found: dict[str, Any] = {}
        for item in self.sketch.items:
            reading = item.reading
            if reading is None or dimension == "energy":
                continue  # no share of the power is measured
            amount, count = reading.amount, reading.count
            if reading.bare is not None:
                # "speed 2" is one; of "two quick jumps" it is how many.
                is_named = any(self._senses("dimension")) or 0 < reading.bare < 1
                amount, count = self._bare(reading, dimension if is_named else None)
            said = {
                "period_s": reading.period_s,
                "duration_s": reading.duration_s,
                "count": count,
                "amount": amount,
            }
            said = {name: new for name, new in said.items() if new is not None}
            first = found.get("amount")
            middle = _middle(first, amount)
            if middle is not None and "bounds" not in found:
                found |= {"amount": middle, "bounds": (first, amount)}
            elif not said or found.keys() & said.keys():
                continue
            else:
                found |= said
                if amount is not None and reading.spread > 0.0:
                    found["bounds"] = _ends(amount, reading.spread)
                if count is not None and reading.rule is not None:
                    # Of times, one more or less is what comes next.
                    step = {"at_least": 1, "at_most": -1, "about": 0}[reading.rule]
                    found["count"] = max(1, count + step * reading.is_strict)
                    found["count_rule"] = reading.rule
            self._use(next(iter(said)).removesuffix("_s"), item)
        return found

    def _bare(self, reading: Reading, dimension: str | None) -> tuple[Amount | None, int | None]:
        """Return what a number without a unit means together with this verb."""
        value, unit = reading.bare or 0.0, None
        if self.verb in _TURNING and value in table("numbers")["angles"]["bare_degrees"]:
            value, unit = math.radians(value), "rad"
        elif self.verb in _TURNING and 0 < value < 1:  # "a half twist"
            unit = "turns"
        elif dimension in _UNIT_OF:
            unit = "share" if 0 < value < 1 else _UNIT_OF[dimension]
        if unit is not None:
            return Amount(value=value, unit=unit, rule=reading.rule or "about"), None
        counted = self.verb in _COUNTED or self.sketch.says.get("gait") == "step"
        whole = counted and value >= 1 and value == int(value)
        return None, int(value) if whole else None

    def _dimension(
        self,
        degree: Degree | None,
        dimension: str | None,
        amount: Amount | None,
        direction: Direction | None,
    ) -> str | None:
        if dimension == "speed" and self.verb in _TURNING:
            return "turning"
        if dimension is None and amount is not None:
            if amount.unit == "m":
                high = self.verb in _HIGH and direction not in _LEVEL
                return "height" if high else "distance"
            return _DIMENSION_OF.get(amount.unit)
        if dimension is None and degree in (Degree.LITTLE, Degree.MUCH):
            return "distance" if self.verb in (Act.GO, Act.CIRCLE) else _ABOUT[self.verb]
        return dimension or (_ABOUT[self.verb] if degree else None)

    def _until_end(self, timed: bool) -> bool:
        """Return whether it lasts to the end; "stay for 3 seconds" says how long instead."""
        found = [item for item in self.sketch.items if item.slot == "until_end"]
        self.claims += [("until_end", item, None) for item in found]
        return bool(found or (self.sketch.says.get("until_end") and not timed))

    def _styles(self) -> tuple[Style, ...]:
        found = self._used("style")
        return tuple(style for style in Style if style in found)

    def _postures(self) -> tuple[Posture, ...]:
        more = [sense.says.get("postures", ()) for _, sense in self._senses("posture")]
        found = {*self.sketch.says.get("postures", ()), *(each for said in more for each in said)}
        one = self.part is not None and self.part.name in _ONE_LEG
        if one and self.verb in (Act.STAND, Act.BALANCE, Act.HOP):
            found.add(Posture.ONE_LEG)
        if self.sketch.verb is Act.LIFT and self.verb is Act.STAND:
            found.add(Posture.HIGH)
        found |= self._used("posture")
        return tuple(each for each in Posture if each in found)


def _middle(first: Amount | None, other: Amount | None) -> Amount | None:
    """Return the middle of two ends: "at least 1 m/s and at most 3 m/s"; None: they are none."""
    if first is None or other is None or first.unit != other.unit:
        return None
    if {first.rule, other.rule} != {"at_least", "at_most"}:
        return None
    return Amount(value=(first.value + other.value) / 2, unit=first.unit, rule="about")


def _ends(middle: Amount, spread: float) -> tuple[Amount, Amount]:
    low, high = middle.value - spread, middle.value + spread
    return (
        Amount(value=low, unit=middle.unit, rule="at_least"),
        Amount(value=high, unit=middle.unit, rule="at_most"),
    )


def _combined(values: list[str]) -> Degree | None:
    """Return one degree for all that was said: "very fast", "a little faster"."""
    degrees = [Degree(value) for value in values if value != "intensify"]
    if Degree.MOST in degrees:  # "as slowly as possible", "as little as possible"
        return next((_LEAST[each] for each in degrees if each in _LEAST), Degree.MOST)
    if not degrees or Degree.LITTLE in degrees:
        return Degree.LITTLE if degrees else None
    speeds = [degree for degree in degrees if degree is not Degree.MUCH]
    if not speeds:
        return Degree.MUCH
    is_stronger = len(values) > len(degrees) or Degree.MUCH in degrees
    return _STRONGER.get(speeds[0], speeds[0]) if is_stronger else speeds[0]
