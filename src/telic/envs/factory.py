"""Create environments by id, class or model file."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import gymnasium

from telic.core.plugins import load_plugin
from telic.envs._arm import BlockTask, ReachArguments, ReachTask, is_reaching_arm
from telic.envs.anatomy import robot_of
from telic.envs.driven import RobotArguments, RobotTask, is_driven
from telic.envs.models import read_model
from telic.envs.mujoco import MujocoEnv
from telic.envs.own_robot import CustomArguments, CustomTask
from telic.envs.simulators.names import permit_env, simulated
from telic.envs.tasks import TASKS
from telic.envs.tokens import TokenDriver, read_decoder, token_file
from telic.envs.vector import VecEnv
from telic.robots import robot_path
from telic.robots.terrain import ground_in
from telic.sim.files import MODEL_FILES
from telic.sim.simulation import load_model, simulate


def make(
    name: str | Path,
    *,
    num_envs: int = 64,
    device: str = "cpu",
    seed: int | Sequence[int] = 0,
    **arguments: Any,
) -> VecEnv:
    """Create a vectorized environment with N copies of a task.

    Args:
        name: an environment id ("HalfCheetah-v5", any other Gymnasium id, or one of a plugin), a
            class "module:Class", a robot's name ("unitree-go1"), the path of a model or of a robot
            description ("robot.xml", "robot.toml"), or a task of a simulator with a separate
            Python ("mjlab:TASK", with python="DIR/bin/python").
        num_envs: number of environments in the batch.
        device: device of simulation and tensors, "cpu" or "cuda".
        seed: one seed, or one per member of a population, each with an equal slice of the batch.
        **arguments: the task's constructor arguments, as in Gymnasium, and max_episode_steps,
            terminate_when_unhealthy, num_threads.

    Example:
        env = make("Ant-v5", num_envs=256, terminate_when_unhealthy=False)
        obs = env.reset()
    """
    name = str(name)
    if simulated(name):
        from telic.envs.simulators.env import make_simulated

        return make_simulated(name, num_envs=num_envs, device=device, seed=seed, **arguments)
    name = str(robot_path(name) or name)
    if name in TASKS:
        kind, num_threads = TASKS[name], arguments.pop("num_threads", None)
        checked = kind.Arguments.parse(arguments)
        model = load_model(checked.xml_file)
        sim = simulate(model, num_envs, device=device, num_threads=num_threads)
        return MujocoEnv(sim, kind(checked, sim), seed=seed)
    if name.endswith(MODEL_FILES):
        return make_mjcf(name, num_envs=num_envs, device=device, seed=seed, **arguments)
    build = None if ":" in name else _plugin(name)
    if build is not None:
        env = build(num_envs=num_envs, device=device, seed=seed, **arguments)
        env.spec = env.spec.model_copy(update={"id": name})  # the registered name
        return env
    from telic.envs._adapter import make_gymnasium

    return make_gymnasium(name, num_envs=num_envs, device=device, seed=seed, **arguments)


@wraps(make)
def make_named(name: str | Path, **arguments: Any) -> VecEnv:
    """Create an environment, and permit code that the caller names. `make` may refuse such code."""
    permit_env(name, arguments)
    return make(name, **arguments)


def _plugin(name: str) -> Callable[..., VecEnv] | None:
    """Return the plugin that creates an environment, or None for built-in and Gymnasium ids."""
    own = {*TASKS, *gymnasium.registry}
    return None if name in own else load_plugin("environments", name, own)


_CONTROL_STEP_S = 0.02  # minimum control period; walking robots use 0.02 to 0.05


def make_mjcf(
    path: str,
    *,
    num_envs: int = 64,
    device: str = "cpu",
    seed: int | Sequence[int] = 0,
    frame_skip: int | None = None,
    num_threads: int | None = None,
    **arguments: Any,
) -> MujocoEnv:
    """Create N environments of the robot in an MJCF, URDF or compiled (.mjb) file.

    The control period is at least 0.02 s by default. Arguments are fields of `CustomArguments`,
    or of `RobotArguments` and `ReachArguments` for legged robots and arms built by telic.
    """
    model, notes = read_model(path, ground_in(arguments))
    skip = frame_skip or max(1, math.ceil(_CONTROL_STEP_S / model.opt.timestep - 1e-9))
    decoder = token_file(model, path)
    if decoder is not None:  # it has a fixed control period
        skip = max(1, round(read_decoder(decoder)[0].control_s / model.opt.timestep))
    sim = simulate(model, num_envs, device=device, num_threads=num_threads)
    given = {**arguments, "xml_file": path, "frame_skip": skip}
    if robot_of(model).root.kind == "free" and is_driven(model):
        task = RobotTask(RobotArguments.parse(given), sim, notes)
    elif is_reaching_arm(model):
        arm = ReachArguments.parse(given)
        task = (ReachTask if arm.task == "reach" else BlockTask)(arm, sim, notes)
    else:
        task = CustomTask(CustomArguments.parse(given), sim, notes)
    driver = None if decoder is None else TokenDriver(decoder, sim, task.robot)
    return MujocoEnv(sim, task, seed=seed, driver=driver)
