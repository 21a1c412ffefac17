"""Words about a block: what they mean, what carries them, and what is refused."""

import pytest

from telic.composer.compose import compose
from telic.composer.observed import EXAMPLES, is_about_block
from telic.envs import make
from telic.errors import Refused
from telic.judges.validation import try_out
from tests.envs.test_block import arm  # noqa: F401 - a fixture


@pytest.fixture(scope="module")
def spec(arm):  # noqa: F811
    return make(arm(), num_envs=1).spec


@pytest.mark.parametrize(
    ("intent", "task", "title"),
    [
        ("Push the block to the goal.", "push", "brings the block within 0.04 m of the goal"),
        (
            "slide the cube along the table to the target",
            "push",
            "brings the block within 0.04 m of the goal",
        ),
        ("push the block", "push", "brings the block within 0.04 m of the goal"),
        (
            "Pick up the block and lift it to the goal.",
            "pick",
            "brings the block within 0.04 m of the goal",
        ),
        (
            "grab the cube, carry it to the goal and hold it there",
            "pick",
            "keeps it there at least 40% of the time",
        ),
        ("lift the block", "pick", "lifts the block 0.15 m"),
        ("lift the box 20 cm off the table", "pick", "lifts the block 0.2 m"),
        ("pick the block up without dropping it", "pick", "holds it"),
    ],
)
def test_words_decide_the_task_and_all_of_them_are_carried(spec, intent, task, title):
    made = compose(intent, spec)
    assert made.env_args["task"] == task
    assert title in [criterion.title for criterion in made.criteria]
    assert not made.not_understood and not made.dropped
    assert "Block()" in made.reward


def test_open_or_unknown_parts_are_reported(spec):
    assert "no height is given" in compose("lift the block", spec).doubts[0]
    assert "no target is given" in compose("push the block", spec).doubts[0]
    assert compose("push the block to the goal like a cat", spec).not_understood == ("like a cat",)
    quick = compose("push the block to the goal quickly", spec)
    assert "is done in the first 40% of the time" in [
        criterion.title for criterion in quick.criteria
    ]


@pytest.mark.parametrize(
    "intent", ["don't push the block to the goal", "never lift the block", "lift the block 2 m"]
)
def test_the_opposite_and_the_impossible_are_refused(spec, intent):
    with pytest.raises(Refused):
        compose(intent, spec)


@pytest.mark.parametrize(
    "intent",
    [
        EXAMPLES[1],
        pytest.param(EXAMPLES[0], marks=pytest.mark.slow),
        pytest.param("lift the block", marks=pytest.mark.slow),
    ],
)
def test_no_failure_mode_passes_for_a_gait(arm, spec, intent, tmp_path):  # noqa: F811
    made = compose(intent, spec)
    args = {**made.env_args, "max_episode_steps": 60}
    trial = try_out(arm(), made.model_copy(update={"env_args": args}), 0.7, tmp_path)
    assert trial.was_run and not trial.judge_problems and not trial.reward_problems
    assert all(example.score is not None and example.score < 0.3 for example in trial.examples)


def test_task_of_a_foreign_class_is_not_built_in(spec):
    other = spec.model_copy(update={"arguments": {"task": "push-v2"}})
    assert not is_about_block("push the block to the goal", other)
    assert is_about_block("push the block to the goal", spec)
    assert not is_about_block("push off the ground", spec)
