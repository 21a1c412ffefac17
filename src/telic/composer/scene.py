"""What a behaviour may use: the robot, and what plain training reaches with it."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from telic.envs.spec import EnvSpec
from telic.errors import BadEnvironment
from telic.quantities import QUANTITIES

_UNKNOWN = {"top_speed": 1.0, "jump": 0.2, "learns": 400_000}
"""for robots without a calibration of their own"""


@functools.cache
def calibrations() -> dict[str, dict[str, Any]]:
    """Return the table of what robots reach."""
    with (Path(__file__).parent / "calibration.toml").open("rb") as file:
        return tomllib.load(file)


class Scene(NamedTuple):
    """A robot and its limits."""

    spec: EnvSpec
    known: dict[str, Any]

    @classmethod
    def of(cls, spec: EnvSpec) -> Scene:
        """Return the scene of an environment."""
        return cls(spec, {**_UNKNOWN, **calibrations().get(spec.id, {})})

    def has(self, *quantities: str) -> bool:
        """Say whether the environment has all of these quantities."""
        return all(QUANTITIES[name].available(self.spec) for name in quantities)

    def require(self, quantity: str, what: str) -> None:
        """Refuse what the robot cannot do."""
        if not self.has(quantity):
            raise BadEnvironment(
                f"{self.spec.id} cannot {what}: it needs {QUANTITIES[quantity].need.words}."
            )

    @property
    def can_fall(self) -> bool:
        """Whether the environment ends episodes of robots that fall."""
        return "terminate_when_unhealthy" in self.spec.arguments
