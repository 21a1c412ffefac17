"""One door to every environment: by id, by class or by model file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from telic.core.plugins import load_plugin
from telic.envs.mujoco import MujocoEnv
from telic.envs.tasks import TASKS
from telic.envs.vector import VecEnv
from telic.sim import load_model, simulate


def make(
    name: str | Path,
    *,
    num_envs: int = 64,
    device: str = "cpu",
    seed: int | Sequence[int] = 0,
    **arguments: Any,
) -> VecEnv:
    """Return N environments of a task, stepped together.

    Args:
        name: an environment id ("HalfCheetah-v5", any other Gymnasium id, or one that an installed
            package brings), a class as
            "module:Class", or the path of an MJCF file ("robot.xml").
        num_envs: environments in the batch.
        device: where it is simulated and tensors live: "cpu" or "cuda".
        seed: one seed, or one per member of a population: equal slices of the batch.
        **arguments: the task's constructor arguments, as in Gymnasium, and max_episode_steps,
            terminate_when_unhealthy, num_threads.

    Example:
        env = make("Ant-v5", num_envs=256, terminate_when_unhealthy=False)
        obs = env.reset()
    """
    name = str(name)
    if name in TASKS:
        return make_task(name, num_envs=num_envs, device=device, seed=seed, **arguments)
    if name.endswith((".xml", ".mjcf", ".mjb", ".urdf")):
        from telic.envs.custom import make_mjcf

        return make_mjcf(name, num_envs=num_envs, device=device, seed=seed, **arguments)
    build = None if ":" in name else other_environment(name)
    if build is not None:
        env = build(num_envs=num_envs, device=device, seed=seed, **arguments)
        env.spec = env.spec.model_copy(update={"id": name})  # however it was made, this is its name
        return env
    from telic.envs.adapter import make_gymnasium

    return make_gymnasium(name, num_envs=num_envs, device=device, seed=seed, **arguments)


def other_environment(name: str) -> Callable[..., VecEnv] | None:
    """Return what builds an environment that a package brings; None for those telic knows."""
    import gymnasium

    own = {*TASKS, *gymnasium.registry}
    return None if name in own else load_plugin("environments", name, own)


def make_task(
    name: str,
    *,
    num_envs: int = 64,
    device: str = "cpu",
    seed: int | Sequence[int] = 0,
    num_threads: int | None = None,
    **arguments: Any,
) -> MujocoEnv:
    """Return N environments of one of the ten MuJoCo tasks."""
    kind = TASKS[name]
    checked = kind.Arguments.parse(arguments)
    model = load_model(checked.xml_file)
    sim = simulate(model, num_envs, device=device, num_threads=num_threads)
    return MujocoEnv(sim, kind(checked, sim), seed=seed)
