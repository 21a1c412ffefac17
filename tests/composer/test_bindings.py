"""What belongs to what: words about a part, an unknown deed, a number's thing, another verb."""

import itertools
import math
import random
from functools import lru_cache

import pytest

from telic.composer.compose import compose
from telic.composer.frames import Act, Direction, LimitKind, Posture
from telic.composer.parse import parse
from telic.errors import BadEnvironment, TelicError
from tests.composer.specs import spec_of

DEEDS = ["walk", "run fast", "jump twice", "walk for 3 seconds"]
WHERE = ["to the left", "to the right", "backwards", "up", "down", "forward", "low", "upside down"]
UNKNOWN = ["looking", "leaning", "glancing", "yodelling"]
LIMBS = ["arms", "left arm", "hands", "legs", "knees", "left foot", "elbows"]


@lru_cache
def read(intent, robot="Humanoid"):
    return parse(intent, spec_of(f"{robot}-v5"))


def asked(parsed):
    """What is to be done, whatever words it was read from."""
    return [frame.model_copy(update={"word": ""}) for frame in parsed.frames], parsed.limits


def test_how_something_unknown_is_done_is_not_how_the_deed_is_done():
    dice = random.Random(3)
    for deed, unknown, where in itertools.product(DEEDS, UNKNOWN, WHERE):
        joint = dice.choice([" ", " while ", ", ", " and "])
        text = f"{deed}{joint}{unknown} {where}"
        parsed = read(text)
        assert asked(parsed) == asked(read(deed)), text
        assert {unknown, where.split()[-1]} <= {*" ".join(parsed.unread).split()}, text


@pytest.mark.parametrize("unknown", ["look up", "gaze left", "lean backwards", "bob down"])
def test_an_unknown_deed_before_a_known_one_does_not_lend_it_a_direction(unknown):
    for joint in (" and walk", ", then walk", " and jump"):
        parsed = read(unknown + joint)
        assert all(frame.direction is None for frame in parsed.frames)
        assert parsed.lost, unknown + joint


def test_where_a_part_is_held_is_not_where_to_go():
    for deed, part, where in itertools.product(
        ["walk", "run fast", "jump"], LIMBS, ["forward", "down", "to the left", "straight", "low"]
    ):
        for text in (
            f"{deed} with your {part} {where}",
            f"keep your {part} {where} while you {deed}",
        ):
            parsed = read(text)
            assert asked(parsed) == asked(read(deed)), text
            assert where.split()[-1] in " ".join(parsed.unread), text


@pytest.mark.parametrize("part", ["hands", "arms", "left hand", "right arm"])
def test_hands_that_are_up_are_raised_meanwhile(part):
    for text in (f"walk with your {part} up", f"walk {part} up", f"walk, {part} up"):
        parsed = read(text)
        assert [frame.verb for frame in parsed.frames] == [Act.GO, Act.LIFT], text
        assert parsed.frames[0].direction is None and not parsed.not_understood, text
        assert {frame.phase for frame in parsed.frames} == {0}, text


def test_a_limb_moves_in_the_pose_that_was_named():
    spec = spec_of("Humanoid-v5")
    for pose, kept in {"lie down": "lies on", "crouch": "holds its torso below"}.items():
        for limb in ("kick", "wave", "raise your left arm"):
            titles = {each.title for each in compose(f"{pose} and {limb}", spec).criteria}
            assert any(title.startswith(kept) for title in titles), (pose, limb)
            assert ("is on its feet" in titles) == (pose != "lie down"), (pose, limb)


def test_who_waves_while_going_need_not_stay():
    spec = spec_of("Humanoid-v5")
    stays = {
        deed: "stays where it is" in " ".join(each.title for each in compose(deed, spec).criteria)
        for deed in ("wave", "walk and wave", "swing your arms while walking", "hop and wave")
    }
    assert stays == dict(zip(stays, (True, False, False, True), strict=True))


@pytest.mark.parametrize("verb", ["turn", "roll", "spin", "rotate", "flip", "run"])
def test_what_a_body_does_as_a_whole_is_not_done_by_a_part(verb):
    for part in ("head", "shoulders", "left arm", "wrist"):
        assert not read(f"{verb} your {part}").frames
        parsed = read(f"jump and {verb} your {part}")
        assert asked(parsed) == asked(read("jump")), (verb, part)
        assert f"{verb} your {part}" in parsed.unread


LENGTHS = {"m": 1.0, "metres": 1.0, "cm": 0.01, "km": 1000.0, "yards": 0.9144, "miles": 1609.344}
ANGLES = {
    "rad": 1.0,
    "degrees": math.pi / 180.0,
    "turns": 2.0 * math.pi,
    "revolutions": 2 * math.pi,
}
TIMES = {"s": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0}


def test_a_rate_is_an_amount_per_time_in_any_units():
    for (unit, size), (time, seconds) in itertools.product(
        (*LENGTHS.items(), *ANGLES.items()), TIMES.items()
    ):
        verb = "run" if unit in LENGTHS else "spin"
        for per in (f" per {time}", f"/{time}", f" a {time}" if len(time) > 3 else f" per {time}"):
            amount = read(f"{verb} at 3 {unit}{per}", "Ant").frames[0].amount
            assert amount is not None, (unit, per)
            assert amount.unit == ("m/s" if verb == "run" else "rad/s"), (unit, per)
            assert amount.value == pytest.approx(3.0 * size / seconds, rel=1e-6, abs=1e-8)
    assert read("jump three times every 2 seconds", "Ant").frames[0].period_s == pytest.approx(
        2 / 3
    )


def test_a_number_of_something_unknown_is_no_amount_of_the_deed():
    numbers = ["2", "three", "5", "half"]
    things = ["Hz", "bpm", "paces", "kg", "gorps"]
    for deed, number, thing in itertools.product(["jump", "spin", "hop"], numbers, things):
        text = f"{deed} at {number} {thing}"
        assert asked(read(text, "Ant")) == asked(read(deed, "Ant")), text
        assert number in " ".join(read(text, "Ant").unread), text
    for text in ("turn right by pi/2", "turn right by tau/4"):
        assert asked(read(text, "Ant")) == asked(read("turn right", "Ant")), text


@pytest.mark.parametrize("much", ["twice", "three times", "half", "double", "2 times"])
def test_a_multiple_of_something_is_not_how_often(much):
    for rest in ("your height", "its own length", "as high as before"):
        for deed in ("jump", "hop", "spin"):
            frame = read(f"{deed} {much} {rest}", "Ant").frames[0]
            assert frame.count is None and frame.amount is None, (deed, much, rest)
            assert much.split()[0] in " ".join(read(f"{deed} {much} {rest}", "Ant").unread)


def test_as_much_as_something_is_a_comparison_and_as_possible_is_not():
    for how in ("high", "fast", "far", "low"):
        for than in ("your leg is long", "a car", "you did before", "a kangaroo"):
            text = f"jump as {how} as {than}"
            assert asked(read(text, "Ant")) == asked(read("jump", "Ant")), text
            assert how in " ".join(read(text, "Ant").unread), text
    assert read("jump three times as high as possible", "Ant").frames[0].count == 3


@pytest.mark.parametrize("number", ["half", "quarter"])
def test_fractions_are_never_lost(number):
    for deed in ("walk", "jump", "crouch", "stand", "run forward"):
        parsed = read(f"{deed} {number}", "HalfCheetah")
        assert number in parsed.not_understood, deed


def test_a_number_before_a_verb_counts_it_whatever_stands_between():
    for number, how, deed in itertools.product(
        ["2", "three"], ["", "quick ", "slow ", "big ", "smooth "], ["jumps", "flips", "hops"]
    ):
        frame = read(f"do {number} {how}{deed}", "Ant").frames[0]
        assert frame.count == {"2": 2, "three": 3}[number] and frame.amount is None, (how, deed)


@pytest.mark.parametrize("part", ["left hand", "right hand", "left foot"])
def test_how_often_is_not_which_part(part):
    for number, count in {"two": 2, "three": 3, "4": 4}.items():
        (frame,) = read(f"wave your {part} {number} times").frames
        assert (frame.part, frame.count) == (part, count)


@pytest.mark.parametrize("speed", ["1.2 m/s", "a speed of 2 m/s", "above 1 m/s"])
def test_a_speed_that_is_kept_or_reached_is_gone_at(speed):
    for verb in ("maintain", "keep", "hold", "reach", "hit"):
        (frame,) = read(f"{verb} {speed}", "Walker2d").frames
        assert frame.verb is Act.GO and frame.amount is not None, (verb, speed)


@pytest.mark.parametrize("negation", ["no", "not", "never", "but never", "but not"])
def test_a_comparison_that_is_negated_bounds_the_number(negation):
    for word, rule in {"faster": "at_most", "slower": "at_least"}.items():
        amount = read(f"run {negation} {word} than 2 m/s", "Ant").frames[0].amount
        assert amount is not None and (amount.value, amount.rule) == (2.0, rule)


def test_what_is_said_again_or_turned_to_is_one_deed():
    for robot in ("Ant", "Humanoid"):
        made = compose("walk, walk, walk", spec_of(f"{robot}-v5"))
        assert made.criteria == compose("walk", spec_of(f"{robot}-v5")).criteria
    for side in ("left", "right", "the other way", "the opposite direction"):
        (frame,) = read(f"turn to face {side}", "Ant").frames
        assert frame.amount is not None, side
    assert read("turn round", "Ant").frames[0].amount == read("turn around", "Ant").frames[0].amount
    assert [f.verb for f in read("spin twice, then stop facing left", "Ant").frames] == [
        Act.TURN,
        Act.STOP,
        Act.TURN,
    ]


@pytest.mark.parametrize("change", ["slow down", "speed up"])
def test_a_change_of_speed_comes_after_what_it_changes(change):
    for joint in (" and ", ", ", ", then "):
        phases = [frame.phase for frame in read(f"run{joint}{change}", "Walker2d").frames]
        assert phases == [0, 1], joint


def test_two_deeds_with_a_time_each_come_one_after_the_other():
    for one, other in itertools.permutations(["walk", "hop", "wave", "stand"], 2):
        titles = [
            each.title
            for each in compose(
                f"{one} for 3 s and {other} for 3 s", spec_of("Humanoid-v5")
            ).criteria
        ]
        assert any(title.startswith("second: ") for title in titles), (one, other)


def test_parts_that_take_turns_are_not_judged_as_moving_at_once():
    for said in ("one after the other", "one after another"):
        assert said in read(f"raise your arms {said}").unread
    assert not read("do two flips one after another", "Ant").unread


@pytest.mark.parametrize("below", ["below", "under", "less than", "at most", "within"])
def test_a_small_angle_or_speed_is_small_to_either_side(below):
    spec = spec_of("CartPole-v1")
    for what in ("pole angle", "cart velocity"):
        made = compose(f"keep the {what} {below} 0.05", spec)
        assert f"with {what} within 0.05 of 0" in made.criteria[0].quantity, what
    near = compose("keep cart position within 0.5 m", spec).criteria[0].quantity
    assert "cart position within 0.5 of 0" in near


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_another_deed_or_unit_is_not_taken_for_keeping_a_value(env):
    name = {"CartPole-v1": "cart", "Pendulum-v1": "angle"}[env]
    for intent in (
        f"oscillate the {name} at 1 Hz",
        f"wobble the {name} at 1",
        "balance upside down",
    ):
        with pytest.raises(TelicError):
            compose(intent, spec_of(env))


def test_a_direction_that_slopes_and_stairs_overrule_is_named(spec):
    for verb in ("reverse", "backpedal", "walk backwards", "sidestep"):
        for ground in ("up the ramp", "down the stairs"):
            made = compose(f"{verb} {ground}", spec)
            said = " ".join((*made.dropped, *made.not_understood))
            assert verb.split()[-1] in said, (verb, ground)


@pytest.mark.parametrize("thing", ["dog", "robot", "ant"])
def test_what_something_is_done_to_is_not_who_is_addressed(thing):
    for text in (f"walk your {thing}", f"kick the {thing}", f"lift the {thing}"):
        assert thing in read(text).not_understood, text
    assert not read(f"make the {thing} walk").not_understood


def test_postures_and_poles_keep_their_meaning():
    assert Posture.LEVEL in read("walk with your torso level", "Ant").frames[0].postures
    assert read("move your left arm up").frames[0].direction is Direction.UP
    for pole in ("upper pole", "lower pole", "poles"):
        assert (
            read(f"keep the {pole} upright", "InvertedDoublePendulum").frames[0].verb is Act.BALANCE
        )


@pytest.mark.parametrize(
    "intent",
    [
        "run {} m",
        "run at {} m/s",
        "jump {} m high",
        "spin {} turns",
        "turn {} degrees",
        "walk in a circle with a radius of {} m",
    ],
)
def test_numbers_that_no_episode_can_show_are_refused(intent):
    spec = spec_of("Ant-v5")
    for number in ("0.001", "100000"):
        with pytest.raises(BadEnvironment, match=r"at most|a stumble"):
            compose(intent.format(number), spec)
    for number in ("1.5", "2"):
        if "degrees" not in intent:
            assert compose(intent.format(number), spec).criteria


@pytest.mark.parametrize("verb", ["jump", "flip", "kick", "hop", "spin", "wave"])
def test_more_times_than_an_episode_has_room_for_are_refused(verb):
    with pytest.raises(BadEnvironment, match="100 times at most"):
        compose(f"{verb} 500 times", spec_of("Humanoid-v5"))
    assert compose(f"{verb} 3 times", spec_of("Humanoid-v5")).criteria


@pytest.mark.parametrize("how", ["high", "forward", "up"])
def test_a_foot_that_is_jumped_is_a_length(how):
    for foot in ("a foot", "one foot", "1 foot"):
        amount = read(f"jump {foot} {how}").frames[0].amount
        assert amount is not None and amount.value == pytest.approx(0.3048), (foot, how)
    assert read("lift a foot up").frames[0].part == "foot"


@pytest.mark.parametrize("thing", ["bar", "hurdle", "gap", "fence"])
def test_how_large_a_thing_is_is_not_how_far_to_go(thing):
    for size in ("50 cm high", "1 m wide", "30 cm tall"):
        for text in (f"walk under a {thing} {size}", f"run to the {thing} {size}"):
            assert asked(read(text)) == asked(read(text.split()[0])), text
            assert {thing, size.split()[0]} <= {*" ".join(read(text).unread).split()}, text


@pytest.mark.parametrize("thing", ["box", "flag", "suitcase"])
def test_lifting_a_thing_is_not_lifting_a_foot(thing):
    for verb in ("lift", "pick up", "raise"):
        assert not read(f"{verb} the {thing}").frames
        assert asked(read(f"jump and {verb} a {thing}")) == asked(read("jump"))


@pytest.mark.parametrize("stay", ["stay", "remain", "staying"])
def test_staying_within_a_distance_is_no_height(stay):
    for where in ("", " of the start", " of the origin"):
        (limit,) = read(f"spin, {stay} within 1 m{where}", "Ant").limits
        assert limit.kind is LimitKind.NO_DRIFT and limit.amount is not None
        assert limit.amount.value == 1.0


def test_a_fraction_is_one_number():
    for text, share in {"3/4": 0.75, "1/2": 0.5, "1/4": 0.25}.items():
        amount = read(f"turn {text} turn left", "Ant").frames[0].amount
        assert amount is not None and (amount.value, amount.unit) == (share, "turns")
        amount = read(f"run at {text} of full speed", "Ant").frames[0].amount
        assert amount is not None and (amount.value, amount.unit) == (share, "share")
    assert read("hop from one foot to the other").frames[0].amount is None


@pytest.mark.parametrize("side", ["back", "belly", "stomach", "side"])
def test_which_side_it_lies_on_is_told_as_less_than_was_said(side):
    made = compose(f"lie on your {side}", spec_of("Ant-v5"))
    assert any(side in words and "judged as" in words for words in made.dropped)
    assert read("crawl on your belly").frames[0].postures == (Posture.LOW,)


def test_skipping_something_is_not_doing_it():
    for deed in ("running", "jumping", "walking"):
        verbs = [frame.verb for frame in read(f"stand and skip the {deed}").frames]
        assert verbs == [Act.STAND], deed
    assert read("skip forward", "Walker2d").frames[0].gait == "skip"


@pytest.mark.parametrize("gait", ["march", "step"])
def test_marching_on_the_spot_is_walking_on_the_spot(gait):
    made = compose(f"{gait} in place", spec_of("Humanoid-v5"))
    assert made.criteria == compose("walk in place", spec_of("Humanoid-v5")).criteria
