"""Contract tests for environments, judges, proposers and more, built in or third-party.

Inherit the class of what you bring, and say how to make one:

    from telic.testing import ProposerContract

    class TestMine(ProposerContract):
        def make(self, task, family, seed):
            return MyProposer(task, family, seed)

pytest runs what the class inherits. It is the same for the parts that telic has itself.
"""

from telic.testing.contracts import EnvironmentContract, JudgeContract, ProposerContract
from telic.testing.services import (
    AuthorContract,
    LauncherContract,
    ProviderContract,
)
from telic.testing.simulators import SimulatorContract

__all__ = [
    "AuthorContract",
    "EnvironmentContract",
    "JudgeContract",
    "LauncherContract",
    "ProposerContract",
    "ProviderContract",
    "SimulatorContract",
]
