"""Contract tests for simulator adapters, run through their process and shared memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
import torch

from telic.envs.simulators.env import SimulatorEnv, make_simulated
from telic.envs.simulators.names import permit_env
from telic.errors import ConfigError, UsageError
from telic.testing.contracts import EnvironmentContract


class SimulatorContract(EnvironmentContract):
    """Contract tests for simulator environments. See `telic.envs.simulators.server`."""

    env: ClassVar[str]
    """id of the environment under test, e.g. mjlab:TASK"""
    python: ClassVar[str | None] = None
    """Python executable of the simulator, or None for that of the tests"""
    arguments: ClassVar[dict[str, Any]] = {}

    def make(self, num_envs: int, seed: int | Sequence[int] = 0) -> SimulatorEnv:
        """Return a batch of the environments under test."""
        permit_env(self.env, {"python": self.python})  # explicitly named by the test's author
        return make_simulated(
            self.env, num_envs=num_envs, seed=seed, python=self.python, **self.arguments
        )

    def test_environments_of_a_batch_are_independent(self) -> None:
        """An episode must depend only on its environment, even if simulators sample per batch."""
        alone, batch = self.make(2, seed=3), self.make(4, seed=[3, 4])
        assert torch.equal(alone.reset(), batch.reset()[:2])
        assert not torch.equal(batch.exact_obs[:2], batch.exact_obs[2:]), (
            "different seeds give different episodes"
        )
        alone.close()
        batch.close()

    def test_description_is_complete_and_consistent(self) -> None:
        env = self.make(2)
        spec = env.spec
        assert len(spec.action_low) == len(spec.action_high) == len(spec.action_names)
        assert len(set(spec.obs_names)) == len(spec.obs_names) and spec.description
        assert all(low < high for low, high in zip(spec.action_low, spec.action_high, strict=True))
        with pytest.raises(UsageError, match="before reset"):
            env.step(_nothing(env))
        env.reset()
        with pytest.raises(ConfigError, match="shape"):
            env.step(torch.zeros(5, 99))
        info = env.step(_nothing(env)).info
        for name in spec.info_keys:
            assert len(info[name]) == 2 and bool(info[name].isfinite().all()), name
        env.close()

    def test_earlier_steps_are_not_overwritten(self) -> None:
        env = self.make(2)
        first = env.reset()
        kept = first.clone()
        step = env.step(_nothing(env))
        later = [step.obs.clone(), step.final_obs.clone(), step.reward.clone()]
        env.step(_nothing(env))
        assert torch.equal(first, kept), "the next step overwrote an earlier observation"
        for given, copy in zip((step.obs, step.final_obs, step.reward), later, strict=True):
            assert torch.equal(given, copy)
        env.close()

    def test_closing_leaves_no_process(self) -> None:
        env = self.make(2, seed=[1, 2])
        processes = env.processes
        assert len(processes) == 2 and all(_is_there(number) for number in processes)
        env.close()
        env.close()
        assert not any(_is_there(number) for number in processes)


def _nothing(env: SimulatorEnv) -> torch.Tensor:
    """Return actions at the midpoint of the action bounds."""
    if env.num_actions:
        return torch.zeros(env.num_envs, dtype=torch.int64)
    middle = (env.action_low + env.action_high) / 2
    return middle.expand(env.num_envs, -1).clone()


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
