"""Several rewards in one iteration: the better go on, and what was decided stands."""

import pytest

from telic.authors import composer
from telic.authors.candidate import (
    RewardCandidate,
    reward_text,
)
from telic.judges.criteria import leaf, require, total
from telic.judges.verdict import judged, together
from telic.session._training import better_first
from telic.session.loop import run
from telic.storage.files import read_record
from telic.storage.layout import RunFolder, SessionFolder
from tests.session.test_loop import score


@pytest.mark.long  # tests/authors/test_structures.py has quick ones
def test_a_failed_reward_is_tried_in_other_structures(home, tmp_path):
    home.setattr(composer, "_MOST", 1)
    session = run(
        "walk backward slowly",
        env="HalfCheetah-v5",
        runs_dir=tmp_path,
        seeds=(1,),
        episodes=4,
        steps=512,
        iterations=2,
        robustness=False,
    )
    files = SessionFolder(session.path).iteration(2)
    candidate = read_record(files.candidate, RewardCandidate)
    others = [each for each in candidate.variants if each.reward]
    assert others and all(each.structure for each in others)
    for member in RunFolder(files.path / "trial").members():
        place = int(member.name.removeprefix("reward").partition("_")[0] or 1) - 1
        assert member.reward_code.read_text() == reward_text(candidate, place)


def test_variants_are_ordered_by_score_and_unknown_ones_come_last():
    members = [score(0, 1, None), score(1, 1, 0.2), score(2, 1, 0.9), score(3, 1, 0.2)]
    assert better_first(members, [0, 1, 2, 3]) == (2, 1, 3, 0)


def test_while_nothing_is_earned_those_are_better_that_are_nearer_to_the_goals():
    def member(variant, speed, feet):
        leaves = [
            leaf("fast", speed, zero=0.0, goal=1.0),
            require("on its feet", feet, zero=0.5, goal=1.0),
        ]
        whole = together([judged(leaves, total(leaves))] * 4)
        return score(variant, 1, 0.0).model_copy(update={"judgement": whole})

    nothing, some, more, good = (
        member(*row) for row in ((0, 0, 0), (1, 0.3, 0), (2, 0.9, 0), (3, 0.2, 1))
    )
    assert better_first([nothing, some, more, good], [0, 1, 2, 3]) == (3, 2, 1, 0)
    far, nearer = member(0, -3.0, 1), member(1, -0.5, 1)  # both short of any credit
    assert far.judgement.score == nearer.judgement.score == 0.0
    assert better_first([far, nearer], [0, 1]) == (1, 0)
