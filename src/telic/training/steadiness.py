"""How much a robot bears: the first actions of one that nobody knows leave it on its feet.

A policy begins with actions at random. A robot that these throw over learns from lying on the
ground, and often nothing else: a dog of 11 kg with soft drives never walked with a deviation of
0.37 of what its actions reach, and walked after 200,000 steps with 0.2. So the robot is asked: it
stands, its actions are noise, and the largest noise that throws nobody over is what it begins with.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from telic.envs.access import MODEL_FILES
from telic.errors import TelicError

if TYPE_CHECKING:
    from telic.envs.mujoco import MujocoEnv
    from telic.envs.spec import Robot

LEVELS = (-1.0, -1.3, -1.6, -2.0, -2.5)
"""log standard deviations that are tried, the largest first"""
_ROBOTS = 32
_FALLS = 6.0
"""how long it must bear it, in times that its height takes to fall by"""
_MOST_STEPS, _LOOK_EVERY = 200, 10
_UPRIGHT = math.cos(math.radians(45.0))
_NOT_ASKED = ("variation", "max_episode_steps")
"""arguments that are about other things than whether it stands"""


def borne_log_std(env: str, env_args: Mapping[str, Any]) -> float | None:
    """Return the largest noise of actions that a robot stands; None: there is nothing to ask.

    Asked of robots that are model files, stand on feet and could fall to any side. One that falls
    while it holds its pose says nothing about noise, and no more does one that falls with each.
    """
    if not env.endswith(MODEL_FILES):
        return None
    asked = {name: value for name, value in env_args.items() if name not in _NOT_ASKED}
    try:
        stamp = Path(env).stat().st_mtime_ns
        return _measured(env, json.dumps(asked, sort_keys=True), stamp)
    except (TelicError, OSError):
        return None  # the training itself says what is wrong with it


@functools.cache
def _measured(env: str, arguments: str, stamp: int) -> float | None:
    del stamp  # a changed file is another robot
    from telic.envs.make import make_mjcf

    given: dict[str, Any] = {**json.loads(arguments), "terminate_when_unhealthy": False}
    robots = make_mjcf(env, num_envs=_ROBOTS, **given)
    try:
        robot = robots.spec.robot
        if robot is None or not robot.feet or robot.root.quaternion is None:
            return None
        if not _stand(robots, robot, 0.0):
            return None
        return next((each for each in LEVELS if _stand(robots, robot, math.exp(each))), None)
    finally:
        robots.close()


def _stand(robots: MujocoEnv, robot: Robot, deviation: float) -> bool:
    """Say whether all robots stay upright through some time of noise."""
    import torch

    low, high = robots.action_low, robots.action_high
    height_s = math.sqrt((robot.rest_height or 0.0) / 9.81)
    steps = min(_MOST_STEPS, math.ceil(_FALLS * height_s / (robots.dt or 1.0)))
    first = (robot.root.quaternion or 0) + 1
    draws = torch.Generator().manual_seed(0)
    robots.reset(0)
    for left in reversed(range(steps)):
        noise = torch.randn(_ROBOTS, robots.act_dim, generator=draws) * deviation
        robots.step(torch.lerp(low, high, 0.5 + 0.5 * noise.clamp(-1.0, 1.0)))
        if left % _LOOK_EVERY == 0:
            sideways = robots.sim.field("qpos")[:, first : first + 2].square().sum(1)
            if bool((1.0 - 2.0 * sideways < _UPRIGHT).any()):
                return False
    return True
