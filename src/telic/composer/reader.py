"""Parse an intent into frames in order of execution, and account for every word.

    text -> tokens (`lexicon`) -> items and clauses (`grammar`) -> deeds -> frames (`slots`)

A deed is a verb with its items. A clause without a verb describes a pose to hold ("keeping the
torso low", "with your hands up") or modifies the previous or next deed. Parsing is deterministic
and never fails, because every word is used, deliberately ignored or reported.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from telic.composer._grammar import Clause, Item, outline
from telic.composer._parts import BodyPart
from telic.composer._slots import Deed, Slots, implied_verb
from telic.composer.frames import (
    OPPOSITE,
    Act,
    Amount,
    Direction,
    Frame,
    Limit,
    LimitKind,
    ParsedIntent,
    Posture,
    WordClaim,
)
from telic.composer.lexicon import (
    Sense,
    Token,
    correct_spelling,
    determiners,
    ignored_words,
    lexicon,
    quoted,
    quotes,
    read_tokens,
    readable,
    vocabulary,
    word_table,
)
from telic.envs.spec import EnvSpec

_UP = {"upright", "high"}
_NEW = {"direction", "degree", "posture", "style", "number", "point"}
_WAITING = {"stand": "wait", "go": "go", "turn": "turn"}
_TRUNK = {None, "torso", "pelvis", "waist", "cart"}
_POLE = ("pole", "poles", "tip")
_ARMS = ("arm", "arms", "hand", "hands")
_KEPT = ("upright", "low", "high")
_SLOTS = ("direction", "degree", "posture", "style", "part")
_JOINTS = (",", ".", "and", "then")
_POSES = ("sit", "lie", "lean", "lift")
_MANNER = ("at", "in", "with", "by", "using")
"""prepositions after which a verb modifies another verb"""


def parse(intent: str, spec: EnvSpec, omitted: frozenset[int] = frozenset()) -> ParsedIntent:
    """Parse an intent for the robot of an environment, without the words at `omitted` positions.

    If nothing is understood, the result has no frames and `unknown` lists every word.
    """
    # Ignore the environment's name as a form of address, but keep numbers ("half" of HalfCheetah).
    pieces = re.findall(r"[A-Z]?[a-z]+", spec.id)
    names = {word.lower() for word in (*pieces, "".join(pieces), spec.id)}
    names |= {*word_table("ignored")["kinds"].get(str(len(spec.feet)), ())}
    names = frozenset(names - {*word_table("numbers")["values"]})
    typed = read_tokens(intent, (*spec.body_names, *names))
    tokens = [Token(t.text, "", True) if k in omitted else t for k, t in enumerate(typed)]
    clauses = outline(tokens, spec)
    deeds = _Deeds(tokens, names, spec)
    deeds.used |= clauses.joints
    deeds.read(clauses.groups)
    frames, claims = deeds.frames()
    frames = tuple(  # "maintain a height of 0.5 m and a speed of 1 m/s"
        replace(each, verb="go") if each.verb == "stand" and each.given("m/s") else each
        for each in frames
    )
    used = deeds.used if frames else set[int]()
    left_out = _left_out(tokens, names) - clauses.idioms - used if frames else set[int]()
    # Do not ignore single words of a meaningful phrase such as "perfectly still".
    idle = {match.at for k in range(len(tokens)) if (match := lexicon().find(tokens, k, "idle"))}
    for item in clauses.items:
        if len(item.at) > 1 and item.slot in _SLOTS and item.at not in idle:
            left_out -= {*item.at}
    words = {place for place, token in enumerate(typed) if not token.silent}
    unknown = words - used - left_out
    # Quote all words of an unused number: "for at least 4 seconds".
    numbers = [item.at for item in clauses.items if item.reading and not used & {*item.at}]
    unknown |= {place for at in numbers if unknown & {*at} for place in at}
    left_out -= unknown
    unread = quotes(typed, unknown, left_out)

    read = [
        (token.text, token.word)
        for place, token in enumerate(tokens)
        if place in used and correct_spelling(token.text.lower()) != token.text.lower()
    ]
    read += [(each.word, each.says["read_as"]) for each in deeds.all if "read_as" in each.says]
    return ParsedIntent(
        intent=readable(intent),
        frames=frames,
        limits=tuple(deeds.limits),
        claims=claims if frames else (),
        unknown=tuple((place, tokens[place].text) for place in sorted(words & unknown)),
        lost=_lost_verbs(tokens, clauses.items, used, unknown - omitted),
        omitted=omitted,
        corrected=tuple(f'"{typed}" is interpreted as "{meant}"' for typed, meant in read),
        unread=unread,
    )


# ------------------------------------------------------------------------------------------ deeds


class _Deeds:
    """Builder for the actions and limits of an intent, clause by clause."""

    def __init__(self, tokens: Sequence[Token], names: frozenset[str], spec: EnvSpec) -> None:
        self.all: list[Deed] = []
        self.limits: list[Limit] = []
        self.used: set[int] = set()
        self._limit_claims: list[tuple[int, tuple[int, ...]]] = []
        self._tokens = tokens
        self._ignored = ignored_words() | names
        self._has_pole = spec.robot is not None and bool(spec.robot.poles)
        self._pending: list[Item] = []
        """items before the first verb"""
        self._phase = 0
        self._at_once = False
        """whether the clause is joined to the previous one by "while" """

    def read(self, groups: Sequence[Sequence[Clause]]) -> None:
        """Parse all clauses. A group is one phase, or two if it ends with a landing."""
        items = (item for group in groups for clause in group for item in clause.items)
        verbs = {item.act for item in items}
        moves = {"no_turn": {"turn", "flip", "roll"} & verbs, "no_drift": {"go", "jump"} & verbs}
        for group in groups:
            if group[0].join == "then" and _postures(self._pending) - _UP - {"level"}:
                self.all.append(Deed("stand", "hold", self._phase, {}, self._pending))
                self._pending = []  # "get on all fours, then stand up"
            if self.all:
                self._phase = self.all[-1].phase + 1
            for clause in group:
                self._at_once = clause.join == "while"
                if clause.delay is not None:
                    self._wait(clause, clause.delay)
                items = [item for item in clause.items if item.limit is None]
                for item in clause.items:
                    # Not in "do a pirouette, finishing face to the front".
                    is_end = item.senses and item.says("at_rest") and moves.get(item.limit or "")
                    if item.limit is not None and not is_end:
                        self._limit(item.limit, item.at, item.amount, item.part)
                if clause.acts:
                    self._add_verbs(items)
                elif items and any(item.held for item in items):
                    self._hold_quantity(items, any(each.acts for each in group))
                elif items:
                    is_done = any(deed.phase == self._phase for deed in self.all)
                    self._hold(items, is_done or any(each.acts for each in group))
        if not self.all:
            self._infer()

    def frames(self) -> tuple[tuple[Frame, ...], tuple[WordClaim, ...]]:
        """Fill the slots of every action. Returns the frames, and the words of slots and limits."""
        frames: list[Frame] = []
        claims, stays = list[WordClaim](), list[Item]()

        def claim(slot: str, at: Sequence[int], index: int, *says: Any) -> None:
            places = tuple(sorted(set(at)))
            words = quoted(self._tokens[places[0] : places[-1] + 1])
            claims.append(WordClaim(words, places, slot, index, *says))

        for index, deed in enumerate(self.all):
            slots = Slots(deed)
            frames.append(slots.frame())
            if deed.at:
                judged_as = deed.says.get("judged_as", "")
                claim("verb", deed.at, index, str(frames[-1].verb), None, judged_as)
            for slot, item, sense in slots.claims:
                self.used.update(item.at)
                says = sense.says if sense else {}
                given = [sense.value if sense else "", says.get("dimension")]
                given = ["", *given[:1]] if sense and sense.slot == "dimension" else given
                claim(slot, item.at, index, *given, says.get("judged_as", ""))
            stays += slots.in_place
        goes = any("travels" in word_table("acts")[frame.verb] for frame in frames)
        for item in stays if not goes or len({frame.phase for frame in frames}) == 1 else ():
            self._limit("no_drift", item.at)
        for index, at in self._limit_claims:
            claim("limit", at, index, str(self.limits[index].kind))
        return tuple(frames), tuple(claims)

    def _limit(
        self,
        kind: LimitKind,
        at: Sequence[int],
        amount: Amount | None = None,
        part: BodyPart | None = None,
    ) -> None:
        """Add the limit that the words at some positions express, unless it already exists."""
        self.used.update(at)
        words = quoted(self._tokens[min(at) : max(at) + 1])
        name, bodies = (part.name, part.bodies) if part else (None, ())
        limit = Limit(kind=kind, amount=amount, words=words, part=name, bodies=bodies)
        known = [replace(each, words=words) for each in self.limits]
        if limit not in known:
            self.limits.append(limit)
            known.append(limit)
        self._limit_claims.append((known.index(limit), tuple(at)))

    def _wait(self, clause: Clause, delay: Item) -> None:
        """Parse "after 3 seconds". Until then, the previous action continues or the robot waits.

        An action also continues until it is stopped, as in "stop walking after 3 seconds".
        """
        verbs = [item for item in clause.items if item.slot == "verb"]
        if self.all and not any(item.reading for item in self.all[-1].items):
            self.all[-1].items.append(delay)
        elif len(verbs) > 1 and verbs[0].act == "stop":
            self._start(verbs[1], [delay])
            clause.items.remove(verbs[1])
        else:
            verb = "go" if delay.unit == "m" else implied_verb(delay) or "stand"
            self.all.append(Deed(verb, _WAITING[verb], self._phase, {}, [delay]))
        self._phase = self.all[-1].phase + 1

    def _start(self, verb: Item, items: Sequence[Item], act: Act | None = None) -> None:
        """Add an action. `act` overrides the action of a verb such as "keep" or "hold"."""
        last = self.all[-1] if self.all else None
        is_pose = last and last.verb in _POSES and not last.says.get("bows")
        is_counted = last and any(each.reading and each.reading.count for each in last.items)
        if last and is_pose and (verb.act == "stop" or verb.says("waits")) and not is_counted:
            last.says["until_end"] = True  # "lie down, then rest for 3 seconds"
            last.items += items
            self.used.update(verb.at)
            return
        says: dict[str, Any] = {"until_end": True} if act else dict(verb.senses[0].says)
        ways = [last.says.get("direction"), *_directions(last.items, last.verb)] if last else []
        if says.get("turns_back") and "backward" in ways:
            says |= {"direction": "forward"}  # "hop backward, then reverse"
        if says.get("sequel") and any(each.phase == self._phase for each in self.all):
            self._phase += 1
        says["at_once"] = self._at_once and any(each.phase == self._phase for each in self.all)
        self.used.update(verb.at)
        own = [Item("part", verb.part.at, part=verb.part)] if verb.part else []
        own += [Item("number", verb.at, reading=verb.reading)] if verb.reading else []
        loose, self._pending = [*self._pending, *own, *items], []
        if last and last.verb == verb.act == "circle":  # "run in a circle, then in the other one"
            says = {"gait": last.says.get("gait"), **says}
        is_limb = "limb" in word_table("acts")[act or verb.senses[0].value]
        named = any(item.part for item in loose)
        if is_limb and not named and self._word_after(verb)[1] in ("it", "them"):
            loose += [item for item in self.all[-1].items if item.part] if self.all else []
        word = " ".join(self._tokens[place].word for place in verb.at)
        act = act or verb.senses[0].value
        self.all.append(Deed(act, word, self._phase, says, loose, verb.at))

    def _add_verbs(self, items: Sequence[Item]) -> None:
        """Add an action per verb. Items before the first verb belong to that verb.

        "keep running" and "move by hopping" are single actions.
        """
        given = [item for item in items if item.slot == "verb"]
        loose = [item for item in items if item.slot != "verb"]
        self.used.update(place for item in given for place in item.at)
        landings = [item for item in given if item.act == "stand" and item.says("sequel")]
        strong = [item for item in given if not item.says("holder") and not item.says("weak")]
        kept = [item for item in strong if item not in landings] or strong[:1]
        first, *others = kept or [item for item in given if item.is_acting][:1]
        verbs: list[Item] = []
        for item in others:
            between = [token.word for token in self._tokens[first.end : item.at[0]]]
            fused = _fused(first, item, between) if not verbs else None
            is_stopped = first.act == "stop" and not item.says("turns")
            if fused is not None:
                first = fused
            elif item.senses != first.senses and not is_stopped:
                verbs.append(item)
        helping = [item for item in given if item not in kept]
        says = dict(first.senses[0].says)
        if any(item.says("holder") and item.at < first.at for item in helping):
            says["until_end"] = True
        if any(item in landings for item in helping):
            says["sequel"] = True
        first = replace(first, senses=(replace(first.senses[0], says=says),))
        verbs, last = [first, *verbs], self.all[-1] if self.all else None
        is_on = first.says("weak") and first.says("until_end") and len(verbs) == 1
        if is_on and last and last.verb is first.act and last.phase >= self._phase:
            last.says["until_end"] = True  # "start walking and keep going"
            self._attach(loose)
            return
        places = [item.at[0] for item in verbs]
        ends = [*places[1:], len(self._tokens)]
        for verb, begin, end in zip(verbs, [-1, *places[1:]], ends, strict=True):
            own: list[Item] = []
            for item in loose:  # in "in one jump" the number belongs to the following verb
                leads = item.slot == "number" and item.unit is None and item.end in places
                if begin <= (item.end if leads else item.at[0]) < end:
                    own.append(item)
            self._start(verb, own)

    def _word_after(self, verb: Item) -> tuple[int, str]:
        """Return the first word after a verb and its articles, with its position."""
        words = [(k, each.word) for k, each in enumerate(self._tokens) if k >= verb.end]
        return next((each for each in words if each[1] not in determiners()), (-1, "."))

    # ---- clauses without a verb

    def _attach(self, items: list[Item]) -> None:
        """Attach a clause without a verb to the previous or next action."""
        acts = word_table("acts")[self.all[-1].verb] if self.all else {}
        for item in items:
            if item.unit == "steps" and (not self.all or self.all[-1].verb != "go"):
                self._phase += any(deed.phase == self._phase for deed in self.all)
                self.all.append(Deed("go", "take steps", self._phase, {"gait": "step"}, items))
                return
            is_angle = item.unit in ("turns", "rad", "rad/s")
            is_angle = is_angle and (not item.reading or item.reading.rule != "at_most")
            is_own = bool(acts.get("turning")) or (bool(self.all) and self.all[-1].verb == "obey")
            is_own = is_own or any(each.part for each in items)  # "turn your head by 60 degrees"
            if is_angle and not is_own:
                self.all.append(Deed("turn", "turn", self._phase, {}, items))
                return  # "jump and do half a turn"
        if not self.all or not items:
            self._pending += items
            return
        last, phase = self.all[-1], None
        if last.phase < self._phase:
            new = _NEW | ({"part"} if "parts" in word_table("acts")[last.verb] else set[str]())
            phase = self._phase if any(item.slot in new for item in items) else None
        else:
            new, old = (_directions(each, last.verb) for each in (items, last.items))
            if all(any(item.point for item in each) for each in (items, last.items)):
                phase = last.phase + 1
            elif new and old and not {"in_place", "sideways", "up"} & {*new, *old}:
                is_leg = all(any(i.unit == "m" for i in each) for each in (items, last.items))
                phase = last.phase + (is_leg or new[0] == OPPOSITE.get(old[0]))
        if phase is None:
            last.items += items
        else:  # repeat the verb with a different modifier: "walk forward, then backward"
            says = {key: value for key, value in last.says.items() if key in ("gait", "weak")}
            self.all.append(Deed(last.verb, last.word, phase, says, items))
            self._phase = phase

    def _hold_quantity(self, items: list[Item], acts: bool) -> None:
        """Add quantities to hold to the actions of the phase, or hold them while standing."""
        last = self.all[-1].items if self.all else []
        verb = lexicon().find(self._tokens, items[0].at[0], "verb")
        is_raised = verb is not None and verb.senses[0].value == "lift"
        if is_raised and any(each.reading and each.reading.duration_s for each in last):
            self._phase, acts = self.all[-1].phase + 1, False  # "stand 3 s, raise an arm"
        if any(deed.phase == self._phase for deed in self.all):
            self.all[-1].items += items
        else:
            self._pending += items
        if not acts and self._pending:
            words = quoted(self._tokens[items[0].at[0] : items[-1].end])
            verbs = filter(None, map(implied_verb, self._pending))
            verb = next(verbs, "balance" if self._has_pole else "stand")
            self.all.append(Deed(verb, words, self._phase, {}, self._pending))
            self._pending = []

    def _hold(self, items: list[Item], acts: bool) -> None:
        """Parse a pose to hold, such as "stay low" or "keep the pole upright"."""
        holder = next((item for item in items if item.slot == "verb"), None)
        others = [item for item in items if item is not holder]
        names = [item.part.name for item in others if item.part is not None]
        part = "target" if "target" in names else next(iter(names), None)
        postures, last = _postures(others), self.all[-1] if self.all else None
        is_lasting = last is not None and "lasting" in word_table("acts")[last.verb]
        is_lasting = is_lasting or (last is not None and "lying" in _postures(last.items))
        is_pole = (part is not None and part.endswith(_POLE)) or (
            holder is not None and self._has_pole and part is None and bool(postures & _UP)
        )
        raised = [item for item in others if "high" in _postures([item])]
        is_limb = part not in (*_TRUNK, "head", "target") and not is_pole
        if holder is None:
            is_raised = is_limb and (not acts or str(part).endswith(_ARMS))
            self._modify(others, part, acts, raised if is_raised else [])
            return
        act: Act | None = None
        place, after = self._word_after(holder)
        is_known = place in {k for item in others for k in item.at} or after in self._ignored
        is_other = self._has_subject(holder, others if is_limb and not raised else ())
        if is_other or (not is_known and after not in ",." and all(map(_says_how_long, others))):
            return  # "its back stays level", "while keeping your cool"
        is_lasting = is_lasting or (after == "it" and not names)  # "walk fast and hold it"
        is_rate = any(item.unit in ("m/s", "rad/s", "hz") for item in others)
        if part == "target" or (is_rate and not acts and not is_pole):
            act = "reach"  # "maintain 1 m/s"
        elif is_pole:
            is_on = last is not None and last.verb == "balance" and last.phase >= self._phase
            act = None if is_on else "balance"
        elif is_limb and raised:
            act = "lift"
        elif acts:  # a condition to keep during another action
            given = bool(others)
            others, is_kept = self._keep(others, part, acts, holder)
            is_kept = is_kept or not all(map(_says_how_long, others))
            if is_kept:
                self.used.update(holder.at)
                self._attach(others)
                return
            if is_limb or (given and not others):
                return  # poses of limbs, or "a constant height", are not judged
            act = None if is_lasting else "stand"  # "lie down and stay there" keeps lying
        elif postures or not is_lasting:
            others, _ = self._keep(others, part, acts, holder)
            act = "stand"
        if act is not None:
            self._start(holder, others, act)
        elif last is not None:
            last.says["until_end"] = True
            last.items += others
            self.used.update(holder.at)

    def _has_subject(self, verb: Item, limbs: Sequence[Item]) -> bool:
        """Return whether an unknown noun, or one of some limbs, precedes a verb in its clause."""
        words = [token.word for token in self._tokens[: verb.at[0]]]
        begins = max((k + 1 for k, word in enumerate(words) if word in _JOINTS), default=0)
        given, known = pairwise(words[begins:]), self._ignored | vocabulary()
        is_limb = any(item.part and item.at < verb.at for item in limbs)
        return is_limb or any(a in determiners() and b not in known for a, b in given)

    def _modify(
        self, items: list[Item], part: str | None, acts: bool, raised: Sequence[Item]
    ) -> None:
        """Parse a clause without a verb, such as "with your hands up" or "slowly"."""
        words = [token.word for token in self._tokens[: items[0].at[0]]][-2:]
        is_also = bool(self.all and part) and "with" not in words
        last = self.all[-1] if is_also else None
        is_limb = last is not None and "limb" in word_table("acts")[last.verb]
        is_limb = is_limb and any(limb in str(part) for limb in word_table("parts")["limbs"])
        if last and is_limb and any(item.part for item in last.items):
            # "lift your left arm and your right leg"
            self.all.append(Deed(last.verb, last.word, last.phase, dict(last.says), items))
        elif raised:
            self._start(raised[0], [item for item in items if item is not raised[0]], "lift")
        else:
            self._attach(self._keep(items, part, acts, None)[0])

    def _keep(
        self, items: list[Item], part: str | None, acts: bool, holder: Item | None
    ) -> tuple[list[Item], bool]:
        """Convert phrases such as "keeping the torso low" and "torso below 1 m" to limits.

        Return the remaining items and whether a limit was found. A body part is removed with its
        attributes. Poses of limbs are not parsed unless the action is about that part.
        """
        last = self.all[-1] if self.all else None
        named = [item for item in items if item.part is not None][:1]
        kept, is_found = list[Item](), False
        for item in items:
            sense = item.sense() or item.sense("stand")
            value = sense.value if sense is not None and acts and (holder or part) else ""
            is_near = part == "cart" and item.unit == "m"  # "within 10 cm of the middle"
            if part in _TRUNK and (value == "in_place" or is_near):
                around = [each.at for each in (holder, *named, item) if each is not None]
                amount = item.reading.amount if item.reading else None
                self._limit("no_drift", [place for at in around for place in at], amount)
                is_found = True
            elif part in _TRUNK and (value in _KEPT or (value == "up" and part is not None)):
                high = (Sense("posture", "high"),)
                kept.append(replace(item, senses=high) if value == "up" else item)
                self.used.update(*(each.at for each in named))
                is_found = True
            else:
                kept.append(item)
        items = [item for item in kept if not (is_found and item in named)]
        acts_of = word_table("acts")[last.verb] if last else {}
        is_own = "limb" in acts_of or bool(last and last.says.get("weak"))
        senses = [sense for item in items for sense in item.senses]
        nouns = {sense.value for sense in senses if sense.slot == "dimension"}
        is_about_noun = holder is not None and bool(nouns - {"speed"})
        is_plain = part is None or part == "target" or part.endswith(_POLE) or is_own
        if (is_plain and not is_about_noun) or is_found:
            return items, is_found
        of_it = {"direction"} if part in _TRUNK else {"direction", "posture"}
        of_it |= {"dimension", "style", "degree", "posture"} if is_about_noun else set[str]()
        given = [item for item in items if any(sense.slot in of_it for sense in item.senses)]
        given += [item for item in items if item.unit in ("m", "rad") and item not in given]
        gone = [*given, *(named if given else [])]
        return [item for item in items if item not in gone], False

    def _infer(self) -> None:
        """Infer the verb of an intent without verbs, such as "forward, fast" or "don't fall"."""
        tokens = self._tokens
        known = [k for k, each in enumerate(tokens) if each.word not in self._ignored]
        words = {k for k in known if not tokens[k].silent} - self.used
        # "lower your left arm" does not mean standing low, and "lean forward" has an unknown verb.
        limbs = any(i.part is not None and i.part.name not in _TRUNK for i in self._pending)
        is_read = not words - {place for item in self._pending for place in item.at}
        for item in self._pending if is_read and not limbs else ():
            if (verb := implied_verb(item)) is not None:
                word = " ".join(tokens[place].word for place in item.at)
                self.all.append(Deed(verb, word, 0, {}, self._pending))
                return
        ends = [token.silent or token.word in ("and", "then", "but") for token in tokens]
        firsts = {k for j, k in pairwise([-1, *known]) if (j < 0 or ends[j]) and not ends[k]}
        if self.limits and not firsts & words:  # not "and dance"
            verb = "balance" if self._has_pole else "stand"
            self.all.append(Deed(verb, self.limits[0].words, 0, {}, self._pending))


def _fused(one: Item, other: Item, between: Sequence[str]) -> Item | None:
    """Merge two verbs into an item with the words of both, or return None for two actions."""
    first, second = one.senses[0], other.senses[0]
    match one.act, other.act:
        case "turn", _ if other.says("turns") and not one.says("turns"):
            value, says = second.value, second.says  # "turn to face left"
        case "stand_up", "sit":
            value, says = second.value, second.says  # "get up into a squat": no higher
        case ("go", "obey") | ("obey", "go") | ("obey", "obey"):
            value, says = "obey", {**first.says, **second.says}  # "trot as commanded"
        case ("go", "circle") | ("turn", "circle"):
            value = (second if one.act == "go" else first).value
            says = {**second.says, **first.says}  # "walk in a circle", "turn in a circle"
        case "go", "go" if {*_MANNER} & {*between}:
            value, says = "go", {**first.says, **second.says}  # "walk at a trot"
        case ("hop" | "jump", "jump" | "hop") | ("go", "jump" | "hop") if {*_MANNER} & {*between}:
            value, says = "hop", {**second.says, **first.says}  # "hop forward in small jumps"
        case _:
            return None
    return Item("verb", (*one.at, *other.at), (Sense("verb", str(value), says),))


def _directions(items: Sequence[Item], verb: Act) -> list[Direction]:
    senses = [item.sense(verb) for item in items]
    return [s.value for s in senses if s is not None and s.slot == "direction"]


def _postures(items: Sequence[Item]) -> set[Posture]:
    """Return the named postures, where "up" means high."""
    senses = [sense for item in items if (sense := item.sense()) is not None]
    poses = [sense for sense in senses if sense.slot == "posture"]
    named = {value for each in poses for value in (each.value, *each.says.get("postures", ()))}
    is_up = any(sense.value == "up" and sense.slot != "posture" for sense in senses)
    return named | ({"high"} if is_up else set[Posture]())


def _says_how_long(item: Item) -> bool:
    """Return whether an item only specifies a duration, as in "stay up for 3 seconds"."""
    sense = item.sense()
    moved = sense is not None and sense.value in ("up", "down")
    return (item.slot in ("number", "until_end") and item.unit != "hz") or moved


# ----------------------------------------------------------------------------- word accounting
def _lost_verbs(
    tokens: Sequence[Token], items: Sequence[Item], used: set[int], unknown: set[int]
) -> tuple[str, ...]:
    """Return unknown words in the position of verbs, such as "dance" in "run, then dance".

    The intent is split at "then" and similar words. A piece without a verb requests an unknown
    behavior if its first content word is not understood.
    """
    doing = [item for item in items if item.slot == "verb" and {*item.at} & used]
    # Stopping, landing and ending up follow another action.
    is_sequel = len(doing) == 1 and doing[0].says("sequel")
    acts = {place for item in doing for place in item.at if not is_sequel}
    is_late = bool(doing) and min(unknown | used) in unknown  # "dance and run"
    ands = {k for k in used if is_late and tokens[k].word == "and" and k < doing[0].at[0]}
    joints = [it for it in items if it.is_join("then", "after", "before") or it.at[0] in ands]
    lost: list[str] = []
    for begin, end in pairwise((0, *(item.at[0] for item in joints), len(tokens))):
        joint = {place for item in joints if item.at[0] == begin for place in item.at}
        piece = sorted(((unknown | used) - joint) & {*range(begin, end)})
        if piece and piece[0] in unknown and not acts & {*piece}:
            words = [tokens[k] for k in piece if tokens[k].word not in ignored_words()]
            lost.append((words or [tokens[piece[0]]])[0].text)
    return tuple(lost)


def _left_out(tokens: Sequence[Token], names: frozenset[str]) -> set[int]:
    """Return the positions of deliberately ignored words.

    "again" is ignored only for an action that was mentioned before.
    """
    words = [token.word for token in tokens]
    data, robots = word_table("ignored"), {*word_table("ignored")["robots"], *names}
    places = {place for place, word in enumerate(words) if word in ignored_words() | names}
    found = (lexicon().find(tokens, place, "idle") for place in range(len(tokens)))
    together = {place for idle in found if idle for place in idle.at}
    for place in range(1, len(words)):  # names address the robot unless they follow a preposition
        before = [k for k in range(place) if words[k] not in determiners()][-1:]
        is_placed = any(k not in together and words[k] in data["placing"] for k in before)
        if words[place] in robots and is_placed:
            places -= {place, *before}
    again = [place for place, word in enumerate(words) if word == "again"]
    later = (k for k in again if {*_JOINTS} & {*words[:k]} and words[k - 1] not in _JOINTS)
    return places | together | {*later}
