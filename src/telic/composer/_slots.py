"""Fill the slots of a frame from parsed items and record the words used for each."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, cast

from telic.composer._amounts import Reading
from telic.composer._grammar import Item
from telic.composer._parts import BodyPart
from telic.composer._sizes import BY_STEPS
from telic.composer.frames import Act, Amount, Degree, Frame, Unit
from telic.composer.lexicon import Sense, word_table
from telic.robots.terrain import TERRAINS

_STRONGER = {"fast": "very_fast", "slow": "very_slow"}
_WEAKEST = {"slow": "very_slow", "little": "little"}
_LEVEL = {"forward", "backward", "left", "right"}
_BESIDES = ("up", "in_place")
"""directions that another direction overrides"""
_MEASURES = {"m/s": "speed", "steps": "count"} | dict.fromkeys(("rad/s", "rad", "turns"), "turning")
_LEANS_RAD = 1.1
"""angle below which rolling means leaning to a side"""
_STRICTER = {"at_least": 1, "at_most": -1, "about": 0}


@dataclass(slots=True)
class Deed:
    """Verb with its items."""

    verb: Act
    word: str
    phase: int
    says: dict[str, Any] = field(default_factory=dict[str, Any])
    items: list[Item] = field(default_factory=list[Item])
    at: tuple[int, ...] = ()
    """positions of the words of the verb, empty if the verb is not repeated"""


def implied_verb(item: Item) -> Act | None:
    """Return the verb that a word implies if the text has none."""
    if item.point is not None:
        return "go"
    if item.unit is not None:
        rates = dict.fromkeys(("m/s", "hz", "steps"), "go")
        return (rates | dict.fromkeys(("turns", "rad", "rad/s"), "turn")).get(item.unit)
    sense = item.sense()
    if sense is None or sense.slot == "posture":
        return None if sense is None else "stand"
    if sense.slot == "direction":
        turns = sense.value in ("clockwise", "counterclockwise")
        still = sense.value in ("in_place", "up", "down")
        return "turn" if turns else None if still else "go"
    is_speed = sense.slot == "dimension" and sense.value == "speed"  # "at target speed 1.0"
    return "go" if is_speed or sense.says.get("dimension") in ("speed", "distance") else None


class Slots:
    """Fill slots with the items of one action."""

    def __init__(self, deed: Deed) -> None:
        self.deed = deed
        self.claims: list[tuple[str, Item, Sense | None]] = []
        """filled slots with their words and meanings"""
        self.in_place: list[Item] = []
        """items that request staying in place"""
        self.part: BodyPart | None = None
        self._fills: dict[str, Any] = {}
        self._is_end = any(item.reading and item.reading.is_end for item in deed.items)
        self.verb = self._verb()
        self._is = word_table("acts")[self.verb]

    def frame(self) -> Frame:
        """Return the frame of the deed."""
        says, verb, fills = self.deed.says, self.verb, self._fills
        self._direct()
        factor, degree, dimension = self._degree()
        self._number(dimension)
        amount: Amount | None = fills.get("amount")
        is_most = amount is not None and amount.unit == "rad" and amount.rule == "at_most"
        if (amount is None or is_most) and "turns" in says and "count" not in fills:
            amount = Amount(value=says["turns"], unit="turns", rule="about")
        elif amount is None and "steps" in says and "duration_s" not in fills:
            amount = Amount(value=says["steps"], unit="steps", rule="about")
        if amount is not None and amount.value < 0:
            # "at -2 m/s" is backward, "by -90 degrees" to the right
            amount = replace(amount, value=-amount.value)
            back = "right" if verb == "turn" else "backward"
            back = "left" if fills["direction"] == "right" else back
            is_axis = says.get("direction") or fills["direction"] == "forward"  # "-1 m/s along x"
            fills["direction"] = back if is_axis else fills["direction"] or back
        if amount is not None and amount.unit == "share":
            degree = None if degree == "most" else degree  # "80 % of top speed"
            if factor is not None:  # "20 % faster"
                factor, amount = 1.0 + math.copysign(amount.value, factor - 1.0), None
        shift = 1 if self.deed.verb == "lift" and verb == "stand" else says.get("shift")
        if amount is not None and shift and amount.unit == "m":
            dimension, fills["is_change"] = "height", not self._is_end
            amount = amount if self._is_end else replace(amount, value=shift * amount.value)
        elif amount is None and degree is None and factor is None:
            dimension = None
        elif dimension is None and amount is not None:
            is_high = "high" in self._is and fills["direction"] not in _LEVEL
            is_high = is_high and verb != "hop"
            dimension = "height" if is_high else "distance"
            dimension = dimension if amount.unit == "m" else _MEASURES.get(amount.unit)
        elif dimension is None:
            is_way = degree in ("little", "much") and verb in ("go", "circle")
            dimension = "distance" if is_way else self._is["about"]
        elif dimension == "speed" and "turning" in self._is:
            dimension = "turning"
        fills |= {"amount": amount, "degree": degree, "dimension": dimension, "factor": factor}
        slots = ("until_end", "held", "point")
        lasts, held, points = ([i for i in self.deed.items if i.slot == k] for k in slots)
        self.claims += [(item.slot, item, None) for item in (*lasts, *held, *points)]
        fills["point"] = points[-1].point if points else None
        fills["held"] = tuple(each for item in held for each in item.held)
        # "stay for 3 seconds" says how long instead
        fills |= {"bows": bool(says.get("bows")), "at_once": bool(says.get("at_once"))}
        fills["until_end"] = bool(lasts or (says.get("until_end") and "duration_s" not in fills))
        postures = self._postures(shift if amount is None or amount.unit != "m" else None)
        styles = {*says.get("styles", ()), *(sense.value for _, sense in self._take("style"))}
        return Frame(
            verb=verb,
            word=self.deed.word,
            gait=says.get("gait"),
            part=self.part.name if self.part else None,
            bodies=self.part.bodies if self.part else (),
            postures=tuple(each for each in word_table("postures") if each in postures),
            styles=tuple(each for each in word_table("styles") if each in styles),
            phase=self.deed.phase,
            **fills,
        )

    def _senses(self, slot: str) -> list[tuple[Item, Sense]]:
        """Return the items that can fill a slot, with their meanings."""
        items = (item for item in self.deed.items if item.slot != "until_end")
        found = ((item, item.sense(self.verb)) for item in items)
        return [(item, sense) for item, sense in found if sense and sense.slot == slot]

    def _take(self, slot: str) -> list[tuple[Item, Sense]]:
        """Record and return the items that fill a slot."""
        found = self._senses(slot)
        self.claims += [(slot, item, sense) for item, sense in found]
        return found

    def _verb(self) -> Act:
        """Return the intended action, e.g. reaching for moving to a target."""
        named = [(item, item.part) for item in self.deed.items if item.part is not None]
        targets = [item for item, part in named if part.name == "target"]
        own = [(item, part) for item, part in named if part.name != "target"][:1]
        self.claims += [("target", item, None) for item in targets]
        self.claims += [("part", item, None) for item, _ in own]
        self.part = own[0][1] if own else None
        verb, name = self.deed.verb, self.part.name if self.part else ""
        if any(item.point for item in self.deed.items) and verb in ("reach", "stop", "stand"):
            return "go"
        if verb == "go" and targets:
            return "reach"
        if verb == "go" and any(item.unit == "turns" for item in self.deed.items):
            return "circle"  # "run three laps"
        if verb == "reach" and not targets:
            # "reach 2 m/s" and "reach x = 3 m" do not reach for anything.
            ways = [item for item in self.deed.items if item.reading or item.slot == "direction"]
            return next(filter(None, map(implied_verb, ways)), verb)
        if verb == "lift" and name == "torso":
            return "stand"  # tall: see _postures
        readings = [item.reading for item in self.deed.items if item.reading]
        angles = [abs(r.amount.value) for r in readings if r.amount and r.amount.unit == "rad"]
        angles += [math.radians(each.bare or 0.0) for each in readings]
        if verb == "roll" and any(0.1 < angle < _LEANS_RAD for angle in angles):
            self.deed.says.setdefault("direction", "right")
            return "lean"  # "roll your body left by 15 degrees"
        senses = [sense for item in self.deed.items if (sense := item.sense(verb))]
        postures = {each for s in senses for each in (s.value, *s.says.get("postures", ()))}
        is_limb = any(word in name for word in word_table("parts")["limbs"])
        if verb == "stand_up" and is_limb:
            return "lift"  # "rise your left hand"
        if verb == "stand" and name.endswith(("pole", "poles")):
            return "balance"
        if (verb in ("stand", "stop", "balance") or self.deed.word == "go") and "lying" in postures:
            return "lie"  # "land on your back"
        if not (verb == "go" and is_limb and self.deed.word.startswith("mov")):
            return verb
        values = {sense.value for item in self.deed.items for sense in item.senses}
        return "lift" if values & {"up", "high"} else "swing"  # "move your hand up"

    def _direct(self) -> None:
        """Fill the direction, its frame of reference and the terrain."""
        says, fills = self.deed.says, self._fills
        found, own = self._senses("direction"), says.get("direction")
        exact = [*dict.fromkeys(s.value for _, s in found if s.value not in _BESIDES)]
        if "left" in exact or "right" in exact:
            exact = [value for value in exact if value != "sideways"]
        if own != "in_place" and (exact or own or "wanders" in self._is):
            self.in_place += [item for item, sense in found if sense.value == "in_place"]
            found = [each for each in found if each[0] not in self.in_place]
        for item, sense in found:
            if sense.value not in exact[1:]:
                self.claims.append(("direction", item, sense))
                fills["is_of_start"] = sense.says.get("frame") == "start"
        direction = exact[0] if exact else own if own else None
        if self.verb == "go" and own in ("forward", "backward") and direction in ("left", "right"):
            # "back away, curving to the right": not sideways
            self.claims = [each for each in self.claims if each[0] != "direction"]
            direction = own
        first = found[0][1].value if found else None
        if direction is None and not (first == "up" and "turning" in self._is):
            direction = first
        kind, hardest = says.get("ground"), None
        for item, sense in self._senses("ground"):
            climbs = sense.says.get("direction")
            ways = [(c, (c[2].value, c[2].says.get("direction"))) for c in self.claims if c[2]]
            given = [claim for claim, way in ways if direction in way]
            is_both = {climbs, direction} == {"up", "down"}
            if is_both and all(item.at < other.at for _, other, _ in given):
                self.claims = [claim for claim in self.claims if claim not in given]
                is_both = False  # the first is used, and the other must be judged too
            if kind in (None, sense.value) and not is_both:
                if climbs and own and own not in (climbs, "forward") and self.deed.at:
                    # "reverse up the ramp": on slopes and stairs it goes forward; this is reported.
                    verb = Item("verb", self.deed.at)
                    self.claims.append(("direction", verb, Sense("direction", own)))
                direction = climbs or direction
                self.claims.append(("ground", item, sense))
                kind, hardest = sense.value, sense.says.get("hardest")
        fills["ground"] = next((each for each in TERRAINS if each == kind), None)
        fills |= {"direction": direction, "hardest": hardest}

    def _degree(self) -> tuple[float | None, Degree | None, str | None]:
        """Return the factor of a comparison, a degree in words, and the dimension of either."""
        says, nouns = self.deed.says, self._senses("dimension")
        found = self._take("degree")
        unread = [(item, sense) for item, sense in nouns if item.reading is None]
        self.claims += [("degree", item, sense) for item, sense in unread]
        named = [sense.says["dimension"] for _, sense in found if "dimension" in sense.says]
        dimension = next(iter((*named, *(sense.value for _, sense in nouns))), None)
        degree = _combined([sense.value for _, sense in found if "factor" not in sense.says])
        factor = None if degree == "most" else _factor([sense for _, sense in found])
        if factor is not None:
            return factor, None, dimension or self._is["about"]
        if degree is None and not dimension and says.get("degree"):
            return None, says["degree"], says.get("dimension", self._is["about"])
        postures = {sense.value for _, sense in self._senses("posture")}
        if degree == "most" and dimension is None and postures & {"low", "high"}:
            dimension = "height"
        return None, degree, dimension or (says.get("dimension") if degree else None)

    def _number(self, dimension: str | None) -> None:
        """Fill the numeric slots. A second number of a kind remains unused."""
        fills, is_going = self._fills, self.verb in ("go", "hop")
        for item in self.deed.items:
            reading = item.reading
            is_other = item.unit == "steps" and self.verb != "go"
            if reading is None or dimension == "energy" or is_other:
                continue  # power is not measured
            amount, count = reading.amount, reading.count
            if amount and not self._is_about(item, amount, dimension):
                continue
            if reading.bare is not None:
                # "speed 2" is one number; in "two quick jumps" it is a count.
                is_named = any(self._senses("dimension")) or 0 < reading.bare < 1
                amount, count = self._bare(reading, dimension if is_named else None)
            if item.unit == "times" and amount is not None:  # "turn one and a half times"
                is_turn = self.verb == "turn"
                amount = replace(amount, unit="turns") if is_turn else None
            period = reading.period_s
            if period and reading.is_steps and self.deed.says.get("gait") not in BY_STEPS:
                period *= 2.0
            limit = amount if amount and (amount.unit, amount.rule) == ("s", "at_most") else None
            amount = None if limit else amount
            given = {"period_s": period, "duration_s": reading.duration_s, "count": count}
            given |= {"within_s": limit and limit.value, "amount": amount}
            given = {name: new for name, new in given.items() if new is not None}
            first: Amount | None = fills.get("amount")
            rules = {first.rule, amount.rule} if first and amount else set[str]()
            is_end = bool(first and amount and first.unit == amount.unit)
            if is_end and first and amount and rules == {"at_least", "at_most"}:
                # "at least 1 m/s and at most 3 m/s"
                middle = (first.value + amount.value) / 2
                fills["amount"] = Amount(value=middle, unit=first.unit, rule="about")
                fills["bounds"] = (first, amount)
            elif first and amount and {first.unit, amount.unit} == {"m", "m/s"} and is_going:
                fills["amount"], fills["pace"] = sorted((first, amount), key=lambda x: x.unit)
                given = {"pace": amount}  # "walk 3 m at 1 m/s"
            elif not given or fills.keys() & given.keys():
                continue
            else:
                fills |= given
                if amount is not None and reading.spread > 0.0:
                    low, high = (amount.value + way * reading.spread for way in (-1, 1))
                    least = replace(amount, value=low, rule="at_least")
                    fills["bounds"] = least, replace(amount, value=high, rule="at_most")
                if reading.rule is not None and (reading.period_s or count is not None):
                    # For counts, a strict comparison starts at the next integer.
                    step = _STRICTER[reading.rule] * reading.is_strict
                    fills |= {} if count is None else {"count": max(1, count + step)}
                    fills["count_rule"] = reading.rule
            self.claims.append((next(iter(given)).removesuffix("_s"), item, None))

    def _is_about(self, item: Item, amount: Amount, dimension: str | None) -> bool:
        """Return whether a number says something about this action."""
        if amount.unit == "share":  # "30 % of each stride" says nothing about the speed
            return bool(dimension or self._senses("degree"))
        if amount.rule == "about" or item.senses or amount.unit not in ("m", "rad", "turns"):
            return True  # but not "finish within 20 cm", a height
        if amount.unit == "rad" and self.verb == "balance":
            return True
        return self._is["about"] != "duration" if amount.unit == "m" else "turning" in self._is

    def _bare(self, reading: Reading, dimension: str | None) -> tuple[Amount | None, int | None]:
        """Return the meaning of a number without a unit for this verb."""
        value, unit, is_part = reading.bare or 0.0, None, 0 < (reading.bare or 0.0) < 1
        units = {"speed": "m/s", "height": "m", "distance": "m", "turning": "rad/s"}
        if "turning" in self._is and value >= 10:  # an angle rather than a count
            value, unit = math.radians(value), "rad"
        elif "turning" in self._is and is_part:  # "a half twist"
            unit = "turns"
        elif dimension in units:
            unit = "share" if is_part else units[dimension]
        if unit is not None:
            return Amount(value, cast("Unit", unit), reading.rule or "about"), None
        if self.deed.says.get("gait") == "step" and value >= 1:
            return Amount(value, "steps", reading.rule or "about"), None
        counted = "counted" in self._is
        return None, int(value) if counted and value >= 1 and value == int(value) else None

    def _postures(self, shift: int | None) -> set[str]:
        """Return all postures that are named, or implied by the verb, a leg or a height."""
        named = self._take("posture")
        found = {*self.deed.says.get("postures", ()), *(sense.value for _, sense in named)}
        found |= {each for _, sense in named for each in sense.says.get("postures", ())}
        is_one = self.part is not None and self.part.name in word_table("parts")["one_leg"]
        if is_one and self.verb in ("stand", "balance", "hop"):
            found.add("one_leg")
        if shift:
            found.add("low" if shift < 0 else "high")
        return found - {"lying"} if self.verb == "stand_up" else found


def _factor(senses: list[Sense]) -> float | None:
    """Return the factor of a comparison. "Slightly faster" is half the difference of "faster"."""
    found = next((sense for sense in senses if "factor" in sense.says), None)
    if found is None or found.says.get("is_exact"):
        return None if found is None else float(found.says["factor"])
    values = {sense.value for sense in senses}
    share = 0.5 if "little" in values else 2.0 if values & {"much", "intensify"} else 1.0
    return round(max(1.0 + share * (float(found.says["factor"]) - 1.0), 0.2), 3)


def _combined(values: list[str]) -> Degree | None:
    """Combine the degrees of several words, as in "very fast"."""
    degrees = [value for value in values if value != "intensify"]
    if "most" in degrees:  # "as slowly as possible", "as little as possible"
        return next((_WEAKEST[each] for each in degrees if each in _WEAKEST), "most")
    given = [degree for degree in degrees if degree != "little"]
    if not given:
        return "little" if degrees else None
    speeds = [degree for degree in given if degree != "much"]
    if not speeds:
        return "much"
    is_stronger = len(values) > len(degrees) or "much" in degrees
    return _STRONGER.get(speeds[0], speeds[0]) if is_stronger else speeds[0]
