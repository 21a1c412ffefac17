"""What is tried next follows from what failed: structures, weights, time, steps."""

import pytest

from telic.authors.candidate import (
    RewardCandidate,
    SessionIteration,
    Variant,
    reward_text,
    weights_in,
)
from telic.authors.composer import (
    LONGER,
    LONGEST,
    VARIANTS,
    TriedReward,
    apply_wishes,
    lacks,
    next_candidate,
    still_rises,
)
from telic.composer.notes import Wish
from telic.judges.criteria import Criterion, score
from telic.judges.verdict import judged, together
from tests.session.test_loop import MemberScore
from tests.training.small import SPEED

FALLS = SPEED.replace("import RewardFunction\n", "import RewardFunction, quantities\n").replace(
    '"control": 0.1}', '"control": 0.1, "down": 1.0}'
)
DOWN = TriedReward(Variant(reward=FALLS, structure=("down",)), 0.9, "a reward that charges")
ARGS = {"max_episode_steps": 100}


def iteration(number, *leaves, parent=None):
    """Return an iteration whose three policies earned these leaves."""
    verdict = judged(leaves, sum(leaf.credit for leaf in leaves) / len(leaves))
    members = tuple(
        MemberScore(
            member=f"reward_seed_{seed}",
            variant=0,
            seed=seed,
            step=1,
            judgement=together([verdict] * 8),
        )
        for seed in (1, 2, 3)
    )
    return SessionIteration(
        number=number,
        parent=parent,
        change="",
        passed=False,
        score=members[0].judgement.score,
        variant=0,
        best="reward_seed_1",
        tags=members[0].judgement.tags,
        members=members,
        training_s=1.0,
        judging_s=1.0,
    )


def earned(value, title="x", tag="too_slow", **more):
    return score(title, value, zero=0.0, goal=1.0, tag=tag, **more)


FIRST = RewardCandidate(reward=SPEED, env_args=ARGS, steps=1000)


def test_a_structure_against_the_lack_is_tried_beside_the_same_and_other_weights():
    made = next_candidate([iteration(1, earned(0.2))], {1: FIRST}, structures=[DOWN])
    assert made.reward == SPEED and len(made.variants) == VARIANTS
    assert [each.reward for each in made.variants] == [None, FALLS, None, None]
    assert reward_text(made, 1) != reward_text(made, 0) and "down" in weights_in(
        reward_text(made, 1)
    )
    assert "a reward that charges" in made.change


def test_a_structure_that_won_is_what_the_next_revision_starts_from():
    second = next_candidate([iteration(1, earned(0.2))], {1: FIRST}, structures=[DOWN])
    won = iteration(2, earned(0.4), parent=1).model_copy(update={"variant": 1})
    third = next_candidate([iteration(1, earned(0.2)), won], {1: FIRST, 2: second})
    assert third.reward == FALLS and third.variants[0].structure == ("down",)
    assert "down" in third.variants[0].weights and third.parent == 2


def test_a_training_whose_score_rose_to_the_end_is_given_more_steps():
    rows = [{"scores": {"a": 0.1 * n, "b": None}} for n in range(1, 7)]
    assert still_rises(rows, 0.7)
    assert not still_rises(rows, 0.41) and not still_rises(rows, None)
    assert not still_rises(rows[:1], 0.9) and not still_rises([{"scores": {"a": None}}] * 6, 0.9)
    parent, other = [iteration(1, earned(0.2))], {1: FIRST}
    assert next_candidate(parent, other).steps == int(LONGER * 1000)
    rising = next_candidate(parent, other, rises=True)
    assert rising.steps == int(LONGEST * 1000) and "still rising" in rising.change


def test_guards_are_mended_first_then_what_weighs_most():
    criteria = [
        Criterion(title="fast", quantity="", weight=3.0, tag="too_slow"),
        Criterion(title="smooth", quantity="", weight=1.0, tag="jitters"),
        Criterion(title="up", quantity="", weight=0.0, is_guard=True, tag="falls"),
        Criterion(title="straight", quantity="", weight=9.0, tag="drifts"),
    ]
    parent = iteration(
        1,
        earned(0.5, "fast"),
        earned(0.1, "smooth", "jitters"),
        earned(0.8, "up", "falls"),
        earned(1.0, "straight", "drifts"),
    )
    assert lacks(parent, criteria) == ("falls", "too_slow", "jitters")
    assert lacks(parent, []) == parent.tags


def test_a_wish_that_brings_a_reward_leaves_no_other_structure_beside_it():
    made = next_candidate([iteration(1, earned(0.2))], {1: FIRST}, structures=[DOWN])
    wished = apply_wishes(made, [Wish("gently", ("jitters",), SPEED + "\n# gently\n")], ["as told"])
    assert len(wished.variants) == len(made.variants) - 1
    assert all(each.reward is None and not each.structure for each in wished.variants)
    plain = apply_wishes(made, [Wish("gently", ("jitters",), None)], ["as told"])
    assert [each.reward for each in plain.variants] == [each.reward for each in made.variants]
    assert plain.variants[1].weights["control"] > made.variants[1].weights.get("control", 0.1)


def test_what_stands_in_the_way_is_left_out_when_less_of_it_did_not_help():
    slow = [iteration(1, earned(0.2)), iteration(2, earned(0.1), parent=1)]
    first = next_candidate(slow[:1], {1: FIRST})
    assert "without" not in first.change
    again = next_candidate(slow, {1: FIRST, 2: first})
    assert "without control" in again.change
    assert {"speed": 1.0, "control": 0.0} in [each.weights for each in again.variants]
    other = slow[1].model_copy(update={"tags": ("falls",)})
    assert "without" not in next_candidate([slow[0], other], {1: FIRST, 2: first}).change


@pytest.mark.parametrize(
    ("value", "rises", "warm"),
    [(0.7, False, True), (0.4, True, True), (0.4, False, False), (0.05, True, False)],
)
def test_policies_that_were_still_getting_better_go_on_instead_of_beginning_anew(
    value, rises, warm
):
    parent = [iteration(1, earned(value))]
    made = next_candidate(parent, {1: FIRST}, rises=rises)
    assert {each.warm for each in made.variants} == {warm}
