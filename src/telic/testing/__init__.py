"""Contract tests for built-in and third-party environments, judges, proposers and more.

Subclass the contract for your component and implement `make`:

    from telic.testing import ProposerContract

    class TestMine(ProposerContract):
        def make(self, task, family, seed):
            return MyProposer(task, family, seed)

pytest collects the inherited tests. Telic's own components are tested in the same way.
"""

from telic.testing.contracts import EnvironmentContract, JudgeContract, ProposerContract
from telic.testing.services import AuthorContract, LauncherContract, ProviderContract
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
