"""Criteria that a person reads and edits, and the judge that follows them."""

import pytest

from telic.composer._conflict import require_consistent
from telic.composer._draft import Draft
from telic.composer.compose import compose
from telic.errors import Contradiction, UnknownName, UsageError
from telic.judges import metrics, tracks
from telic.judges.tracks import track
from tests.composer.specs import spec_of

ENV = "HalfCheetah-v5"


def spec():
    return spec_of(ENV)


def by_title(made):
    return {each.title: each for each in made.criteria}


def test_criteria_say_what_is_measured_and_which_way():
    found = by_title(compose("run forward fast", spec()))
    speed = found["averages at least 3 m/s forward"]
    assert (speed.direction, speed.zero, speed.goal, speed.unit) == ("at_least", 0.3, 3.0, "m/s")
    assert speed.weight == 3.0 and speed.tag == "too_slow" and "distance covered" in speed.quantity
    assert found["is not on its back"].is_guard and found["is not on its back"].weight == 0.0
    exact = by_title(compose("run forward at 2 m/s", spec()))["averages 2 m/s forward (± 0.5 m/s)"]
    assert (exact.direction, exact.goal, exact.zero) == ("about", 2.0, 0.0)
    sequence = compose("jump, then stand still", spec())
    assert [each.kind for each in sequence.criteria].count("phased") == 1


def test_a_dropped_criterion_is_not_judged_and_guards_stay():
    made = compose("run forward fast", spec())
    kept = [each for each in made.criteria if each.title.startswith("averages")]
    titles = [each.title for each in compose("run forward fast", spec(), criteria=kept).criteria]
    assert "keeps moving at least 75% of the time" not in titles and "is not on its back" in titles


def test_criteria_that_make_no_judge_are_refused():
    made = compose("run forward fast", spec())
    with pytest.raises(UnknownName, match="keeps moving"):
        compose(
            "run forward fast", spec(), [made.criteria[1].model_copy(update={"title": "keeps"})]
        )
    with pytest.raises(UsageError, match="weight is left"):
        compose("run forward fast", spec(), criteria=[])
    same = [made.criteria[0].model_copy(update={"zero": 3.0})]
    with pytest.raises(UsageError, match="requires a range"):
        compose("run forward fast", spec(), criteria=same)


# ---- criteria that exclude one another


def judging(*parts):
    draft = Draft(seconds=8.0)
    for title, value, zero, goal in parts:
        draft.score(title, value, zero, goal)
    return draft


SPEED = metrics.net_speed("forward")
STRAYED = tracks.highest(metrics.gone())
TOP = tracks.highest("height")
LEAP = tracks.highest(track("height") - 1.2)
UP, LOW = tracks.share(track("height") > 1.2), tracks.share(track("height") < 1.0)


@pytest.mark.parametrize(
    "parts",
    [
        [("fast", SPEED, 0.3, 3.0), ("slow", SPEED, 3.0, 1.0)],
        [("goes", SPEED, 0.3, 3.0), ("stays", STRAYED, 1.5, 0.5)],
        [("goes", SPEED.until("forward", 9.0), 0.3, 3.0), ("stays", STRAYED, 1.5, 0.5)],
        [("leaps", LEAP, 0.1, 0.5), ("low", TOP, 1.6, 1.3)],
        [("high", UP, 0.3, 0.8), ("low", LOW, 0.3, 0.8)],
    ],
)
def test_criteria_that_exclude_one_another_are_refused(parts):
    with pytest.raises(Contradiction, match="cannot both be met"):
        require_consistent(judging(*parts))


@pytest.mark.parametrize(
    "parts",
    [
        [("fast", SPEED, 0.3, 3.0), ("not too fast", SPEED, 6.0, 4.0)],
        [("leaps", LEAP, 0.1, 0.5), ("high", TOP, 1.0, 1.5)],
        [("up", UP, 0.1, 0.3), ("low", LOW, 0.1, 0.3)],
    ],
)
def test_criteria_that_can_all_be_met_are_not(parts):
    assert require_consistent(judging(*parts)) is None
