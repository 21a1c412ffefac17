"""Several rewards in one iteration: the better ones continue, and decisions are kept."""

from telic.judges.criteria import leaf, require, total_score
from telic.judges.verdict import judged, together
from telic.session._training import better_first
from tests.session.test_loop import score


def test_variants_are_ordered_by_score_and_unknown_ones_come_last():
    members = [score(0, 1, None), score(1, 1, 0.2), score(2, 1, 0.9), score(3, 1, 0.2)]
    assert better_first(members, [0, 1, 2, 3]) == (2, 1, 3, 0)


def test_while_nothing_is_earned_those_are_better_that_are_nearer_to_the_goals():
    def member(variant, speed, feet):
        scores = [
            leaf("fast", speed, zero=0.0, goal=1.0),
            require("on its feet", feet, zero=0.5, goal=1.0),
        ]
        whole = together([judged(scores, total_score(scores))] * 4)
        return score(variant, 1, 0.0).model_copy(update={"judgment": whole})

    nothing, some, more, good = (
        member(*row) for row in ((0, 0, 0), (1, 0.3, 0), (2, 0.9, 0), (3, 0.2, 1))
    )
    assert better_first([nothing, some, more, good], [0, 1, 2, 3]) == (3, 2, 1, 0)
    far, nearer = member(0, -3.0, 1), member(1, -0.5, 1)  # both short of any credit
    assert far.judgment.score == nearer.judgment.score == 0.0
    assert better_first([far, nearer], [0, 1]) == (1, 0)
