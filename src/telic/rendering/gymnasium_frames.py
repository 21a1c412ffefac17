"""Draw what has no MuJoCo model with the environment's own picture (`rgb_array`).

Classic-control tasks are put into each recorded state. Other environments can only be played again
from the recorded seed and actions; the observations must then come out as recorded, or there is no
video rather than a video of something else.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from telic.errors import EnvironmentError_
from telic.rendering.captions import draw_caption
from telic.rendering.jobs import RenderJob
from telic.rendering.replay import caption
from telic.storage.trajectories import Trajectory

_TOLERANCE = 1e-4
_StateOf = Callable[[np.ndarray], np.ndarray]

# observation -> internal state
_STATES: dict[str, _StateOf] = {
    "CartPole": lambda obs: obs,
    "MountainCar": lambda obs: obs,
    "MountainCarContinuous": lambda obs: obs,
    "Pendulum": lambda obs: np.array([np.arctan2(obs[1], obs[0]), obs[2]]),
    "Acrobot": lambda obs: np.array(
        [np.arctan2(obs[1], obs[0]), np.arctan2(obs[3], obs[2]), obs[4], obs[5]]
    ),
}


def own_frames(trajectory: Trajectory, rows: np.ndarray, job: RenderJob) -> Iterator[np.ndarray]:
    """Yield the environment's own picture of each of `rows`.

    Raises EnvironmentError_ when it cannot draw itself, or not what was recorded.
    """
    env = _make(trajectory)
    try:
        state_of = _STATES.get(trajectory.facts.env_id.partition("-")[0])
        reached = _placed(env, trajectory, state_of) if state_of else _played_again(env, trajectory)
        repeats = np.bincount(rows, minlength=len(trajectory))
        for row in reached:
            if repeats[row]:
                picture = _draw(env)
                if job.caption:
                    draw_caption(picture, caption(trajectory, row))
                for _ in range(repeats[row]):
                    yield picture
    finally:
        env.close()


def _make(trajectory: Trajectory) -> Any:
    import gymnasium

    name, kwargs = trajectory.facts.env_id, trajectory.facts.env_kwargs
    try:
        if ":" in name:
            module, _, attribute = name.partition(":")
            return getattr(importlib.import_module(module), attribute)(
                render_mode="rgb_array", **kwargs
            )
        return gymnasium.make(name, render_mode="rgb_array", **kwargs).unwrapped
    except (gymnasium.error.Error, ImportError, AttributeError, TypeError) as error:
        raise EnvironmentError_(f"{name} cannot draw itself: {error}") from None


def _placed(env: Any, trajectory: Trajectory, state_of: _StateOf) -> Iterator[int]:
    env.reset(seed=0)
    for row in range(len(trajectory)):
        env.state = state_of(trajectory["next_obs"][row].astype(np.float64))
        if hasattr(env, "last_u"):  # the torque that Pendulum draws as an arrow
            env.last_u = float(trajectory["action"][row].ravel()[0])
        yield row


def _played_again(env: Any, trajectory: Trajectory) -> Iterator[int]:
    facts = trajectory.facts
    if facts.seed is None:
        raise EnvironmentError_(f"{facts.env_id} cannot be drawn: the episode's seed is unknown.")
    obs, _ = env.reset(seed=facts.seed)
    _compare(facts.env_id, obs, trajectory["obs"][0])
    for row in range(len(trajectory)):
        action = trajectory["action"][row]
        obs, *_ = env.step(int(action) if action.ndim == 0 else action)
        _compare(facts.env_id, obs, trajectory["next_obs"][row])
        yield row


def _compare(env_id: str, obs: Any, recorded: np.ndarray) -> None:
    if not np.allclose(np.asarray(obs).ravel(), recorded.ravel(), atol=_TOLERANCE, rtol=_TOLERANCE):
        raise EnvironmentError_(
            f"{env_id} cannot be drawn: it keeps a state we cannot set, and playing the recorded "
            "actions again did not give the recorded observations."
        )


def _draw(env: Any) -> np.ndarray:
    import gymnasium

    try:
        picture = env.render()
    except (gymnasium.error.DependencyNotInstalled, NotImplementedError, ImportError) as error:
        raise EnvironmentError_(f"The environment cannot draw itself: {error}") from None
    if picture is None:
        raise EnvironmentError_("The environment does not draw itself (no rgb_array rendering).")
    return np.array(picture, dtype=np.uint8)
