"""Find a task by its id, and make its world."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from telic.errors import UnknownName
from telic.search.environments import (
    cart_pole,
    grid,
    mountain_car,
    mountain_car_continuous,
    nim,
    physics,
    pong,
)
from telic.search.environments.task import Task, World

_TASKS: dict[str, tuple[Task, Callable[[], World]]] = {
    task.id: (task, make)
    for task, make in (
        (cart_pole.TASK, cart_pole.CartPole),
        (mountain_car.TASK, mountain_car.MountainCar),
        (mountain_car_continuous.TASK, mountain_car_continuous.MountainCarContinuous),
        (physics.PENDULUM, partial(physics.Physics, physics.PENDULUM)),
        (physics.DOUBLE_PENDULUM, partial(physics.Physics, physics.DOUBLE_PENDULUM)),
        (physics.SWIMMER, partial(physics.Physics, physics.SWIMMER)),
        (grid.FROZEN_LAKE, grid.frozen_lake),
        (grid.MAZE, grid.maze),
        (nim.TASK, nim.Nim),
        (pong.TASK, pong.Pong),
    )
}

TASKS = tuple(_TASKS)


def find_task(name: str) -> Task:
    """Return the task of that id; raises UnknownName with the closest ids."""
    if name not in _TASKS:
        raise UnknownName(
            "environment for policy search", name, list(TASKS), see="telic search envs"
        )
    return _TASKS[name][0]


def make_world(task: Task) -> World:
    """Return a world in which episodes of the task are stepped together."""
    return _TASKS[task.id][1]()
