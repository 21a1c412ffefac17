"""Environment Bounce-v0: keep a ball in the air with a paddle that is pushed up or down."""

import gymnasium
import numpy as np

import telic

_DT, _GRAVITY = 0.05, 9.8


class Bounce(gymnasium.Env):
    """Ball above a paddle. Observes the height and velocity of the ball and the paddle position."""

    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (3,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        """Drop the ball."""
        super().reset(seed=seed)
        self._ball, self._velocity = 1.0 + self.np_random.uniform(-0.1, 0.1), 0.0
        self._paddle = 0.0
        return self._seen(), {}

    def step(self, action):
        """Move the paddle, then the ball."""
        speed = float(np.clip(action[0], -1.0, 1.0))
        self._paddle = float(np.clip(self._paddle + speed * _DT, -0.5, 0.5))
        self._velocity -= _GRAVITY * _DT
        self._ball += self._velocity * _DT
        if self._ball < self._paddle:
            self._ball, self._velocity = self._paddle, -0.8 * self._velocity + max(speed, 0.0)
        is_lost = self._ball < -1.0 or abs(self._velocity) > 9.0
        return self._seen(), float(self._ball > 0.2), is_lost, False, {}

    def _seen(self):
        return np.array([self._ball, self._velocity, self._paddle], np.float32)


def make(**more):
    """Return N environments, because telic steps any Gymnasium class in batches."""
    return telic.make("telic_bounce.environment:Bounce", **{"max_episode_steps": 100, **more})
