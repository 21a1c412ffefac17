"""Contract tests for environments."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from telic.envs.vector import VecEnv

_STEPS = 25


class EnvironmentContract:
    """Contract tests for every environment. See `telic.envs.vector.VecEnv`."""

    def make(self, num_envs: int, seed: int = 0) -> VecEnv:
        """Return environments of the tested kind."""
        raise NotImplementedError

    def test_shapes_and_dtypes(self) -> None:
        env = self.make(3)
        obs = env.reset()
        assert env.num_envs == 3 and env.obs_dim == env.spec.obs_dim
        _check_rows(obs, (3, env.obs_dim))
        step = env.step(_actions(env, 0))
        _check_rows(step.obs, (3, env.obs_dim))
        _check_rows(step.final_obs, (3, env.obs_dim))
        assert step.reward.shape == (3,) and step.reward.dtype == torch.float32
        for ending in (step.terminated, step.truncated):
            assert ending.shape == (3,) and ending.dtype == torch.bool
        assert (env.action_low <= env.action_high).all()
        env.close()

    def test_episodes_depend_only_on_the_seed(self) -> None:
        first, again = self._play(self.make(2, seed=5)), self._play(self.make(2, seed=5))
        assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
        env = self.make(2, seed=5)
        first = env.reset(seed=9)
        env.reset()
        assert torch.equal(env.reset(seed=9), first), "a seed restarts counting"
        env.close()

    def test_environments_of_a_batch_are_independent(self) -> None:
        alone, batch = self.make(1, seed=3), self.make(4, seed=3)
        assert torch.equal(alone.reset()[0], batch.reset()[0])
        for number in range(_STEPS):
            action = _actions(batch, number)
            one, many = alone.step(action[:1]), batch.step(action)
            for name in ("obs", "final_obs", "reward", "terminated", "truncated"):
                assert torch.equal(getattr(one, name)[0], getattr(many, name)[0]), name
        alone.close()
        batch.close()

    def test_autoreset_keeps_the_final_observation(self) -> None:
        env = self.make(2)
        limit = env.max_episode_steps
        if limit is None or limit > 2000:
            env.close()
            pytest.skip("its episodes have no reasonable time limit")
        env.reset()
        for number in range(limit + 1):
            step = env.step(_actions(env, number))
            done = step.terminated | step.truncated
            assert torch.equal(step.obs[~done], step.final_obs[~done])
            if done.any():
                break
        else:
            pytest.fail(f"no episode ended within {limit} steps")
        env.close()

    def test_saved_state_resumes_exactly(self) -> None:
        env = self.make(2)
        if not getattr(env, "resumable", True):
            env.close()
            pytest.skip("not resumable: a resumed run starts new episodes")
        env.reset()
        for number in range(_STEPS):
            env.step(_actions(env, number))
        other = self.make(2, seed=8)
        other.reset()
        other.load_state_dict(env.state_dict())
        for number in range(_STEPS, 2 * _STEPS):
            mine, theirs = env.step(_actions(env, number)), other.step(_actions(env, number))
            for name in ("obs", "final_obs", "reward", "terminated", "truncated"):
                assert torch.equal(getattr(mine, name), getattr(theirs, name)), name
        env.close()
        other.close()

    def _play(self, env: VecEnv) -> list[Tensor]:
        seen = [env.reset()]
        seen += [env.step(_actions(env, number)).obs for number in range(_STEPS)]
        env.close()
        return seen


def _actions(env: VecEnv, number: int) -> Tensor:
    """Return reproducible actions that differ between steps and environments."""
    rng = np.random.default_rng(number)
    if env.num_actions is not None:
        return torch.as_tensor(rng.integers(env.num_actions, size=env.num_envs))
    low, high = env.action_low.cpu().numpy(), env.action_high.cpu().numpy()
    drawn = rng.uniform(np.maximum(low, -1.0), np.minimum(high, 1.0), (env.num_envs, env.act_dim))
    return torch.as_tensor(drawn.astype(np.float32), device=env.device)


def _check_rows(rows: Tensor, shape: tuple[int, int]) -> None:
    assert tuple(rows.shape) == shape and rows.dtype == torch.float32
    assert bool(torch.isfinite(rows).all())
