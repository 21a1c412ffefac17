"""Episode metrics: what episodes of known worth come to."""

import pytest

from telic.judges import metrics, tracks
from telic.judges.criteria import Criterion, Motion
from telic.judges.episode import RecordedEpisode
from telic.judges.measured import single_value
from telic.judges.tracks import track
from tests.composer.specs import spec_of
from tests.judges.playing import demonstration

CHEETAH, ARGS = "HalfCheetah-v5", {"max_episode_steps": 80}


@pytest.fixture(scope="module")
def episode():
    """Two seconds forward at 1 m/s, and then two seconds of rest."""
    motions = [Motion(seconds=2.0, forward_mps=1.0), Motion(seconds=2.0)]
    return RecordedEpisode(demonstration(CHEETAH, ARGS, motions), spec_of(CHEETAH, **ARGS))


def value(measure, episode):
    return single_value(Criterion(title="x", quantity="", measure=str(measure)), episode)


GOING = {
    'net_speed("forward")': (0.5, 0.05),
    'last(change(place("forward")))': (2.0, 0.1),
    'share(pace("forward") > 0.5)': (0.5, 0.05),
    'still_under_way("forward", 2.0)': (0.0, 0.01),
    "full_length()": (1.0, 0.0),
    "full_seconds()": (4.0, 1e-9),
    str(tracks.last(metrics.gone(("x_position",)))): (2.0, 0.1),
}


@pytest.mark.parametrize("measure", GOING)
def test_going_and_resting_combine_as_expected(episode, measure):
    expected, within = GOING[measure]
    assert value(measure, episode) == pytest.approx(expected, abs=within)


def test_jumps_are_flights_and_rest_is_none():
    motions = [Motion(seconds=4.0, jumps=4, height_m=0.5)]
    jumping = RecordedEpisode(demonstration(CHEETAH, ARGS, motions), spec_of(CHEETAH, **ARGS))
    flies, lands = metrics.flying(0.1, 0.05), track("air_time") <= 0.0
    assert value(tracks.last(tracks.repeats(flies, lands)), jumping) == 4
    assert value(tracks.mean(flies), jumping) > 0.3
