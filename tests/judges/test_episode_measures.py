"""A quantity over a part of an episode, to settle what judges disagree on."""

import numpy as np
import pytest

from telic.errors import UnknownName
from telic.judges.criteria import Motion
from telic.judges.episode import RecordedEpisode, measure_between
from telic.judges.examples import good_examples
from telic.storage.trajectories import Trajectory


@pytest.fixture(scope="module")
def run():
    motions = (Motion(seconds=1.0), Motion(seconds=1.0, forward_mps=2.0))
    return good_examples("HalfCheetah-v5", {"max_episode_steps": 40}, {"x": motions})


def test_it_is_measured_over_the_time_asked_for(run):
    measured = measure_between(run.trajectory("x"), run.spec, "forward_velocity", (1.2, 1.9))
    assert measured is not None and measured.mean == pytest.approx(2.0, abs=0.2)
    assert (measured.start_s, measured.end_s) == pytest.approx((1.2, 1.9))
    first = measure_between(run.trajectory("x"), run.spec, "forward_velocity", (0.1, 0.8))
    assert first is not None and abs(first.mean) < 0.1


def test_what_was_not_recorded_is_none_and_for_a_judge_an_error_that_says_so(run):
    whole = run.trajectory("x")
    columns = {name: np.array(whole[name]) for name in whole.columns if name != "subtree_com"}
    less = Trajectory(columns, whole.facts)
    assert measure_between(less, run.spec, "centre_of_mass_height", None) is None
    assert measure_between(whole, run.spec, "centre_of_mass_height", None) is not None
    with pytest.raises(UnknownName, match='recorded column named "subtree_com"'):
        RecordedEpisode(less, run.spec)["centre_of_mass_height"]
