"""Failure modes exist for every environment: robots, Python environments, choices."""

import pytest

from telic.envs import make
from telic.judges.criteria import Motion
from telic.judges.failure_modes import (
    MIRRORED,
    OTHER_WAY,
    look_alikes,
)

SHORT = {"max_episode_steps": 30}


@pytest.mark.parametrize(
    ("env", "motion", "expected"),
    [
        (
            "Ant-v5",
            Motion(seconds=5, forward_mps=1.0),
            {"spins on the spot", "stops soon", OTHER_WAY, "does it upside down"},
        ),
        (
            "Ant-v5",
            Motion(seconds=5, turn_rps=1.0),
            {"stops soon", MIRRORED, "does it upside down"},
        ),
        ("Ant-v5", Motion(seconds=5), {"spins on the spot"}),
        (
            "HalfCheetah-v5",
            Motion(seconds=5, jumps=1, height_m=0.3),
            {"hardly jumps", "does it upside down"},
        ),
        (
            "HalfCheetah-v5",
            Motion(seconds=2, jumps=1, height_m=1.0, pitch_turns=-1.0),
            {
                *(MIRRORED, "does half of it", "stays upside down", "jumps without turning"),
                "does it upside down",
            },
        ),
        ("CartPole-v1", Motion(seconds=5, forward_mps=1.0), set()),
    ],
)
def test_look_alikes_are_led_where_they_are_not_what_was_asked(env, motion, expected):
    opened = make(env, num_envs=1, **SHORT)
    opened.close()
    assert set(look_alikes(opened, (motion,))) == expected
    assert look_alikes(opened, ()) == {}


def test_a_sequence_gets_variants_that_omit_each_part_and_change_the_order():
    opened = make("HalfCheetah-v5", num_envs=1, **SHORT)
    opened.close()
    flip = Motion(seconds=1, jumps=1, height_m=1.0, pitch_turns=-1.0)
    run, still = Motion(seconds=2, forward_mps=2.0), Motion(seconds=1)
    found = look_alikes(opened, (flip, run))
    assert found["omits part 1"] == (still, run)
    assert found["omits part 2"] == (flip, Motion(seconds=2))
    assert found["does it in reverse order"] == (run, flip)
    assert found[MIRRORED][0].pitch_turns == 1.0 and found["does half of it"][0].pitch_turns == -0.5
    assert look_alikes(opened, (run, still))["does not stop"] == (run,)
