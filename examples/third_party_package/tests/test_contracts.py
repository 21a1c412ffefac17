"""Test that the environment of this package satisfies telic's contract."""

from telic_bounce.environment import make

from telic.testing import EnvironmentContract


class TestBounce(EnvironmentContract):
    def make(self, num_envs, seed=0):
        return make(num_envs=num_envs, seed=seed)
