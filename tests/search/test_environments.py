"""The ten tasks: equal to Gymnasium where it has them, and to their rules where it has not."""

import gymnasium
import numpy as np
import pytest

import telic
from telic.envs.simulators.names import permit_env
from telic.errors import ConfigError
from telic.search import worlds as grid
from telic.search.policies import make_policy
from telic.search.task import Player, PolicyTrial, rollout_seeds
from telic.search.worlds import TASKS, find_task, make_world

SEEDS = rollout_seeds(3, 40)


def player(name, *, cap=None, clips=True):
    task = find_task(name)
    policy = make_policy(None, task, is_scaled=True, seed=0, decimals=2)
    return Player(task, make_world(task), policy, cap=cap, clips=clips), policy


@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0"])
def test_classic_tasks_step_as_gymnasium_does(name):
    world, task = make_world(find_task(name)), find_task(name)
    rng = np.random.default_rng(0)
    for seed in SEEDS[:4]:
        theirs = gymnasium.make(name).unwrapped
        theirs.reset(seed=0)
        obs = world.start(np.array([seed]))
        theirs.state = np.array(world._state[:, 0] if name[0] == "C" else [world._place[0], 0.0])
        for _ in range(200):
            action = (
                rng.uniform(-1.5, 1.5, (1, 1))
                if task.is_continuous
                else rng.integers(len(task.actions), size=1)
            )
            moved = world.step(action)
            given = action[0] if task.is_continuous else int(action[0])
            obs, reward, terminated, _, _ = theirs.step(given)
            assert moved.obs[0] == pytest.approx(obs, abs=1e-6)
            assert moved.reward[0] == pytest.approx(reward)
            assert moved.terminated[0] == terminated
            if terminated:
                break


def test_the_frozen_lake_has_gymnasiums_transitions():
    ours, theirs = grid.frozen_lake(), gymnasium.make("FrozenLake-v1").unwrapped.P
    for state in range(16):
        for action in range(4):
            listed = theirs[state][action]
            expected = sorted(each[1] for each in listed) * (1 if len(listed) == 3 else 3)
            assert sorted(ours.following[state, action]) == sorted(expected)
            for _, following, reward, terminated in listed:
                if not ours.ending[state]:
                    assert ours.reward[following] == reward
                    assert ours.ending[following] == terminated


def test_physics_plays_the_episodes_that_telic_make_plays():
    task = find_task("InvertedPendulum-v5")
    world = make_world(task)
    obs = world.start(SEEDS[:1])
    env = telic.make(task.id, num_envs=1)
    env.reset(seed=[int(SEEDS[0] >> np.uint64(33))])
    import torch

    total, action = 0.0, np.array([[0.3]])
    assert obs[0] == pytest.approx(env.exact_obs.numpy()[0])
    for _ in range(50):
        moved, theirs = world.step(action), env.step(torch.from_numpy(action))
        assert moved.obs[0] == pytest.approx(env.exact_final_obs.numpy()[0])
        assert moved.reward[0] == float(env.exact_reward[0])
        assert bool(moved.terminated[0]) == bool(theirs.terminated[0])
        total += moved.reward[0]
        if moved.terminated[0]:
            break
    assert 1 < total < 50


@pytest.mark.parametrize("name", [n for n in TASKS if n != "Swimmer-v5"])
def test_an_episode_is_the_same_in_whatever_company(name):
    plays, policy = player(name)
    rng = np.random.default_rng(1)
    params = np.stack([policy.draw(rng) for _ in range(5)])
    seeds = np.stack([rollout_seeds(n, 3) for n in range(5)])
    (together,) = plays.play([PolicyTrial(params, seeds)])
    alone = [plays.play([PolicyTrial(params[i : i + 1], seeds[i : i + 1])])[0] for i in range(5)]
    assert np.array_equal(together.returns, np.concatenate([each.returns for each in alone]))
    assert np.array_equal(together.lengths, np.concatenate([each.lengths for each in alone]))


class Point(gymnasium.Env):
    """A point that is pushed to the origin; its actions have unequal limits."""

    observation_space = gymnasium.spaces.Box(-5.0, 5.0, (2,))
    action_space = gymnasium.spaces.Box(np.float32([-1, -2]), np.float32([1, 3]))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = self.np_random.uniform(-1, 1, 2), 0
        return self.place.astype(np.float32), {}

    def step(self, action):
        assert self.action_space.contains(np.float32(action))
        self.place = np.clip(self.place + 0.1 * np.asarray(action), -5, 5)
        self.steps += 1
        seen, reward = self.place.astype(np.float32), -float(np.abs(self.place).sum())
        return seen, reward, False, self.steps >= 20, {}


def test_any_environment_of_gymnasium_or_the_user_is_a_task():
    with pytest.raises(ConfigError, match="--target"):
        find_task("Pendulum-v1")
    permit_env(f"{__name__}:Point")
    task = find_task(f"{__name__}:Point", -1.0)
    assert (task.target, task.solved, task.worst < -1.0) == (-1.0, -1.0, True)
    policy = make_policy(None, task, is_scaled=True, seed=0, decimals=2)
    play = Player(task, make_world(task), policy, cap=None, clips=True).play
    params = np.zeros((2, policy.space.rank))
    params[1, :] = 6.0  # is cut to the limits
    both = play([PolicyTrial(params, np.stack([SEEDS[:3]] * 2))])[0]
    again = play([PolicyTrial(params[1:], SEEDS[None, 1:3])])[0]
    assert (both.lengths == 20).all() and both.returns[1, 1:] == pytest.approx(again.returns[0])
    assert find_task("Acrobot-v1").actions == ("torque -1", "torque 0", "torque +1")
