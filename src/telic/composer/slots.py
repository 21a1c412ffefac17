"""Fill the slots of one frame from its marks, and say which words filled which."""

from __future__ import annotations

import math
from collections.abc import Iterator

from telic.composer.amounts import Numbers
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
_DIMENSION_OF = {"m/s": "speed", "rad/s": "turning", "rad": "turning", "turns": "turning"}
_UNIT_OF: dict[str, Unit] = {"speed": "m/s", "height": "m", "distance": "m", "turning": "rad/s"}
_LIMBS = ("leg", "foot", "feet", "arm", "hand", "thigh", "shin", "tail", "link")
_ONE_LEG = {"left leg", "right leg", "left foot", "right foot"}
_NOT_AHEAD = {Direction.BACKWARD, Direction.LEFT, Direction.RIGHT, Direction.SIDEWAYS}
_LEVEL = {Direction.FORWARD, Direction.BACKWARD, Direction.LEFT, Direction.RIGHT}


class Slots:
    """The marks of one sketch, taken slot by slot."""

    def __init__(self, sketch: Sketch) -> None:
        self.sketch = sketch
        self.claims: list[tuple[str, Item, Sense | None]] = []
        """slots that were filled, each with the words and their meaning"""
        self.in_place: list[Item] = []
        """marks that say not to leave the place"""
        self.part, self.has_target = self._part()
        self.verb = self._verb()

    def frame(self) -> Frame:
        """Return what the sketch asks for."""
        says = self.sketch.says
        direction = self._direction()
        ground, hardest, direction = self._ground(direction)
        degree, dimension = self._degree()
        number = self._number(dimension)
        amount, turns = number.amount, says.get("turns")
        if amount is None and turns is not None and number.count is None:
            amount = Amount(value=turns, unit="turns", rule="about")
        if amount is None and degree is None:
            dimension = None
        if amount is not None and amount.value < 0:
            # "at -2 m/s" is two metres per second backward.
            amount = amount.model_copy(update={"value": -amount.value})
            direction = direction or Direction.BACKWARD
        if amount is not None and amount.unit == "share" and degree == Degree.MOST:
            degree = None  # "80 % of top speed"
        return Frame(
            verb=self.verb,
            word=self.sketch.word,
            gait=says.get("gait"),
            direction=direction,
            degree=degree,
            dimension=self._dimension(degree, dimension, amount, direction),
            amount=amount,
            bounds=tuple(number.bounds),
            count=number.count,
            count_rule=number.count_rule,
            duration_s=number.duration_s,
            period_s=number.period_s,
            until_end=self._until_end(timed=number.duration_s is not None),
            ground=ground,
            hardest=hardest,
            part=self.part.name if self.part else None,
            bodies=self.part.bodies if self.part else (),
            postures=self._postures(),
            styles=self._styles(),
            phase=self.sketch.phase,
        )

    def _senses(self, slot: str) -> Iterator[tuple[Item, Sense]]:
        for mark in self.sketch.marks:
            sense = mark.sense(self.verb)
            if sense is not None and sense.slot == slot and mark.slot != "until_end":
                yield mark, sense

    def _use(self, slot: str, mark: Item, sense: Sense | None = None) -> None:
        self.claims.append((slot, mark, sense))

    def _part(self) -> tuple[BodyPart | None, bool]:
        """Return the part it is about; a target is what is reached, not a part."""
        part, has_target = None, False
        for mark in self.sketch.marks:
            if mark.part is not None and mark.part.name == "target":
                self._use("target", mark)
                has_target = True
            elif mark.part is not None and part is None:
                self._use("part", mark)
                part = mark.part
        return part, has_target

    def _verb(self) -> Act:
        """Return what is meant: moving to a target is reaching, moving an arm is swinging it."""
        verb, weak = self.sketch.verb, self.sketch.says.get("weak")
        if verb == Act.GO and self.has_target:
            return Act.REACH
        if verb == Act.REACH and not self.has_target:
            # "reach 2 m/s": nothing is reached for.
            said = [implied_verb(mark) for mark in self.sketch.marks if mark.reading]
            return next((each for each in said if each is not None), verb)
        if verb == Act.LIFT and self.part is not None and self.part.name == "torso":
            return Act.STAND  # tall: see _postures
        limb = self.part is not None and any(word in self.part.name for word in _LIMBS)
        return Act.SWING if verb == Act.GO and weak and limb else verb

    def _direction(self) -> Direction | None:
        found = list(self._senses("direction"))
        values = [Direction(sense.value) for _, sense in found]
        said = self.sketch.says.get("direction")
        exact = [each for each in values if each not in (Direction.UP, Direction.IN_PLACE)]
        if any(each in (Direction.LEFT, Direction.RIGHT) for each in exact):
            exact = [each for each in exact if each != Direction.SIDEWAYS]
        if not exact and not said:
            for mark, sense in found:
                self._use("direction", mark, sense)
            named = values[0] if values else None
            return None if self.verb in _TURNING and named == Direction.UP else named
        for (mark, sense), value in zip(found, values, strict=True):
            if value == Direction.IN_PLACE and said != Direction.IN_PLACE:
                self.in_place.append(mark)
            elif value in (Direction.UP, Direction.IN_PLACE) or value not in exact[1:]:
                self._use("direction", mark, sense)
        return exact[0] if exact else Direction(said) if said else None

    def _ground(
        self, direction: Direction | None
    ) -> tuple[TerrainKind | None, float | None, Direction | None]:
        """Return what it goes over, how hard that is, and where to, as far as is said."""
        named, hardest = self.sketch.says.get("ground"), None
        for mark, sense in self._senses("ground"):
            if named not in (None, sense.value):
                continue  # one kind of ground at a time
            climbs = Direction(sense.says["direction"]) if "direction" in sense.says else None
            if {climbs, direction} == {Direction.UP, Direction.DOWN}:
                # Not both at once: the first is meant, the other is left unread, and so named.
                said = [
                    (slot, other, meant)
                    for slot, other, meant in self.claims
                    if meant and direction in (meant.value, meant.says.get("direction"))
                ]
                if not all(mark.at < other.at for _, other, _ in said):
                    continue
                self.claims = [claim for claim in self.claims if claim not in said]
            own = str(self.sketch.says.get("direction", ""))
            if climbs is not None and own in _NOT_AHEAD and direction == own and self.sketch.at:
                # "reverse up the ramp": on slopes and stairs it goes ahead, and that is reported.
                self._use("direction", Item("verb", self.sketch.at), Sense("direction", own))
            direction = climbs or direction
            self._use("ground", mark, sense)
            named, hardest = sense.value, sense.says.get("hardest")
        return next((kind for kind in TERRAINS if kind == named), None), hardest, direction

    def _degree(self) -> tuple[Degree | None, str | None]:
        """Return the degree in words and what it is about, where words say so."""
        says = self.sketch.says
        nouns = list(self._senses("dimension"))
        marks = list(self._senses("degree"))
        for mark, sense in (*marks, *nouns):
            self._use("degree", mark, sense)
        named = [s.says["dimension"] for _, s in marks if "dimension" in s.says]
        dimension = next(iter((*named, *(s.value for _, s in nouns))), None)
        marks = [each for each in marks if not self._follows_number(each[0])]
        if any(sense.value == "most" and self._is_about_manner(mark) for mark, sense in marks):
            return None, dimension
        degree = _combined([sense.value for _, sense in marks])
        if degree is None and not dimension and says.get("degree"):
            return Degree(says["degree"]), says.get("dimension", _ABOUT[self.verb])
        postures = {sense.value for _, sense in self._senses("posture")}
        if degree == Degree.MOST and dimension is None and postures & {Posture.LOW, Posture.HIGH}:
            dimension = "height"
        return degree, dimension or (says.get("dimension") if degree else None)

    def _follows_number(self, mark: Item) -> bool:
        """Return whether it only says what a number measures: "1 m high"."""
        numbers = [each for each in self.sketch.marks if each.reading and each.reading.amount]
        return any(number.end == mark.at[0] for number in numbers)

    def _is_about_manner(self, most: Item) -> bool:
        """Return whether "as possible" belongs to a manner: "as smoothly as possible"."""
        for mark in self.sketch.marks:
            sense = mark.sense(self.verb)
            if sense is None or len(most.at) < 2 or mark.end != most.at[1]:
                continue
            posed = sense.slot == "posture" and sense.value not in (Posture.LOW, Posture.HIGH)
            return sense.slot == "style" or posed
        return False

    def _number(self, dimension: str | None) -> Numbers:
        """Return the amount, count and duration; a second one of a kind stays unused."""
        found = Numbers()
        for mark in self.sketch.marks:
            reading = mark.reading
            if reading is None or dimension == "energy":
                continue  # no share of the power is measured
            amount, count = reading.amount, reading.count
            if reading.bare is not None:
                # "speed 2" is one; of "two quick jumps" it is how many.
                is_named = any(self._senses("dimension")) or 0 < reading.bare < 1
                amount, count = self._bare(reading.bare, dimension if is_named else None)
                if amount is not None and reading.rule is not None:
                    amount = amount.model_copy(update={"rule": reading.rule})
            slot = found.take(reading, amount, count)
            if slot is not None:
                self._use(slot, mark)
        return found

    def _bare(self, value: float, dimension: str | None) -> tuple[Amount | None, int | None]:
        """Return what a number without a unit means beside this verb."""
        if self.verb in _TURNING and value in table("numbers")["angles"]["bare_degrees"]:
            return Amount(value=math.radians(value), unit="rad", rule="about"), None
        if self.verb in _TURNING and 0 < value < 1:  # "a half twist"
            return Amount(value=value, unit="turns", rule="about"), None
        if dimension in _UNIT_OF:
            unit = "share" if 0 < value < 1 else _UNIT_OF[dimension]
            return Amount(value=value, unit=unit, rule="about"), None
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
        """Return whether it goes on to the end; "stay for 3 seconds" says how long instead."""
        marks = [mark for mark in self.sketch.marks if mark.slot == "until_end"]
        for mark in marks:
            self._use("until_end", mark)
        return bool(marks or (self.sketch.says.get("until_end") and not timed))

    def _postures(self) -> tuple[Posture, ...]:
        found = {Posture(each) for each in self.sketch.says.get("postures", ())}
        one = self.part is not None and self.part.name in _ONE_LEG
        if one and self.verb in (Act.STAND, Act.BALANCE, Act.HOP):
            found.add(Posture.ONE_LEG)
        if self.sketch.verb == Act.LIFT and self.verb == Act.STAND:
            found.add(Posture.HIGH)
        for mark, sense in self._senses("posture"):
            self._use("posture", mark, sense)
            found |= {Posture(sense.value), *map(Posture, sense.says.get("postures", ()))}
        return tuple(each for each in Posture if each in found)

    def _styles(self) -> tuple[Style, ...]:
        styles: set[Style] = set()
        for mark, sense in self._senses("style"):
            self._use("style", mark, sense)
            styles.add(Style(sense.value))
        return tuple(style for style in Style if style in styles)


def _combined(values: list[str]) -> Degree | None:
    """Return one degree for all that was said: "very fast", "a little faster"."""
    if Degree.MOST in values:  # "as slowly as possible", "as little as possible"
        least = {Degree.SLOW: Degree.VERY_SLOW, Degree.LITTLE: Degree.LITTLE}
        return next((least[Degree(v)] for v in values if v in least), Degree.MOST)
    degrees = [Degree(value) for value in values if value != "intensify"]
    if not degrees:
        return None
    stronger = len(values) > len(degrees) or Degree.MUCH in degrees
    speeds = [degree for degree in degrees if degree not in (Degree.MUCH, Degree.LITTLE)]
    if Degree.LITTLE in degrees:
        return Degree.LITTLE
    if speeds:
        return _STRONGER.get(speeds[0], speeds[0]) if stronger else speeds[0]
    return degrees[0]
