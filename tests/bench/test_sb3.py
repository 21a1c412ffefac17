"""Stable-Baselines3 on our environments (benchmarks/sb3.py): same steps, same policy."""

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

import telic
from telic.training.plan import plan
from telic.training.policy import load_policy, save_policy
from telic.training.setup import build_setup, make_env
from tests.bench.test_speed_scripts import script

sb3 = script("sb3")

SMALL = {"num_envs": 2, "horizon": 32, "minibatch_size": 32, "epochs": 1, "hidden": (8,)}

UPRIGHT = """
def reward_fn(obs, action, next_obs, info):
    upright, effort = 2.0 - abs(next_obs[1]), -0.1 * float(action[0]) ** 2
    return upright + effort, {"upright": upright, "effort": effort}
"""


def small_job(env="InvertedPendulum-v5", rewards=(UPRIGHT,), **changes):
    asked = {
        "steps": 128,
        "seeds": (1,),
        "settings": SMALL,
        "evaluations": 2,
        "eval_episodes": 2,
        "env_args": {"max_episode_steps": 20},
        "threads": 1,
        **changes,
    }
    return plan(env, reward=list(rewards), **asked)


def parts(job, *, native=False, stagger=False):
    solo = sb3.solo(job)
    env = make_env(solo, job.settings.num_envs, [solo.members[0].seed])
    setup = build_setup(solo, sb3.probed_rewards(job), env)
    env = sb3.BatchedEnv(setup.env, setup.scoring, setup.tracker, native=native, stagger=stagger)
    return setup, env


# ---------------------------------------------------------------------------- conversion


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(
    ("env", "native"),
    [("InvertedPendulum-v5", False), ("InvertedPendulum-v5", True), ("CartPole-v1", True)],
)
def test_a_converted_policy_acts_as_stable_baselines3_predicts(env, native, normalize, tmp_path):
    settings = {**SMALL, "normalize_obs": normalize, "activation": "elu", "hidden": (16, 8)}
    job = small_job(env, rewards=[None], settings=settings)
    setup, batched = parts(job, native=native)
    settings = job.members[0].settings
    model = PPO(
        "MlpPolicy", sb3.normalized(batched, settings), device="cpu", **sb3.ppo_arguments(settings)
    )
    random, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=generator)
    if normalize:
        model.env.obs_rms.mean = random.normal(size=4)
        model.env.obs_rms.var = random.uniform(0.1, 4.0, size=4)
    sb3.adopt(setup.population, model)
    facts = {"obs_names": ["o"] * 4, "env": env}
    low, high = setup.env.action_low, setup.env.action_high
    save_policy(tmp_path / "policy.pt", setup.population, 0, low, high, facts)
    # Beyond ten deviations too: where nothing is normalized, nothing may be clipped either.
    obs = (random.normal(size=(200, 4)) * np.repeat([1.0, 30.0], 100)[:, None]).astype(np.float32)
    seen = model.env.normalize_obs(obs) if isinstance(model.env, VecNormalize) else obs
    expected, _ = model.predict(seen, deterministic=True)
    reach = 3.0 if env != "CartPole-v1" and not native else 1.0  # the pendulum's range
    expected = expected * reach
    got = load_policy(tmp_path / "policy.pt")(obs)
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= 1e-5 * reach


# ---------------------------------------------------------------------------- settings


# ---------------------------------------------------------------------------- environments


def test_the_adapter_gives_the_same_steps_as_the_environment_and_its_reward():
    job = small_job(env_args={"max_episode_steps": 5})
    setup, batched = parts(job)
    twin = telic.make("InvertedPendulum-v5", num_envs=2, seed=[1], max_episode_steps=5)
    reward = sb3.probed_rewards(job)[0]
    reward.start(2, "cpu")
    obs = twin.reset()
    assert np.array_equal(batched.reset(), obs.numpy())
    random = np.random.default_rng(0)
    ends = []
    for _ in range(12):
        action = random.uniform(-0.02, 0.02, (2, 1)).astype(np.float32)
        seen, rewards, dones, infos = batched.step(action)
        step = twin.step(torch.from_numpy(action) * 3.0)
        expected = reward(obs, torch.from_numpy(action) * 3.0, step.final_obs, step.info).total
        assert np.allclose(rewards, expected.numpy())
        assert np.array_equal(seen, step.obs.numpy())
        done = (step.terminated | step.truncated).numpy()
        assert np.array_equal(dones, done)
        for row in range(2):
            if done[row]:
                assert np.array_equal(infos[row]["terminal_observation"], step.final_obs[row])
                assert infos[row]["TimeLimit.truncated"] == bool(step.truncated[row])
                ends.append(infos[row]["TimeLimit.truncated"])
            else:
                assert infos[row] == {}
        obs = step.obs
    assert ends == [True] * 4
    assert setup.tracker.finished == [4]
    assert [each.length for each in setup.tracker.recent[0]] == [5] * 4


def test_a_training_writes_a_policy_and_says_how_good_it_is(tmp_path):
    job = small_job()
    mean = sb3.train(job, tmp_path / "policy.pt", native=False)
    assert np.isfinite(mean)
    assert load_policy(tmp_path / "policy.pt")(np.zeros(4)).shape == (1,)
