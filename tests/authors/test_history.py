"""What a reviser is told of earlier changes is what they led to, whatever the order of trying."""

import random

import pytest

from telic.authors.candidate import RewardCandidate
from telic.authors.history import SessionHistory
from tests.session.sessions import make_session
from tests.session.test_report import iteration, score


@pytest.mark.parametrize("seed", range(10))
def test_an_outcome_is_told_against_the_iteration_it_was_made_from(tmp_path, seed):
    draw = random.Random(seed)
    history, candidates = [], {}
    for number in range(1, 8):
        worth = draw.choice([None, 0.1, 0.3, 0.5, 0.9])
        made = iteration(number, score(worth), change=f"change {number}")
        parent = draw.randrange(1, number) if number > 1 else None
        history.append(made.model_copy(update={"parent": parent}))
        candidates[number] = RewardCandidate(reward="", env_args={}, steps=1, parent=parent)
    story = SessionHistory(make_session(tmp_path), history, candidates)
    lines = story.text(0.8).split("### Iterations\n\n")[1].splitlines()
    for made, line in zip(history, lines, strict=False):
        assert f"{made.number}. from {made.parent or 'nothing'}: change {made.number}" in line
        parent = history[made.parent - 1] if made.parent else None
        if parent is None or None in (parent.score, made.score):
            assert "than" not in line
            continue
        gain = made.score - parent.score
        word = "no effect" if abs(gain) < 0.02 else "better" if gain > 0 else "worse"
        assert f"{word} than {parent.number} by {gain:+.2f}" in line


def test_what_was_not_judged_is_told_with_its_reason_and_not_as_a_failure(tmp_path):
    made = iteration(1, score(None))
    candidates = {1: RewardCandidate(reward="", env_args={}, steps=1)}
    told = SessionHistory(make_session(tmp_path), [made], candidates).text(0.8)
    assert "score unknown" in told and "-1.00" not in told
    assert "says nothing about the reward: 4 of 4 episodes (judge_fn.py: KeyError" in told
