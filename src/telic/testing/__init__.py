"""Contract tests for built-in and third-party environments.

Subclass the contract for your component and implement `make`:

    from telic.testing import EnvironmentContract

    class TestMine(EnvironmentContract):
        def make(self, num_envs, seed=0):
            return make(num_envs=num_envs, seed=seed)

pytest collects the inherited tests. Telic's own components are tested in the same way.
"""

from telic.testing.contracts import EnvironmentContract
from telic.testing.simulators import SimulatorContract

__all__ = ["EnvironmentContract", "SimulatorContract"]
