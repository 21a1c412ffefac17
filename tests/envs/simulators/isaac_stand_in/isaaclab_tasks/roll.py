"""A ball that rolls as it is pushed, with the interface of Isaac Lab's ManagerBasedRLEnv."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import torch


class RollEnv(gymnasium.Env):
    def __init__(self, cfg, render_mode=None):
        self.cfg, self.num_envs, self.device = cfg, cfg.scene.num_envs, cfg.device
        self.step_dt = 0.05
        self.max_episode_length = round(cfg.episode_length_s / self.step_dt)
        self.single_action_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
        self.observation_manager = SimpleNamespace(
            active_terms={"policy": ["place", "speed"], "critic": ["wind"]},
            group_obs_term_dim={"policy": [(2,), (2,)], "critic": [(1,)]},
        )
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.place = self.speed = torch.zeros(self.num_envs, 2)
        torch.manual_seed(cfg.seed)

    def reset(self, seed=None, options=None):
        if seed is not None:
            torch.manual_seed(seed)
        self.begin(torch.ones(self.num_envs, dtype=torch.bool))
        return self.observe(), {}

    def begin(self, rows):
        start = torch.rand(self.num_envs, 2)
        self.place = torch.where(rows[:, None], start, self.place)
        self.speed = torch.where(rows[:, None], 0.0, self.speed)
        self.episode_length_buf = torch.where(rows, 0, self.episode_length_buf)

    def observe(self):
        policy = torch.cat((self.place, self.speed), dim=1)
        return {"policy": policy, "critic": self.speed[:, :1], "picture": torch.zeros(2, 8, 8, 3)}

    def step(self, action):
        self.speed = self.speed + 0.1 * action
        self.place = self.place + self.step_dt * self.speed
        self.episode_length_buf = self.episode_length_buf + 1
        reward = self.cfg.rewards["speed"] * self.speed[:, 0]
        terminated = self.place.abs().amax(1) > 3.0
        truncated = self.episode_length_buf >= self.max_episode_length
        self.begin(terminated | truncated)
        return self.observe(), reward, terminated, truncated, {"log": {}}

    def close(self):
        pass
