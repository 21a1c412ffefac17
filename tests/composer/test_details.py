"""Generated sentences: a detail is judged as stated or named, and never changes the main action."""

from itertools import product

import numpy as np
import pytest

from telic.composer.compose import compose
from telic.composer.lexicon import word_table
from telic.judges.code import JudgeCode
from tests.composer.specs import named, spec_of
from tests.composer.test_observed import episode

DOG, MAN = "unitree-go1", "Humanoid-v5"


def titles(env, text):
    """Return the titles of all criteria."""
    return [each.title for each in compose(text, spec_of(env)).criteria]


@pytest.mark.parametrize("noun", ["rump", "saddle", "antenna"])
def test_what_another_thing_does_is_named_and_not_the_robots_next_deed(noun):
    plain = titles(DOG, "walk forward")
    for be, how in product(("stays", "must stay", "should remain"), ("level", "upright", "low")):
        made = compose(f"walk forward, and its {noun} {be} {how}", spec_of(DOG))
        assert [each.title for each in made.criteria] == plain, (be, how)
        assert noun in named(made) and how in named(made)


@pytest.mark.parametrize("part", ["legs", "feet", "left foot", "hands"])
def test_a_part_that_must_not_act_does_not_act(part):
    plain = titles(MAN, "wave your right hand")
    for never in ("don't move", "shouldn't take a step", "must never wiggle"):
        made = compose(f"wave your right hand, but the {part} {never}", spec_of(MAN))
        assert [each.title for each in made.criteria] == plain, never
        assert never.split()[-1] in named(made)


@pytest.mark.parametrize(
    ("deed", "count", "seconds"), [*product(("squat", "jump"), (2, 4), (1.5, 3))]
)
def test_how_long_a_counted_deed_is_held_is_named(deed, count, seconds):
    plain = titles(MAN, f"{deed} {count} times")
    for words in (f", hold {seconds} s each time", f" for {seconds} seconds each"):
        made = compose(f"{deed} {count} times{words}", spec_of(MAN))
        assert [each.title for each in made.criteria] == plain, words
        assert f"{seconds}" in named(made), words


def test_a_height_of_a_counted_deed_does_not_bound_the_whole_episode():
    for depth, count in product((0.8, 0.9), (2, 4)):
        made = compose(f"squat {count} times with the torso height below {depth} m", spec_of(MAN))
        assert [each.title for each in made.criteria] == titles(MAN, f"squat {count} times")
        assert f"{depth}" in named(made)
    for peak, of in product(("apex", "peak", "maximum"), ("", " of the torso")):
        made = titles("Hopper-v5", f"hop in place, {peak} height{of} at least 1.5 m")
        assert "reaches a height above 1.5 m" in made


@pytest.mark.parametrize("speed", [0.3, 0.5])
def test_signs_of_axes_are_directions(speed):
    ways = {"-x": "backward", "−x": "backward", "−y": "to the right", "+y": "to the left"}
    for (axis, way), world in product(ways.items(), ("", "world ", "the ")):
        made = titles(DOG, f"go along {world}{axis} at {speed} m/s")
        assert made == titles(DOG, f"go {way} at {speed} m/s"), axis
    assert titles(DOG, f"walk −{speed} m/s with max joint torque 15 N·m") == titles(
        DOG, f"walk backward at {speed} m/s"
    )


def test_arrows_separate_phases_and_join_numbers():
    for arrow in ("→", "->", "=>"):
        assert titles(MAN, f"lie down {arrow} stand up") == titles(MAN, "lie down, then stand up")
        assert titles(DOG, f"turn 20{arrow}40 degrees") == titles(DOG, "turn 20 to 40 degrees")


def test_a_number_of_an_unknown_quantity_belongs_to_no_action():
    for text, bound in product(
        ("run as fast as possible", "walk forward", "trot at 1 m/s"),
        ("τ within 0.6", "blorp below 0.3", "the gizmo at 0.9 m"),
    ):
        made = compose(f"{text}, {bound}", spec_of(DOG))
        assert [each.title for each in made.criteria] == titles(DOG, text), (text, bound)
        assert bound.split()[-1] in named(made) or "0.9" in named(made)


def test_nouns_are_not_read_as_verbs():
    for text, detail in (
        ("walk forward", "the swing leg clear of dust"),
        ("do a backflip", "cumulative pitch 360°"),
        ("walk forward", "past the charging station"),
        ("walk forward", "with short shuffling steps"),
        ("hop in place", "each hop is higher than the one before"),
    ):
        made = compose(f"{text}, {detail}", spec_of("unitree-g1"))
        assert [each.title for each in made.criteria] == titles("unitree-g1", text), detail
        assert named(made), detail
    made = titles(DOG, "walk forward, base roll/pitch < 8°")
    assert sum("within 8 degrees" in title for title in made) == 2


ROUGH = {
    "dance": ("dance", "boogie"), "salute": ("salute",), "clap": ("clap your hands",),
    "jumping": ("do five jumping jacks", "a star jump"), "wiggle": ("wiggle your behind twice",),
    "lunge": ("do a lunge",), "knee": ("drop to one knee",),
}  # fmt: skip


@pytest.mark.parametrize("kind", ROUGH)
def test_what_is_only_loosely_the_same_is_named_with_what_is_judged(kind):
    assert any(kind.split("-")[0][:4] in phrase for phrase in word_table("requests")["rough"])
    for text in ROUGH[kind]:
        made = compose(f"{text}, then stand still", spec_of("unitree-g1"))
        assert any("(judged as " in each for each in made.dropped), text


def test_a_turn_before_the_next_part_is_finite():
    for side, on in product(("left", "right"), ("keep walking that way", "continue walking")):
        made = titles(DOG, f"walk forward, then turn {side} and {on}")
        assert any(f"turns 90° to the {side}" in title for title in made), made
    for verb in ("spin", "whirl", "pivot"):
        made = titles(DOG, f"run forward, {verb} around and run back")
        assert any("turns 180°" in title for title in made)
    assert any("no direction" in each for each in compose("spin", spec_of(DOG)).doubts)


@pytest.mark.parametrize(
    "home", ["come back to the start", "finish where you began", "end up where it started"]
)
def test_a_way_home_is_a_phase_of_its_own_after_any_way(home):
    for way in ("walk in a circle", "walk 2 m to the left, then hop forward 1 m", "run forward"):
        made = titles(DOG, f"{way} and {home}")
        assert not any("backward" in title for title in made)
        assert any("from there" in title or "of the start" in title for title in made)


def test_a_pole_stays_up_in_all_phases():
    rail = "InvertedPendulum-v5"
    for way in ("go 0.3 m left, then go 0.4 m right", "move to the right, then stop"):
        for text in (f"{way} while balancing the pole", f"balance the pole, then {way}"):
            made = titles(rail, text)
            assert "keeps the pole up" in " ".join(t for t in made if "phase" not in t), text
            assert {t for t in made if "pole" not in t} == {*titles(rail, way)}


# ---- arms


def passes(env, text, **columns):
    """Return whether an episode in which some observed columns are constant passes a prompt."""
    spec = spec_of(env)
    names = [*spec.obs_names, *word_table("observed")["block"]["columns"]]
    seen = np.zeros((spec.max_episode_steps, len(names)))
    for name, value in columns.items():
        seen[:, names.index(name)] = value
    made = compose(text, spec)
    verdict = JudgeCode(made.judge)(episode(spec, seen), spec)
    assert verdict.score is not None, verdict.reason
    return verdict.score > 0.8


def test_the_elbow_is_judged_at_the_stated_angle():
    for asked, shown in product((0, 45, 90), (0, 45, 90)):
        at = np.radians(shown)
        angle = {"joint1_cos": np.cos(at), "joint1_sin": np.sin(at)}
        for text in ("hold the elbow at {} degrees", "keep the elbow joint locked at {}°"):
            assert passes("Reacher-v5", text.format(asked), **angle) == (asked == shown)


@pytest.mark.parametrize("env", ["fetch", "yam"])
def test_a_gripper_is_open_or_closed(env):
    finger = "left_finger position" if env == "yam" else "robot0:r_gripper_finger_joint position"
    for word, is_open in (("open", True), ("close", False)):
        assert passes(env, f"{word} the gripper", **{finger: 0.018 if is_open else -0.02})
        assert not passes(env, f"{word} the gripper", **{finger: -0.02 if is_open else 0.018})


@pytest.mark.parametrize("env", ["fetch", "yam"])
def test_hovering_is_above_the_block_only(env):
    for text in ("hover above the block", "hold the gripper right over the cube"):
        for spec in (spec_of(env), spec_of(env, task="push")):  # also if its block is there already
            assert compose(text, spec).env_args["task"] == "push"
        assert passes(env, text, to_block_z=-0.1)
        assert not passes(env, text, to_block_z=-0.1, to_block_x=0.2)
        assert not passes(env, text, to_block_z=0.1)


@pytest.mark.parametrize("env", ["Reacher-v5", "fetch"])
def test_a_distance_to_the_target_is_judged_at_the_stated_number(env):
    for far, shown in product((0.02, 0.1), (0.01, 0.05, 0.2)):
        for text in (
            "keep the hand to target distance below {} m",
            "keep the tip within {} m of the target",
        ):
            assert passes(env, text.format(far), to_target_x=shown) == (shown < far)
        text = f"the tip must stay at least {far} m from the target"
        assert passes(env, text, to_target_x=shown) == (shown > far)


def test_of_two_values_in_sequence_the_last_is_judged_and_the_first_named():
    spec = spec_of("Pendulum-v1")
    for first in ("rotate clockwise", "rotate counterclockwise"):
        made = compose(f"{first}, then let it hang", spec)
        assert {*made.criteria} == {*compose("let it hang", spec).criteria}
        assert first in named(made)
    assert compose("spin round and round", spec).doubts


def test_going_back_and_forth_between_two_values_keeps_neither():
    spec = spec_of("MountainCarContinuous-v0")
    for low, high in ((-0.8, -0.2), (-0.6, -0.4)):
        made = compose(f"oscillate between x = {low} and x = {high}", spec)
        assert [each.title for each in made.criteria] == [
            f"goes back and forth between {low} and {high}, at least 3 times"
        ]


def test_a_pose_before_then_is_a_phase():
    for pose in ("on all fours", "supine", "upside down"):
        made = titles("HumanoidStandup-v5", f"get {pose}, then stand up")
        assert any(title.startswith("phase 2: gets its torso") for title in made), pose
        assert not any(title.startswith("phase 1: gets its torso") for title in made), pose


def test_a_bow_ends_what_moves_before_it():
    for side, move in product(("left", "right"), ("walk two steps", "take 3 steps backward")):
        made = titles(MAN, f"{move}, turn {side} and bow")
        assert f"phase 2: turns 90° to the {side} (± 22°)" in [t.replace("23", "22") for t in made]
        assert "phase 3: bows and comes up once" in made


def test_the_size_of_an_obstacle_belongs_to_no_action():
    for size, how in product(("1 m", "about half a meter", "30 cm"), ("wide", "deep", "thick")):
        made = compose(f"jump over a puddle, {size} {how}", spec_of(MAN))
        assert [each.title for each in made.criteria] == titles(MAN, "jump"), (size, how)
        assert how in named(made)
