"""Videos of a run, rendered from recorded trajectories after training."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from telic import training
from telic.core.events import Listener, LogMessage, ignore
from telic.errors import MissingExtra, TelicError, UnknownName, UsageError
from telic.rendering import RenderJob, render, render_one
from telic.storage.files import read_fields
from telic.storage.keys import is_own_folder
from telic.storage.layout import MemberFolder, RunFolder, list_runs
from telic.storage.reading import without_links
from telic.storage.trajectories import read_trajectory
from telic.training.folder import (
    best_member,
    best_step,
    environment_of,
    read_result,
    set_status,
    status_of,
)
from telic.training.run import Run

_LABELS = ("median", "p10", "p90")


def missing_videos(run: RunFolder) -> str | None:
    """Return the pending videos of a completed run, or None if there are none."""
    return read_fields(run.status, videos=str | None)["videos"] if run.status.exists() else None


def find_run(
    key: str, runs_dir: Path, name: str | None, *, lacks_videos: bool = False
) -> RunFolder | None:
    """Return this user's completed run with the same job key, with or without pending videos."""
    for run in list_runs(runs_dir):
        with contextlib.suppress(TelicError):  # a damaged folder cannot be resumed
            is_meant = is_own_folder(run.path) and name in (None, run.name)
            lacks = missing_videos(run) is not None
            if not is_meant or status_of(run) != "completed" or lacks != lacks_videos:
                continue
            if read_fields(run.manifest, key=str | None)["key"] == key:
                return RunFolder(without_links(run.path))
    return None


def draw_run(run: Run, which: str, on_event: Listener, should_stop: Callable[[], bool]) -> Run:
    """Render the pending videos of a completed run and, unless stopped, update its status."""
    if run.status != "completed" or which == "none":
        return run
    videos = render_run(run.path, which=which, on_event=on_event, should_stop=should_stop)
    if not should_stop():
        set_status(RunFolder(run.path), "completed")
    return run._replace(videos=tuple(videos))


def finished_run(folder: RunFolder) -> Run:
    """Load a finished run."""
    return Run(folder.path, read_result(folder))


def render_run(
    path: Path,
    *,
    which: str = "best",
    on_event: Listener = ignore,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Path]:
    """Render missing videos of recorded episodes and return all requested videos.

    Args:
        path: run folder.
        which: evaluations to render, which are "best" or "last" of every member, or "all".
        on_event: function called with finished videos and error messages.
        should_stop: function that skips the remaining videos by returning True.
    """
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
    trajectory: Path | None = None,
) -> dict[str, Any]:
    """Render a recorded episode, a new episode from a seed, or the given trajectory."""
    folder = choose_member(run, member)
    chosen: dict[str, Any] = {} if size is None else _size(size)
    env, env_args = environment_of(run)
    if trajectory is not None:
        label = trajectory.stem.split("_")[2]
    elif seed is not None:
        trajectory = training.policy.record_episode(folder, step, seed, (env, env_args))
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


def write_rerun(trajectory: Path, video: Path, out: Path) -> Path:
    """Write an episode as a Rerun recording: video, bodies, and columns of numbers over time."""
    if find_spec("rerun") is None:
        raise MissingExtra("rerun-sdk", "rerun", "A Rerun recording")
    import rerun  # pyrefly: ignore[missing-import]

    episode, recording = read_trajectory(trajectory), rerun.RecordingStream("telic")
    facts = episode.facts
    names = {"obs": facts.obs_names, "action": facts.action_names, "qpos": ()}
    names |= {"reward": (), "reward_terms": facts.reward_term_names}
    recording.save(out)
    recording.log("video", rerun.AssetVideo(path=video), static=True)
    for row in range(len(episode)):
        seconds = float(row if facts.dt_s is None else row * facts.dt_s)
        recording.set_time("episode", duration=seconds)
        recording.log("video", rerun.VideoFrameReference(seconds=seconds))
        if "xpos" in episode:
            recording.log("bodies", rerun.Points3D(episode["xpos"][row], labels=facts.body_names))
        for column in names.keys() & episode.columns.keys():
            values = np.atleast_1d(episode[column][row])
            for at, (name, value) in enumerate(zip_longest(names[column][: len(values)], values)):
                recording.log(f"{column}/{name or at}", rerun.Scalars(float(value)))
    recording.flush()
    return out


def choose_member(run: RunFolder, name: str | None) -> MemberFolder:
    """Return the named member, or the best one if `name` is None."""
    members = {folder.name: folder for folder in run.members()}
    if name is not None:
        if name not in members:
            raise UnknownName("member", name, list(members), see=f"telic show {run.name}")
        return members[name]
    best = best_member(run)
    if best is None:
        raise UsageError(f"The run {run.name} has no members yet.", hint="Try again later.")
    return best


def _recorded(folder: MemberFolder, step: int | None, episode: str) -> Path:
    recorded = folder.trajectories()
    if not recorded:
        raise UsageError(
            f"{folder.name} has no recorded episodes yet.", hint="Evaluations record them."
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
        raise UsageError(f'Invalid --size "{text}".', hint="Write 480x360.")
    return {"width": int(width), "height": int(height)}
