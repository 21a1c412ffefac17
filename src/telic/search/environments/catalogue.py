"""Find a task by its id, and make its world. What a task is stands in `tasks.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from telic.errors import UnknownName
from telic.search.environments import worlds
from telic.search.environments.task import SearchTask, World

_WORLDS: dict[str, Callable[[], World]] = {
    "CartPole-v1": worlds.CartPole,
    "MountainCar-v0": worlds.MountainCar,
    "MountainCarContinuous-v0": worlds.MountainCarContinuous,
    "InvertedPendulum-v5": partial(worlds.Physics, "InvertedPendulum-v5", can_fall=True),
    "InvertedDoublePendulum-v5": partial(
        worlds.Physics, "InvertedDoublePendulum-v5", can_fall=True
    ),
    "Swimmer-v5": partial(worlds.Physics, "Swimmer-v5", can_fall=False),
    "FrozenLake-v1": worlds.frozen_lake,
    worlds.MAZE: worlds.maze,
    "Nim-v0": worlds.Nim,
    "Pong-v0": worlds.Pong,
}

TASKS = tuple(_WORLDS)


def find_task(name: str) -> SearchTask:
    """Return the task of that id; raises UnknownName with the closest ids."""
    if name not in _WORLDS:
        raise UnknownName(
            "environment for policy search", name, list(TASKS), see="telic search envs"
        )
    return _tasks()[name]


def make_world(task: SearchTask) -> World:
    """Return a world in which episodes of the task are stepped together."""
    return _WORLDS[task.id]()


@cache
def _tasks() -> dict[str, SearchTask]:
    table = tomllib.loads((Path(__file__).parent / "tasks.toml").read_text(encoding="utf-8"))
    return {name: SearchTask.model_validate({"id": name, **row}) for name, row in table.items()}
