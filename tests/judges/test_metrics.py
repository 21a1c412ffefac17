"""Episode metrics: what episodes of known worth come to."""

import numpy as np
import pytest

from telic.judges import metrics, tracks
from telic.judges.criteria import Motion
from telic.judges.episode import RecordedEpisode
from tests.composer.specs import spec_of
from tests.judges.playing import demonstration

CHEETAH, ARGS = "HalfCheetah-v5", {"max_episode_steps": 80}


@pytest.fixture(scope="module")
def episode():
    """Two seconds forward at 1 m/s, and then two seconds of rest."""
    motions = [Motion(seconds=2.0, forward_mps=1.0), Motion(seconds=2.0)]
    return RecordedEpisode(demonstration(CHEETAH, ARGS, motions), spec_of(CHEETAH, **ARGS))


def test_what_going_and_resting_comes_to(episode):
    assert metrics.net_speed(episode, "forward") == pytest.approx(0.5, abs=0.05)
    assert metrics.net_speed(episode, "backward") == -metrics.net_speed(episode, "forward")
    made = metrics.way_made(episode, "forward")
    assert tracks.last(episode, made) == pytest.approx(2.0, abs=0.1)
    assert tracks.share_above(episode, metrics.pace(episode, "forward"), 0.5) == pytest.approx(
        0.5, abs=0.05
    )
    assert metrics.still_under_way(episode, "forward", 2.0) < 0.01
    assert metrics.turned_back(episode, "forward") < 0.05
    assert metrics.speed_error(episode, "forward", 1.0) == pytest.approx(0.5, abs=0.05)
    assert metrics.full_length(episode) == 1.0
    assert tracks.last(episode, metrics.gone(episode, ("x_position",))) == pytest.approx(
        2.0, abs=0.1
    )


def test_statistics_of_a_track(episode):
    ramp = np.linspace(0.0, 1.0, len(episode))
    assert tracks.highest(episode, ramp) == 1.0 and tracks.lowest(episode, ramp) == 0.0
    assert tracks.farthest(episode, -ramp) == 1.0 and tracks.total(episode, ramp) == 40.0
    assert tracks.share_below(episode, ramp, 0.5) == 0.5
    assert tracks.share(episode, tracks.between(episode, ramp, 0.25, 0.75)) == pytest.approx(0.5)
    assert tracks.share_near(episode, ramp, 0.5, 0.25) == pytest.approx(0.5)
    assert tracks.longest(episode, ramp > 0.5) == pytest.approx(2.0)
    assert tracks.longest_below(episode, ramp, 0.5) == pytest.approx(0.5)
    assert tracks.time_above(episode, ramp, 0.5) == pytest.approx(2.0)
    assert tracks.mean_of_last(episode, ramp, 1.0) == pytest.approx(0.88, abs=0.01)
    assert tracks.mean_of_end(episode, ramp > 0.5, 2) == 1.0
    assert tracks.share_until(episode, ramp > 0.5) == 0.5
    assert tracks.share_until(episode, ramp > 2.0) == 1.0
    wave = np.sin(np.linspace(0.0, 6.0 * np.pi, len(episode)))
    times = tracks.cycles(episode, wave, 0.5, -0.5)
    assert tracks.last(episode, times) == 3 and tracks.per_second(episode, times) == 0.75
    assert tracks.reaches(episode, 2.0, 2.0) == 1.0 and tracks.reaches(episode, 1.9, 2.0) == 0.0
    assert metrics.on_time(episode, times, 4.0 / 3.0, 0.2, 2) == 1.0


def test_jumps_are_flights_and_rest_is_none():
    motions = [Motion(seconds=4.0, jumps=4, height_m=0.5)]
    jumping = RecordedEpisode(demonstration(CHEETAH, ARGS, motions), spec_of(CHEETAH, **ARGS))
    assert tracks.last(jumping, metrics.flights(jumping, 0.1, 0.05)) == 4
    assert tracks.highest(jumping, metrics.in_air(jumping, "height")) > 0.9
    assert tracks.mean(jumping, metrics.flying(jumping, 0.1, 0.05)) > 0.3


def test_a_call_without_an_episode_is_code_with_words_a_unit_and_quantities():
    value = tracks.share_above(metrics.pace("forward"), 0.123456)
    assert str(value) == 'share_above(pace("forward"), 0.1235)'
    words = "fraction of the time with speed forward, averaged over half seconds above 0.123"
    assert value.words == words
    assert value.unit == "" and tracks.highest("height").unit == "m"
    assert value.quantities == ("x_position", "y_position")
    assert str(tracks.less("pitch", sign=-1)) == 'less("pitch", sign=-1)'
