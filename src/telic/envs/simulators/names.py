"""The names of simulated environments, "mjlab:TASK", and the table of simulators.

Light: asking whether an environment is one of these loads nothing else.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from telic.errors import UsageError

_HERE = Path(__file__).parent


class SimulatorAdapter(NamedTuple):
    """The program that makes environments of one simulator."""

    file: Path
    """run by the simulator's own Python"""
    meaning: str
    tasks: tuple[str, ...]
    """examples of tasks"""


ADAPTERS = {
    "mjlab": SimulatorAdapter(
        _HERE / "lab_adapter.py",
        "a task of mjlab",
        ("Mjlab-Cartpole-Balance", "Mjlab-Velocity-Flat-Unitree-Go1", "Mjlab-Lift-Cube-Yam"),
    ),
    "isaaclab": SimulatorAdapter(
        _HERE / "lab_adapter.py",
        "a task of Isaac Lab",
        ("Isaac-Cartpole-v0", "Isaac-Ant-v0", "Isaac-Velocity-Flat-Anymal-C-v0"),
    ),
}
"""the supported simulators, by the word before the colon"""


class SimulatedTask(NamedTuple):
    """An environment of a simulator in a process of its own."""

    simulator: str
    task: str


def simulated(env: str) -> SimulatedTask | None:
    """Return the simulator and the task of a name like "mjlab:TASK"; None: another environment."""
    simulator, colon, task = env.partition(":")
    return SimulatedTask(simulator, task) if colon and simulator in ADAPTERS else None


def refuse_simulated(
    env: str, who: str, why: str = "it cannot be confined, and its robot cannot be measured"
) -> None:
    """Raise UsageError for an environment of another simulator, where it cannot be used."""
    if simulated(env):
        raise UsageError(
            f"{who} cannot use {env}: {why}.",
            hint=f"Train it with its own reward: telic train {env}",
        )


def absolute_python(python: str) -> str:
    """Return the path of a Python, valid in every folder."""
    if os.sep not in python:
        return shutil.which(python) or python
    # Not resolved: a virtual environment is known by the place of its link.
    return os.path.abspath(os.path.expanduser(python))
