"""A quantity over a part of an episode, to settle what judges disagree on."""

import numpy as np
import pytest

from telic.errors import UnknownName
from telic.judges.criteria import Motion
from telic.judges.demonstrations import demonstrate
from telic.judges.episode import RecordedEpisode, measure_between, recorded_together
from telic.quantities import QUANTITIES
from telic.storage.trajectories import Trajectory


@pytest.fixture(scope="module")
def run():
    motions = (Motion(seconds=1.0), Motion(seconds=1.0, forward_mps=2.0))
    return demonstrate("HalfCheetah-v5", {"max_episode_steps": 40}, {"x": motions})


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
    assert measure_between(less, run.spec, "center_of_mass_height", None) is None
    assert measure_between(whole, run.spec, "center_of_mass_height", None) is not None
    with pytest.raises(UnknownName, match='recorded column named "subtree_com"'):
        RecordedEpisode(less, run.spec)["center_of_mass_height"]


def test_episodes_measured_together_are_measured_as_each_alone(run):
    whole, rng = run.trajectory("x"), np.random.default_rng(2)
    episodes = []
    for length in (len(whole), 7, 23, 1):
        columns = {name: np.array(whole[name])[:length] for name in whole.columns}
        columns["cfrc_ext"] = rng.uniform(-50.0, 50.0, columns["cfrc_ext"].shape)
        columns["qvel"] = columns["qvel"] + rng.normal(size=columns["qvel"].shape)
        episodes.append(Trajectory(columns, whole.facts))
    together = recorded_together(episodes, run.spec)
    accumulated = [
        name
        for name, quantity in QUANTITIES.items()
        if quantity.width is not None and quantity.available(run.spec)
    ]
    assert len(accumulated) > 10
    for name in accumulated:
        for place, episode in enumerate(episodes):
            alone = RecordedEpisode(episode, run.spec)[name]
            among = together[place][name]
            assert among.shape == alone.shape
            np.testing.assert_allclose(among, alone, rtol=1e-5, atol=1e-6, err_msg=name)
