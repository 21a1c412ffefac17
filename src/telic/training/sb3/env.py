"""Our batched environments and rewards as a vectorised environment of Stable-Baselines3."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv as Sb3VecEnv
from torch import Tensor

from telic.envs.vector import VecEnv
from telic.training.rollout import ActionMap, Episode, EpisodeTracker
from telic.training.scoring import Scoring


class NotFiniteError(Exception):
    """A reward or a weight became NaN or infinite; the message says which."""


class BatchedEnv(Sb3VecEnv):
    """One member's environments with its reward, stepped together.

    Episodes that end are told to the member's tracker, as our own trainer does.
    """

    def __init__(
        self, env: VecEnv, scoring: Scoring, tracker: EpisodeTracker, *, native: bool, stagger: bool
    ) -> None:
        """Wrap an environment made for one member.

        Args:
            env: the environments.
            scoring: their reward.
            tracker: where finished episodes go.
            native: actions in the environment's own range, as Gymnasium declares it, instead of
                [-1, 1] as our trainer scales them.
            stagger: start episodes at random ages.
        """
        self.env = env
        self.scoring = scoring
        self.tracker = tracker
        self.ended = 0
        """episodes that ended since somebody set this to 0"""
        self._native = native
        self._stagger = stagger
        self._to_env = ActionMap(env)
        self._obs = torch.empty(0)
        self._action = torch.empty(0)
        # columns: return, length, then each term
        self._sums = np.zeros((env.num_envs, 2 + scoring.term_count))
        wide = np.full(scoring.actor_inputs, np.inf, dtype=np.float32)
        super().__init__(env.num_envs, spaces.Box(-wide, wide), self._actions())

    def _actions(self) -> spaces.Space:
        if self.env.num_actions is not None:
            return spaces.Discrete(self.env.num_actions)
        low, high = self.env.action_low.cpu().numpy(), self.env.action_high.cpu().numpy()
        if not self._native:
            low, high = np.full_like(low, -1.0), np.full_like(high, 1.0)
        return spaces.Box(low, high)

    def reset(self) -> np.ndarray:
        """Start new episodes everywhere."""
        self._obs = self.env.reset()
        if self._stagger:
            self.env.stagger()
        self.scoring.reset(torch.ones(1, self.num_envs, dtype=torch.bool))
        self._sums[:] = 0.0
        return self._seen(self._obs)

    def step_async(self, actions: np.ndarray) -> None:
        """Take the actions of the next step."""
        action = torch.as_tensor(actions, device=self.env.device)
        self._action = action if self._native else self._to_env(action)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Make the step; what ended starts anew, and its last observation is in its info."""
        step = self.env.step(self._action)
        score = self.scoring.score(self._obs, self._action, step)
        self._check(score.total)
        done = step.terminated | step.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        rewards = score.total[0].cpu().numpy().copy()
        self._sums[:, 0] += rewards
        self._sums[:, 1] += 1.0
        self._sums[:, 2:] += score.terms[0].cpu().numpy()
        if bool(done.any()):
            last = self._seen(step.final_obs)  # before the reward forgets the episode
            cut = (step.truncated & ~step.terminated).cpu().numpy()
            for row in done.nonzero()[:, 0].tolist():
                infos[row] = {
                    "terminal_observation": last[row],
                    "TimeLimit.truncated": bool(cut[row]),
                }
                self._end(row)
        self.scoring.reset(done.view(1, -1))
        self._obs = step.obs
        return self._seen(step.obs), rewards, done.cpu().numpy(), infos

    def _seen(self, obs: Tensor) -> np.ndarray:
        """Return what the policy sees: the observation, and the reward's memory if it may."""
        if self.scoring.actor_inputs == self.scoring.obs_dim:
            return obs.cpu().numpy().copy()
        inputs = torch.empty(1, self.num_envs, self.scoring.critic_inputs, device=obs.device)
        self.scoring.inputs(obs, None, out=inputs)
        return inputs[0, :, : self.scoring.actor_inputs].cpu().numpy()

    def _check(self, total: Tensor) -> None:
        if not bool(total.isfinite().all()):
            error = self.scoring.error_of(0)
            raise NotFiniteError("The reward" if error is None else f"The reward ({error})")

    def _end(self, row: int) -> None:
        total, length, *terms = self._sums[row].tolist()
        self.tracker.recent[0].append(Episode(total, round(length), tuple(terms)))
        self.tracker.finished[0] += 1
        self.ended += 1
        self._sums[row] = 0.0

    def close(self) -> None:
        """Leave the environments to whoever made them."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute once per environment; they have none of their own."""
        if attr_name == "render_mode":
            return [None] * self.num_envs
        raise AttributeError(attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: the environments are one batch."""
        raise AttributeError(attr_name)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list:
        """Refuse: the environments are one batch."""
        raise AttributeError(method_name)

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """Say that no environment is wrapped."""
        return [False] * self.num_envs
