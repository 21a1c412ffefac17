"""Test that every manner in a sentence is judged by a criterion that fails without it."""

import pytest

from telic.composer.compose import compose
from telic.composer.lexicon import word_table
from telic.errors import TelicError
from telic.judges.criteria import CriterionScore, total_score
from tests.composer.specs import spec_of, written_out

ROBOTS = ("HalfCheetah-v5", "Hopper-v5", "Ant-v5", "Humanoid-v5", "Swimmer-v5")
QUICK = ("HalfCheetah-v5", "Hopper-v5")
EVERY = [pytest.param(each, marks=[pytest.mark.slow] * (each not in QUICK)) for each in ROBOTS]
DEEDS = ("run forward", "stand still", "turn left")
BY_ITSELF = {"no_fall", "no_slip", "no_turn"}
"""limits that every judge of such a deed has anyway"""
THRESHOLD = 0.8


def manners():
    """Return (kind, words): the first words of each limit, of lasting, and further manners."""
    for kind, rows in word_table("constraints").items():
        for row in rows:
            for words in written_out(row.get("words", ()))[:1]:
                yield kind, words
            for words in row.get("forbidden", ())[:1]:
                yield kind, f"without {words}ing"
    yield from (("upright", f"with its torso {words}") for words in ("vertical", "upright"))
    yield from (("lasts", words) for words in ("without stopping", "at all times", "forever"))
    yield from (("count", words) for words in ("twice", "100 times"))


def without(made, titles):
    """Return the score of an episode that earns nothing in these criteria, and else everything."""
    return total_score(
        [
            CriterionScore(
                **{"title": each.title, "value": 0.0, "zero": 0.0, "goal": 1.0, "passed": True},
                **{"weight": each.weight, "is_guard": each.is_guard, "is_stated": each.is_stated},
                credit=float(each.title not in titles),
                counted=float(each.title not in titles),
            )
            for each in made.criteria
        ]
    )


@pytest.mark.parametrize("robot", EVERY)
def test_every_covered_phrase_has_a_criterion_that_fails_on_its_own(robot):
    seen = 0
    for deed in DEEDS:
        try:
            plain = compose(deed, spec_of(robot))
        except TelicError:
            continue
        known = {(each.measure, each.goal, each.is_stated) for each in plain.criteria}
        for kind, words in manners():
            try:
                made = compose(f"{deed} {words}", spec_of(robot))
            except TelicError:
                continue
            is_free = any("cannot violate it" in x or "has no" in x for x in made.doubts)
            for each in made.covered:
                if each in plain.covered or each.words in {old.words for old in plain.covered}:
                    continue
                seen += 1
                where = robot, deed, words, each
                assert each.criteria or is_free, where
                one_by_one = [without(made, {title}) for title in each.criteria]
                assert not one_by_one or min(one_by_one) < THRESHOLD, where
                own = [one for one in made.criteria if one.title in each.criteria]
                new = {(one.measure, one.goal, one.is_stated) for one in own} - known
                assert new or kind in BY_ITSELF or not own, where
    assert seen > 10
