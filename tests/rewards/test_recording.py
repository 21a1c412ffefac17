import torch

from telic.envs import make
from telic.rewards.recording import collect


def test_a_recording_has_several_episodes_and_no_action_at_its_end():
    env = make("HalfCheetah-v5", num_envs=8, seed=0)
    recording = collect(env, transitions=128)
    assert (recording.num_envs, len(recording.transitions)) == (8, 16)
    starts = [bool(m.info["episode_start"].all()) for m in recording.transitions]
    assert [t for t, begins in enumerate(starts) if begins] == [0, 8, 12]
    ends = [bool(m.ended.all()) for m in recording.transitions]
    assert [t for t, end in enumerate(ends) if end] == [7, 11, 15]
    assert all(bool(m.action.any()) == (t < 12) for t, m in enumerate(recording.transitions))
    # the second part is from later on, away from the start
    assert recording.transitions[8].info["time"].min() > 2.0
    env.close()


def test_few_environments_are_folded_into_more():
    env = make("HalfCheetah-v5", num_envs=1, seed=0)
    recording = collect(env, transitions=64)
    assert recording.num_envs == 8
    first, last = recording.transitions[0], recording.transitions[-1]
    assert first.info["episode_start"].all()
    assert last.ended.all()
    assert first.obs.shape == (8, 17)
    assert first.info.body("torso").xpos.shape == (8, 3)
    env.close()


def test_discrete_actions_are_drawn_from_their_range():
    env = make("CartPole-v1", num_envs=4, seed=0)
    actions = torch.stack([moment.action for moment in collect(env, 64).transitions])
    assert set(actions.flatten().tolist()) == {0, 1}
    env.close()
