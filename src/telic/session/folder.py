"""Every path name of a session.

runs/session_<time>_<hex>/
    session.json                 the request
    author.json                  criteria, reward, judge, settings as first written
    judge_fn.py                  hidden from whoever writes rewards
    history.jsonl                a line per finished iteration
    summary.json report.md report/
    events.jsonl lock stop
    iter_<N>/
        candidate.json reward_fn.py judgment.json
        train/                   the run of the trainer
        judged/                  the fresh episodes that were judged
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from telic.storage.layout import WorkFolder


@dataclass(frozen=True, slots=True)
class IterationFolder:
    """The files of one iteration."""

    path: Path

    @property
    def candidate(self) -> Path:
        """Return the path of what is tried."""
        return self.path / "candidate.json"

    @property
    def reward(self) -> Path:
        """Return the path of the reward's source."""
        return self.path / "reward_fn.py"

    @property
    def judgment(self) -> Path:
        """Return the path of the finished iteration's record."""
        return self.path / "judgment.json"

    @property
    def judged_dir(self) -> Path:
        """Return the folder of the judged episodes."""
        return self.path / "judged"

    def episode(self, member: str, index: int) -> Path:
        """Return where a judged episode goes."""
        return self.judged_dir / member / f"episode_{index:02d}.npz"


@dataclass(frozen=True, slots=True)
class SessionFolder(WorkFolder):
    """The files of one session."""

    @property
    def config(self) -> Path:
        """Return the path of the request."""
        return self.path / "session.json"

    @property
    def author(self) -> Path:
        """Return the path of what the author wrote first."""
        return self.path / "author.json"

    @property
    def judge(self) -> Path:
        """Return the path of the judge's source."""
        return self.path / "judge_fn.py"

    def iteration(self, number: int) -> IterationFolder:
        """Return the folder of an iteration."""
        return IterationFolder(self.path / f"iter_{number}")


def new_session(runs_dir: Path) -> SessionFolder:
    """Return a folder for a new session; nothing is made yet."""
    stamp = datetime.now(UTC).strftime("%Y%m%d_%H%M%S")
    return SessionFolder(runs_dir / f"session_{stamp}_{secrets.token_hex(4)}")


def list_sessions(runs_dir: Path) -> list[SessionFolder]:
    """Return the sessions of a folder, the newest first."""
    if not runs_dir.is_dir():
        return []
    found = [path for path in runs_dir.iterdir() if (path / "session.json").is_file()]
    return [SessionFolder(path) for path in sorted(found, reverse=True)]
