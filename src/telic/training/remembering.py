"""Play a policy that sees its reward's memory, without the reward.

A gait is stepped to a clock, which the reward keeps and the policy sees. The reward is code that
somebody wrote, and does not run here; where its memory follows a rule of plain numbers
(`telic.training.export.memory_law`), the rule is enough.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from telic.errors import UsageError
from telic.storage.reading import read_text
from telic.storage.trajectories import Environment
from telic.training.export.memory_law import MemoryLaw
from telic.training.export.robot_folder import law_of
from telic.training.policy import Policy


class RememberingPolicy:
    """A policy for one episode, (1, D) -> (1, A), that keeps its memory by a rule."""

    def __init__(self, policy: Policy, law: MemoryLaw) -> None:
        self.facts: dict[str, Any] = policy.facts
        self._policy, self._shown = policy, law.shown
        self._keep, self._action = np.array(law.keep), np.array(law.action)
        self._state = np.array(law.start)

    def __call__(self, obs: Tensor) -> Tensor:
        """Return the action, and remember that it was done."""
        policy = self._policy
        memory = torch.tensor(self._state[None, : self._shown], dtype=torch.float32)
        action = policy(obs, memory)
        half, middle = (policy.high - policy.low) / 2.0, (policy.high + policy.low) / 2.0
        asked = ((action[0] - middle) / half).double().numpy()
        self._state = self._keep @ self._state + self._action @ asked
        return action


def with_memory(
    policy: Policy, reward: Path, environment: Environment
) -> Policy | RememberingPolicy:
    """Return a policy that can be played; raises UsageError where its memory follows no rule.

    Args:
        policy: as it was trained.
        reward: file of the reward that it was trained with.
        environment: where it was trained.
    """
    if not policy.memory_size:
        return policy
    try:
        text = read_text(reward) if reward.exists() else None
        return RememberingPolicy(policy, law_of(policy, text, environment))
    except UsageError as error:
        raise UsageError(
            "This policy sees its reward's memory, so it plays only in the run's own evaluations. "
            f"{error.message}",
            hint="Leave out --seed, --command and --joystick to see a recorded episode.",
        ) from None
