import sys

import gymnasium
import numpy as np
import pytest
import torch

from telic import quantities as q
from telic.core.seeds import derive
from telic.envs import make
from telic.errors import BadEnvironment, UsageError

OWN = '''
import gymnasium
import numpy as np
from gymnasium import spaces


class Counter(gymnasium.Env):
    """Counts up to a limit that grows by one every episode."""

    def __init__(self, step_size=1, observe="box", act="discrete"):
        self.step_size = step_size
        self.observation_space = {
            "box": spaces.Box(-9, 9, (2,), np.float64),
            "grid": spaces.Box(-9, 9, (2, 3), np.float32),
            "dict": spaces.Dict(a=spaces.Discrete(3), b=spaces.MultiBinary(2)),
            "image": spaces.Box(0, 255, (8, 8, 3), np.uint8),
            "text": spaces.Text(5),
            "wrong": spaces.Box(-9, 9, (5,)),
        }[observe]
        self.observe = observe
        self.action_space = {
            "discrete": spaces.Discrete(3, start=5),
            "box": spaces.Box(-2, 2, (2, 2), np.float64),
            "unbounded": spaces.Box(-np.inf, np.inf, (1,)),
            "multi": spaces.MultiDiscrete([2, 2]),
        }[act]
        self.limit, self.count, self.last = 1, 0, None

    def look(self):
        return {
            "box": np.array([self.count, self.limit], dtype=float),
            "wrong": np.array([self.count, self.limit], dtype=float),
            "grid": np.arange(6, dtype=np.float32).reshape(2, 3),
            "dict": {"a": self.count % 3, "b": np.array([1, 0], dtype=np.int8)},
        }.get(self.observe)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.limit = 0, self.limit + 1
        return self.look(), {}

    def step(self, action):
        self.last = action
        self.count += self.step_size
        given = float(np.sum(action))
        info = {"count": self.count, "pair": np.array([1.0, self.count]), "word": "no"}
        if self.count > 1:
            info["late"] = 1.0
        return self.look(), given, self.count >= self.limit, False, info


class Drawn(Counter):
    """Draws from a generator that no seed reaches."""

    def look(self):
        return np.random.default_rng().normal(size=2)


class Old(Counter):
    """Follows the interface of the old gym package."""

    def step(self, action):
        return super().step(action)[:4]


def factory(step_size=1):
    return Counter(step_size=step_size)
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of the user's own in the present folder."""
    (tmp_path / "my_envs.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    yield "my_envs"
    sys.modules.pop("my_envs", None)


def actions_for(env, count, seed=0):
    random = torch.Generator().manual_seed(seed)
    if env.num_actions is not None:
        return torch.randint(env.num_actions, (count, env.num_envs), generator=random)
    unit = torch.rand(count, env.num_envs, env.act_dim, generator=random)
    return env.action_low + unit * (env.action_high - env.action_low)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "MountainCarContinuous-v0"])
def test_rows_equal_gymnasium_played_by_hand(name):
    env = make(name, num_envs=3, seed=7, max_episode_steps=30)
    peers = [gymnasium.make(name, max_episode_steps=30) for _ in range(3)]
    obs = env.reset()
    for i, peer in enumerate(peers):
        expected, _ = peer.reset(seed=derive(7, "env", i))
        assert torch.equal(obs[i], torch.as_tensor(expected, dtype=torch.float32))
    episodes = [0, 0, 0]
    for action in actions_for(env, 80):
        step = env.step(action)
        for i, peer in enumerate(peers):
            native = action[i].item() if env.num_actions else action[i].numpy()
            expected, reward, terminated, truncated, _ = peer.step(native)
            assert torch.equal(step.final_obs[i], torch.as_tensor(expected, dtype=torch.float32))
            assert step.reward[i].item() == np.float32(reward)
            assert (step.terminated[i], step.truncated[i]) == (terminated, truncated)
            if terminated or truncated:
                episodes[i] += 1
                expected, _ = peer.reset(seed=derive(derive(7, "env", i), "episode", episodes[i]))
            assert torch.equal(step.obs[i], torch.as_tensor(expected, dtype=torch.float32))
    assert sum(episodes) >= 6


def test_members_of_a_population_do_not_depend_on_their_neighbors():
    alone = make("CartPole-v1", num_envs=2, seed=5)
    among = make("CartPole-v1", num_envs=6, seed=(1, 5, 2))
    assert torch.equal(alone.reset(), among.reset()[2:4])
    action = torch.tensor([0, 1])
    for _ in range(60):
        everyone = torch.cat((action, action, action))
        assert torch.equal(alone.step(action).obs, among.step(everyone).obs[2:4])


def test_info_describes_the_state_before_the_new_episode():
    env = make("CartPole-v1", num_envs=4, seed=1)
    env.reset()
    for _ in range(100):
        step = env.step(torch.ones(4, dtype=torch.int64))
        assert torch.allclose(step.info["state"], step.final_obs)
        if step.terminated.any():
            break
    assert step.terminated.any()
    ended = step.terminated
    assert not torch.equal(step.obs[ended], step.final_obs[ended])
    assert (step.info["state"][ended][:, 2].abs() > 0.2).all()
    after = env.step(torch.ones(4, dtype=torch.int64))
    assert torch.equal(after.info["episode_start"], ended)
    assert torch.allclose(after.info["time"][ended], torch.tensor(0.02))
    env.step(torch.ones(4, dtype=torch.int64))
    with pytest.raises(UsageError, match="had advanced"):
        after.info["state"]


def test_other_mujoco_environments_offer_bodies_and_quantities():
    env = make("Pusher-v5", num_envs=2)
    env.reset()
    step = env.step(torch.zeros(2, 7))
    assert step.info["xpos"].shape == (2, len(env.spec.body_names), 3)
    assert step.info.body("goal").xpos.shape == (2, 3)
    expected = (step.info.body("tips_arm").xpos - step.info.body("goal").xpos).norm(dim=1)
    assert torch.allclose(q.distance_to_target(step.info), expected)
    assert step.info["reward_dist"].shape == (2,)
    old = make("HalfCheetah-v4", num_envs=1)
    assert old.spec.obs_names[:3] == ("rootz", "rooty", "bthigh")
    assert old.spec.feet == ("bfoot", "ffoot")


def test_a_class_of_the_users_own_is_found_by_module_file_or_factory(own):
    for name in (f"{own}:Counter", "my_envs.py:Counter", f"{own}:factory"):
        env = make(name, num_envs=2, step_size=3)
        env.reset()
        assert env.step(torch.tensor([0, 2])).info["count"].tolist() == [3.0, 3.0]


def test_spaces_are_flattened_with_names(own):
    grid = make(f"{own}:Counter", num_envs=1, observe="grid", act="box")
    assert grid.reset().tolist() == [[0, 1, 2, 3, 4, 5]]
    assert grid.act_dim == 4
    grid.step(torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
    assert grid._cores[0].last.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    parts = make(f"{own}:Counter", num_envs=1, observe="dict")
    assert parts.spec.obs_names == ("a_0", "a_1", "a_2", "b_0", "b_1")
    assert parts.reset().tolist() == [[1, 0, 0, 1, 0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observe": "image"}, "image observations"),
        ({"observe": "text"}, "Text"),
        ({"observe": "wrong"}, r"shape \(2,\)"),
        ({"act": "multi"}, "MultiDiscrete"),
        ({"speed": 3}, "speed"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(own, arguments, message):
    with pytest.raises(BadEnvironment, match=message):
        make(f"{own}:Counter", num_envs=1, **arguments)


@pytest.mark.parametrize("kind", ["Drawn", "Counter"])
def test_an_environment_whose_episodes_cannot_be_repeated_starts_new_ones(own, kind):
    """Drawn differs at once; Counter remembers earlier episodes."""
    env = make(f"{own}:{kind}", num_envs=1)
    for _ in range(2):
        env.reset()
    env.load_state_dict(env.state_dict())
    assert not env.resumable
    env.step(torch.tensor([0]))


def test_unbounded_actions_are_scaled_with_a_note(own):
    env = make(f"{own}:Counter", num_envs=1, act="unbounded")
    assert (env.action_low.item(), env.action_high.item()) == (-1.0, 1.0)
    assert any("no bounds" in note for note in env.spec.notes)
