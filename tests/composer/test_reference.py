"""Rewards and judges that follow a reference motion tell it from what looks like it."""

import pytest
import torch

from telic.authors.request import SessionConfig
from telic.composer.compose import compose
from telic.composer.reference import shown_motions
from telic.envs import make
from telic.errors import Refused, UnknownName, UsageError
from telic.judges.validation import GOOD, judge_problems, reward_problems, try_here
from telic.session import motion

BIPED, HUMANOID = "planar-biped", "Humanoid-v5"
WAVE = "wave with the right hand while walking"
SHORT_S = 2.4
"""a little more than two strides"""


@pytest.fixture(scope="module")
def specs():
    envs = {name: make(name, num_envs=1) for name in (BIPED, HUMANOID)}
    yield {name: env.spec for name, env in envs.items()}
    for env in envs.values():
        env.close()


def chosen(specs, intent, asked, env=BIPED):
    return motion.chosen(SessionConfig(intent=intent, env=env, motion=asked), specs[env])


def tried(specs, env, intent, reference):
    made = compose(intent, specs[env], None, reference)
    short = {**made.env_args, "max_episode_steps": round(SHORT_S / specs[env].dt_s)}
    shown = shown_motions(reference, SHORT_S)
    short_one = made.model_copy(update={"env_args": short, "motions": (), "shown": shown})
    found = try_here(env, short_one)
    return made, {each.name: each for each in found.examples}, (*made.fine, *found.fine)


@pytest.fixture(scope="module")
def waving(specs):
    return tried(specs, HUMANOID, WAVE, chosen(specs, WAVE, "walk_wave", HUMANOID))


def test_a_wave_while_walking_is_recognized_and_its_look_alikes_are_not(waving):
    _, results, fine = waving
    assert results[GOOD].score > 0.8  # too few strides to say that feet alternate
    for name in (
        "stands through the motion",
        "does not wave",
        "waves with the other hand",
        "holds its hand still",
        "stays where it is",
        "steps on the spot",
    ):
        assert results[name].score < 0.8, name
        assert results[name].pay < results[GOOD].pay, name
    assert not judge_problems(tuple(results.values()), fine, 0.8)
    assert not reward_problems(tuple(results.values()), fine)


def test_followed_motion_is_named_and_judged(waving):
    made = waving[0]
    assert any(
        "it follows the motion walk_wave: generated for this robot" in x for x in made.doubts
    )
    titles = [each.title for each in made.criteria]
    assert "moves as in the motion walk_wave" in titles
    assert (
        "waves its right hand at least 0.6 times per second" in titles
        and "stays where it is" not in titles
    )


def test_no_motion_is_used_unless_words_or_the_option_ask_for_it(specs):
    assert chosen(specs, "walk forward", None) is None
    assert chosen(specs, WAVE, None, HUMANOID) is None  # telic does not drive it by position
    assert chosen(specs, "walk forward", "none") is None
    assert torch.isclose(
        torch.tensor(chosen(specs, "walk forward at 0.6 m/s", "walk").forward_mps),
        torch.tensor(0.6),
        atol=0.1,
    )


def test_what_cannot_be_followed_is_refused_with_a_reason(specs):
    with pytest.raises(UnknownName, match="wave"):
        chosen(specs, "walk forward", "wave")  # it has no arms
    with pytest.raises(Refused, match="No motion can be followed"):
        chosen(specs, "walk forward, then do a backflip", "walk")
    with pytest.raises(UsageError, match="neither a motion library"):
        chosen(specs, "walk forward", "nowhere/walk-1")
    with pytest.raises(Exception, match="cannot be combined with --model"):
        SessionConfig(intent="walk", env=BIPED, motion="walk", model="host")
