"""A reviser receives the results of earlier changes, in any order of iterations."""

import random

import pytest

from telic.authors._history import SessionHistory, judgment_text
from telic.authors.candidate import MemberScore, RewardCandidate
from telic.judges.criteria import require
from telic.judges.criteria import score as leaf_score
from telic.judges.verdict import WHOLE, Disagreement, judged, together
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


def test_unjudged_iteration_is_reported_with_its_reason_and_not_as_a_failure(tmp_path):
    made = iteration(1, score(None))
    candidates = {1: RewardCandidate(reward="", env_args={}, steps=1)}
    reported = SessionHistory(make_session(tmp_path), [made], candidates).text(0.8)
    assert "policies unknown" in reported and "-1.00" not in reported
    assert "says nothing about the reward): 64 of 64 episodes (judge_fn.py: KeyError" in reported


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


def test_credit_and_values_are_of_the_same_episodes(tmp_path):
    landed = [2.6] * 3 + [0.0] * 7
    runs = [leaf_score("lands", each, zero=0.05, goal=0.5, unit="s") for each in landed]
    judgment = together([judged((each,), each.credit) for each in runs])
    member = MemberScore(member="reward_seed_1", variant=0, seed=1, step=1, judgment=judgment)
    assert "0.30 (0, 0, 2.6) |" in judgment_text(iteration(1, member))


def test_a_reviser_reads_in_words_where_measuring_and_looking_disagree(tmp_path):
    leaf = leaf_score("lands", 0.35, zero=0.1, goal=0.5, weight=3.0, unit="s")
    dispute = Disagreement(
        criterion="lands",
        code=0.62,
        vision=0.1,
        margin=0.25,
        start_s=1.25,
        end_s=3.0,
        measured="lands: 0.35 s",
        seen="It leans on its head.",
        asked_again=0.2,
    )
    whole = dispute.model_copy(update={"criterion": WHOLE, "start_s": None, "asked_again": None})
    verdict = judged((leaf,), 0.5).model_copy(update={"disagreements": (dispute, whole)})
    judgment = together([verdict] * 4)
    member = MemberScore(member="reward1_seed_1", variant=0, seed=1, step=1, judgment=judgment)
    reported = judgment_text(iteration(1, member))
    lines = [line for line in reported.splitlines() if line.startswith("- ")]
    assert lines == [
        "- lands (1.25 s to 3.00 s): measured 0.62 (lands: 0.35 s); seen 0.10, 0.20 on a second "
        "look (It leans on its head.)",
        "- the intent: measured 0.62 (lands: 0.35 s); seen 0.10 (It leans on its head.)",
    ]
    assert "{" not in reported
