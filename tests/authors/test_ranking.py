"""Rewards are compared on examples before anything is trained."""

from types import SimpleNamespace

from telic.authors.candidate import Variant
from telic.authors.composer import ComposerAuthor, RewardView, TriedReward, first_rewards
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


def agreement(pays, scores):
    rows = [
        example(str(k), score, speed=pay)
        for k, (pay, score) in enumerate(zip(pays, scores, strict=True))
    ]
    return RewardView(OWN, rows).agreement()


def test_agreement_counts_the_pairs_that_the_judge_tells_apart():
    assert agreement([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4]) == 1.0
    assert agreement([4, 3, 2, 1], [0.1, 0.2, 0.3, 0.4]) == -1.0
    assert agreement([1, 1, 1, 1], [0.1, 0.2, 0.3, 0.4]) == 0.0
    assert agreement([1, 5, 9, 3], [0.4, 0.4, 0.4, 0.4]) is None
    assert agreement([1, 2, 3], [0.1, 0.2, 0.3]) is None  # too few
    assert agreement([1, 2, 3, 9], [0.2, 0.1, 0.0, 1.0]) == 1.0  # bad ones are not ordered


class Offering(ComposerAuthor):
    """An author with other structures."""

    def __init__(self, *others):
        self.others = others
        self.asked = []

    def first_structures(self, written):
        self.asked.append(written)
        return self.others


def first(examples, most=3, author=None, reward=SPEED):
    return first_rewards(author or object(), SimpleNamespace(reward=reward), examples, most)


def test_a_reward_that_ranks_as_the_judge_does_is_trained_alone():
    clear = GOOD[:1] + GOOD[2:] + [example("falls", 0.0, speed=-1.0)]
    assert first(clear) == (Variant(),)


def test_a_reward_that_ranks_badly_gets_others_beside_it_which_rank_better():
    tried = first(TIMID)
    assert len(tried) == 3 and tried[0] == Variant()
    view = RewardView(OWN, TIMID)
    mine = view.agreement()
    others = [dict(each.weights) for each in tried[1:]]
    assert all(found > mine for found, _ in view.ranked(others))
    assert others[0] != others[1] and all(set(each) == set(OWN) for each in others)
    assert first(TIMID) == tried  # the same for the same file


def test_structures_that_rank_better_come_before_other_weights():
    author = Offering(
        TriedReward(Variant(reward="worse"), -1.0),
        TriedReward(Variant(reward="better", structure=("a",)), 0.9),
        TriedReward(Variant(reward="unknown"), None),
        TriedReward(Variant(reward="best"), 1.0),
    )
    assert [each.reward for each in first(TIMID, 3, author)] == [None, "best", "better"]
    four = first(TIMID, 4, author)
    assert four[3].reward is None and four[3].weights


def test_an_author_is_asked_for_structures_only_where_its_reward_is_in_doubt():
    author = Offering(TriedReward(Variant(reward="other"), 1.0))
    clear = GOOD[:1] + GOOD[2:] + GOOD[:1]
    assert first(clear, 3, author) == first(TIMID, 1, author) == (Variant(),)
    assert not author.asked
    assert first(TIMID, 2, author)[1].reward == "other" and author.asked
