"""The parser: sentences people type and what is read in them, every word accounted for."""

import random
import re
from collections import Counter

import pytest

from telic.composer.frames import (
    Amount,
    Frame,
    ParsedIntent,
)
from telic.composer.lexicon import (
    TABLES,
    correct_spelling,
    read_tokens,
    vocabulary,
    word_table,
)
from telic.composer.reader import parse
from tests.composer.specs import spec_of

SIGN = {"about": "", "at_least": ">=", "at_most": "<="}


def show(parsed):
    """Write what was read: a line per frame, "!" and a limit, "?" and what was not understood."""
    lines = [show_frame(frame) for frame in parsed.frames]
    lines += [f"! {each.kind} {show_amount(each.amount)}".strip() for each in parsed.limits]
    return lines + ([" ".join(("?", *parsed.not_understood))] if parsed.not_understood else [])


def show_amount(amount):
    return f"{SIGN[amount.rule]}{amount.value:.4g}{amount.unit}" if amount else ""


def show_frame(frame):
    degree = f"{frame.degree}/{frame.dimension}" if frame.degree else ""
    degree = f"*{frame.factor:g}/{frame.dimension}" if frame.factor else degree
    amount = f"{show_amount(frame.amount)}/{frame.dimension}" if frame.amount else ""
    words = [
        f"{frame.phase})" if frame.phase else "",
        frame.verb,
        frame.gait,
        frame.direction,
        degree,
        amount,
        f"x{frame.count}" if frame.count else "",
        f"{frame.duration_s}s" if frame.duration_s else "",
        "until_end" if frame.until_end else "",
        f"[{frame.part}]" if frame.part else "",
        *frame.postures,
        *frame.styles,
    ]
    return " ".join(word for word in words if word)


# A sentence for a robot, and what is read in it: the phase unless it is the first, verb, gait,
# direction, degree or amount with what it is about, count, duration, [part], postures and styles.
SENTENCES = """
HalfCheetah: run forward fast => go run forward fast/speed
Walker2d: walk slowly backward => go walk backward slow/speed
HalfCheetah: run at 3 m/s => go run 3m/s/speed
HalfCheetah: Please make the cheetah run as fast as you can! => go run most/speed
Humanoid: I want the robot to walk naturally like a human => go walk natural
Swimmer: swim forward as fast as possible => go swim forward most/speed
Humanoid: crawl => go crawl
HalfCheetah: run very fast => go run very_fast/speed
Ant: walk slightly faster => go walk *1.15/speed
Ant: run a little slower => go run *0.85/speed
Ant: jump a bit higher => jump *1.15/height
Ant: go sideways to the left at 1 m/s => go left 1m/s/speed
Ant: walk sideways => go walk sideways
Humanoid: strafe right => go walk right
Humanoid: sprint!!! => go sprint very_fast/speed
HalfCheetah: gallop like a real animal => go gallop natural
Ant: trot steadily with alternating legs => go trot steady alternating
Swimmer: slither slowly to the left => go swim left slow/speed
Swimmer: swim in a straight line => go swim straight_line
Ant: move forward smoothly with little energy => go forward smooth; ! low_energy
Humanoid: walk with as little energy as possible => go walk; ! low_energy
Ant: as smoothly as possible, walk forward => go walk forward smooth
Humanoid: run at half speed => go run *0.5/speed
Humanoid: run at 50% of top speed => go run 0.5share/speed
Humanoid: run at a speed of 2 => go run 2m/s/speed
Humanoid: run faster than 2 m/s => go run >=2m/s/speed
Humanoid: run no faster than 2 m/s => go run <=2m/s/speed
Humanoid: run at about two metres per second => go run 2m/s/speed
Humanoid: run at most 2.5 m per second => go run <=2.5m/s/speed
Humanoid: walk at 1-2 m/s => go walk 1.5m/s/speed
HalfCheetah: run between 2 and 3 m/s => go run 2.5m/s/speed
HalfCheetah: run at 10 km/h => go run 2.778m/s/speed
HalfCheetah: run at -2 m/s => go run backward 2m/s/speed
Humanoid: walk one and a half metres => go walk 1.5m/distance
Humanoid: walk twenty five centimeters => go walk 0.25m/distance
Humanoid: walk for half a second => go walk 0.5s
Humanoid: not too fast, walk forward => go walk forward moderate/speed
Humanoid: walk at a slow pace => go walk slow/speed
Humanoid: run forward as far as you can => go run forward most/distance
HalfCheetah: run as low as possible => go run most/height low
Humanoid: backwards quickly => go backward fast/speed
Hopper: jump as high as possible => jump most/height
Hopper: jump at least 1.5 m high => jump >=1.5m/height
Humanoid: jump 50 cm high => jump 0.5m/height
Humanoid: jump 3 feet high => jump 0.9144m/height
Hopper: jump forward 2 m => jump forward 2m/distance
Humanoid: jump forward as far as possible => jump forward most/distance
Ant: jump higher => jump *1.3/height
Ant: jump a little => jump little/height
Hopper: bounce up and down => jump; ? up and down
Hopper: hop forward on one leg => hop forward one_leg
Hopper: hop in place => hop in_place
Hopper: keep hopping => hop until_end
Humanoid: hop on the right foot five times => hop x5 [right foot] one_leg
Ant: the ant should jump in place three times => jump in_place x3
Humanoid: do ten jumps => jump x10
Hopper: take one step forward => go step forward 1steps/count
HalfCheetah: do a backflip and land on your feet => flip backward; 1) stand upright
HalfCheetah: do two front flips => flip forward x2
HalfCheetah: 2 backflips => flip backward x2
HalfCheetah: do a double backflip => flip backward x2
HalfCheetah: backflip repeatedly => flip backward until_end
HalfCheetah: somersault backwards => flip backward
HalfCheetah: front flip then back-flip => flip forward; 1) flip backward
Humanoid: do a cartwheel, then stand up => roll sideways; 1) stand_up
Humanoid: roll over => roll
HalfCheetah: raise your torso => stand [torso] high
Ant: spin in place clockwise => turn clockwise; ! no_drift
Ant: rotate counter-clockwise at 90 degrees per second => turn counterclockwise 1.571rad/s/turning
Ant: spin as fast as possible => turn most/turning
Ant: spin three turns => turn 3turns/turning
Ant: turn left 90 degrees => turn left 1.571rad/turning
Ant: turn half a turn to the right => turn right 0.5turns/turning
Ant: do a 360 => turn 6.283rad/turning
Humanoid: turn to face left => turn left 0.25turns/turning
Ant: face right => turn right 0.25turns/turning
Ant: face the other way => turn 0.5turns/turning
Ant: walk sideways to the right while facing forward => go walk right; ! no_turn
Ant: walk to the left facing right => go walk left; turn right 0.25turns/turning
Ant: walk in a circle => circle walk
Ant: move in small circles => circle little/distance
Ant: go in circles anticlockwise => circle counterclockwise
Humanoid: stand still => stand in_place until_end
Humanoid: stand for 5s => stand 5.0s
Humanoid: stand for a second => stand 1.0s
Humanoid: stay upright => stand until_end upright
Humanoid: stay in place => stand in_place until_end
Ant: stand on the rear legs => stand rear_legs
HalfCheetah: run on the hind legs => go run rear_legs
Humanoid: do a handstand => stand front_legs upside_down
Humanoid: do a headstand => stand upside_down
HalfCheetah: do a wheelie => stand rear_legs
Walker2d: stand on the left leg => stand [left leg] one_leg
Humanoid: balance on one leg for 10 seconds => balance 10.0s one_leg
Humanoid: stand straight => stand upright
Humanoid: run straight => go run straight_line
Humanoid: stand up and stay standing for 3 seconds => stand_up; stand 3.0s
Humanoid: get up => stand_up
Humanoid: rise to your feet => stand_up
Humanoid: sit down => sit
Humanoid: crouch low => sit low
Humanoid: lie down on your back and stay there => lie until_end lying
InvertedPendulum: balance the pole => balance [pole]
InvertedPendulum: keep the pole upright without moving the cart =>
    balance until_end [pole] upright; ! no_drift
InvertedPendulum: hold the pole vertical for as long as possible => balance until_end [pole] upright
InvertedPendulum: keep the pole from falling => balance until_end [pole]; ! no_fall
InvertedPendulum: keep the pole balanced and the cart in the middle =>
    balance until_end [pole]; ! no_drift
InvertedPendulum: move the cart to the right without dropping the pole => go right [cart]; ! no_fall
InvertedPendulum: swing up the pole and keep it upright =>
    swing up [pole]; balance until_end upright
InvertedDoublePendulum: keep both poles up => balance until_end [poles] upright
Reacher: reach the target and hold still => reach; stand in_place until_end
Reacher: move the fingertip to the target quickly => reach fast/speed [tip]
Reacher: point at the target with the fingertip => reach [tip]
Reacher: keep the fingertip on the target => reach until_end [tip]
Ant: lift the front left leg => lift [front left leg]
Ant: lift leg 2 and hold it for 2 seconds => lift 2.0s [second leg]
Ant: keep your front legs off the ground => lift up until_end [front legs]
Humanoid: raise your left arm => lift [left arm]
Humanoid: can you make it kick with the right foot => kick [right foot]
Humanoid: wave with your left hand => swing [left hand]
Walker2d: walk without falling => go walk; ! no_fall
Ant: run forward without jumping or turning => go run forward; ! no_jump; ! no_turn
Humanoid: walk without jumping, turning or falling => go walk; ! no_jump; ! no_turn; ! no_fall
HalfCheetah: run backwards, quickly, but not falling over => go run backward fast/speed; ! no_fall
Humanoid: walk without using your hands => go walk; ! no_hands
Humanoid: walk but don't let the torso touch the ground => go walk; ! no_fall
Ant: stand without moving more than 1 m => stand; ! no_drift <=1m
Humanoid: don't fall => stand; ! no_fall
Humanoid: don't fall, jump => jump; ! no_fall
HalfCheetah: run forward while keeping the torso low => go run forward; ! low_height
HalfCheetah: keep the torso below 0.5 m while running => go run; ! low_height <=0.5m
HalfCheetah: Run forward. Keep the torso level. Don't fall. =>
    go run forward [torso] level; ! no_fall
Humanoid: run with the torso upright => go run; ! upright
Humanoid: stay low and crawl forward => go crawl forward; ! low_height
Humanoid: jump while staying in place => jump; ! no_drift
Humanoid: walk slowly without stopping => go walk slow/speed until_end
Ant: start walking and keep going => go walk until_end
Hopper: jump twice then stand still => jump x2; 1) stand in_place until_end
Walker2d: walk forward then backward => go walk forward; 1) go walk backward
Ant: walk forward and backward => go walk forward; 1) go walk backward
Ant: walk forward and to the left => go walk forward; go walk left
Ant: first walk slowly, then run fast => go walk slow/speed; 1) go run fast/speed
Ant: walk forward; then turn right; finally stop => go walk forward; 1) turn right; 2) stop
Humanoid: before running, jump twice => jump x2; 1) go run
Humanoid: jump before lying down => jump; 1) lie
Humanoid: stand still after jumping => jump; 1) stand in_place until_end
Humanoid: after jumping, stand still => jump; 1) stand in_place until_end
Humanoid: Jump twice followed by a roll => jump x2; 1) roll
HalfCheetah: run and then come to a halt => go run; 1) stop
Humanoid: stop walking => stop
Humanoid: walk forward for 3 seconds, then turn around and walk back =>
    go walk forward 3.0s; 1) turn 0.5turns/turning; 1) go walk backward
HalfCheetah: run at 2 m/s for 5 s, then jump as high as possible, then stand still until the end =>
    go run 2m/s/speed 5.0s; 1) jump most/height; 2) stand in_place until_end
Humanoid: do the splits => ? do the splits
Humanoid: dance => ? dance
Humanoid: lean forward => lean forward
Humanoid: don't run => ? don't run
Humanoid: walk, don't run => go walk; ? don't run
Humanoid: walk forward instead of backward => go walk forward; ? instead backward
Humanoid: walk without moving the arms => go walk; ? without moving arms
Reacher: stay away from the target => avoid
Humanoid: walk forward, staying as upright as possible => go walk forward; ! upright
InvertedDoublePendulum: keep the poles upright and the cart still =>
    balance until_end [poles] upright; ! no_drift
Ant: walk forward with the torso 0.5 m high => go walk forward; ! keep_height 0.5m
Humanoid: jump and turn 180 degrees in the air => jump; turn 3.142rad/turning
Humanoid: I'd like the humanoid to run => go run
Humanoid: move like a snake => go; ? like snake
Humanoid: never stop running => go run until_end
Walker2d: skip forward => go skip forward
Humanoid: squat three times => sit x3 low
Humanoid: walk forward smoothly, efficiently and symmetrically =>
    go walk forward smooth symmetric efficient
Ant: turn clockwise twice, then walk forward for 2 s => turn clockwise x2; 1) go walk forward 2.0s
Humanoid: jog at a steady pace of 2 m/s => go jog 2m/s/speed steady
"""


CASES = re.findall(r"^(\w+): (.*?) =>\s+(.*)$", SENTENCES, re.MULTILINE)


def read(sentence, robot="Humanoid"):
    return parse(sentence, spec_of(f"{robot}-v5"))


def only(sentence, robot="Humanoid") -> Frame:
    (frame,) = read(sentence, robot).frames
    return frame


def assert_every_word_is_accounted_for(parsed: ParsedIntent):
    groups = Counter((*parsed.used, *parsed.ignored, *parsed.not_understood))
    assert groups == Counter(t.text for t in read_tokens(parsed.intent) if not t.silent)


@pytest.mark.parametrize(("robot", "sentence", "meant"), CASES, ids=[case[1] for case in CASES])
def test_a_sentence_is_read_as_meant(robot, sentence, meant):
    parsed = read(sentence, robot)
    assert "; ".join(show(parsed)) == meant
    assert_every_word_is_accounted_for(parsed)


def test_what_is_not_a_movement_is_listed_word_by_word():
    parsed = read("please bake the cake")
    assert (parsed.frames, parsed.limits) == ((), ())
    assert parsed.not_understood == ("please", "bake", "the", "cake")
    assert (parsed.used, parsed.ignored) == ((), ())


def test_words_are_sorted_into_used_ignored_and_not_understood():
    parsed = read("Please run the marathon quickly")
    assert parsed.used == ("run", "quickly")
    assert parsed.ignored == ("Please", "the")
    assert parsed.not_understood == ("marathon",)


BROKEN = ["", " ", "\n\t", "9" * 400, "\ud800 run", "\x00", "½ ³ ① 跑步 🏃", "run " * 300]
BROKEN += [*"-'a3", "???", "...", "as", "1e999", "without", "for", "at least", "between 1 and"]


@pytest.mark.parametrize("text", BROKEN)
def test_no_text_makes_it_fail(text):
    assert_every_word_is_accounted_for(read(text))


@pytest.mark.parametrize("robot", ["HalfCheetah", "Ant", "Reacher", "InvertedPendulum"])
def test_any_salad_of_words_is_accounted_for(robot):
    dice = random.Random(robot)
    words = [*sorted(vocabulary()), *map(str, range(20)), ",", ";", ".", "-", "%", "/", "m/s", "qx"]
    for _ in range(150):
        salad = " ".join(dice.choice(words) for _ in range(dice.randint(1, 12)))
        first, second = read(salad, robot), read(salad, robot)
        assert_every_word_is_accounted_for(first)
        assert first == second


def test_any_salad_of_letters_is_accounted_for():
    dice = random.Random(0)
    letters = "abcdefgrunwalk 0123456789.,;:-/%°'\"()\n<>~é跑🏃_"
    for _ in range(300):
        text = "".join(dice.choice(letters) for _ in range(dice.randint(0, 40)))
        assert_every_word_is_accounted_for(read(text))


@pytest.mark.parametrize(
    ("robot", "name", "part", "bodies"),
    [
        ("HalfCheetah", "front leg", "front legs", ["fthigh", "fshin", "ffoot"]),
        ("HalfCheetah", "back leg", "rear legs", ["bthigh", "bshin", "bfoot"]),
        ("HalfCheetah", "hind foot", "rear feet", ["bfoot"]),
        ("HalfCheetah", "fshin", "fshin", ["fshin"]),
        ("Ant", "front right leg", "front right leg", ["right_back_leg", "aux_4", "aux_4.1"]),
        ("Ant", "left feet", "left feet", ["aux_1.1", "aux_2.1"]),
        ("Ant", "third leg", "third leg", ["back_leg", "aux_3", "aux_3.1"]),
        ("Ant", "front_right_leg", "front_right_leg", ["front_right_leg"]),
        ("Ant", "left arm", "left arm", []),
        ("Hopper", "foot", "foot", ["foot"]),
        ("Walker2d", "right foot", "right foot", ["foot"]),
        ("Walker2d", "left thigh", "left thigh", ["thigh_left"]),
        ("Humanoid", "right hand", "right hand", ["right_lower_arm"]),
        (
            "Humanoid",
            "both arms",
            "arms",
            ["right_upper_arm", "right_lower_arm", "left_upper_arm", "left_lower_arm"],
        ),
        ("HumanoidStandup", "lower left leg", "lower left leg", []),
        ("HumanoidStandup", "left lower leg", "left shin", ["left_shin"]),
        ("Swimmer", "tail", "tail", ["back"]),
        ("Reacher", "end effector", "tip", ["fingertip"]),
        ("InvertedPendulum", "tip of the pole", "tip", ["pole"]),
        ("InvertedDoublePendulum", "upper pole", "upper pole", ["pole2"]),
    ],
)
def test_a_part_is_found_by_its_everyday_name(robot, name, part, bodies):
    frame = only(f"lift the {name}", robot)
    assert (frame.part, list(frame.bodies)) == (part, bodies)


@pytest.mark.parametrize(
    ("model", "name", "bodies"),
    [
        ("quadruped", "front left leg", ("fl",)),
        ("quadruped", "rear legs", ("bl", "br")),
        ("quadruped", "left feet", ("fl", "bl")),
        ("quadruped", "body", ("base",)),
        ("walker", "back leg", ("rear_leg",)),
        ("walker", "front_leg", ("front_leg",)),
        ("walker", "torso", ("trunk",)),
    ],
)
def test_another_model_is_known_by_its_own_names(model, name, bodies):
    spec = spec_of(f"tests/envs/robots/{model}.xml")
    assert parse(f"lift the {name}", spec).frames[0].bodies == bodies


def test_a_task_without_bodies_can_be_talked_about():
    assert parse("swing up and hold the pole up", spec_of("Pendulum-v1")).frames[0].verb == "swing"


def test_a_slip_of_one_letter_is_forgiven_and_more_is_not_guessed():
    slips = {"backflp": "flip", "balanse": "balance", "cirlce": "circle"}
    for typed, meant in slips.items():
        parsed = read(typed)
        assert (parsed.frames[0].verb, parsed.used) == (meant, (typed,))
    assert {correct_spelling(typed) for typed in ("jummping", "jmping", "jupming")} == {"jumping"}
    for typed in ("bakflpi", "rum", "jumpers", "jpuimng"):
        assert correct_spelling(typed) == typed and read(typed).frames == ()


def test_words_and_signs_are_kept():
    assert only("do three Backflips").word == "backflips"
    assert only("walk at -1 m/s").amount == Amount(value=1.0, unit="m/s", rule="about")
    assert read("run 10 m at 2 m/s").not_understood == ("at", "2", "m", "s")
    (limit,) = read("run forward while keeping the torso low").limits
    assert limit.words == "keeping the torso low"
    assert only("walk 2 metres") == only("walk 2 meters")
    assert only("turn anticlockwise") == only("turn counterclockwise")


ACTS = "running, hopping, flipping, spinning, kicking, sitting, lying down, standing up, reaching"


@pytest.mark.parametrize("act", [*ACTS.split(", "), "swinging its arms"])
def test_what_is_not_to_be_done_is_never_read_as_something_to_do(act):
    for sentence in (f"walk without {act}", f"walk, never {act}", f"walk but not {act}"):
        assert [frame.gait for frame in read(sentence).frames] == ["walk"]


TABLES_OF = ["verbs", "directions", "degrees", "postures", "styles", "constraints", "grounds"]
KEYS = (
    "words forbidden verbs gait direction degree dimension postures styles turns until_end weak "
    "bows "
    "holder sequel judged_as ground hardest changes unit fixed noun factor is_exact shift frame "
)


@pytest.mark.parametrize("name", TABLES_OF)
def test_every_row_of_a_table_can_be_used(name):
    for rows in word_table(name).values():
        for row in rows:
            assert {*row} <= {*KEYS.split()}
            assert set(row.get("verbs", ())) <= {*word_table("acts")}
            assert {row.get("degree", "most")} <= {*word_table("degrees")}
            for phrase in (*row.get("words", ()), *row.get("forbidden", ())):
                assert phrase == phrase.lower().strip()
                assert "-" not in phrase, "hyphens are read as spaces"


def test_every_act_has_a_row_and_every_table_is_read():
    acts, flags = word_table("acts"), ("whole limb lasting parts counted high turning")
    known = {*flags.split(), "about", "lasts", "upright", "directions", "own_parts", "degrees"}
    assert {*acts} == {*word_table("acts")} and all({*row} <= known for row in acts.values())
    assert {each for row in acts.values() for each in row.get("directions", ())} <= {
        *word_table("directions")
    }
    others = {"numbers", "units", "rules", "ignored", "parts", "joins", "dimensions"}
    others |= {
        "observed",
        "blocks",
        "notes",
        "acts",
        "calibration",
        "speeds",
        "wordnet",
        "requests",
    }
    assert {path.stem for path in TABLES.glob("*.toml")} == {*TABLES_OF, *others}
