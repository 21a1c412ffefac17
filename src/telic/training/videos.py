"""Videos of a run: rendered after training, from recorded states, never by simulating again."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from telic.core.events import Listener, LogMessage, ignore
from telic.errors import TelicError, UnknownName, UsageError
from telic.storage.facts import FinishedRunFacts, ManifestFacts, WorkStatus
from telic.storage.files import read_facts
from telic.storage.layout import MemberFolder, RunFolder, list_runs
from telic.storage.trajectories import Environment
from telic.training.folder import best_member, best_step, environment_of, set_status, status_of
from telic.training.run import Run

_LABELS = ("median", "p10", "p90")
_CONTROL_STEP_S = 0.02


def owed(run: RunFolder) -> str | None:
    """Return which videos of a complete run were asked for and are not drawn yet; None: none."""
    return read_facts(run.status, WorkStatus).get("videos") if run.status.exists() else None


def find_undrawn(key: str, runs_dir: Path, name: str | None) -> RunFolder | None:
    """Return the complete run of this very job whose videos were interrupted."""
    for run in list_runs(runs_dir):
        with contextlib.suppress(TelicError):  # a damaged folder is nothing to go on with
            is_meant = name in (None, run.name) and status_of(run) == "completed"
            if not is_meant or owed(run) is None:
                continue
            if read_facts(run.manifest, ManifestFacts).get("key") == key:
                return run
    return None


def draw_run(run: Run, which: str, on_event: Listener, should_stop: Callable[[], bool]) -> Run:
    """Draw the videos of a complete run; once nothing stopped it, none are owed any more."""
    if run.status != "completed" or which == "none":
        return run
    videos = render_run(run.path, which=which, on_event=on_event, should_stop=should_stop)
    if not should_stop():
        set_status(RunFolder(run.path), "completed")
    return run._replace(videos=tuple(videos))


def finished_run(folder: RunFolder) -> Run:
    """Return a run that is complete."""
    return Run(folder.path, dict(read_facts(folder.summary, FinishedRunFacts)))


def render_run(
    path: Path,
    *,
    which: str = "best",
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Path]:
    """Render what is recorded and not yet rendered; returns the videos asked for.

    Args:
        path: the run folder.
        which: the "best" evaluation of every member, the "last", or "all" of them.
        on_event: told of every finished video, and why there are none if there cannot be any.
        should_stop: polled; True leaves out what is not drawn yet.
    """
    from telic.rendering import RenderJob, render

    jobs: list[RenderJob] = []
    env, env_args = environment_of(RunFolder(path))
    for member in RunFolder(path).members():
        recorded = member.trajectories()
        chosen = max((episode.step for episode in recorded), default=None)
        if which == "best":
            chosen = best_step(member) or chosen
        for episode in recorded:
            if episode.label in _LABELS and (which == "all" or episode.step == chosen):
                output = member.video(episode.step, episode.label)
                jobs.append(
                    RenderJob(trajectory=episode.path, output=output, env=env, env_args=env_args)
                )
    missing = [job for job in jobs if not job.output.exists()]
    renderings = render(
        missing, processes=min(os.cpu_count() or 1, 4), listener=on_event, should_stop=should_stop
    )
    for reason in {rendering.error for rendering in renderings if rendering.error}:
        on_event(LogMessage(message=f"No video: {reason}"))
    return [job.output for job in jobs if job.output.exists()]


def play_run(
    run: RunFolder,
    *,
    member: str | None = None,
    step: int | None = None,
    episode: str = "median",
    seed: int | None = None,
    view: str | None = None,
    size: str | None = None,
    out: Path | None = None,
    command: str | None = None,
    is_steered: bool = False,
) -> dict[str, Any]:
    """Render one episode: a recorded one, or a new one played from a seed, told, or steered."""
    from telic.rendering import render_one

    folder = choose_member(run, member)
    chosen: dict[str, Any] = {} if size is None else _size(size)
    env, env_args = environment_of(run)
    if is_steered or command is not None:
        label = "steered" if is_steered else "told"
        trajectory = _told(folder, step, seed or 0, (env, env_args), command)
        if is_steered and out is None:  # it was seen already
            return {"member": folder.name, "trajectory": str(trajectory), "video": None}
    elif seed is not None:
        from telic.training.policy import record_episode

        trajectory = record_episode(folder, step, seed, (env, env_args))
        label = f"seed{seed}"
    else:
        trajectory = _recorded(folder, step, episode)
        label = episode
    at = trajectory.stem.split("_")[1]
    suffix = "" if view is None else f"_{view}"
    output = out or folder.videos_dir / f"play_{at}_{label}{suffix}.mp4"
    rendering = render_one(trajectory, output, env=env, env_args=env_args, view=view, **chosen)
    return {
        "member": folder.name,
        "trajectory": str(trajectory),
        "video": str(output),
        "drawn by": rendering.backend,
    }


def _told(
    folder: MemberFolder, step: int | None, seed: int, environment: Environment, text: str | None
) -> Path:
    """Play an episode under one command, or, without any, steered by the keys of the terminal."""
    from telic.training.joystick import (
        LONGEST_S,
        Joystick,
        Steering,
        TerminalKeys,
        always_told,
        read_command,
        spans_of,
    )
    from telic.training.policy import record_episode

    env, env_args = environment
    spans = spans_of(env_args)
    if text is not None:
        told = always_told(env_args, read_command(text, spans))
        return record_episode(folder, step, seed, (env, told), label="told", trained_in=environment)
    steps = round(LONGEST_S / _CONTROL_STEP_S)
    with TerminalKeys() as keys:
        steering = Steering(Joystick(spans), keys, sys.stderr.write)
        longer = (env, {**env_args, "max_episode_steps": steps})
        return record_episode(
            folder,
            step,
            seed,
            longer,
            label="steered",
            steer=steering,
            trained_in=environment,
        )


def choose_member(run: RunFolder, name: str | None) -> MemberFolder:
    """Return the member of that name, or the best."""
    members = {folder.name: folder for folder in run.members()}
    if name is not None:
        if name not in members:
            raise UnknownName("member", name, list(members), see=f"telic show {run.name}")
        return members[name]
    best = best_member(run)
    if best is None:
        raise UsageError(f"The run {run.name} has no members yet.", hint="Let it train a little.")
    return best


def _recorded(folder: MemberFolder, step: int | None, episode: str) -> Path:
    recorded = folder.trajectories()
    if not recorded:
        raise UsageError(
            f"{folder.name} has no recorded episodes yet.", hint="They come with evaluations."
        )
    steps = {artifact.step for artifact in recorded}
    if step is None:
        best = best_step(folder)
        step = best if best in steps else max(steps)
    if step not in steps:
        raise UnknownName("checkpoint", str(step), sorted(map(str, steps)))
    labels = {artifact.label or "": artifact.path for artifact in recorded if artifact.step == step}
    if episode not in labels:
        raise UnknownName("episode", episode, list(labels))
    return labels[episode]


def _size(text: str) -> dict[str, Any]:
    width, cross, height = text.lower().partition("x")
    if not (cross and width.isdigit() and height.isdigit()):
        raise UsageError(f'--size "{text}" is not understood.', hint="Write 480x360.")
    return {"width": int(width), "height": int(height)}
