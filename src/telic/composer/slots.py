"""Fill the slots of one frame from the items of its deed, and record which words filled which."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from telic.composer.amounts import Reading
from telic.composer.frames import Act, Amount, Degree, Direction, Frame, Posture, Style, Unit
from telic.composer.grammar import Item
from telic.composer.lexicon import Sense, word_table
from telic.composer.parts import BodyPart
from telic.robots.terrain import TERRAINS, TerrainKind

_STRONGER = {Degree.FAST: Degree.VERY_FAST, Degree.SLOW: Degree.VERY_SLOW}
_LEAST = {Degree.SLOW: Degree.VERY_SLOW, Degree.LITTLE: Degree.LITTLE}
_DIMENSION_OF = {"m/s": "speed", "rad/s": "turning", "rad": "turning", "turns": "turning"}
_UNIT_OF: dict[str, Unit] = {"speed": "m/s", "height": "m", "distance": "m", "turning": "rad/s"}
_UNIT_VERBS = {"m/s": Act.GO, "turns": Act.TURN, "rad": Act.TURN, "rad/s": Act.TURN}
_LIMBS = ("leg", "foot", "feet", "arm", "hand", "thigh", "shin", "tail", "link")
_ONE_LEG = {"left leg", "right leg", "left foot", "right foot"}
_LEVEL = {Direction.FORWARD, Direction.BACKWARD, Direction.LEFT, Direction.RIGHT}
_NOT_AHEAD = _LEVEL - {Direction.FORWARD} | {Direction.SIDEWAYS}
_BESIDES = (Direction.UP, Direction.IN_PLACE)
"""directions that another one goes before"""
_COMPARED = ("more", "less")
_STRICTER = {"at_least": 1, "at_most": -1, "about": 0}


@dataclass(slots=True)
class Deed:
    """A verb and the items that belong to it."""

    verb: Act
    word: str
    phase: int
    says: dict[str, Any] = field(default_factory=dict[str, Any])
    items: list[Item] = field(default_factory=list[Item])
    at: tuple[int, ...] = ()
    """places of the words of its verb; empty for a verb that was not said again"""


def implied_verb(item: Item) -> Act | None:
    """Return the verb a word implies where there is none."""
    if item.unit is not None:
        return _UNIT_VERBS.get(item.unit)
    sense = item.sense()
    if sense is None:
        return None
    if sense.slot == "direction":
        if sense.value in (Direction.CLOCKWISE, Direction.COUNTERCLOCKWISE):
            return Act.TURN
        still = sense.value in (Direction.IN_PLACE, Direction.UP, Direction.DOWN)
        return None if still else Act.GO
    if sense.slot == "posture":
        return Act.STAND
    return Act.GO if sense.says.get("dimension") in ("speed", "distance") else None


class Slots:
    """The items of one deed, taken slot by slot."""

    def __init__(self, deed: Deed) -> None:
        self.deed = deed
        self.claims: list[tuple[str, Item, Sense | None]] = []
        """slots that were filled, each with the words and their meaning"""
        self.in_place: list[Item] = []
        """items that ask not to leave the place"""
        self.part: BodyPart | None = None
        self.factor: float | None = None
        self.is_of_start = False
        self.verb = self._verb()
        self._is = word_table("acts")[self.verb]

    def frame(self) -> Frame:
        """Return what the deed asks for."""
        says, verb = self.deed.says, self.verb
        direction = self._direction()
        ground, hardest, direction = self._ground(direction)
        degree, dimension = self._degree()
        numbers = self._numbers(dimension)
        amount: Amount | None = numbers.pop("amount", None)
        if amount is None and "turns" in says and "count" not in numbers:
            amount = Amount(value=says["turns"], unit="turns", rule="about")
        if amount is not None and amount.value < 0:
            # "at -2 m/s" is backward, "by -90 degrees" to the right
            amount = amount.model_copy(update={"value": -amount.value})
            direction = direction or (Direction.RIGHT if verb is Act.TURN else Direction.BACKWARD)
        if amount is not None and amount.unit == "share" and degree is Degree.MOST:
            degree = None  # "80 % of top speed"
        if amount is not None and amount.unit == "share" and self.factor is not None:
            # "20 % faster"
            self.factor = 1.0 + math.copysign(amount.value, self.factor - 1.0)
            amount = None
        if amount is None and degree is None and self.factor is None:
            dimension = None
        elif dimension is None and amount is not None:
            is_high = "high" in self._is and direction not in _LEVEL and verb is not Act.HOP
            lengths = "height" if is_high else "distance"
            dimension = lengths if amount.unit == "m" else _DIMENSION_OF.get(amount.unit)
        elif dimension is None:
            is_way = degree in (Degree.LITTLE, Degree.MUCH) and verb in (Act.GO, Act.CIRCLE)
            dimension = "distance" if is_way else self._is["about"]
        elif dimension == "speed" and "turning" in self._is:
            dimension = "turning"
        is_lifted = self.deed.verb is Act.LIFT and verb is Act.STAND
        shift = 1 if is_lifted else says.get("shift")
        if shift and amount is not None and amount.unit == "m":
            dimension = "height"
            amount = amount.model_copy(update={"value": shift * amount.value})
        lasts = [item for item in self.deed.items if item.slot == "until_end"]
        self.claims += [("until_end", item, None) for item in lasts]
        # "stay for 3 seconds" says how long instead
        until_end = bool(lasts or (says.get("until_end") and "duration_s" not in numbers))
        postures, styles = self._postures(), self._used("style")
        return Frame(
            verb=verb,
            word=self.deed.word,
            gait=says.get("gait"),
            direction=direction,
            degree=degree,
            dimension=dimension,
            amount=amount,
            until_end=until_end,
            factor=self.factor,
            is_change=bool(shift) and amount is not None,
            is_of_start=self.is_of_start,
            ground=ground,
            hardest=hardest,
            part=self.part.name if self.part else None,
            bodies=self.part.bodies if self.part else (),
            postures=tuple(each for each in Posture if each in postures),
            styles=tuple(each for each in Style if each in styles),
            phase=self.deed.phase,
            **numbers,
        )

    def _senses(self, slot: str) -> Iterator[tuple[Item, Sense]]:
        for item in self.deed.items:
            sense = item.sense(self.verb)
            if sense is not None and sense.slot == slot and item.slot != "until_end":
                yield item, sense

    def _used(self, slot: str) -> set[str]:
        """Use all words for a slot; return their values."""
        found = list(self._senses(slot))
        self.claims += [(slot, item, sense) for item, sense in found]
        return {sense.value for _, sense in found}

    def _verb(self) -> Act:
        """Return what is meant: moving to a target is reaching, moving an arm is swinging it."""
        named = [(item, item.part) for item in self.deed.items if item.part is not None]
        targets = [item for item, part in named if part.name == "target"]
        own = [(item, part) for item, part in named if part.name != "target"][:1]
        self.claims += [("target", item, None) for item in targets]
        self.claims += [("part", item, None) for item, _ in own]
        self.part = own[0][1] if own else None
        verb, name = self.deed.verb, self.part.name if self.part else ""
        if verb is Act.GO and targets:
            return Act.REACH
        if verb is Act.REACH and not targets:
            # "reach 2 m/s": nothing is reached for.
            said = [implied_verb(item) for item in self.deed.items if item.reading]
            return next((each for each in said if each is not None), verb)
        if verb is Act.LIFT and name == "torso":
            return Act.STAND  # tall: see _postures
        is_limb = any(word in name for word in _LIMBS)
        return Act.SWING if verb is Act.GO and self.deed.says.get("weak") and is_limb else verb

    def _direction(self) -> Direction | None:
        found = [(Direction(sense.value), item, sense) for item, sense in self._senses("direction")]
        own = self.deed.says.get("direction")
        exact = [value for value, _, _ in found if value not in _BESIDES]
        if Direction.LEFT in exact or Direction.RIGHT in exact:
            exact = [value for value in exact if value is not Direction.SIDEWAYS]
        for value, item, sense in found:
            if (exact or own) and value is Direction.IN_PLACE and own != Direction.IN_PLACE:
                self.in_place.append(item)
            elif value not in exact[1:]:
                self.claims.append(("direction", item, sense))
                self.is_of_start = sense.says.get("frame") == "start"
        if exact or own:
            return exact[0] if exact else Direction(own)
        named = found[0][0] if found else None
        return None if "turning" in self._is and named is Direction.UP else named

    def _ground(
        self, direction: Direction | None
    ) -> tuple[TerrainKind | None, float | None, Direction | None]:
        """Return what it goes over, how hard that is, and where to, as far as is said."""
        says, hardest = self.deed.says, None
        named, own = says.get("ground"), str(says.get("direction", ""))
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
            if climbs is not None and own in _NOT_AHEAD and direction == own and self.deed.at:
                # "reverse up the ramp": on slopes and stairs it goes ahead, and that is reported.
                verb = Item("verb", self.deed.at)
                self.claims.append(("direction", verb, Sense("direction", own)))
            direction = climbs or direction
            self.claims.append(("ground", item, sense))
            named, hardest = sense.value, sense.says.get("hardest")
        return next((kind for kind in TERRAINS if kind == named), None), hardest, direction

    def _degree(self) -> tuple[Degree | None, str | None]:
        """Return the degree in words and its dimension, where words say so."""
        says, nouns = self.deed.says, list(self._senses("dimension"))
        found = list(self._senses("degree"))
        claimed = (*found, *(each for each in nouns if each[0].reading is None))
        self.claims += [("degree", item, sense) for item, sense in claimed]
        named = [sense.says["dimension"] for _, sense in found if "dimension" in sense.says]
        dimension = next(iter((*named, *(sense.value for _, sense in nouns))), None)
        degree = _combined([sense.value for _, sense in found if sense.value not in _COMPARED])
        self.factor = None if degree is Degree.MOST else _factor([sense for _, sense in found])
        if self.factor is not None:
            return None, dimension or self._is["about"]
        if degree is None and not dimension and says.get("degree"):
            return Degree(says["degree"]), says.get("dimension", self._is["about"])
        postures = {sense.value for _, sense in self._senses("posture")}
        if degree is Degree.MOST and dimension is None and postures & {Posture.LOW, Posture.HIGH}:
            dimension = "height"
        return degree, dimension or (says.get("dimension") if degree else None)

    def _numbers(self, dimension: str | None) -> dict[str, Any]:
        """Return the numbers of the frame by slot; a second one of a kind stays unused."""
        found: dict[str, Any] = {}
        for item in self.deed.items:
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
            first: Amount | None = found.get("amount")
            if first and amount and "bounds" not in found and _are_ends(first, amount):
                # "at least 1 m/s and at most 3 m/s"
                middle = (first.value + amount.value) / 2
                found["amount"] = Amount(value=middle, unit=first.unit, rule="about")
                found["bounds"] = (first, amount)
            elif not said or found.keys() & said.keys():
                continue
            else:
                found |= said
                if amount is not None and reading.spread > 0.0:
                    low, high = amount.value - reading.spread, amount.value + reading.spread
                    found["bounds"] = (
                        Amount(value=low, unit=amount.unit, rule="at_least"),
                        Amount(value=high, unit=amount.unit, rule="at_most"),
                    )
                if count is not None and reading.rule is not None:
                    # Of times, one more or less is what comes next.
                    step = _STRICTER[reading.rule] * reading.is_strict
                    found |= {"count": max(1, count + step), "count_rule": reading.rule}
            self.claims.append((next(iter(said)).removesuffix("_s"), item, None))
        return found

    def _bare(self, reading: Reading, dimension: str | None) -> tuple[Amount | None, int | None]:
        """Return what a number without a unit means together with this verb."""
        value, unit, is_part = reading.bare or 0.0, None, 0 < (reading.bare or 0.0) < 1
        if "turning" in self._is and value in word_table("numbers")["angles"]["bare_degrees"]:
            value, unit = math.radians(value), "rad"
        elif "turning" in self._is and is_part:  # "a half twist"
            unit = "turns"
        elif dimension in _UNIT_OF:
            unit = "share" if is_part else _UNIT_OF[dimension]
        if unit is not None:
            return Amount(value=value, unit=unit, rule=reading.rule or "about"), None
        counted = "counted" in self._is or self.deed.says.get("gait") == "step"
        return None, int(value) if counted and value >= 1 and value == int(value) else None

    def _postures(self) -> set[str]:
        more = [sense.says.get("postures", ()) for _, sense in self._senses("posture")]
        found = {*self.deed.says.get("postures", ()), *(each for said in more for each in said)}
        is_one = self.part is not None and self.part.name in _ONE_LEG
        if is_one and self.verb in (Act.STAND, Act.BALANCE, Act.HOP):
            found.add(Posture.ONE_LEG)
        is_lifted = self.deed.verb is Act.LIFT and self.verb is Act.STAND
        shift = 1 if is_lifted else self.deed.says.get("shift")
        if shift and not any(i.unit == "m" for i in self.deed.items):
            found.add(Posture.LOW if shift < 0 else Posture.HIGH)
        return found | self._used("posture")


def _are_ends(one: Amount, other: Amount) -> bool:
    return one.unit == other.unit and {one.rule, other.rule} == {"at_least", "at_most"}


def _factor(senses: list[Sense]) -> float | None:
    """Return the factor of a comparison: "slightly faster" is half the difference of "faster"."""
    found = next((sense for sense in senses if sense.value in _COMPARED), None)
    if found is None:
        return None
    factor, values = float(found.says["factor"]), {sense.value for sense in senses}
    if found.says.get("is_exact"):
        return factor
    share = 0.5 if "little" in values else 2.0 if values & {"much", "intensify"} else 1.0
    return round(max(1.0 + share * (factor - 1.0), 0.2), 3)


def _combined(values: list[str]) -> Degree | None:
    """Return one degree for all that was said: "very fast"; "a bit faster" is fast."""
    degrees = [Degree(value) for value in values if value != "intensify"]
    if Degree.MOST in degrees:  # "as slowly as possible", "as little as possible"
        return next((_LEAST[each] for each in degrees if each in _LEAST), Degree.MOST)
    said = [degree for degree in degrees if degree is not Degree.LITTLE]
    if not said:
        return Degree.LITTLE if degrees else None
    speeds = [degree for degree in said if degree is not Degree.MUCH]
    if not speeds:  # "a bit higher" is higher
        return Degree.MUCH
    is_stronger = len(values) > len(degrees) or Degree.MUCH in degrees
    return _STRONGER.get(speeds[0], speeds[0]) if is_stronger else speeds[0]
