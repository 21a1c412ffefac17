"""Test that the plugins of this package satisfy telic's contracts."""

from telic_bounce.author import Gentle
from telic_bounce.environment import make
from telic_bounce.judge import Patient
from telic_bounce.launcher import Polite
from telic_bounce.proposer import Halving
from telic_bounce.provider import Dice

from telic.jobs.launcher import JobPlace
from telic.testing import (
    AuthorContract,
    EnvironmentContract,
    JudgeContract,
    LauncherContract,
    ProposerContract,
    ProviderContract,
)


class TestBounce(EnvironmentContract):
    def make(self, num_envs, seed=0):
        return make(num_envs=num_envs, seed=seed)


class TestGentle(AuthorContract):
    intent, env = "walk forward", "Walker2d-v5"

    def make(self, brief):
        return Gentle(brief)


class TestPatient(JudgeContract):
    def make(self, spec):
        return Patient("last", spec)


class TestHalving(ProposerContract):
    def make(self, task, family, seed):
        return Halving(task, family, seed)


class TestPolite(LauncherContract):
    def make(self):
        return Polite(JobPlace(kind="polite"))


class TestDice(ProviderContract):
    def make(self, folder):
        return Dice("6")
