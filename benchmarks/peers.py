"""Measure the training speed and learning curves of Stable-Baselines3.

Stable-Baselines3 runs on plain Gymnasium environments with its own vectorized wrappers. The
settings are the defaults (None), or those of telic translated by `sb3.ppo_arguments`.

    python benchmarks/peers.py rate HalfCheetah-v5 --seconds 20
    python benchmarks/peers.py rate HalfCheetah-v5 --vector subproc --num-envs 4
    python benchmarks/peers.py curve HalfCheetah-v5 --seconds 600 --target 4000 --ours

Each command prints one JSON line. Run it in a separate process if torch was configured differently
in this one, because Stable-Baselines3 is measured with torch's defaults.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
from sb3 import normalized, ppo_arguments
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from telic.training.job import PpoSettings
from telic.training.plan import preset_for

Vector = Literal["dummy", "subproc"]
_ENDLESS = 10**12
_EVALUATION_SEED = 1_000_000


class Rate(NamedTuple):
    """Rate of complete training, including collection and learning."""

    steps_per_second: float
    steps: int
    seconds: float
    vector: str
    num_envs: int


class Point(NamedTuple):
    """Result of one evaluation. `seconds` is the training time without evaluations."""

    seconds: float
    steps: int
    mean_return: float


def sb3_rate(
    env_id: str,
    seconds: float,
    settings: PpoSettings | None = None,
    *,
    vector: Vector = "dummy",
    num_envs: int | None = None,
    seed: int = 0,
) -> Rate:
    """Train for about this long in whole updates, and return the rate after a warm-up update."""
    model = make_model(env_id, settings, vector=vector, num_envs=num_envs, seed=seed)
    marks: list[tuple[float, int]] = []

    def after_update(steps: int) -> bool:
        marks.append((time.perf_counter(), steps))
        return marks[-1][0] - marks[0][0] < seconds or len(marks) < 2

    learn(model, after_update)
    (start, before), (end, after) = marks[0], marks[-1]
    taken, steps = end - start, after - before
    return Rate(steps / taken, steps, taken, vector, model.n_envs)


def sb3_best_parallel_rate(
    env_id: str,
    seconds: float,
    settings: PpoSettings | None = None,
    *,
    num_envs: Iterable[int] | None = None,
    seed: int = 0,
) -> Rate:
    """Return the best rate with environments in two or more separate processes.

    Without settings, these are the defaults with n_steps divided so that the batch stays 2,048.
    """
    cores = os.cpu_count() or 2
    usual = [settings.num_envs] if settings else sorted({2, cores, 2 * cores, 4 * cores})
    choices = num_envs or usual
    rates = [
        sb3_rate(env_id, seconds, settings, vector="subproc", num_envs=count, seed=seed)
        for count in choices
    ]
    return max(rates, key=lambda rate: rate.steps_per_second)


def sb3_curve(
    env_id: str,
    seconds: float,
    settings: PpoSettings | None = None,
    *,
    vector: Vector = "dummy",
    num_envs: int | None = None,
    seed: int = 0,
    steps: int = _ENDLESS,
    target: float | None = None,
    evaluate_every_s: float = 2.0,
    episodes: int = 10,
) -> list[Point]:
    """Train for a number of seconds or steps, or until an evaluation reaches the target.

    Returns the evaluations. They follow whole updates, and their time is not counted. An annealed
    learning rate reaches zero after `steps`.
    """
    model = make_model(env_id, settings, vector=vector, num_envs=num_envs, seed=seed)
    points: list[Point] = []
    trained, since, due = 0.0, time.perf_counter(), evaluate_every_s

    def after_update(done: int) -> bool:
        nonlocal trained, since, due
        trained += time.perf_counter() - since
        if trained >= due or trained >= seconds or done >= steps:
            points.append(Point(trained, done, mean_return(model, env_id, episodes)))
            due = trained + evaluate_every_s
        is_reached = target is not None and bool(points) and points[-1].mean_return >= target
        since = time.perf_counter()
        return trained < seconds and not is_reached

    learn(model, after_update, steps)
    return points


def seconds_to(points: Iterable[Point], target: float) -> float | None:
    """Return the training time of the first evaluation that reaches the target, or None."""
    return next((point.seconds for point in points if point.mean_return >= target), None)


def make_model(
    env_id: str, settings: PpoSettings | None, *, vector: Vector, num_envs: int | None, seed: int
) -> PPO:
    """Return a model on Gymnasium's environments, by default with its own settings."""
    count = num_envs or (settings.num_envs if settings else 1)
    kind = DummyVecEnv if vector == "dummy" else SubprocVecEnv
    env: VecEnv = kind([partial(_make_env, env_id) for _ in range(count)])
    if settings is None:
        return PPO("MlpPolicy", env, n_steps=2048 // count, seed=seed, device="cpu")
    wrapped = normalized(env, settings)
    return PPO("MlpPolicy", wrapped, seed=seed, device="cpu", **ppo_arguments(settings))


def _make_env(env_id: str) -> gymnasium.Env:
    return Monitor(gymnasium.make(env_id))


def learn(model: PPO, after_update: Callable[[int], bool], steps: int = _ENDLESS) -> None:
    """Train until `after_update(steps)`, called after every whole update, returns False."""
    try:
        model.learn(steps, callback=_AfterUpdate(after_update))
    finally:
        assert model.env is not None
        model.env.close()


class _AfterUpdate(BaseCallback):
    """Callback at the start of a new rollout and at the end of training, i.e. after each update."""

    def __init__(self, call: Callable[[int], bool]) -> None:
        super().__init__()
        self._call = call
        self._goes_on = True

    def _on_rollout_start(self) -> None:
        if self.num_timesteps:
            self._goes_on = self._call(self.num_timesteps)

    def _on_step(self) -> bool:
        return self._goes_on

    def _on_training_end(self) -> None:
        if self._goes_on:
            self._call(self.num_timesteps)


def mean_return(model: PPO, env_id: str, episodes: int) -> float:
    """Return the task's mean return over episodes with seeds that training does not use."""
    envs = [gymnasium.make(env_id) for _ in range(episodes)]
    obs = np.stack([env.reset(seed=_EVALUATION_SEED + i)[0] for i, env in enumerate(envs)])
    totals, live = np.zeros(episodes), np.ones(episodes, dtype=bool)
    normalizer = model.get_vec_normalize_env()
    while live.any():
        seen = obs.astype(np.float32)
        if normalizer is not None:
            seen = normalizer.normalize_obs(seen)
        actions, _ = model.predict(seen, deterministic=True)
        for i in np.flatnonzero(live):
            obs[i], reward, terminated, truncated, _ = envs[i].step(actions[i])
            totals[i] += float(reward)
            live[i] = not (terminated or truncated)
    for env in envs:
        env.close()
    return float(totals.mean())


def main(arguments: list[str]) -> None:
    """Measure one quantity, and print it as one JSON line."""
    parser = argparse.ArgumentParser(description="Measure Stable-Baselines3's PPO.")
    parser.add_argument("what", choices=["rate", "best-parallel-rate", "curve"])
    parser.add_argument("env_id")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--ours", action="store_true", help="use the settings of telic's preset")
    parser.add_argument("--vector", choices=["dummy", "subproc"], default="dummy")
    parser.add_argument("--num-envs", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", type=float, default=None)
    given = parser.parse_args(arguments)
    ours = preset_for("default", given.env_id)
    settings = ours.settings if given.ours else None
    result: Any
    if given.what == "best-parallel-rate":
        counts = None if given.num_envs is None else [given.num_envs]
        result = sb3_best_parallel_rate(
            given.env_id, given.seconds, settings, num_envs=counts, seed=given.seed
        )._asdict()
    else:
        how: dict[str, Any] = {
            "vector": given.vector,
            "num_envs": given.num_envs,
            "seed": given.seed,
        }
        if given.what == "rate":
            result = sb3_rate(given.env_id, given.seconds, settings, **how)._asdict()
        else:
            is_annealed = settings is not None and settings.schedule == "linear"
            how |= {"steps": ours.steps if is_annealed else _ENDLESS, "target": given.target}
            points = sb3_curve(given.env_id, given.seconds, settings, **how)
            result = [point._asdict() for point in points]
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
