"""Environments and rewards of telic are at home in other libraries."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import telic
import telic.gym
from telic.errors import Refused

REWARD = """
from telic import RewardFunction

class Fast(RewardFunction):
    weights = {"speed": 2.0}

    def compute(self, obs, action, next_obs, info):
        speed = self.weights["speed"] * info["x_velocity"]
        return speed, {"speed": speed}

    latex = "r = w v_x"
    terms = {"speed": "forward velocity"}
"""
LIMIT = {"max_episode_steps": 20}


@pytest.fixture
def reward(tmp_path):
    path = tmp_path / "reward.py"
    path.write_text(REWARD)
    return path


@pytest.mark.filterwarnings("ignore:.*(infinity|symmetric).*:UserWarning")
@pytest.mark.parametrize("name", ["HalfCheetah-v5", "InvertedPendulum-v5"])
def test_an_environment_passes_gymnasiums_own_checker(name):
    env = gymnasium.make(f"telic/{name}")
    check_env(env.unwrapped, skip_render_check=True)
    peer = gymnasium.make(name)
    assert env.observation_space.shape == peer.observation_space.shape
    assert np.array_equal(env.action_space.low, peer.action_space.low)


def test_a_batch_steps_as_telics_own_and_ended_episodes_show_their_last_observation():
    envs = gymnasium.make_vec("telic/Hopper-v5", num_envs=4, **LIMIT)
    counted = RecordEpisodeStatistics(envs)
    own = telic.make("Hopper-v5", num_envs=4, **LIMIT)
    obs, _ = counted.reset(seed=3)
    assert np.array_equal(obs, own.reset(3).numpy())
    chance, ended, returns = np.random.default_rng(0), 0, []
    for _ in range(25):
        action = chance.uniform(-1, 1, (4, 3)).astype(np.float32)
        obs, rewards, terminated, truncated, info = counted.step(action)
        step = own.step(telic.gym.from_numpy(action))
        assert np.array_equal(obs, step.obs.numpy()) and np.array_equal(rewards, step.reward)
        for row in np.flatnonzero(terminated | truncated):
            ended += 1
            assert np.array_equal(info["final_obs"][row], step.final_obs[row])
            returns.append(info["episode"]["r"][row])
    assert ended >= 4 and np.isfinite(returns).all()


def test_the_reward_of_a_file_replaces_the_environments_own(reward):
    env = gymnasium.make("telic/HalfCheetah-v5", reward=str(reward))
    env.reset(seed=1)
    for _ in range(5):
        _, value, _, _, info = env.step(env.action_space.sample())
        assert value == pytest.approx(2.0 * info["x_velocity"]) == info["reward_speed"]


def test_the_reward_of_a_run_runs_here_only_when_it_is_trusted(reward, tmp_path):
    runs = tmp_path / "runs"
    run = telic.train(
        "HalfCheetah-v5", reward=str(reward), steps=2048, runs_dir=runs, videos="none"
    )
    with pytest.raises(Refused, match="have not approved"):
        gymnasium.make("telic/session", session=run.path)
    env = gymnasium.make("telic/session", session=run.path, trust=True)
    env.reset(seed=0)
    assert "reward_speed" in env.step(env.action_space.sample())[4]


def test_stable_baselines3_trains_on_a_batch(reward):
    sb3 = pytest.importorskip("stable_baselines3")
    envs = telic.gym.sb3_envs("HalfCheetah-v5", 4, reward=str(reward), **LIMIT)
    model = sb3.PPO("MlpPolicy", envs, n_steps=32, batch_size=64, n_epochs=1, seed=1, device="cpu")
    model.learn(256)
    assert model.num_timesteps == 256
    assert len(model.ep_info_buffer) == 0 and envs.get_attr("num_envs") == [4] * 4


def test_rsl_rl_trains_on_a_batch():
    runners = pytest.importorskip("rsl_rl.runners")
    envs = telic.gym.rsl_rl_envs("HalfCheetah-v5", 8, **LIMIT)
    network = {"class_name": "MLPModel", "hidden_dims": [16], "activation": "elu"}
    network["obs_normalization"] = True
    gaussian = {"class_name": "GaussianDistribution", "init_std": 0.6}
    config = {
        "algorithm": {"class_name": "PPO", "num_learning_epochs": 1, "num_mini_batches": 2},
        "actor": {**network, "distribution_cfg": gaussian},
        "critic": network,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "num_steps_per_env": 8,
        "save_interval": 100,
    }
    runner = runners.OnPolicyRunner(envs, config, log_dir=None, device="cpu")
    runner.learn(2)
    assert runner.current_learning_iteration >= 1
