"""Test that the plugins of this package satisfy telic's contracts."""

from telic_bounce.environment import make
from telic_bounce.judge import Patient

from telic.testing import EnvironmentContract, JudgeContract


class TestBounce(EnvironmentContract):
    def make(self, num_envs, seed=0):
        return make(num_envs=num_envs, seed=seed)


class TestPatient(JudgeContract):
    def make(self, spec):
        return Patient("last", spec)
