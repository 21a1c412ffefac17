"""Parse an intent: text → tokens → marks → clauses → frames, and an account of every word.

Deterministic, and it never fails: what it cannot read it lists. The words it knows are in
`tables/`. Last, the slots of each frame are filled from the marks that belong to it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from telic.composer.amounts import Numbers
from telic.composer.clauses import Mark, cut, parts_at, scan
from telic.composer.frames import (
    Act,
    Amount,
    Degree,
    Direction,
    Frame,
    LimitKind,
    ParsedIntent,
    Posture,
    Style,
    Unit,
)
from telic.composer.outline import Outline, Sketch
from telic.composer.parts import BodyPart
from telic.composer.words import (
    Sense,
    Token,
    corrected,
    ignored_phrases,
    ignored_words,
    read_tokens,
    readable,
    table,
)
from telic.envs.spec import EnvSpec

# What "as much as possible" is about when only the verb says it.
_VERBS_ABOUT = {
    "speed": (Act.GO, Act.CIRCLE, Act.STAND_UP, Act.STOP),
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
_LEVEL = {Direction.FORWARD, Direction.BACKWARD, Direction.LEFT, Direction.RIGHT}


def parse(intent: str, spec: EnvSpec) -> ParsedIntent:
    """Return what an intent asks of the robot of an environment.

    Nothing understood gives no frames, and every word in `not_understood`.
    """
    names = _names(spec)
    tokens = corrected(read_tokens(intent), (*spec.body_names, *names))
    clauses = cut(scan(tokens, parts_at(tokens, spec)))
    has_pole = spec.robot is not None and bool(spec.robot.poles)
    outline = Outline(tokens, clauses.joints, ignored_words() | names, has_pole)
    outline.read(clauses.groups)
    frames = _frames(outline)
    return _account(intent, tokens, frames, outline, ignored_words() | names)


def _frames(outline: Outline) -> tuple[Frame, ...]:
    frames: list[Frame] = []
    for sketch in outline.sketches:
        slots = _Slots(sketch)
        frames.append(slots.frame())
        outline.used |= slots.used
        for mark in slots.in_place:
            outline.add_limit(LimitKind.NO_DRIFT, mark.at)
    return tuple(frames)


def _account(
    intent: str,
    tokens: Sequence[Token],
    frames: tuple[Frame, ...],
    outline: Outline,
    ignored: frozenset[str],
) -> ParsedIntent:
    """Sort every word into used, ignored or not understood; without a frame nothing was."""
    nothing: set[int] = set()
    used = outline.used if frames else nothing
    left_out = _ignored(tokens, ignored) - used if frames else nothing
    words = [(place, token.text) for place, token in enumerate(tokens) if not token.silent]
    known = used | left_out
    return ParsedIntent(
        intent=readable(intent),
        frames=frames,
        limits=tuple(outline.limits),
        used=tuple(text for place, text in words if place in used),
        ignored=tuple(text for place, text in words if place in left_out),
        not_understood=tuple(text for place, text in words if place not in known),
    )


def _ignored(tokens: Sequence[Token], words: frozenset[str]) -> set[int]:
    """Return the places of words left out on purpose."""
    places = {place for place, token in enumerate(tokens) if token.word in words}
    for place in range(len(tokens)):
        phrase = ignored_phrases().find(tokens, place)
        places.update(phrase.at if phrase else ())
    return places


def _names(spec: EnvSpec) -> frozenset[str]:
    """Return the words of the environment's own name: addressing it says nothing to do."""
    pieces = re.findall(r"[A-Z]?[a-z]+", spec.id)
    return frozenset(word.lower() for word in (*pieces, "".join(pieces), spec.id))


class _Slots:
    """The marks of one sketch, taken slot by slot."""

    def __init__(self, sketch: Sketch) -> None:
        self.sketch = sketch
        self.used: set[int] = set()
        """places of the words that were taken"""
        self.in_place: list[Mark] = []
        """marks that say not to leave the place"""
        self.part, self.has_target = self._part()
        self.verb = self._verb()

    def frame(self) -> Frame:
        """Return what the sketch asks for."""
        says = self.sketch.says
        direction = self._direction()
        degree, dimension = self._degree()
        number = self._number(dimension)
        count = number.count
        amount = number.amount or self._said_turns(count)
        if amount is None and degree is None and dimension is not None:
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
            count=count,
            duration_s=number.duration_s,
            until_end=self._until_end(timed=number.duration_s is not None),
            part=self.part.name if self.part else None,
            bodies=self.part.bodies if self.part else (),
            postures=self._postures(),
            styles=self._styles(),
            phase=self.sketch.phase,
        )

    def _senses(self, slot: str) -> Iterator[tuple[Mark, Sense]]:
        for mark in self.sketch.marks:
            sense = mark.sense(self.verb)
            if sense is not None and sense.slot == slot and mark.slot != "until_end":
                yield mark, sense

    def _use(self, mark: Mark) -> None:
        self.used.update(mark.at)

    def _part(self) -> tuple[BodyPart | None, bool]:
        """Return the part it is about; a target is what is reached, not a part."""
        parts = [mark for mark in self.sketch.marks if mark.part is not None]
        targets = [mark for mark in parts if mark.part and mark.part.name == "target"]
        others = [mark for mark in parts if mark not in targets]
        for mark in (*targets, *others[:1]):
            self._use(mark)
        return (others[0].part if others else None), bool(targets)

    def _verb(self) -> Act:
        """Return what is meant: moving to a target is reaching, moving an arm is swinging it."""
        verb, weak = self.sketch.verb, self.sketch.says.get("weak")
        if verb == Act.GO and self.has_target:
            return Act.REACH
        if verb == Act.LIFT and self.part is not None and self.part.name == "torso":
            return Act.STAND  # tall: see _postures
        limb = self.part is not None and any(word in self.part.name for word in _LIMBS)
        return Act.SWING if verb == Act.GO and weak and limb else verb

    def _direction(self) -> Direction | None:
        found = [(mark, Direction(sense.value)) for mark, sense in self._senses("direction")]
        said = self.sketch.says.get("direction")
        exact = [each for each in found if each[1] not in (Direction.UP, Direction.IN_PLACE)]
        if any(each[1] in (Direction.LEFT, Direction.RIGHT) for each in exact):
            for mark, direction in exact:
                if direction == Direction.SIDEWAYS:
                    self._use(mark)
            exact = [each for each in exact if each[1] != Direction.SIDEWAYS]
        if not exact and not said:
            for mark, _ in found:
                self._use(mark)
            named = found[0][1] if found else None
            return None if self.verb in _TURNING and named == Direction.UP else named
        for mark, direction in found:
            if direction == Direction.UP or (exact and direction == exact[0][1]):
                self._use(mark)
            elif direction == Direction.IN_PLACE:
                self._use(mark)
                if said != Direction.IN_PLACE:
                    self.in_place.append(mark)
        return exact[0][1] if exact else Direction(said) if said else None

    def _degree(self) -> tuple[Degree | None, str | None]:
        """Return the degree in words and what it is about, where words say so."""
        says = self.sketch.says
        nouns = list(self._senses("dimension"))
        marks = list(self._senses("degree"))
        for mark, _ in (*marks, *nouns):
            self._use(mark)
        named = [s.says["dimension"] for _, s in marks if "dimension" in s.says]
        dimension = next(iter((*named, *(s.value for _, s in nouns))), None)
        marks = [each for each in marks if not self._follows_number(each[0])]
        if any(sense.value == "most" and self._is_about_manner(mark) for mark, sense in marks):
            return None, dimension
        degree = _combined([sense.value for _, sense in marks])
        if degree is None and not dimension and says.get("degree"):
            return Degree(says["degree"]), says.get("dimension", _ABOUT[self.verb])
        if degree == Degree.MOST and dimension is None and self._has_height_posture():
            dimension = "height"
        return degree, dimension or (says.get("dimension") if degree else None)

    def _follows_number(self, mark: Mark) -> bool:
        """Return whether it only says what a number measures: "1 m high"."""
        numbers = [each for each in self.sketch.marks if each.reading and each.reading.amount]
        return any(number.end == mark.at[0] for number in numbers)

    def _is_about_manner(self, most: Mark) -> bool:
        """Return whether "as possible" belongs to a manner: "as smoothly as possible"."""
        for mark in self.sketch.marks:
            sense = mark.sense(self.verb)
            if sense is None or len(most.at) < 2 or mark.end != most.at[1]:
                continue
            posed = sense.slot == "posture" and sense.value not in (Posture.LOW, Posture.HIGH)
            return sense.slot == "style" or posed
        return False

    def _has_height_posture(self) -> bool:
        return any(s.value in (Posture.LOW, Posture.HIGH) for _, s in self._senses("posture"))

    def _number(self, dimension: str | None) -> Numbers:
        """Return the amount, count and duration; a second one of a kind stays unused."""
        found = Numbers()
        for mark in self.sketch.marks:
            reading = mark.reading
            if reading is None:
                continue
            amount, count = reading.amount, reading.count
            if reading.bare is not None:
                amount, count = self._bare(reading.bare, dimension)
                if amount is not None and reading.rule is not None:
                    amount = amount.model_copy(update={"rule": reading.rule})
            if found.take(amount, count, reading.duration_s):
                self._use(mark)
        return found

    def _bare(self, value: float, dimension: str | None) -> tuple[Amount | None, int | None]:
        """Return what a number without a unit means beside this verb."""
        if self.verb in _TURNING and value in table("numbers")["angles"]["bare_degrees"]:
            return Amount(value=math.radians(value), unit="rad", rule="about"), None
        if dimension in _UNIT_OF:
            unit = "share" if 0 < value < 1 else _UNIT_OF[dimension]
            return Amount(value=value, unit=unit, rule="about"), None
        counted = self.verb in _COUNTED or self.sketch.says.get("gait") == "step"
        whole = counted and value >= 1 and value == int(value)
        return None, int(value) if whole else None

    def _said_turns(self, count: int | None) -> Amount | None:
        turns = self.sketch.says.get("turns")
        if turns is None or count is not None:
            return None
        return Amount(value=turns, unit="turns", rule="about")

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
            self._use(mark)
        return bool(marks or (self.sketch.says.get("until_end") and not timed))

    def _postures(self) -> tuple[Posture, ...]:
        found = {Posture(each) for each in self.sketch.says.get("postures", ())}
        one = self.part is not None and self.part.name in _ONE_LEG
        if one and self.verb in (Act.STAND, Act.BALANCE, Act.HOP):
            found.add(Posture.ONE_LEG)
        if self.sketch.verb == Act.LIFT and self.verb == Act.STAND:
            found.add(Posture.HIGH)
        for mark, sense in self._senses("posture"):
            self._use(mark)
            found |= {Posture(sense.value), *map(Posture, sense.says.get("postures", ()))}
        return tuple(each for each in Posture if each in found)

    def _styles(self) -> tuple[Style, ...]:
        styles: set[Style] = set()
        for mark, sense in self._senses("style"):
            self._use(mark)
            styles.add(Style(sense.value))
        return tuple(style for style in Style if style in styles)


def _combined(values: list[str]) -> Degree | None:
    """Return one degree for all that was said: "very fast", "a little faster"."""
    if Degree.MOST in values:
        # "as slowly as possible" is no goal to run for
        return Degree.VERY_SLOW if Degree.SLOW in values else Degree.MOST
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
