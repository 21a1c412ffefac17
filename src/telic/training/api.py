"""`telic.train`: the whole way from a reward to a trained policy in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from telic.core.events import Listener, ignore
from telic.training.plan import plan
from telic.training.run import Run, execute

Reward = str | Path | type | None


def train(
    env: str,
    reward: Reward | Sequence[Reward] = None,
    *,
    steps: int | None = None,
    seeds: Sequence[int] = (1,),
    preset: str = "default",
    settings: Mapping[str, Any] | None = None,
    weights: Mapping[str, float] | None = None,
    variants: Sequence[Mapping[str, Any]] = ({},),
    env_args: Mapping[str, Any] | None = None,
    runs_dir: str | Path = "runs",
    name: str | None = None,
    fresh: bool = False,
    trusted: bool = False,
    confined: bool = True,
    videos: str = "best",
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
    **options: Any,
) -> Run:
    """Train a population and return the run: its folder, its summary and its best policy.

    Every combination of rewards, variants and seeds is one member; all train together. Calling it
    again with the same arguments goes on with an interrupted run.

    Args:
        env: environment id ("HalfCheetah-v5"), "module:Class", or the path of an MJCF file.
        reward: a file, source text or RewardFunction class, or several; None: the task's own.
        steps: environment steps per member; None: the preset's.
        seeds: training seeds.
        preset: named settings to start from.
        settings: changes of settings, e.g. {"learning_rate": 1e-3, "hidden": (256, 256)}.
        weights: reward weights that replace the file's own.
        variants: settings that differ between members, e.g. [{"gamma": 0.98}, {"gamma": 0.99}].
        env_args: constructor arguments of the environment.
        runs_dir: where run folders go.
        name: folder name; None: made from the time.
        fresh: start anew even if this very job was interrupted before.
        trusted: you wrote the reward file: skip the allow-list (it is still confined).
        confined: train in the confined worker process; False: in this process.
        videos: three episodes of the "best" evaluation, of the "last", of "all", or "none".
        on_event: called with every event.
        should_stop: polled between updates; True ends the run, saved and resumable.
        options: device, threads, evaluations, eval_episodes, save_every_s, tensorboard.

    Raises:
        TelicError: with what happened, why, and what to do.
    """
    several = isinstance(reward, Sequence) and not isinstance(reward, str)
    job = plan(
        env,
        rewards=list(reward) if several else [reward],  # type: ignore[list-item, arg-type]
        steps=steps,
        seeds=seeds,
        preset=preset,
        settings=settings,
        weights=weights,
        variants=variants,
        env_args=env_args,
        trusted=trusted,
        **options,
    )
    run = execute(
        job,
        Path(runs_dir),
        name=name,
        fresh=fresh,
        confined=confined,
        on_event=on_event,
        should_stop=should_stop,
    )
    if videos != "none":
        from telic.training.videos import render_run

        render_run(run.path, which=videos, on_event=on_event)
    return run
