"""Write the recorded episodes of a policy as a data set for Minari or LeRobot.

    python examples/data_sets/export.py SESSION --to minari --out FOLDER
    python examples/data_sets/export.py SESSION --to lerobot --out FOLDER

Of a session, these are the judged episodes of its best policy with scores and labels, and the
rewards are those of the environment; `preferences.json` has the compared pairs. Requires
`pip install telic[data]`. LeRobot cannot be installed next to telic, so its format v3.0 is written
with pyarrow:

    meta/info.json stats.json tasks.parquet
    meta/episodes/chunk-000/file-000.parquet    one row per episode, with its score and label
    data/chunk-000/file-000.parquet             one row per step
    videos/observation.images.camera/chunk-000/file-NNN.mp4
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np

from telic.authors.candidate import RewardCandidate, SessionIteration
from telic.authors.request import SessionConfig
from telic.errors import MissingExtra, TelicError, UsageError
from telic.rendering.job import RenderJob
from telic.rendering.jobs import render
from telic.rendering.media import playback_rows
from telic.session.labels import EpisodeLabel, EpisodePreference, effective_labels
from telic.storage.files import json_text, make_folder, read_record, write_json
from telic.storage.layout import IterationFolder, MemberFolder, RunFolder, SessionFolder, file_name
from telic.storage.trajectories import Environment, Trajectory, read_trajectory
from telic.training.folder import environment_of
from telic.training.videos import choose_member
from telic.verbs.artifacts import PolicyRequest

DataFormat = Literal["minari", "lerobot"]
_MINARI = "MINARI_DATASETS_PATH"
_CAMERA, _SHAPE, _MOST_FPS = "observation.images.camera", (240, 320, 3), 60.0
_VIDEO = "videos/{}/chunk-{:0>3}/file-{:0>3}.mp4"


class DataEpisode(NamedTuple):
    """Recorded episode of a data set."""

    trajectory: Trajectory
    path: Path
    environment: Environment
    facts: dict[str, Any]
    """score and label, as far as they are known"""


def write_data(home: Path, member: MemberFolder, kind: DataFormat, out: Path) -> dict[str, Any]:
    """Write the recorded episodes of a policy to a new folder.

    `home` is the policy's session, whose judged episodes are written, or its run.
    """
    for package in ("pyarrow", "minari") if kind == "minari" else ("pyarrow",):
        if find_spec(package) is None:
            raise MissingExtra(package, "data", f"A data set for {kind}")
    if out.exists():
        raise UsageError(f"{out} already exists.", hint="Choose a new folder: --out FOLDER")
    session = SessionFolder(home) if (home / "session.json").exists() else None
    episodes = list(_evaluated(member) if session is None else _judged(session, member))
    if not episodes:
        raise UsageError(f"{member.name} has no recorded episodes.")
    task = home.name if session is None else read_record(session.config, SessionConfig).intent
    make_folder(out)
    name = _WRITERS[kind](episodes, task, out, file_name(home.name))
    if session is not None and (pairs := EpisodePreference.read(session.preferences)):
        write_json(out / "preferences.json", pairs)
    steps = sum(len(episode.trajectory) for episode in episodes)
    labels = sum("label" in episode.facts for episode in episodes)
    found = {"episodes": len(episodes), "steps": steps, "labels": labels}
    return {"format": kind, "name": name, "folder": str(out), **found}


def _judged(folder: SessionFolder, member: MemberFolder) -> Iterator[DataEpisode]:
    files = IterationFolder(member.path.parents[1])
    config = read_record(folder.config, SessionConfig)
    environment = config.env, read_record(files.candidate, RewardCandidate).judged_args
    iteration = read_record(files.judgment, SessionIteration)
    rows = effective_labels(EpisodeLabel.read(folder.labels))
    own = [row for row in rows if (row.iteration, row.member) == (iteration.number, member.name)]
    labels = {row.episode: row.is_wanted for row in own}
    (policy,) = (each for each in iteration.members if each.member == member.name)
    for index, verdict in enumerate(policy.judgment.verdicts):
        path = files.episode(member.name, index)
        if path.exists():
            known = {"score": verdict.score, "label": labels.get(index + 1)}
            facts = {name: value for name, value in known.items() if value is not None}
            yield DataEpisode(read_trajectory(path, environment), path, environment, facts)


def _evaluated(member: MemberFolder) -> Iterator[DataEpisode]:
    environment = environment_of(RunFolder(member.path.parent))
    for path in sorted(file.path for file in member.trajectories()):
        yield DataEpisode(read_trajectory(path, environment), path, environment, {})


def _rewards(trajectory: Trajectory) -> np.ndarray:
    """Return the rewards of an episode. Judged episodes have those of the environment."""
    return trajectory["reward" if "reward" in trajectory else "env_reward"]


def _write_minari(episodes: Sequence[DataEpisode], task: str, out: Path, name: str) -> str:
    import minari  # pyrefly: ignore[missing-import]
    from gymnasium.spaces import Box, Discrete, Space
    from minari.data_collector import EpisodeBuffer  # pyrefly: ignore[missing-import]

    buffers, first = list[Any](), episodes[0].trajectory
    for number, (trajectory, *_) in enumerate(episodes):
        ended = trajectory["terminated"].astype(bool)
        last = np.arange(len(ended)) == len(ended) - 1  # a recording may end early
        buffers.append(
            EpisodeBuffer(
                **{"id": number, "seed": trajectory.facts.seed},
                observations=np.concatenate((trajectory["obs"], trajectory["next_obs"][-1:])),
                actions=trajectory["action"],
                rewards=_rewards(trajectory),
                **{"terminations": ended, "truncations": last & ~ended},
            )
        )
    obs, action = first["obs"], first["action"]
    space: Space[Any] = Box(-np.inf, np.inf, action.shape[1:], action.dtype.type)
    if action.ndim == 1:
        space = Discrete(1 + max(int(each.trajectory["action"].max()) for each in episodes))
    env_id, env_args = episodes[0].environment
    before = os.environ.get(_MINARI)
    os.environ[_MINARI] = str(out.absolute())
    try:
        data = minari.create_dataset_from_buffers(
            f"telic/{name}-v0",
            buffers,
            env=env_id if env_id in gymnasium.registry and not env_args else None,
            algorithm_name="telic",
            observation_space=Box(-np.inf, np.inf, obs.shape[1:], obs.dtype.type),
            action_space=space,
            description=f"{task} ({env_id})",
            data_format="arrow",
        )
    finally:
        os.environ.pop(_MINARI)
        os.environ |= {} if before is None else {_MINARI: before}
    data.storage.update_episode_metadata([episode.facts for episode in episodes])
    return str(data.id)


def _write_lerobot(episodes: Sequence[DataEpisode], task: str, out: Path, name: str) -> str:
    import pyarrow as arrow  # pyrefly: ignore[missing-import]
    from pyarrow import parquet  # pyrefly: ignore[missing-import]

    def write(path: str, columns: Mapping[str, Any], **metadata: Any) -> None:
        make_folder((out / path).parent)
        rows = {key: x if np.ndim(x) < 2 else list(x) for key, x in columns.items()}
        about = {key: json_text(value) for key, value in metadata.items()}
        parquet.write_table(arrow.table(rows).replace_schema_metadata(about), out / path)

    (env, _), facts = episodes[0].environment, episodes[0].trajectory.facts
    if facts.dt_s is None:
        raise UsageError("LeRobot requires episodes with a known time step.")
    fps = int(min(_MOST_FPS, 1.0 / facts.dt_s + 1e-6))
    rows = [playback_rows(len(each.trajectory), facts.dt_s, fps)[0] for each in episodes]
    lengths, count = np.array([len(each) for each in rows]), len(episodes)
    frames, ends = np.concatenate([np.arange(n) for n in lengths]), np.cumsum(lengths)

    def joined(read: Callable[[Trajectory], np.ndarray]) -> np.ndarray:
        parts = zip(episodes, rows, strict=True)
        return np.concatenate([read(each.trajectory)[at] for each, at in parts]).astype(np.float32)

    data = {
        "observation.state": joined(lambda each: each["obs"]),
        "action": joined(lambda each: each["action"]).reshape(len(frames), -1),
        "next.reward": joined(_rewards),
        "next.done": np.isin(np.arange(len(frames)), ends - 1),
        "timestamp": (frames / fps).astype(np.float32),
        "frame_index": frames,
        "episode_index": np.repeat(np.arange(count), lengths),
        **{"index": np.arange(len(frames)), "task_index": np.zeros_like(frames)},
    }
    write("data/chunk-000/file-000.parquet", data)
    numbers = [
        f"{part}/{kind}"
        for part in ("data", "meta/episodes", f"videos/{_CAMERA}")
        for kind in ("chunk_index", "file_index")
    ]
    columns = {
        **{"episode_index": np.arange(count), "tasks": [[task]] * count, "length": lengths},
        **{"dataset_from_index": ends - lengths, "dataset_to_index": ends},
        **dict.fromkeys(numbers, np.zeros(count, int)),
        f"videos/{_CAMERA}/file_index": np.arange(count),
        f"videos/{_CAMERA}/from_timestamp": np.zeros(count),
        f"videos/{_CAMERA}/to_timestamp": lengths / fps,
        **{
            f"telic/{key}": [each.facts.get(key) for each in episodes] for key in ("score", "label")
        },
    }
    write("meta/episodes/chunk-000/file-000.parquet", columns)
    kinds = {"task_index": ("int64", "int64"), "task": ("unicode", "object")}
    index = [
        {"name": key, "field_name": key, "pandas_type": kind, "numpy_type": numpy, "metadata": None}
        for key, (kind, numpy) in kinds.items()
    ]
    index = {"index_columns": ["task"], "column_indexes": [], "columns": index}
    write("meta/tasks.parquet", {"task_index": [0], "task": [task]}, pandas=index)
    measures = {"min": np.min, "max": np.max, "mean": np.mean, "std": np.std}
    stats = {
        key: {
            kind: np.atleast_1d(measure(x.astype(float), axis=0))
            for kind, measure in measures.items()
        }
        | {"count": np.array([len(x)])}
        for key, x in data.items()
    }
    write_json(out / "meta" / "stats.json", stats)
    jobs = [
        RenderJob(
            **{"trajectory": each.path, "output": out / _VIDEO.format(_CAMERA, 0, number)},
            **{"env": each.environment[0], "env_args": each.environment[1]},
            **{"height": _SHAPE[0], "width": _SHAPE[1], "fps": fps, "caption": False},
        )
        for number, each in enumerate(episodes)
    ]
    make_folder(jobs[0].output.parent)
    for made in render(jobs):
        if made.error:
            raise TelicError(f"{made.output.name} was not rendered: {made.error}")
    names = {"observation.state": facts.obs_names or None, "action": facts.action_names or None}
    features: dict[str, Any] = {
        key: {"dtype": str(x.dtype), "shape": x.shape[1:] or (1,), "names": names.get(key)}
        for key, x in data.items()
    }
    axes = ["height", "width", "channels"]
    features[_CAMERA] = {
        "dtype": "video",
        "shape": _SHAPE,
        "names": axes,
        "info": {"video.fps": fps},
    }
    info = {
        **{"codebase_version": "v3.0", "robot_type": env, "fps": fps, "features": features},
        **{"total_episodes": count, "total_frames": len(frames), "total_tasks": 1},
        **{"chunks_size": 1000, "data_files_size_in_mb": 100, "video_files_size_in_mb": 200},
        "splits": {"train": f"0:{count}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": _VIDEO.format("{video_key}", "{chunk_index:03d}", "{file_index:03d}"),
    }
    write_json(out / "meta" / "info.json", info)
    return f"telic/{name}"


_WRITERS: dict[DataFormat, Callable[[Sequence[DataEpisode], str, Path, str], str]] = {
    "minari": _write_minari,
    "lerobot": _write_lerobot,
}


def main() -> None:
    """Write a data set and print its summary."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("artifact", help="session or run: an id or its prefix, a path, or latest")
    parser.add_argument("--to", choices=tuple(_WRITERS), required=True)
    parser.add_argument("--out", type=Path, required=True, help="new folder")
    parser.add_argument("--member", help="policy (default: the best)")
    parser.add_argument("--runs-dir", default="runs")
    options = parser.parse_args()
    request = PolicyRequest(
        artifact=options.artifact, member=options.member, runs_dir=options.runs_dir
    )
    place = request.choose()
    member = choose_member(place.run, place.member)
    print(write_data(place.home, member, options.to, options.out))


if __name__ == "__main__":
    main()
