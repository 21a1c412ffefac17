"""Episode metrics: what episodes of known worth come to."""

import numpy as np
import pytest

from telic.judges import metrics, tracks
from telic.judges.criteria import Criterion, Motion
from telic.judges.episode import RecordedEpisode
from telic.judges.measured import quantities_behind, single_value
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


def test_statistics_of_a_track(episode):
    ramp = np.linspace(0.0, 1.0, len(episode))
    assert tracks.highest(episode, ramp) == 1.0 and tracks.lowest(episode, ramp) == 0.0
    assert tracks.farthest(episode, -ramp) == 1.0 and tracks.total(episode, ramp) == 40.0
    assert tracks.first(episode, ramp) == 0.0 and tracks.last(episode, ramp) == 1.0
    assert tracks.longest(episode, ramp > 0.5) == pytest.approx(2.0)
    assert tracks.mean_of_last(episode, ramp, 1.0) == pytest.approx(0.88, abs=0.01)
    assert tracks.mean_of_end(episode, ramp > 0.5, 2) == 1.0
    assert tracks.share_until(episode, ramp > 0.5) == 0.5
    assert tracks.share_until(episode, ramp > 2.0) == 1.0
    assert tracks.rate_of(episode, ramp) == pytest.approx(1.0 / 79 / episode.dt)
    assert tracks.since(episode, ramp, ramp < 0.5)[-1] == pytest.approx(1.0 - ramp[39])
    wave = np.sin(np.linspace(0.0, 6.0 * np.pi, len(episode)))
    times = tracks.cycles(episode, wave, 0.5, -0.5)
    assert (times == tracks.repeats(episode, wave > 0.5, wave < -0.5)).all()
    assert tracks.last(episode, times) == 3 and tracks.per_second(episode, times) == 0.75
    assert metrics.on_time(episode, times, 4.0 / 3.0, 0.2, 2) == 1.0


def test_jumps_are_flights_and_rest_is_none():
    motions = [Motion(seconds=4.0, jumps=4, height_m=0.5)]
    jumping = RecordedEpisode(demonstration(CHEETAH, ARGS, motions), spec_of(CHEETAH, **ARGS))
    flies, lands = metrics.flying(0.1, 0.05), track("air_time") <= 0.0
    assert value(tracks.last(tracks.repeats(flies, lands)), jumping) == 4
    assert value(tracks.mean(flies), jumping) > 0.3


HEIGHT, UP = track("height"), track("uprightness")


@pytest.mark.parametrize(
    ("measure", "code", "words"),
    [
        (tracks.highest("height"), "highest(height)", "highest height"),
        (HEIGHT - 1.23456, "height - 1.235", "height minus 1.24"),
        (-HEIGHT, "-height", "minus height"),
        (-(HEIGHT - 1.0), "-(height - 1.0)", "minus height minus 1"),
        (track("pitch", minus=0.5, sign=-1), "-(pitch - 0.5)", "minus pitch minus 0.5"),
        (abs(UP) / 2.0, "abs(uprightness) / 2.0", "size of uprightness relative to 2"),
        (
            (UP > 0.8) & (HEIGHT < -0.5),
            "(uprightness > 0.8) & (height < -0.5)",
            "uprightness is above 0.8 and height is below -0.5",
        ),
        (
            tracks.share(metrics.touching(("a", "b"), 5.0)),
            'share(maximum(contact_force("a"), contact_force("b")) > 5.0)',
            "fraction of the time in which a force above 5 N acts on a and b",
        ),
        (
            tracks.column(track("body_position", "a"), 2).until("left", 3.0),
            'on_way("left", 3, body_position("a")[2])',
            "body_position of a[2]",
        ),
    ],
)
def test_a_measure_is_an_expression_with_words(measure, code, words):
    assert (str(measure), measure.words) == (code, words)


def test_a_measure_has_a_unit_and_quantities():
    moves = tracks.share(metrics.pace("forward") > 0.5)
    assert moves.unit == "" and quantities_behind(moves.code) == ("x_position", "y_position")
    assert tracks.highest("height").unit == (HEIGHT - 1.0).unit == "m"
    assert quantities_behind((UP * (HEIGHT > 1.0)).code) == ("uprightness", "height")
