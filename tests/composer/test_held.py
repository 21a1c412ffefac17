"""Quantities held at a value or within bounds: joints, tilts and heights, by name, on any robot."""

import pytest

from telic.composer.compose import compose
from telic.composer.lexicon import word_table
from telic.composer.reader import parse
from telic.errors import BadEnvironment
from telic.judges.criteria import Motion
from tests.composer.specs import judged_as, named, spec_of, written_out
from tests.judges.playing import demonstration

# robot, intent, a stated criterion, and whether standing still meets it
HELD = [
    ("Walker2d-v5", "stand with torso pitch between 20 and 30 degrees", "pitch between", False),
    ("Humanoid-v5", "stand with the center of mass above 0.7 m", "mass height above 0.7", True),
    ("Humanoid-v5", "stand with the left knee straight", "left knee between -14.9", True),
    ("Ant-v5", "stand with at most 5 degrees of body tilt", "pitch within 5", True),
    ("Humanoid-v5", "bend the left knee to 60 degrees", "left knee between 52", False),
    ("HalfCheetah-v5", "keep the front knee between -0.2 and 0.2 rad", "of the fshin", True),
]


@pytest.mark.parametrize(("env", "intent", "title", "is_met"), HELD)
def test_a_held_quantity_is_judged_and_nothing_else_of_the_phrase_is_left(
    env, intent, title, is_met
):
    made = compose(intent, spec_of(env))
    verdict = judged_as(made, demonstration(env, made.env_args, (Motion(seconds=1.0),)))
    met = [each.passed for each in verdict.criteria if title in each.title]
    assert met == [is_met] and not named(made)


def test_a_joint_is_not_asked_beyond_its_range():
    with pytest.raises(BadEnvironment, match=r"flexion of the left knee .* reaches from 2 to 160"):
        compose("bend the left knee to 200 degrees", spec_of("Humanoid-v5"))


AMOUNTS = {"rad": "20 degrees", "m": "0.9 m", "m/s": "0.4 m/s", "rad/s": "2 rad/s"}
BELOW = ["with the {} below {}", "with the {} never above {}", "and never exceed a {} of {}",
         "without the {} exceeding {}", "and keep the {} under {}", "with at most {1} of {0}",
         "; the {} must not exceed {}"]  # fmt: skip
ABOVE = ["with the {} above {}", "with the {} never below {}", "and don't let the {} drop below {}"]
NAMES = [
    (name, row["unit"])
    for rows in word_table("held").values()
    for row in rows
    if "bounded" in row.get("forms", ())
    for name in written_out([row["names"]])[:1]
]


@pytest.mark.parametrize(("name", "unit"), NAMES)
def test_a_bound_is_the_same_in_all_forms_of_all_quantities(name, unit):
    robot = "InvertedPendulum-v5" if name.startswith("cart") else "Ant-v5"
    verb = "balance" if name.startswith("cart") else "walk"
    for forms in (BELOW, ABOVE):
        read = {
            form: parse(f"{verb} {form.format(name, AMOUNTS[unit])}", spec_of(robot)).frames[0].held
            for form in forms
        }
        assert len({*read.values()}) == 1 and all(read.values()), read
