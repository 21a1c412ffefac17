"""The phase variable that gaits observe."""

import math

import numpy as np
import torch

import telic


def test_the_phase_turns_with_simulated_time_and_starts_over_with_each_episode():
    env = telic.make("Hopper-v5", num_envs=3, seed=0, phase_hz=1.5, max_episode_steps=20)
    plain = telic.make("Hopper-v5", num_envs=3, seed=0, max_episode_steps=20)
    obs, without = env.reset(), plain.reset()
    assert env.spec.obs_names == (*plain.spec.obs_names, "phase_sin", "phase_cos")
    age = np.zeros(3)
    for _ in range(50):
        assert torch.equal(obs[:, :-2], without)
        angle = 2.0 * math.pi * 1.5 * 0.008 * age
        np.testing.assert_allclose(
            obs[:, -2:], np.stack((np.sin(angle), np.cos(angle)), 1), atol=1e-5
        )
        step = env.step(torch.zeros(3, 3))
        obs, without = step.obs, plain.step(torch.zeros(3, 3)).obs
        age = np.where(step.terminated | step.truncated, 0, age + 1)
    assert (age < 50).all()
