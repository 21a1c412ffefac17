"""Every path name of a run in one place, and finding runs by name.

runs/<run>/                        one call of the trainer
    config.json manifest.json summary.json status.json events.jsonl worker.log
    state.pt                       the whole population, enough to resume exactly
    stop                           exists when somebody asked the run to end
    lock                           held by the process that writes here
    report.md report/              for people
    <config>_seed_<s>/             one member of the population
        config.json reward_fn.py reward_spec.json summary.json
        metrics/scalars.jsonl      a line per training iteration and per evaluation
        videos/eval_<step>_<label>.mp4
        checkpoints/policy_<step>.pt
        trajectories/trajectory_<step>_<label>.npz
        tb_logs/                   TensorBoard event files
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from telic.errors import UnknownName, UsageError

LATEST = "latest"
_MEMBER = re.compile(r"(?P<config>.+)_seed_(?P<seed>-?\d+)")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class Artifact(NamedTuple):
    """A file that belongs to one evaluation; `label` is None for checkpoints."""

    path: Path
    step: int
    label: str | None


@dataclass(frozen=True, slots=True)
class MemberFolder:
    """The files of one member of a population."""

    path: Path

    @property
    def name(self) -> str:
        """Return the folder's name, `<config>_seed_<s>`."""
        return self.path.name

    @property
    def config(self) -> Path:
        """Return the path of the member's settings."""
        return self.path / "config.json"

    @property
    def reward_code(self) -> Path:
        """Return the path of the reward's source as it was trained."""
        return self.path / "reward_fn.py"

    @property
    def reward_spec(self) -> Path:
        """Return the path of the reward's description: terms, weights, formula."""
        return self.path / "reward_spec.json"

    @property
    def summary(self) -> Path:
        """Return the path of the member's result."""
        return self.path / "summary.json"

    @property
    def scalars(self) -> Path:
        """Return the path of the metric series."""
        return self.path / "metrics" / "scalars.jsonl"

    @property
    def videos_dir(self) -> Path:
        """Return the folder of videos."""
        return self.path / "videos"

    @property
    def checkpoints_dir(self) -> Path:
        """Return the folder of policies."""
        return self.path / "checkpoints"

    @property
    def trajectories_dir(self) -> Path:
        """Return the folder of recorded episodes."""
        return self.path / "trajectories"

    @property
    def tensorboard_dir(self) -> Path:
        """Return the folder of TensorBoard event files."""
        return self.path / "tb_logs"

    def video(self, step: int, label: str) -> Path:
        """Return where the video of an evaluation episode goes."""
        return self.videos_dir / f"eval_{step}_{label}.mp4"

    def checkpoint(self, step: int) -> Path:
        """Return where the policy after `step` environment steps goes."""
        return self.checkpoints_dir / f"policy_{step}.pt"

    def trajectory(self, step: int, label: str) -> Path:
        """Return where the record of an evaluation episode goes."""
        return self.trajectories_dir / f"trajectory_{step}_{label}.npz"

    def videos(self) -> list[Artifact]:
        """Return the finished videos by step, then label."""
        return _artifacts(self.videos_dir, r"eval_(\d+)_(.+)\.mp4")

    def checkpoints(self) -> list[Artifact]:
        """Return the saved policies by step."""
        return _artifacts(self.checkpoints_dir, r"policy_(\d+)()\.pt")

    def trajectories(self) -> list[Artifact]:
        """Return the recorded episodes by step, then label."""
        return _artifacts(self.trajectories_dir, r"trajectory_(\d+)_(.+)\.npz")


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """The files that every piece of work has, be it a run or a session."""

    path: Path

    @property
    def name(self) -> str:
        """Return its id."""
        return self.path.name

    @property
    def summary(self) -> Path:
        """Return the path of the result."""
        return self.path / "summary.json"

    @property
    def events(self) -> Path:
        """Return the path of what happened, line by line."""
        return self.path / "events.jsonl"

    @property
    def lock(self) -> Path:
        """Return the path of the lock."""
        return self.path / "lock"

    @property
    def stop(self) -> Path:
        """Return the path whose existence asks the work to end."""
        return self.path / "stop"

    @property
    def report(self) -> Path:
        """Return the path of the readable report."""
        return self.path / "report.md"

    @property
    def report_dir(self) -> Path:
        """Return the folder of the report's pictures."""
        return self.path / "report"


@dataclass(frozen=True, slots=True)
class RunFolder(WorkFolder):
    """The files of one run."""

    @property
    def config(self) -> Path:
        """Return the path of the resolved settings."""
        return self.path / "config.json"

    @property
    def manifest(self) -> Path:
        """Return the path of versions and hashes."""
        return self.path / "manifest.json"

    @property
    def status(self) -> Path:
        """Return the path of the run's state."""
        return self.path / "status.json"

    @property
    def worker_log(self) -> Path:
        """Return the path of the worker's own output."""
        return self.path / "worker.log"

    @property
    def state(self) -> Path:
        """Return the path of the resumable state of the whole population."""
        return self.path / "state.pt"

    def member(self, config: str, seed: int) -> MemberFolder:
        """Return the folder of the member trained with `config` and `seed`."""
        return MemberFolder(self.path / f"{file_name(config)}_seed_{seed}")

    def members(self) -> list[MemberFolder]:
        """Return the members on disk, ordered by config and then by seed as a number."""
        found: list[tuple[str, int, Path]] = []
        for each in self.path.iterdir():
            match = _MEMBER.fullmatch(each.name)
            if match and each.is_dir():
                found.append((match["config"], int(match["seed"]), each))
        return [MemberFolder(path) for _, _, path in sorted(found)]


def file_name(text: str) -> str:
    """Return `text` as a name every file system accepts."""
    name = _NOT_IN_NAMES.sub("-", text).strip(".-")
    if not name:
        raise UsageError(f"{text!r} holds no letter or digit to name a folder with.")
    return name


def is_run(path: Path) -> bool:
    """Say whether a folder holds a run."""
    return (path / "config.json").is_file() and _MEMBER.fullmatch(path.name) is None


def list_runs(runs_dir: Path) -> list[RunFolder]:
    """Return the runs of a folder, the most recently active first."""
    if not runs_dir.is_dir():
        return []
    runs = [RunFolder(each) for each in runs_dir.iterdir() if is_run(each)]
    return sorted(runs, key=lambda run: (_last_active(run), run.name), reverse=True)


def find_run(runs_dir: Path, name: str) -> RunFolder:
    """Return the run meant by an id, the start of an id, a path, or "latest".

    Raises UnknownName with the closest ids, or UsageError when a start fits several runs.
    """
    # A name wins over a path: a folder of the same name beside the user must not shadow the run.
    for path in (runs_dir / name, Path(name).expanduser()):
        if is_run(path):
            return RunFolder(path)
    runs = list_runs(runs_dir)
    if not runs:
        raise UsageError(
            f'There is no run "{name}": {runs_dir} holds no runs yet.',
            hint="Start one with: telic train",
        )
    if name == LATEST:
        return runs[0]
    matches = [run for run in runs if name and run.name.startswith(name)]
    if not matches:
        raise UnknownName("run", name, [run.name for run in runs], see="telic runs")
    if len(matches) > 1:
        names = ", ".join(run.name for run in matches[:5])
        raise UsageError(
            f'"{name}" is the start of {len(matches)} runs: {names}.', hint="Add a few letters."
        )
    return matches[0]


def _last_active(run: RunFolder) -> float:
    file = run.status if run.status.exists() else run.config
    return file.stat().st_mtime


def _artifacts(folder: Path, pattern: str) -> list[Artifact]:
    if not folder.is_dir():
        return []
    found = [(each, re.fullmatch(pattern, each.name)) for each in folder.iterdir()]
    artifacts = [Artifact(path, int(m[1]), m[2] or None) for path, m in found if m]
    return sorted(artifacts, key=lambda each: (each.step, each.label or ""))
