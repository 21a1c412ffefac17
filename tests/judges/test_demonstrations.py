"""Demonstrations perform their motions, and failure modes match their names."""

import numpy as np
import pytest

from telic.judges.criteria import Motion
from telic.judges.demonstrations import demonstrate
from telic.judges.episode import RecordedEpisode
from telic.judges.failure_modes import FAILURE_MODES, failure_modes

SHORT = {"max_episode_steps": 40}


def measured(examples, name):
    return RecordedEpisode(examples.trajectory(name), examples.spec)


@pytest.fixture(scope="module")
def cheetahs():
    return demonstrate(
        "HalfCheetah-v5",
        SHORT,
        {
            "runs": (Motion(seconds=60, forward_mps=2.0, stride_hz=1.5),),
            "backs": (Motion(seconds=60, forward_mps=-2.0),),
            "stands": (Motion(seconds=60),),
            "jumps": (Motion(seconds=1.0, jumps=1, height_m=0.5), Motion(seconds=1.0)),
            "flips": (
                Motion(seconds=1.0, jumps=1, height_m=1.0, pitch_turns=-1.0),
                Motion(seconds=1.0),
            ),
        },
    )


def test_demonstration_moves_at_the_requested_speed_and_arrives(cheetahs):
    runs, backs = measured(cheetahs, "runs"), measured(cheetahs, "backs")
    assert runs.mean("forward_velocity") == pytest.approx(2.0, abs=0.15)
    assert runs.last("displacement") == pytest.approx(2.0 * 39 * runs.dt, rel=0.05)
    assert backs.mean("forward_velocity") == pytest.approx(-2.0, abs=0.15)


def test_demonstrated_stand_touches_the_ground_and_rests(cheetahs):
    stands = measured(cheetahs, "stands")
    assert stands["feet_in_contact"].min() == 2 and stands.highest("speed") < 0.1


def test_demonstrated_jump_leaves_the_ground_and_lands(cheetahs):
    jumps = measured(cheetahs, "jumps")
    rise = jumps.highest("height") - jumps["height"][0]
    assert rise == pytest.approx(0.5, abs=0.12)
    assert jumps.highest("air_time") > 0.3 and jumps["feet_in_contact"][-1] == 2


def test_demonstrated_backflip_turns_once_and_stands(cheetahs):
    flips = measured(cheetahs, "flips")
    assert flips.last("pitch_turns") == pytest.approx(-1.0, abs=0.03)
    assert flips.lowest("uprightness") < -0.9 and flips.last("uprightness") > 0.95


def test_a_free_robot_turns_circles_and_goes_aside():
    ants = demonstrate(
        "Ant-v5",
        {"max_episode_steps": 60},
        {
            "turns": (Motion(seconds=60, turn_rps=1.0),),
            "aside": (Motion(seconds=60, left_mps=0.5),),
            "circle": (Motion(seconds=60, forward_mps=0.8, turn_rps=1.0, circle=True),),
        },
    )
    turns, aside, circle = (measured(ants, name) for name in ("turns", "aside", "circle"))
    seconds = 59 * turns.dt
    assert turns.last("heading_turns") == pytest.approx(seconds / (2 * np.pi), rel=0.05)
    moved = aside["y_position"][-1] - aside["y_position"][0]
    assert moved == pytest.approx(0.5 * seconds, rel=0.1)
    assert circle.last("distance_traveled") == pytest.approx(0.8 * seconds, rel=0.1)
    assert circle.mean("heading_velocity") > 0.3 and circle.last("heading_turns") > 0.4


def test_motions_run_in_sequence_and_the_last_one_continues():
    episode = demonstrate(
        "Swimmer-v5",
        {"max_episode_steps": 50},
        {"x": (Motion(seconds=1.0, forward_mps=1.0), Motion(seconds=0.1, forward_mps=-1.0))},
    )
    x = measured(episode, "x")["x_position"]
    assert x.argmax() == pytest.approx(25, abs=2) and x[-1] == pytest.approx(0.0, abs=0.15)


def test_failure_modes_match_their_names():
    modes = failure_modes("HalfCheetah-v5", SHORT)
    assert modes.names == FAILURE_MODES
    assert measured(modes, "does nothing").mean("speed") < 0.2
    assert len(measured(modes, "ends at once")) == 6
    assert measured(modes, "lies on its back").highest("uprightness") < -0.9
    actions = modes.trajectory("shakes")["action"]
    assert (actions[1:] == -actions[:-1]).all() and np.abs(actions).min() == 1.0
    assert measured(modes, "topples over").lowest("uprightness") < 0.0


def test_an_example_that_falls_ends_there():
    modes = failure_modes("Hopper-v5", SHORT)
    lengths = dict(zip(modes.names, modes.lengths, strict=True))
    assert lengths["lies on its back"] == 1 and lengths["pulls"] < 40
