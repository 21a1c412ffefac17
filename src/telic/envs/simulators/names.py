"""The names of simulated environments, "mjlab:TASK", and what is known of the simulators.

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
    """How environments of one simulator are made."""

    file: Path
    """run by the simulator's own Python"""
    meaning: str
    tasks: tuple[str, ...]
    """some names of tasks; the simulator itself knows them all"""


ADAPTERS = {
    "vector": SimulatorAdapter(
        _HERE / "vector_adapter.py",
        "any Gymnasium id, vector environment or class of another Python",
        ("CartPole-v1", "my_env.py:MyVectorEnv"),
    ),
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
"""the simulators that telic speaks to, by the word before the colon"""


class SimulatedTask(NamedTuple):
    """An environment of a simulator in a process of its own."""

    simulator: str
    task: str


def simulated(env: str) -> SimulatedTask | None:
    """Return what a name like "mjlab:TASK" means; None: it is another environment.

    The task may be missing: starting the simulator then lists the known ones.
    """
    simulator, colon, task = env.partition(":")
    return SimulatedTask(simulator, task) if colon and simulator in ADAPTERS else None


def with_python(env: str, python: str | None) -> str:
    """Return the environment that is meant by a name and the Python to run it in."""
    return env if python is None or simulated(env) else f"vector:{env}"


_UNKNOWN_TO_WORDS = (
    "it runs in a process of its own, which confined work may not start, and shows nothing that "
    "words could be measured by"
)


def refuse_simulated(env: str, who: str, why: str = _UNKNOWN_TO_WORDS) -> None:
    """Raise UsageError for an environment of another simulator, where it cannot be used."""
    if simulated(env):
        raise UsageError(
            f"{who} cannot use {env}: {why}.",
            hint=f"Train it with its own reward: telic train {env}",
        )


def absolute_python(python: str) -> str:
    """Return the path of a Python that means the same in every folder."""
    if os.sep not in python:
        found = shutil.which(python)
        return python if found is None else found
    # Not resolved: what makes a virtual environment one is where its link lies.
    return os.path.abspath(os.path.expanduser(python))


def located_task(env: str) -> str:
    """Return a simulated environment's name that means the same in every folder."""
    known = simulated(env)
    assert known is not None
    file, _, name = known.task.rpartition(":")
    path = Path(file if file.endswith(".py") else f"{file}.py").expanduser()
    if file and os.path.isfile(path):
        return f"{known.simulator}:{path.absolute()}:{name}"
    return env
