"""Rewards are compared on examples before anything is trained."""

from types import SimpleNamespace

from telic.authors import composer
from telic.authors.candidate import Variant
from telic.authors.composer import first_rewards
from telic.judges.validation import ExampleResult
from tests.training.small import SPEED

OWN = {"speed": 1.0, "control": 0.1}


def example(name, score, **terms):
    return ExampleResult(
        name=name, is_good=score > 0.5, score=score, pay=sum(terms.values()), terms=terms
    )


GOOD = [
    example("stands", 0.0, speed=0.0, control=0.0),
    example("shakes", 0.1, speed=0.2, control=-3.0),
    example("walks", 0.6, speed=4.0, control=-1.0),
    example("runs", 1.0, speed=9.0, control=-2.0),
]
TIMID = [  # running costs more than it earns
    example("stands", 0.0, speed=0.0, control=0.0),
    example("shakes", 0.1, speed=0.1, control=-0.5),
    example("walks", 0.6, speed=1.0, control=-2.0),
    example("runs", 1.0, speed=2.0, control=-5.0),
]


def first(examples, most=3):
    return first_rewards(SimpleNamespace(reward=SPEED), examples, most)


def test_a_reward_that_ranks_as_the_judge_does_is_trained_alone():
    clear = GOOD[:1] + GOOD[2:] + [example("falls", 0.0, speed=-1.0)]
    assert first(clear) == first(TIMID, 1) == (Variant(),)


def test_poorly_ranking_reward_gets_better_ranking_alternatives():
    tried = first(TIMID)
    assert len(tried) == 3 and tried[0] == Variant()
    others = [dict(each.weights) for each in tried[1:]]
    mine = composer.rank_agreement(OWN, TIMID)
    assert all(composer.rank_agreement(OWN, TIMID, each) > mine for each in others)
    assert others[0] != others[1] and all(set(each) == set(OWN) for each in others)
    assert first(TIMID) == tried  # the same for the same file
