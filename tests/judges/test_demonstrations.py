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


def test_demonstrated_backflip_turns_once_and_stands(cheetahs):
    flips = measured(cheetahs, "flips")
    assert flips.last("pitch_turns") == pytest.approx(-1.0, abs=0.03)
    assert flips.lowest("uprightness") < -0.9 and flips.last("uprightness") > 0.95


def test_failure_modes_match_their_names():
    modes = failure_modes("HalfCheetah-v5", SHORT)
    assert modes.names == FAILURE_MODES
    assert measured(modes, "does nothing").mean("speed") < 0.2
    assert len(measured(modes, "ends at once")) == 6
    assert measured(modes, "lies on its back").highest("uprightness") < -0.9
    actions = modes.trajectory("shakes")["action"]
    assert (actions[1:] == -actions[:-1]).all() and np.abs(actions).min() == 1.0
    assert measured(modes, "topples over").lowest("uprightness") < 0.0
