"""Notes are followed where the composer understands them, and refused where it does not."""

import pytest

from telic.authors.candidate import RewardCandidate, Variant, weights_in
from telic.authors.composer import apply_requests
from telic.composer.compose import compose
from telic.composer.notes import read_request
from telic.envs import make
from telic.errors import NotUnderstood
from telic.rewards.probe import probe
from telic.rewards.reward import load_reward
from telic.session.control import check_note
from tests.composer.specs import spec_of
from tests.session.sessions import make_session

APPLIED = [
    ("HalfCheetah", "run forward", "faster", "too_slow"),
    ("HalfCheetah", "run forward", "a bit slower please", "too_fast"),
    ("HalfCheetah", "run forward", "too slow", "too_slow"),
    ("HalfCheetah", "run forward", "less shaking", "jitters"),
    ("HalfCheetah", "run forward", "less bouncing please", "too_high"),
    ("HalfCheetah", "run forward", "use less energy", "jitters"),
    ("HalfCheetah", "run forward", "it keeps falling over", "falls"),
    ("HalfCheetah", "run forward", "Keep the torso upright.", "falls"),
    ("Hopper", "jump as high as possible", "higher", "too_low"),
    ("Ant", "walk forward", "smoother and straighter", "drifts"),
    ("Ant", "walk forward", "more symmetric", "one_sided"),
    ("Ant", "walk forward", "don't turn", "drifts"),
]
UNREAD = [
    ("HalfCheetah", "run forward", "make it purple", "purple"),
    ("HalfCheetah", "run forward", "I don't like it", "like"),
    ("HalfCheetah", "run forward", "better", "better"),
    ("HalfCheetah", "run forward", "like a gazelle", "gazelle"),
    ("HalfCheetah", "run forward", "do a backflip", "a different behavior"),
    ("HalfCheetah", "run forward", "stop moving", "cannot both be done"),
    ("Ant", "walk forward", "without moving forward", "cannot both be done"),
]


@pytest.mark.parametrize(("robot", "intent", "note", "tag"), APPLIED, ids=[e[2] for e in APPLIED])
def test_a_note_is_read_by_the_grammar_of_intents(robot, intent, note, tag):
    assert tag in read_request(note, intent, spec_of(f"{robot}-v5")).tags


@pytest.mark.parametrize(("robot", "intent", "note", "why"), UNREAD, ids=[e[2] for e in UNREAD])
def test_unusable_note_is_refused_with_a_list_of_usable_ones(robot, intent, note, why):
    with pytest.raises(NotUnderstood, match=why) as caught:
        read_request(note, intent, spec_of(f"{robot}-v5"))
    assert "Supported: faster" in str(caught.value)


def revised(robot, intent, note):
    made = compose(intent, spec_of(f"{robot}-v5"))
    own = weights_in(made.reward)
    before = RewardCandidate(
        reward=made.reward,
        env_args=made.env_args,
        steps=1000,
        variants=(Variant(weights=own, warm=True),),
        change="the same for longer",
    )
    wish = read_request(note, intent, spec_of(f"{robot}-v5"))
    return before, apply_requests(before, [wish], [f"as {note}"])


def test_a_note_adds_terms_and_the_reward_still_runs():
    before, after = revised("HalfCheetah", "run forward", "less shaking")
    assert "smooth" in weights_in(after.reward) and "smooth" not in weights_in(before.reward)
    assert after.change == "the same for longer; as less shaking"
    assert after.env_args == before.env_args and not after.variants[0].warm
    env = make("HalfCheetah-v5", num_envs=4, **after.env_args)
    assert probe(load_reward(after.reward), env, transitions=32).mode == "batched"
    env.close()


def test_a_note_that_adds_nothing_new_changes_weights():
    before, after = revised("Hopper", "jump as high as possible", "higher")
    assert after.reward == before.reward and after.variants[0].warm
    was, now = before.variants[0].weights, after.variants[0].weights
    assert now["height"] > was["height"] and now["control"] < was["control"]


def test_a_session_refuses_a_note_when_it_is_made(tmp_path):
    folder = make_session(tmp_path)
    check_note(folder, "faster")
    with pytest.raises(NotUnderstood, match="purple"):
        check_note(folder, "make it purple")
