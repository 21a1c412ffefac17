"""Paths in runs and sessions (see docs/reference/files.md), and discovery of runs."""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from telic.errors import UsageError

LATEST = "latest"
DAMAGED = "damaged"
"""state in lists of work whose files cannot be read"""
_MAX_NAME = 120
_MEMBER = re.compile(r"(?P<config>[^\ud800-\udfff]+)_seed_(?P<seed>-?[0-9]{1,20})")
_NUMBER = re.compile("[0-9]{1,9}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class _Folder(Protocol):
    """Object with a path."""

    @property
    def path(self) -> Path: ...


class FolderFile:
    """Descriptor for a file in a folder: `folder.summary` is `folder.path / "summary.json"`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: _Folder, kind: type[object] | None = None) -> Path:
        return folder.path / self._name


class EvaluationFile(NamedTuple):
    """File of one evaluation. `label` is None for checkpoints."""

    path: Path
    step: int
    label: str | None


@dataclass(frozen=True, slots=True)
class MemberFolder:
    """Files of one member of a population."""

    path: Path

    @property
    def name(self) -> str:
        """Return the folder's name, `<config>_seed_<s>`."""
        return self.path.name

    config = FolderFile("config.json")
    reward_code = FolderFile("reward_fn.py")
    reward_spec = FolderFile("reward_spec.json")
    summary = FolderFile("summary.json")
    scalars = FolderFile("metrics/scalars.jsonl")
    videos_dir = FolderFile("videos")
    checkpoints_dir = FolderFile("checkpoints")
    trajectories_dir = FolderFile("trajectories")

    def filled(self) -> tuple[Path, ...]:
        """Return the folders to which the sandboxed trainer may write."""
        return self.scalars.parent, self.checkpoints_dir, self.trajectories_dir

    def video(self, step: int, label: str) -> Path:
        """Return the path for the video of an evaluation episode."""
        return self.videos_dir / f"eval_{step}_{label}.mp4"

    def checkpoint(self, step: int) -> Path:
        """Return the path for the policy after `step` environment steps."""
        return self.checkpoints_dir / f"policy_{step}.pt"

    def trajectory(self, step: int, label: str) -> Path:
        """Return the path for the recording of an evaluation episode."""
        return self.trajectories_dir / f"trajectory_{step}_{label}.npz"

    def videos(self) -> list[EvaluationFile]:
        """Return the finished videos, ordered by step and label."""
        return _artifacts(self.videos_dir, r"eval_([0-9]{1,18})_(.+)\.mp4")

    def checkpoints(self) -> list[EvaluationFile]:
        """Return the saved policies, ordered by step."""
        return _artifacts(self.checkpoints_dir, r"policy_([0-9]{1,18})()\.pt")

    def trajectories(self) -> list[EvaluationFile]:
        """Return the recorded episodes, ordered by step and label."""
        return _artifacts(self.trajectories_dir, r"trajectory_([0-9]{1,18})_(.+)\.npz")


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """Files common to runs and sessions."""

    path: Path

    @property
    def name(self) -> str:
        """Return the id (the folder's name)."""
        return self.path.name

    summary = FolderFile("summary.json")
    events = FolderFile("events.jsonl")
    lock = FolderFile("lock")
    stop = FolderFile("stop")
    report = FolderFile("report.md")
    report_dir = FolderFile("report")


@dataclass(frozen=True, slots=True)
class RunFolder(WorkFolder):
    """Files of one run."""

    config = FolderFile("config.json")
    manifest = FolderFile("manifest.json")
    status = FolderFile("status.json")
    worker_log = FolderFile("worker.log")
    state = FolderFile("state/state.pt")

    def cell_state(self, number: int) -> Path:
        """Return the path of a process's resumable state. Processes are numbered from 1."""
        return self.state.parent / str(number) / self.state.name

    def cell_result(self, number: int) -> Path:
        """Return the path of a process's result, to which the process itself cannot write."""
        return self.state.parent / f"{number}.json"

    def member(self, config: str, seed: int) -> MemberFolder:
        """Return the folder of the member trained with `config` and `seed`."""
        return MemberFolder(self.path / f"{file_name(config)}_seed_{seed}")

    def members(self) -> list[MemberFolder]:
        """Return the members on disk, ordered by config and seed (numerically)."""
        matches = [(_MEMBER.fullmatch(path.name), path) for path in self.path.iterdir()]
        members = [(m["config"], int(m["seed"]), path) for m, path in matches if m]
        return [MemberFolder(path) for _, _, path in sorted(members) if path.is_dir()]


@dataclass(frozen=True, slots=True)
class IterationFolder:
    """Files of one iteration."""

    path: Path

    candidate = FolderFile("candidate.json")
    reward = FolderFile("reward_fn.py")
    judgment = FolderFile("judgment.json")
    notes = FolderFile("notes.json")
    selection = FolderFile("selection.json")
    checkpoints = FolderFile("checkpoints.jsonl")
    proof = FolderFile("proof.json")
    judged_dir = FolderFile("judged")
    certificate = FolderFile("certificate.json")

    @property
    def run(self) -> RunFolder:
        """Return the folder of the iteration's training run."""
        return RunFolder(self.path / "train")

    def episode(self, member: str, index: int) -> Path:
        """Return the path for a judged episode."""
        return self.judged_dir / member / f"episode_{index:02d}.npz"


@dataclass(frozen=True, slots=True)
class SessionFolder(WorkFolder):
    """Files of one session."""

    config = FolderFile("session.json")
    author = FolderFile("author.json")
    asked = FolderFile("asked.json")
    trial = FolderFile("trial.json")
    certificate = FolderFile("certificate.json")
    journal = FolderFile("journal.jsonl")
    context = FolderFile("context.md")
    analysis = FolderFile("analysis.json")
    page = FolderFile("report.html")
    judge = FolderFile("judge_fn.py")
    pause = FolderFile("pause")
    waiting = FolderFile("waiting.json")
    notes = FolderFile("notes.jsonl")
    robustness = FolderFile("robustness.json")
    labels = FolderFile("labels.jsonl")
    preferences = FolderFile("preferences.jsonl")
    vetoes = FolderFile("vetoes.jsonl")
    criteria = FolderFile("criteria.json")
    approval = FolderFile("approval.json")
    clock = FolderFile("clock.json")
    origin = FolderFile("origin.json")
    untrained = FolderFile("untrained/episode.npz")

    def iterations(self) -> list[int]:
        """Return the iteration numbers on disk, sorted. 0 is the starting point of a branch."""
        names = (path.name.removeprefix("iter_") for path in self.path.glob("iter_*"))
        return sorted(int(name) for name in names if _NUMBER.fullmatch(name))

    def iteration(self, number: int) -> IterationFolder:
        """Return the folder of an iteration."""
        return IterationFolder(self.path / f"iter_{number}")


def file_name(text: str) -> str:
    """Convert `text` to a file name that is valid on every file system."""
    name = _NOT_IN_NAMES.sub("-", text).strip(".-")
    if not name:
        raise UsageError(f"{text[:60]!r} contains no letters or digits for a folder name.")
    return name


def check_name(name: str, option: str) -> str:
    """Validate a user-chosen folder name. Raises UsageError if it is invalid."""
    if name != file_name(name) or len(name) > _MAX_NAME:
        raise UsageError(
            f'{option} "{name[:_MAX_NAME]}" is not a valid folder name.',
            hint=f"Use at most {_MAX_NAME} letters, digits, dots, dashes and underscores.",
        )
    return name


def is_run(path: Path) -> bool:
    """Return whether a folder holds a run."""
    return (path / "config.json").is_file() and _MEMBER.fullmatch(path.name) is None


def list_runs(runs_dir: Path) -> list[RunFolder]:
    """Return the runs in a folder, most recently active first."""
    if not runs_dir.is_dir():
        return []
    runs = [RunFolder(each) for each in runs_dir.iterdir() if is_run(each)]
    runs.sort(key=lambda x: (changed_at(x.status) or changed_at(x.config), x.name), reverse=True)
    return runs


def new_name(kind: str, letters: int = 8) -> str:
    """Return a unique name that consists of the kind, the time and random letters."""
    stamp = datetime.now(UTC).strftime("%Y%m%d_%H%M%S")
    return f"{kind}_{stamp}_{secrets.token_hex(letters // 2)}"


def list_sessions(runs_dir: Path) -> list[SessionFolder]:
    """Return the sessions in a folder, newest first."""
    found = sorted((path.parent for path in runs_dir.glob("*/session.json")), reverse=True)
    return [SessionFolder(path) for path in found]


def changed_at(path: Path | str) -> float:
    """Return the modification time of a file, or 0 if it does not exist."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _artifacts(folder: Path, pattern: str) -> list[EvaluationFile]:
    if not folder.is_dir():
        return []
    matches = [(path, re.fullmatch(pattern, path.name)) for path in folder.iterdir()]
    artifacts = [EvaluationFile(path, int(m[1]), m[2] or None) for path, m in matches if m]
    return sorted(artifacts, key=lambda artifact: (artifact.step, artifact.label or ""))
