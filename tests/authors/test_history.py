"""A reviser receives the results of earlier changes, in any order of iterations."""

import random

import pytest

from telic.authors._history import SessionHistory
from telic.authors.candidate import MemberScore, RewardCandidate
from telic.judges.criteria import require
from telic.judges.criteria import score as leaf_score
from telic.judges.verdict import judged, together
from tests.session.sessions import make_session
from tests.session.test_report import iteration, score


@pytest.mark.parametrize("seed", range(3))
def test_outcome_is_compared_with_the_parent_iteration(tmp_path, seed):
    draw = random.Random(seed)
    history, candidates = [], {}
    for number in range(1, 8):
        worth = draw.choice([None, 0.1, 0.3, 0.5, 0.9])
        made = iteration(number, score(worth), change=f"change {number}")
        parent = draw.randrange(1, number) if number > 1 else None
        history.append(made.model_copy(update={"parent": parent}))
        candidates[number] = RewardCandidate(reward="", env_args={}, steps=1, parent=parent)
    story = SessionHistory(make_session(tmp_path), history, candidates)
    lines = story.text(0.8).split("## Iterations\n\n")[1].splitlines()
    for made, line in zip(history, lines, strict=False):
        assert f"{made.number}. from {made.parent or 'nothing'}: change {made.number}" in line
        parent = history[made.parent - 1] if made.parent else None
        if parent is None or None in (parent.score, made.score):
            assert "than" not in line
            continue
        gain = made.score - parent.score
        word = "no effect" if abs(gain) < 0.02 else "better" if gain > 0 else "worse"
        assert f"{word} than {parent.number} by {gain:+.2f}" in line


def test_reviser_receives_zero_goal_value_credit_and_remaining_iterations(tmp_path):
    scores = (
        leaf_score("runs", 1.5, zero=0.5, goal=2.5, weight=3.0, unit="m/s"),
        require("stays up", 0.9, zero=0.3, goal=0.8),
    )
    judgment = together([judged(scores, 0.5)] * 4)
    member = MemberScore(member="reward1_seed_1", variant=0, seed=1, step=1, judgment=judgment)
    made = iteration(1, member).model_copy(update={"judge_doubted": "it slides"})
    candidates = {1: RewardCandidate(reward="", env_args={}, steps=1)}
    past = SessionHistory(make_session(tmp_path), [made], candidates)
    reported = past.text(0.8, most=4)
    assert "| runs | weight 3 | 0.5 m/s | 2.5 m/s | 0.50 (1.5, 1.5, 1.5) |" in reported
    assert "| stays up | multiplies all | 0.3 | 0.8 | 1.00 (0.9, 0.9, 0.9) |" in reported
    assert "| mean score |  | 0 | 1 | 0.50 |" in reported
    assert "Rewards left, including this: 3" in reported and "judge doubtful: it slides" in reported
    assert "This is the last revision" in past.text(0.8, most=2)
    assert "tried" not in past.text(0.8).partition("Best so far")[2].partition("\n")[0]
