"""A quantity over a part of an episode, to settle what judges disagree on."""

import numpy as np
import pytest

from telic.errors import UnknownName
from telic.judges.criteria import Criterion, EpisodePhase, Motion
from telic.judges.demonstrations import demonstrate
from telic.judges.episode import RecordedEpisode, recorded_together
from telic.judges.measured import JudgeFile, deciding_steps, measure_between
from telic.quantities import QUANTITIES
from telic.storage.trajectories import Trajectory


@pytest.fixture(scope="module")
def run():
    motions = (Motion(seconds=1.0), Motion(seconds=1.0, forward_mps=2.0))
    return demonstrate("HalfCheetah-v5", {"max_episode_steps": 40}, {"x": motions})


def test_what_was_not_recorded_is_none_and_for_a_judge_an_error_that_says_so(run):
    whole = run.trajectory("x")
    columns = {name: np.array(whole[name]) for name in whole.columns if name != "subtree_com"}
    less = RecordedEpisode(Trajectory(columns, whole.facts), run.spec)
    assert measure_between(less, "center_of_mass_height", None) is None
    assert measure_between(RecordedEpisode(whole, run.spec), "center_of_mass_height", None)
    with pytest.raises(UnknownName, match='recorded column named "subtree_com"'):
        less["center_of_mass_height"]


@pytest.mark.parametrize(
    ("measure", "direction", "moments"),
    [
        ("highest(forward_velocity)", "at_least", {"highest": (21, 39)}),
        ("mean(forward_velocity)", "at_least", {"lowest": (0, 19)}),
        ("last(x_position)", "at_least", {"last": (39, 39)}),
        ("longest(forward_velocity > 1)", "at_least", {"begins": (18, 22), "ends": (38, 39)}),
        ("share(forward_velocity > 9)", "at_least", {"never": (0, 0)}),
    ],
)
def test_criteria_are_decided_where_their_measure_is(run, measure, direction, moments):
    episode = RecordedEpisode(run.trajectory("x"), run.spec)
    common = {"title": "it", "quantity": "q", "direction": direction, "zero": 0.0, "goal": 1.0}
    criterion = Criterion(measure=measure, **common)
    found = {words: step for step, words in decided([criterion], episode)[1].items()}
    assert found.keys() == moments.keys()
    assert all(low <= found[words] <= high for words, (low, high) in moments.items()), found
    phases = (EpisodePhase(until="x_position > 0.5"), EpisodePhase())
    later = decided([Criterion(measure=measure, phase=2, **common)], episode, phases)
    (gate,) = later[0]
    assert later[0][gate] == "phase 1 ends" and all(step > gate for step in later[1])


def decided(criteria, episode, phases=()):
    return deciding_steps(JudgeFile(tuple(criteria), tuple(phases), ""), episode)


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
