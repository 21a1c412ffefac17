"""The parts of this package keep the contracts of telic."""

from telic_bounce.environment import make
from telic_bounce.proposer import Halving
from telic_bounce.provider import Dice

from telic.testing import EnvironmentContract, ProposerContract, ProviderContract


class TestBounce(EnvironmentContract):
    def make(self, num_envs, seed=0):
        return make(num_envs=num_envs, seed=seed)


class TestHalving(ProposerContract):
    def make(self, task, family, seed):
        return Halving(task, family, seed)


class TestDice(ProviderContract):
    def make(self, folder):
        return Dice("6")
