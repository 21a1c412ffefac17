"""Draw what has no MuJoCo model with the environment's own picture (`rgb_array`).

Classic-control tasks are put into each recorded state. Other environments can only be played again
from the recorded seed and actions; the observations must then come out as recorded, or there is no
video rather than a video of something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from telic.errors import BadEnvironment
from telic.rendering.captions import draw_caption, strip_height
from telic.rendering.jobs import RenderJob
from telic.rendering.replay import caption
from telic.storage.trajectories import Trajectory

_TOLERANCE = 1e-4

# observation -> internal state
_STATES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
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

    Raises BadEnvironment when it cannot draw itself, or not what was recorded.
    """
    # Imported here: a render process that only draws MuJoCo models starts without torch.
    from telic.envs.foreign import builder

    facts = trajectory.facts
    env: Any = builder(facts.env_id, {**facts.env_kwargs, "render_mode": "rgb_array"})()
    is_classic = facts.env_id.partition("-v")[0] in _STATES
    repeats = np.bincount(rows, minlength=len(trajectory))
    try:
        for row in _placed(env, trajectory) if is_classic else _played_again(env, trajectory):
            if not repeats[row]:
                continue
            picture = _draw(env)
            if job.caption:
                # Below the picture: what matters may be anywhere in it.
                picture = np.pad(picture, ((0, strip_height(len(picture))), (0, 0), (0, 0)))
                draw_caption(picture, caption(trajectory, row, job.caption == "time"))
            for _ in range(repeats[row]):
                yield picture
    finally:
        env.close()


def _placed(env: Any, trajectory: Trajectory) -> Iterator[int]:
    """Put a classic-control task into the recorded states, one after the other."""
    state_of = _STATES[trajectory.facts.env_id.partition("-v")[0]]
    env.reset(seed=0)
    core = env.unwrapped
    for row in range(len(trajectory)):
        core.state = state_of(trajectory["next_obs"][row].astype(np.float64))
        if hasattr(core, "last_u"):  # the torque that Pendulum draws as an arrow
            core.last_u = float(trajectory["action"][row].ravel()[0])
        yield row


def _played_again(env: Any, trajectory: Trajectory) -> Iterator[int]:
    """Play the recorded actions from the recorded seed, as long as the same comes out."""
    import torch

    from telic.envs.spaces import action_codec, observation_codec

    facts = trajectory.facts
    if facts.seed is None:
        raise BadEnvironment(f"{facts.env_id} cannot be drawn: the episode's seed is unknown.")
    flatten = observation_codec(env.observation_space, facts.env_id).flatten
    native = action_codec(env.action_space, facts.env_id).native
    env.reset(seed=facts.seed)
    for row, action in enumerate(native(torch.from_numpy(trajectory["action"].copy()))):
        obs, *_ = env.step(action)
        _compare(facts.env_id, flatten(obs), trajectory["next_obs"][row])
        yield row


def _compare(env_id: str, obs: Any, recorded: np.ndarray) -> None:
    if not np.allclose(obs, recorded, atol=_TOLERANCE, rtol=_TOLERANCE):
        raise BadEnvironment(
            f"{env_id} cannot be drawn: it keeps a state we cannot set, and playing the recorded "
            "actions again did not give the recorded observations."
        )


def _draw(env: Any) -> np.ndarray:
    import gymnasium

    try:
        picture = env.render()
    except (gymnasium.error.DependencyNotInstalled, NotImplementedError, ImportError) as error:
        raise BadEnvironment(f"The environment cannot draw itself: {error}") from None
    if picture is None:
        raise BadEnvironment("The environment does not draw itself (no rgb_array rendering).")
    return np.array(picture, dtype=np.uint8)
