"""Find a task by its id, and make its world."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from telic.errors import UnknownName
from telic.search.environments import classic, games, physics
from telic.search.environments.task import SearchTask, World

_TASKS: dict[str, tuple[SearchTask, Callable[[], World]]] = {
    task.id: (task, make)
    for task, make in (
        (classic.CART_POLE, classic.CartPole),
        (classic.MOUNTAIN_CAR, classic.MountainCar),
        (classic.MOUNTAIN_CAR_CONTINUOUS, classic.MountainCarContinuous),
        (physics.PENDULUM, partial(physics.Physics, physics.PENDULUM)),
        (physics.DOUBLE_PENDULUM, partial(physics.Physics, physics.DOUBLE_PENDULUM)),
        (physics.SWIMMER, partial(physics.Physics, physics.SWIMMER)),
        (games.FROZEN_LAKE, games.frozen_lake),
        (games.MAZE, games.maze),
        (games.NIM, games.Nim),
        (games.PONG, games.Pong),
    )
}

TASKS = tuple(_TASKS)


def find_task(name: str) -> SearchTask:
    """Return the task of that id; raises UnknownName with the closest ids."""
    if name not in _TASKS:
        raise UnknownName(
            "environment for policy search", name, list(TASKS), see="telic search envs"
        )
    return _TASKS[name][0]


def make_world(task: SearchTask) -> World:
    """Return a world in which episodes of the task are stepped together."""
    return _TASKS[task.id][1]()
