"""What belongs to what: a number to what it measures, a direction to its deed or its part.

Where that is unknown, the mark is left unread: it is named, and never taken for something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from telic.composer.amounts import Reading
from telic.composer.frames import Act, Amount
from telic.composer.marks import Mark, says
from telic.composer.words import Sense, Token, determiners, ignored_words

# After a number: more than what is not said, and not known.
_COMPARED = {
    *("lower", "higher", "faster", "slower", "farther", "further", "longer", "shorter"),
    *("deeper", "taller", "more", "less"),
}
# Parts that move when the whole robot does: "without moving the cart".
WHOLE = {"torso", "cart", "base"}
_LOOK_BACK = 4
_GOES = {Act.GO, Act.JUMP, Act.HOP}
_FOOT_M = 0.3048
POSSESSIVE = ("your", "its", "it's", "his", "her", "their", "my")
# What a body does as a whole: no part is turned, rolled or run.
_OF_WHOLE = {Act.GO, Act.TURN, Act.ROLL, Act.FLIP, Act.CIRCLE, Act.JUMP, Act.HOP, Act.LIE}
# What a deed can be said to be done like.
_MANNERS = {"direction", "posture", "degree", "part"}
_SHORT = 4  # letters up to which a word in "-ing" is a thing: "ring"


def bound(tokens: Sequence[Token], marks: list[Mark]) -> list[Mark]:
    """Return the marks that say something of what is asked for."""
    marks = [_of_parts(tokens, marks, index) for index in range(len(marks))]
    read = {place for mark in marks for place in mark.at}
    unknown = [mark for mark in marks if _is_of_unknown(tokens, mark, read)]
    ends = {mark.end for mark in unknown}
    of_them = [mark for mark in marks if mark.at[0] in ends and mark.slot in _MANNERS]
    marks = [mark for mark in marks if mark not in (*unknown, *of_them)]
    marks = [mark for mark in marks if not _is_relative(tokens, mark)]
    marks = [mark for k, mark in enumerate(marks) if not _moves_part(tokens, marks[k : k + 2])]
    marks = [mark for mark in marks if not _lifts_thing(tokens, mark, read)]
    marks = _compared(tokens, _without_unknown_deeds(tokens, marks))
    taken = {place for mark in marks if mark.slot == "number" for place in mark.at}
    marks = [mark for mark in marks if mark.slot != "part" or not taken & {*mark.at}]
    return [_with_first_as(tokens, mark) for mark in marks]


def _of_parts(tokens: Sequence[Token], marks: Sequence[Mark], index: int) -> Mark:
    """Return a number of parts as one that says nothing yet: "three legs" is no count of hops.

    Whoever goes or jumps "20 feet" is told how far.
    """
    mark, part = marks[index], marks[index + 1] if index + 1 < len(marks) else None
    if _is_a_foot(tokens, marks, index):
        amount = Amount(value=_FOOT_M, unit="m", rule="about")
        return Mark("number", mark.at, reading=Reading(mark.at, amount))
    reading = mark.reading
    if reading is None or reading.bare is None or part is None or part.part is None:
        return mark
    if part.at[0] != mark.end:
        return mark
    before = marks[index - 1].sense() if index else None
    goes = before is not None and (before.slot == "direction" or before.value in _GOES)
    is_length = tokens[mark.end].word in ("feet", "foot") and tokens[mark.at[0]].word != "from"
    if not goes or not is_length or len(part.at) > 1:
        return replace(mark, reading=Reading(mark.at))
    amount = Amount(value=round(_FOOT_M * reading.bare, 9), unit="m", rule=reading.rule or "about")
    said = Reading((*mark.at, *part.at), amount, rule=reading.rule)
    return Mark("number", said.at, reading=said)


def _is_a_foot(tokens: Sequence[Token], marks: Sequence[Mark], index: int) -> bool:
    """Return whether a foot is a length: "jump a foot high"."""
    mark, before = marks[index], marks[index - 1].sense() if index else None
    words = [token.word for token in tokens[mark.at[0] - 1 : mark.end + 1]]
    is_length = words[:2] in (["a", "foot"], ["one", "foot"]) and words[2:] != ["or"]
    goes = before is not None and before.value in _GOES
    after = marks[index + 1] if index + 1 < len(marks) else None
    says_where = after is not None and after.at[0] == mark.end and after.slot in _MANNERS
    return mark.slot == "part" and is_length and goes and says_where


def _is_of_unknown(tokens: Sequence[Token], mark: Mark, read: set[int]) -> bool:
    """Return whether a number measures or counts what nobody knows.

    "a stride of 30 cm", "2 Hz", "with 2 m sides", "a bar 50 cm high", "pi/2", "twice your height".
    """
    reading = mark.reading
    if mark.slot != "number" or reading is None:
        return False
    place, end = mark.at[0], mark.end

    def is_unknown(place: int) -> bool:
        if not 0 <= place < len(tokens) or place in read or tokens[place].silent:
            return False
        return tokens[place].word not in ignored_words()

    if tokens[place].word == "of" or (place > 1 and tokens[place - 1].text == "/"):
        return is_unknown(place - 1 - (tokens[place].word != "of"))
    if is_unknown(place - 1) and place > 1 and tokens[place - 2].word in determiners():
        return True  # "under a bar 50 cm high"
    is_thing = reading.bare is not None or (place > 0 and tokens[place - 1].word == "with")
    if is_thing and is_unknown(end):
        return True
    is_multiple = reading.count is not None or reading.bare is not None
    return is_multiple and end < len(tokens) and tokens[end].word in POSSESSIVE


def _moves_part(tokens: Sequence[Token], marks: Sequence[Mark]) -> bool:
    """Return whether a verb of the whole body is said of a part: "turn your head" is no turn."""
    if len(marks) < 2 or marks[0].slot != "verb" or marks[1].part is None:
        return False
    verb, part = marks
    between = [token.word for token in tokens[verb.end : part.at[0]]]
    is_object = bool(between) and all(word in determiners() for word in between)
    is_whole = marks[1].part.name in (*WHOLE, "target")
    return is_object and not is_whole and _verb_of(verb) in _OF_WHOLE and not says(verb, "weak")


def _lifts_thing(tokens: Sequence[Token], verb: Mark, read: set[int]) -> bool:
    """Return whether something is lifted that nobody knows: "pick up a box" is not a foot."""
    place, thing = verb.end, verb.end
    if verb.slot != "verb" or _verb_of(verb) != Act.LIFT:
        return False
    while thing < len(tokens) and tokens[thing].word in determiners():
        thing += 1
    is_known = thing >= len(tokens) or thing in read or tokens[thing].word in ignored_words()
    return thing > place and not is_known and not tokens[thing].silent


def _verb_of(mark: Mark) -> str:
    return mark.senses[0].value


def _without_unknown_deeds(tokens: Sequence[Token], marks: Sequence[Mark]) -> list[Mark]:
    """Return the marks without those that say how something unknown is done.

    "walk looking to the left" does not go left, and "look up and walk" does not go up: such a word
    stands where a clause begins, or has the form of a verb beside another.
    """
    kept: list[Mark] = []
    read = {place for mark in marks for place in mark.at}
    begins, is_unknown, last = True, False, 0
    for mark in marks:
        between = [tokens[k] for k in range(last, mark.at[0]) if k not in read]
        for word in (token.word for token in between if not token.silent):
            if word not in ignored_words():
                is_unknown = (begins and not word.endswith("ly")) or _is_participle(word)
                begins = False
        if mark.slot == "join":  # "glancing left and right" is one deed
            is_unknown = is_unknown and tokens[mark.at[0]].word == "and"
        elif mark.slot in ("verb", "limit", "number"):
            is_unknown = False
        if not (is_unknown and mark.slot in _MANNERS):
            kept.append(mark)
        begins = mark.slot == "join"
        last = mark.end
    return kept


def _is_participle(word: str) -> bool:
    return len(word) > _SHORT and word.endswith("ing") and word != "during"


def _is_relative(tokens: Sequence[Token], mark: Mark) -> bool:
    """Return whether a number says how much more than something: "5 cm lower", "20 % faster"."""
    reading, after = mark.reading, tokens[mark.end : mark.end + 1]
    if mark.slot != "number" or reading is None or reading.bare is not None:
        return False
    return any(token.word in _COMPARED for token in after)


def _compared(tokens: Sequence[Token], marks: Sequence[Mark]) -> list[Mark]:
    """Return the marks with "as high as your leg" as a comparison, which is left unread.

    "as high as possible" and "as well as" are phrases of their own.
    """
    own = {place for mark in marks if len(mark.at) > 1 for place in mark.at}
    counts = {mark.end: mark.at for mark in marks if mark.reading and mark.reading.count}
    for place, token in enumerate(tokens):
        second = place + 2
        if token.word != "as" or {place, second} & own:
            continue
        is_pair = tokens[second : second + 1] and tokens[second].word == "as"
        if is_pair or place in counts:  # "three times as high"
            at = (*counts.get(place, ()), *range(place, second + bool(is_pair)))
            kept = [mark for mark in marks if not {*mark.at} & {*at}]
            comparison = Mark("join", at, (Sense("join", "aside"),))
            return sorted((*kept, comparison), key=lambda mark: mark.at)
    return list(marks)


def _with_first_as(tokens: Sequence[Token], mark: Mark) -> Mark:
    """Let "as possible" own the first "as" of "as high as possible" too."""
    sense = mark.sense()
    if sense is None or sense.value != "most" or tokens[mark.at[0]].word != "as":
        return mark
    for place in range(mark.at[0] - 1, max(mark.at[0] - 1 - _LOOK_BACK, -1), -1):
        if tokens[place].word == "as":
            return replace(mark, at=(place, *mark.at))
    return mark
