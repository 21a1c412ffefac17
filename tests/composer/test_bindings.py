"""What belongs to what: words about a part, an unknown deed, a number's thing, another verb."""

import itertools
import math
from functools import lru_cache

import pytest

from telic.composer.compose import compose
from telic.composer.reader import parse
from telic.errors import BadEnvironment, TelicError
from tests.composer.specs import spec_of


@lru_cache
def read(intent, robot="Humanoid"):
    return parse(intent, spec_of(f"{robot}-v5"))


def asked(parsed):
    """What is to be done, whatever words it was read from."""
    return [frame.model_copy(update={"word": ""}) for frame in parsed.frames], parsed.limits


UNKNOWN = itertools.product(
    ["walk", "run fast", "jump twice", "walk for 3 seconds"],
    [" looking", " while peering", ", glancing", " and yodelling"],
    ["to the left", "backwards", "up", "forward", "low", "upside down"],
)
PARTS = itertools.product(
    ["walk", "run fast", "jump"],
    ["with your {} {}", "while you keep your {} {}"],
    ["arms", "left arm", "knees", "left foot"],
    ["forward", "down", "to the left", "straight", "low"],
)
THINGS = itertools.product(
    ["jump", "spin", "hop"],
    ["at {} Hz", "at {} bpm", "at {} paces", "with {} kg"],
    ["2", "three", "half"],
)
MULTIPLES = itertools.product(
    ["jump", "hop", "spin"],
    ["twice", "three times", "half", "double", "2 times"],
    ["your height", "its own length"],
)
COMPARED = itertools.product(
    ["as high as", "as fast as", "as far as", "as low as"],
    ["your leg is long", "a car", "you did before", "a kangaroo"],
)
SIZES = itertools.product(
    ["walk under a bar", "run to the fence", "walk to the gap"],
    ["50 cm high", "1 m wide", "30 cm tall"],
)
WHOLE = itertools.product(
    ["turn", "roll", "spin", "flip", "run"], ["head", "shoulders", "left arm"]
)
# A robot, what is said, the same without what is not understood, and words that must be named.
PLAINER = [
    *(("Humanoid", f"{a}{b} {c}", a, f"{b.split()[-1]} {c.split()[-1]}") for a, b, c in UNKNOWN),
    *(("Humanoid", f"{a} {b.format(c, d)}", a, d.split()[-1]) for a, b, c, d in PARTS),
    *(("Ant", f"{a} {b.format(c)}", a, f"{c} {b.split()[-1]}") for a, b, c in THINGS),
    *(("Ant", f"{a} {b} {c}", a, b.split()[0]) for a, b, c in MULTIPLES),
    *(("Ant", f"jump {a} {b}", "jump", a.split()[1]) for a, b in COMPARED),
    *(("Humanoid", f"{a} {b}", a.split()[0], f"{a.split()[-1]} {b.split()[0]}") for a, b in SIZES),
    *(("Humanoid", f"jump and {a} your {b}", "jump", f"{a} your {b}") for a, b in WHOLE),
    *(("Humanoid", f"jump and {a} a box", "jump", a) for a in ("lift", "pick up", "raise")),
    ("Ant", "turn right by pi/2", "turn right", "pi/2"),
    ("Ant", "turn right by tau/4", "turn right", "tau/4"),
]


def test_what_is_said_of_something_else_is_named_and_changes_nothing():
    for robot, text, plain, named in PLAINER:
        parsed = read(text, robot)
        assert asked(parsed) == asked(read(plain, robot)), text
        assert {*named.split()} <= {*" ".join(parsed.unread).split()}, text


NOTHING = [
    "turn your head",
    "roll your shoulders",
    "run your wrist",
    "lift the box",
    "raise a flag",
]


@pytest.mark.parametrize("text", NOTHING)
def test_what_is_done_to_something_else_is_nothing_to_do(text):
    assert not read(text).frames


@pytest.mark.parametrize("unknown", ["look up", "gaze left", "bob down"])
def test_an_unknown_deed_before_a_known_one_does_not_lend_it_a_direction(unknown):
    for joint in (" and walk", ", then walk", " and jump"):
        parsed = read(unknown + joint)
        assert all(frame.direction is None for frame in parsed.frames)
        assert parsed.lost, unknown + joint


@pytest.mark.parametrize("part", ["hands", "left hand", "right arm"])
def test_hands_that_are_up_are_raised_meanwhile(part):
    for text in (f"walk with your {part} up", f"walk {part} up", f"walk, {part} up"):
        parsed = read(text)
        assert [frame.verb for frame in parsed.frames] == ["go", "lift"], text
        assert parsed.frames[0].direction is None and not parsed.not_understood, text
        assert {frame.phase for frame in parsed.frames} == {0}, text


def test_a_limb_moves_in_the_pose_that_was_named():
    spec = spec_of("Humanoid-v5")
    for pose, kept in {"lie down": "lies on", "crouch": "holds its torso below"}.items():
        for limb in ("kick", "raise your left arm"):
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


LENGTHS = {"m": 1.0, "cm": 0.01, "km": 1000.0, "yards": 0.9144, "miles": 1609.344}
ANGLES = {"rad": 1.0, "degrees": math.pi / 180.0, "turns": 2.0 * math.pi}
TIMES = {"s": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "hour": 3600.0}


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
    period = read("jump three times every 2 seconds", "Ant").frames[0].period_s
    assert period == pytest.approx(2 / 3)


@pytest.mark.parametrize("number", ["half", "quarter"])
def test_fractions_are_never_lost(number):
    for deed in ("walk", "jump", "crouch", "stand", "run forward"):
        assert number in read(f"{deed} {number}", "HalfCheetah").not_understood, deed


def test_a_number_counts_the_verb_behind_it_and_is_not_which_part():
    for how, deed in itertools.product(["", "quick ", "big "], ["jumps", "flips", "hops"]):
        frame = read(f"do three {how}{deed}", "Ant").frames[0]
        assert frame.count == 3 and frame.amount is None, (how, deed)
    for part in ("left hand", "left foot"):
        (frame,) = read(f"wave your {part} 4 times").frames
        assert (frame.part, frame.count) == (part, 4)
    assert read("jump three times as high as possible", "Ant").frames[0].count == 3


@pytest.mark.parametrize("speed", ["1.2 m/s", "a speed of 2 m/s", "above 1 m/s"])
def test_a_speed_that_is_kept_or_reached_is_gone_at(speed):
    for verb in ("maintain", "keep", "reach", "hit"):
        (frame,) = read(f"{verb} {speed}", "Walker2d").frames
        assert frame.verb == "go" and frame.amount is not None, (verb, speed)


@pytest.mark.parametrize("negation", ["no", "not", "never", "but never", "but not"])
def test_a_comparison_that_is_negated_bounds_the_number(negation):
    for word, rule in {"faster": "at_most", "slower": "at_least"}.items():
        amount = read(f"run {negation} {word} than 2 m/s", "Ant").frames[0].amount
        assert amount is not None and (amount.value, amount.rule) == (2.0, rule)


def test_what_is_said_again_or_turned_to_is_one_deed():
    made = compose("walk, walk, walk", spec_of("Ant-v5"))
    assert made.criteria == compose("walk", spec_of("Ant-v5")).criteria
    for side in ("left", "right", "the other way", "the opposite direction"):
        (frame,) = read(f"turn to face {side}", "Ant").frames
        assert frame.amount is not None, side
    assert read("turn round", "Ant").frames[0].amount == read("turn around", "Ant").frames[0].amount
    verbs = [frame.verb for frame in read("spin twice, then stop facing left", "Ant").frames]
    assert verbs == ["turn", "stop", "turn"]


@pytest.mark.parametrize("change", ["slow down", "speed up"])
def test_a_change_of_speed_comes_after_what_it_changes(change):
    for joint in (" and ", ", ", ", then "):
        phases = [frame.phase for frame in read(f"run{joint}{change}", "Walker2d").frames]
        assert phases == [0, 1], joint


def test_two_deeds_with_a_time_each_come_one_after_the_other():
    for one, other in itertools.permutations(["walk", "wave", "stand"], 2):
        text = f"{one} for 3 s and {other} for 3 s"
        titles = [each.title for each in compose(text, spec_of("Humanoid-v5")).criteria]
        assert any(title.startswith("second: ") for title in titles), text


def test_parts_that_take_turns_are_not_judged_as_moving_at_once():
    for said in ("one after the other", "one after another"):
        assert said in read(f"raise your arms {said}").unread
    assert not read("do two flips one after another", "Ant").unread


@pytest.mark.parametrize("below", ["below", "less than", "at most", "within"])
def test_a_small_angle_or_speed_is_small_to_either_side(below):
    spec = spec_of("CartPole-v1")
    for what in ("pole angle", "cart velocity"):
        made = compose(f"keep the {what} {below} 0.05", spec)
        assert f"with {what} within 0.05 of 0" in made.criteria[0].quantity, what


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_another_deed_or_unit_is_not_taken_for_keeping_a_value(env):
    name = {"CartPole-v1": "cart", "Pendulum-v1": "angle"}[env]
    texts = (f"oscillate the {name} at 1 Hz", f"wobble the {name} at 1", "balance upside down")
    for intent in texts:
        with pytest.raises(TelicError):
            compose(intent, spec_of(env))


def test_a_direction_that_slopes_and_stairs_overrule_is_named(spec):
    for verb in ("reverse", "walk backwards", "sidestep"):
        for ground in ("up the ramp", "down the stairs"):
            made = compose(f"{verb} {ground}", spec)
            said = " ".join((*made.dropped, *made.not_understood))
            assert verb.split()[-1] in said, (verb, ground)


def test_postures_and_poles_keep_their_meaning():
    assert "level" in read("walk with your torso level", "Ant").frames[0].postures
    assert read("crawl on your belly").frames[0].postures == ("low",)
    assert read("move your left arm up").frames[0].direction == "up"
    for pole in ("upper pole", "lower pole", "poles"):
        frame = read(f"keep the {pole} upright", "InvertedDoublePendulum").frames[0]
        assert frame.verb == "balance"


RADIUS = "walk in a circle with a radius of {} m"
SHOWN = [RADIUS, "run {} m", "run at {} m/s", "jump {} m high", "spin {} turns"]


@pytest.mark.parametrize("intent", [*SHOWN, "turn {} degrees"])
def test_numbers_that_no_episode_can_show_are_refused(intent):
    spec = spec_of("Ant-v5")
    for number in ("0.001", "100000"):
        with pytest.raises(BadEnvironment, match=r"at most|a stumble"):
            compose(intent.format(number), spec)
    assert "degrees" in intent or compose(intent.format("1.5"), spec).criteria


@pytest.mark.parametrize("verb", ["jump", "kick", "spin", "wave"])
def test_more_times_than_an_episode_has_room_for_are_refused(verb):
    with pytest.raises(BadEnvironment, match="100 times at most"):
        compose(f"{verb} 500 times", spec_of("Humanoid-v5"))
    assert compose(f"{verb} 3 times", spec_of("Humanoid-v5")).criteria


def test_staying_within_a_distance_is_not_a_height():
    for words in ("stay within 1 m", "staying within 1 m of the start"):
        (limit,) = read(f"spin, {words}", "Ant").limits
        assert limit.kind == "no_drift" and limit.amount is not None
        assert limit.amount.value == 1.0


def test_a_fraction_is_one_number():
    for text, share in {"3/4": 0.75, "1/2": 0.5}.items():
        amount = read(f"turn {text} turn left", "Ant").frames[0].amount
        assert amount is not None and (amount.value, amount.unit) == (share, "turns")
        amount = read(f"run at {text} of full speed", "Ant").frames[0].amount
        assert amount is not None and (amount.value, amount.unit) == (share, "share")


@pytest.mark.parametrize("side", ["back", "belly", "side"])
def test_which_side_it_lies_on_is_reported_as_not_judged(side):
    made = compose(f"lie on your {side}", spec_of("Ant-v5"))
    assert any(side in words and "judged as" in words for words in made.dropped)


def test_skipping_something_is_not_doing_it():
    for deed in ("running", "jumping"):
        assert [f.verb for f in read(f"stand and skip the {deed}").frames] == ["stand"], deed
    assert read("skip forward", "Walker2d").frames[0].gait == "skip"


@pytest.mark.parametrize("gait", ["march", "step"])
def test_marching_on_the_spot_is_walking_on_the_spot(gait):
    made = compose(f"{gait} in place", spec_of("Humanoid-v5"))
    assert made.criteria == compose("walk in place", spec_of("Humanoid-v5")).criteria
