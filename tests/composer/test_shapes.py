"""Other structures of a reward: they run, they teach otherwise, and what is judged stays."""

from functools import lru_cache

import pytest

from telic.authors.candidate import program_text, same_memory, weights_in
from telic.authors.composer import _EDITS
from telic.composer.compose import _compose, compose, reshaped
from telic.composer.reader import parse
from telic.composer.shapes import SHAPES
from telic.envs import make
from telic.rewards.probe import probe
from telic.rewards.reward import load_reward

INTENTS = {
    "Hopper": ["hop in place", "jump as high as possible"],
    "Walker2d": ["walk backward slowly", "stand on one leg", "walk 3 m forward", "run forward"],
    "HalfCheetah": ["gallop forward", "walk forward, then stop"],
    "Swimmer": ["swim backward at 0.1 m/s"],
    "Reacher": ["reach the target"],
    "Ant": ["hop in place", "trot forward"],
}
EVERY = [(robot, intent) for robot, intents in INTENTS.items() for intent in intents]


@lru_cache
def spec_of(robot):
    env = make(f"{robot}-v5", num_envs=1)
    env.close()
    return env.spec


def others(robot, intent):
    own = reshaped(intent, spec_of(robot), ())
    texts = {name: reshaped(intent, spec_of(robot), (name,)) for name in SHAPES}
    return {name: text for name, text in texts.items() if program_text(text) != program_text(own)}


@pytest.mark.parametrize(("robot", "intent"), EVERY)
def test_without_a_shape_a_reward_is_as_it_was_written(robot, intent):
    assert reshaped(intent, spec_of(robot), ()) == compose(intent, spec_of(robot)).reward


@pytest.mark.parametrize(("robot", "intent"), EVERY)
def test_a_shape_leaves_judge_and_episodes_alone(robot, intent):
    """A judge that counts on a fall ending the episode would pass a robot that lies there."""
    spec = spec_of(robot)
    parsed = parse(intent, spec)
    plain = _compose(parsed, spec)
    for name in SHAPES:
        made = _compose(parsed, spec, shapes=(name,))
        assert (made.judge, made.env_args) == (plain.judge, plain.env_args)
        assert (made.criteria, made.motions) == (plain.criteria, plain.motions)


@pytest.mark.parametrize("robot", INTENTS)
def test_every_structure_runs_for_many_environments_at_once(robot):
    for intent in INTENTS[robot]:
        found = others(robot, intent)
        assert len(found) >= 2, intent
        # All that go together, in one file: names must not get in each other's way.
        text = reshaped(intent, spec_of(robot), tuple(found))
        env = make(f"{robot}-v5", num_envs=4)
        assert probe(load_reward(text), env, transitions=16).mode == "batched"
        env.close()


def test_a_gait_is_taught_with_a_clock_or_without():
    found = others("Walker2d", "walk backward slowly")["pattern"]
    assert "rhythm" not in weights_in(found) and "beat" not in found
    assert {"pattern", "grounded"} <= set(weights_in(found))
    own = reshaped("walk backward slowly", spec_of("Walker2d"), ())
    assert not same_memory(own, found)
    assert same_memory(own, others("Walker2d", "walk backward slowly")["down"])


def test_what_shall_be_low_is_not_charged_for_being_down():
    for intent in ("crouch", "lie down", "do a backflip"):
        spec = spec_of("Walker2d" if intent == "crouch" else "HalfCheetah")
        own = reshaped(intent, spec, ())
        assert reshaped(intent, spec, ("down",)) == reshaped(intent, spec, ("tall",)) == own


def test_shapes_are_against_lacks_that_have_weights_to_change_as_well():
    assert {tag for shape in SHAPES.values() for tag in shape.against} <= set(_EDITS)
