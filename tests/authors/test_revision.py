"""The next candidate follows from the failed criteria: weights, time, steps."""

import pytest

from telic.authors.candidate import (
    RewardCandidate,
    SessionIteration,
    reward_text,
    weights_in,
)
from telic.authors.composer import (
    LONGER,
    LONGEST,
    VARIANTS,
    apply_requests,
    is_improving,
    next_candidate,
)
from telic.composer.notes import ParsedNote
from telic.judges.criteria import score
from telic.judges.verdict import judged, together
from tests.session.test_loop import MemberScore
from tests.training.small import SPEED

ARGS = {"max_episode_steps": 100}


def iteration(number, *scores, parent=None):
    """Return an iteration whose three policies earned these leaves."""
    verdict = judged(scores, sum(leaf.credit for leaf in scores) / len(scores))
    members = tuple(
        MemberScore(
            member=f"reward_seed_{seed}",
            variant=0,
            seed=seed,
            step=1,
            judgment=together([verdict] * 8),
        )
        for seed in (1, 2, 3)
    )
    return SessionIteration(
        number=number,
        parent=parent,
        change="",
        passed=False,
        score=members[0].judgment.score,
        variant=0,
        best="reward_seed_1",
        tags=members[0].judgment.tags,
        members=members,
        training_s=1.0,
        judging_s=1.0,
    )


def earned(value, title="x", tag="too_slow", **more):
    return score(title, value, zero=0.0, goal=1.0, tag=tag, **more)


FIRST = RewardCandidate(reward=SPEED, env_args=ARGS, steps=1000)


def test_other_weights_are_tried_next_to_longer_training_of_the_same_reward():
    made = next_candidate([iteration(1, earned(0.2))], {1: FIRST})
    assert made.reward == SPEED and 1 < len(made.variants) <= VARIANTS
    assert made.variants[0].weights == weights_in(SPEED)
    texts = [reward_text(made, place) for place in range(len(made.variants))]
    assert len(set(texts)) == len(texts)


def test_a_training_whose_score_rose_to_the_end_is_given_more_steps():
    rows = [{"scores": {"a": 0.1 * n, "b": None}} for n in range(1, 7)]
    assert is_improving(rows, 0.7)
    assert not is_improving(rows, 0.41) and not is_improving(rows, None)
    assert not is_improving(rows[:1], 0.9) and not is_improving([{"scores": {"a": None}}] * 6, 0.9)
    parent, other = [iteration(1, earned(0.2))], {1: FIRST}
    assert next_candidate(parent, other).steps == int(LONGER * 1000)
    rising = next_candidate(parent, other, rises=True)
    assert rising.steps == int(LONGEST * 1000) and "still rising" in rising.change


def test_a_wish_changes_the_reward_or_its_weights():
    made = next_candidate([iteration(1, earned(0.2))], {1: FIRST})
    wished = apply_requests(
        made, [ParsedNote("gently", ("jitters",), SPEED + "\n# gently\n")], ["addressed"]
    )
    assert "# gently" in wished.reward and not any(each.warm for each in wished.variants)
    plain = apply_requests(made, [ParsedNote("gently", ("jitters",), None)], ["addressed"])
    assert plain.reward == made.reward
    assert plain.variants[1].weights["control"] > made.variants[1].weights.get("control", 0.1)


@pytest.mark.parametrize(
    ("value", "rises", "warm"),
    [(0.7, False, True), (0.4, True, True), (0.4, False, False), (0.05, True, False)],
)
def test_improving_policies_continue_instead_of_starting_from_scratch(value, rises, warm):
    parent = [iteration(1, earned(value))]
    made = next_candidate(parent, {1: FIRST}, rises=rises)
    assert {each.warm for each in made.variants} == {warm}
