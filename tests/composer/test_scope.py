"""Every word counts: carried by a criterion, plain grammar, or named as left out. Never silent."""

import random
import re
from functools import lru_cache
from pydoc_data.topics import topics

import pytest

from telic.composer.compose import compose
from telic.composer.lexicon import vocabulary, word_table
from telic.composer.reader import parse
from telic.errors import NotUnderstood, TelicError, UsageError
from telic.judges.criteria import scope_words
from tests.composer.specs import measured, spec_of, written_out

# A robot, an intent, and what must be named as left out; "refused" where the verb itself is lost.
LEFT_OUT = """
HalfCheetah: kick every 3 seconds | every 3 seconds
HalfCheetah: kick twice per second | twice per second
HalfCheetah: jump at 2 Hz | Hz
HalfCheetah: run on the moon | moon
HalfCheetah: run forward if it rains | if it rains
HalfCheetah: run until you are tired | until you are tired
HalfCheetah: run 5 m at 2 m/s | 2 m/s
HalfCheetah: run at 2 m/s, then at 4 m/s, within 3 seconds | within 3 seconds
HalfCheetah: run with a stride of 30 cm | stride of 30 cm
HalfCheetah: run at 2 m/s with a tolerance of 5 percent | tolerance of 5 percent
HalfCheetah: run forward with 80 percent of the power | 80 percent
HalfCheetah: backflip over the moon | over the moon
HalfCheetah: run forward happily | happily
HalfCheetah: run forward and again | again
HalfCheetah: run perfectly still | perfectly still
HalfCheetah: run forward with purple shoes | purple shoes
HalfCheetah: hop forward like a kangaroo | like a kangaroo
HalfCheetah: run faster than an ant | than an ant
HalfCheetah: blorp the fnord | refused
HalfCheetah: run forward, then blorp | refused
Ant: walk in a square | square
Ant: walk forward and face the camera | face the camera
Ant: walk in a figure eight | figure eight
Ant: walk forward three times | three times
Ant: walk to the kitchen | kitchen
Ant: walk around the chair | around the chair
Ant: walk towards the person | towards the person
Ant: jump over the dog | over the dog
Ant: run through the door | through the door
Ant: walk forward when the light is green | when the light is green
Ant: turn 90 degrees left every 5 seconds | every 5 seconds
Ant: walk forward but only with the front legs | only
Ant: walk forward using three legs | three
Ant: raise every leg | every
Ant: walk with a straight back | back
Ant: walk with small steps | steps
Ant: stand still for 3 seconds every minute | every minute
Ant: moonwalk to the left | to the left
InvertedPendulum: keep the pole upright and play the piano with it | play the piano
InvertedPendulum: play the piano | refused
InvertedPendulum: keep the pole happy | happy
InvertedDoublePendulum: balance both poles, one of them twice | twice
Humanoid: walk while juggling | juggling
Humanoid: walk forward with style | style
Humanoid: walk like a zombie | like a zombie
Humanoid: move like a snake | like a snake
Humanoid: walk with your hands on your hips | hips
Humanoid: walk with crossed arms | crossed
Humanoid: run 100 m in 10 seconds | 10 seconds
Humanoid: kick the ball into the goal | goal
Humanoid: stand on one leg with closed eyes | closed eyes
Humanoid: walk forward instead of backward | instead
Humanoid: walk without moving the arms | without moving
Humanoid: do ten push-ups | refused
Humanoid: hold a plank | refused
Humanoid: throw the ball | refused
Humanoid: juggle without falling | refused
Humanoid: jab with your left hand while your feet stay planted | refused
Hopper: hop to the rhythm | rhythm
Hopper: hop forward in purple jumps | purple
Hopper: hop forward quietly like a cat | like a cat
Walker2d: walk forward backwards | backwards
Walker2d: walk fast slowly | slowly
Walker2d: walk forward, accelerating from 1 to 3 m/s | accelerating
Walker2d: walk with long strides | strides
Swimmer: swim to the island | island
Swimmer: swim butterfly | butterfly
Reacher: reach the target three times | three times
Reacher: touch the target gently for 2 seconds, avoiding the obstacle | avoiding the obstacle
""".strip().splitlines()
# Ordinary ways to say what is judged as a whole.
WHOLE = """
HalfCheetah: please run forward for me, thank you very much
HalfCheetah: I would like you to make the cheetah run forward as fast as it can!
HalfCheetah: could you teach the robot to do a backflip and land on its feet?
HalfCheetah: run forward and stop at 5 m
HalfCheetah: walk 3 m forward, then come back
HalfCheetah: just run forward if possible
HalfCheetah: first jump, then stand still again
Humanoid: squat and come back up
Ant: walk forward for three seconds, then walk back to where you started
Ant: walk on the ground at any speed
Humanoid: stand without touching the ground with your left hand
Humanoid: try to stay upright all the time
Ant: the ant should walk forward slowly without falling at all
Ant: walk across the floor in a straight line
Ant: walk without using the front left leg
InvertedPendulum: keep the pole upright and the cart in the middle of the rail
Reacher: reach for the target and stay there
""".strip().splitlines()
PLAIN = [
    ("HalfCheetah", "run forward fast"),
    ("Ant", "walk slowly to the left without falling"),
    ("Humanoid", "stand still"),
    ("Hopper", "jump as high as possible"),
    ("HalfCheetah", "do a backflip and land on your feet"),
    ("Ant", "turn 90 degrees left, then walk forward"),
    ("Walker2d", "walk forward at 1 m/s while keeping the torso upright"),
    ("InvertedPendulum", "keep the pole upright"),
    ("Reacher", "reach the target"),
    ("Ant", "walk in a circle"),
    ("Humanoid", "squat three times"),
    ("Ant", "lift the front left leg for 2 seconds"),
]
REAL = sorted({word for text in topics.values() for word in re.findall(r"\b[a-z]{3,12}\b", text)})
UNITS = ("m", "cm", "m/s", "km/h", "degrees", "s", "times", "turns", "percent", "rad", "Hz", "kg")


def left_out(robot, intent):
    made = compose(intent, spec_of(f"{robot}-v5"))
    return (*made.not_understood, *made.dropped)


@pytest.mark.parametrize("line", LEFT_OUT)
def test_what_no_criterion_carries_is_named(line):
    robot, _, rest = line.partition(": ")
    intent, _, named = rest.partition(" | ")
    if named == "refused":
        with pytest.raises(NotUnderstood, match="can: "):
            compose(intent, spec_of(f"{robot}-v5"))
    else:
        assert any(named in words for words in left_out(robot, intent))


@pytest.mark.parametrize("line", WHOLE)
def test_ordinary_words_leave_nothing_out(line):
    robot, _, intent = line.partition(": ")
    assert left_out(robot, intent) == ()


def inserted(dice, intent, words):
    tokens = intent.split()
    place = dice.randint(0, len(tokens))
    return " ".join((*tokens[:place], words, *tokens[place:]))


def nonword(dice):
    syllables = [dice.choice("bdfgklmnprstvz") + dice.choice("aeiou") for _ in range(3)]
    return "".join(syllables)


def test_no_word_from_outside_the_tables_is_lost():
    """Hundreds of words, real and invented, anywhere in intents that are understood."""
    dice = random.Random(13)
    for number in range(800):
        robot, intent = dice.choice(PLAIN)
        word = dice.choice(REAL) if number % 2 else nonword(dice)
        if word in vocabulary():
            continue
        parsed = parse(inserted(dice, intent, word), spec_of(f"{robot}-v5"))
        told = (*parsed.not_understood, *(each.split('"')[1] for each in parsed.corrected))
        assert word in told, parsed.intent


def told(made):
    return " ".join((*made.not_understood, *made.dropped, *made.doubts))


@lru_cache
def composed(robot, intent):
    """What is composed; None: it is refused, and so nothing of it is silent."""
    try:
        return compose(intent, spec_of(f"{robot}-v5"))
    except TelicError:
        return None


def test_no_number_is_lost():
    """A number with a unit changes what is judged, or is named, or is refused."""
    dice = random.Random(13)
    lost = []
    for _ in range(120):
        robot, intent = dice.choice(PLAIN)
        before = dice.choice(("", "at", "for", "at least", "every", "within", "by"))
        said = f"{dice.choice(('2', '0.5', '7', '12', '1.25', 'three'))} {dice.choice(UNITS)}"
        text = inserted(dice, intent, f"{before} {said}".strip())
        made = composed(robot, text)
        if made is None:
            continue
        if measured(made) == measured(composed(robot, intent)) and not all(
            word in told(made) for word in said.split()
        ):
            # What lasts 8 s is judged for at least the seconds that were said.
            lost += [] if said.endswith(" s") else [text]
    assert lost == []


def test_no_number_of_a_limit_is_lost():
    """How much of something is allowed is judged: another number, another judge; or it is named."""
    dice = random.Random(13)
    rows = [row for rows in word_table("constraints").values() for row in rows]
    phrases = [phrase for row in rows for phrase in row.get("forbidden", ())]
    lost = []
    for _ in range(60):
        robot, intent = dice.choice(PLAIN)
        limit, unit = dice.choice(phrases), dice.choice(("m", "cm", "degrees", "turns", "m/s"))
        texts = [f"{intent}, do not {limit} more than {n} {unit}" for n in ("12", "36")]
        one, other = (composed(robot, text) for text in texts)
        if one is None or other is None:
            continue
        if measured(one) == measured(other) and "12" not in told(one):
            lost.append(texts[0])
    assert lost == []


def test_a_number_that_says_how_much_more_than_something_unsaid_is_named():
    dice = random.Random(13)
    lost = []
    for _ in range(60):
        robot, intent = dice.choice(PLAIN)
        more = dice.choice(("lower", "higher", "faster", "slower", "farther", "longer", "less"))
        said = f"{dice.choice(('2', '0.5', '12'))} {dice.choice(('m', 'cm', 'm/s', 'percent'))}"
        text = inserted(dice, intent, f"{said} {more}")
        made = composed(robot, text)
        if made is None:
            continue
        lost += [] if all(word in told(made) for word in said.split()) else [text]
    assert lost == []


def meanings(name):
    rows = [(value, row) for value, rows in word_table(name).items() for row in rows]
    return [(value, words) for value, row in rows for words in written_out(row["words"])]


def test_no_modifier_is_lost():
    """A word of the tables changes what is judged, is named, or the intent says the same anyway."""
    dice = random.Random(13)
    options = [each for name in ("degrees", "postures", "styles") for each in meanings(name)]
    lost = []
    for _ in range(120):
        robot, intent = dice.choice(PLAIN)
        value, words = dice.choice(options)
        text = inserted(dice, intent, words)
        made = composed(robot, text)
        if made is None:
            continue
        if measured(made) != measured(composed(robot, intent)):
            continue
        carried = any(words in each.words for each in made.covered)
        named = any(word in told(made) for word in words.split())
        if not carried and not named and value != "most":
            lost.append(text)
    assert lost == []


def test_the_scope_says_which_criteria_carry_which_words():
    made = compose("run forward fast with style", spec_of("HalfCheetah-v5"))
    carriers = {each.words: each.criteria for each in made.covered}
    assert set(carriers) == {"run", "forward", "fast"}
    assert any(title.startswith("averages") for title in carriers["fast"])
    assert set(carriers["fast"]) <= {each.title for each in made.criteria}
    words = scope_words([each.words for each in made.covered], made.not_understood)
    assert words == "judged: run, forward, fast; not judged: “style”"


def test_words_whose_criterion_a_person_left_out_are_not_judged_any_more():
    made = compose("run forward smoothly", spec_of("HalfCheetah-v5"))
    kept = [
        each for each in made.criteria if "smooth" not in each.title and "effort" not in each.title
    ]
    edited = compose("run forward smoothly", spec_of("HalfCheetah-v5"), criteria=kept)
    assert made.dropped == () and edited.dropped == ("smoothly",)


def test_what_a_robot_cannot_do_otherwise_is_not_left_out():
    made = compose("run forward in a straight line", spec_of("HalfCheetah-v5"))
    assert made.dropped == ()
    assert "in a plane every way is straight" in made.doubts


def test_a_refusal_says_the_nearest_intent_that_is_understood():
    with pytest.raises(NotUnderstood, match='Nearest: "run forward"') as caught:
        compose("run forward, then juggle", spec_of("Humanoid-v5"))
    assert isinstance(caught.value, UsageError) and caught.value.exit_code == 2


def test_a_typing_error_is_told_and_ordinary_words_are_not_taken_for_one():
    made = compose("run foward", spec_of("HalfCheetah-v5"))
    assert made.not_understood == () and '"foward" is read as "forward"' in made.doubts
    assert compose("run forward quote", spec_of("HalfCheetah-v5")).not_understood == ("quote",)
