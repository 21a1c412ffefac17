"""Failure modes exist for every environment: robots, Python environments, choices."""

import numpy as np
import pytest

from telic.envs import make
from telic.judges.criteria import Motion
from telic.judges.failure_modes import (
    FAILURE_MODES,
    MIRRORED,
    OTHER_WAY,
    failure_modes,
    look_alikes,
    no_different,
)

SHORT = {"max_episode_steps": 30}


def test_where_actions_are_choices_they_are_held_taken_in_turn_and_drawn():
    modes = failure_modes("CartPole-v1", SHORT)
    assert set(modes.names) == {
        *("holds its first choice", "holds its last choice", "takes turns"),
        *("chooses at random", "ends at once"),
    }
    held = {name: modes.trajectory(name).columns["action"] for name in modes.names}
    assert set(held["holds its first choice"]) == {0} and set(held["takes turns"]) == {0, 1}
    assert set(held["holds its last choice"]) == {1}
    assert len(held["ends at once"]) < len(held["takes turns"])  # both would balance for a while
    middle = failure_modes("MountainCar-v0", SHORT).trajectory("holds its middle choice")
    assert set(middle.columns["action"]) == {1} and len(middle) == 30


def test_a_python_environment_is_pushed_pulled_and_left_alone():
    modes = failure_modes("Pendulum-v1", SHORT)
    assert modes.names == tuple(name for name in FAILURE_MODES if "s on its" not in name)[:-1]
    actions = {name: modes.trajectory(name).columns["action"] for name in modes.names}
    assert np.all(actions["does nothing"] == 0.0) and np.all(actions["pushes"] == 2.0)
    assert np.all(actions["pulls"] == -2.0) and np.ptp(actions["flails"]) > 2.0
    assert np.abs(actions["vibrates"]).max() == pytest.approx(0.6)


def test_policy_indistinguishable_from_a_correct_one_is_correct():
    modes = failure_modes("Swimmer-v5", SHORT)
    assert no_different(modes, ("does nothing",)) == []
    twins = modes.trajectory("does nothing").columns["qpos"]
    assert np.ptp(twins, axis=0).max() < 0.2  # it floats where it was put
    assert no_different(modes, ()) == []


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
