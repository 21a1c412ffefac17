"""Every path name of a session.

runs/session_<time>_<hex>/
    session.json                 the request
    asked.json                   the criteria read from the intent
    author.json                  criteria, reward, judge, settings as first written
    trial.json                   both on examples whose worth is known
    memory.json                  what a model was told of earlier sessions' lessons
    judge_fn.py                  hidden from whoever writes rewards
    summary.json analysis.json report.md report.html report/
    events.jsonl lock stop
    pause                        exists while the session shall wait
    waiting.json                 what it waits for now; true only while it runs
    notes.jsonl                  what people said about it
    criteria.json approval.json  what was offered to a person, and what was agreed
    clock.json                   seconds of work so far
    origin.json                  the session and iteration it was branched from
    iter_<N>/                    from 1; 0 is what a branch was given
        notes.json               the notes this iteration answers
        candidate.json reward_fn.py judgment.json
        trial/ selection.json    short trainings of several variants, and which one was kept
        train/                   the run of the trainer
        judged/                  the fresh episodes that were judged
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from telic.storage.layout import RunFolder, WorkFolder


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
    def notes(self) -> Path:
        """Return the path of the notes that this iteration answers."""
        return self.path / "notes.json"

    @property
    def selection(self) -> Path:
        """Return the path of how the short trials went."""
        return self.path / "selection.json"

    @property
    def checkpoints(self) -> Path:
        """Return the path of what the judge said while training went on."""
        return self.path / "checkpoints.jsonl"

    @property
    def judged_dir(self) -> Path:
        """Return the folder of the judged episodes."""
        return self.path / "judged"

    @property
    def run(self) -> RunFolder:
        """Return the files of its training."""
        return RunFolder(self.path / "train")

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
    def asked(self) -> Path:
        """Return the path of what the intent asks for, as criteria."""
        return self.path / "asked.json"

    @property
    def trial(self) -> Path:
        """Return the path of how the first reward and the judge did on examples."""
        return self.path / "trial.json"

    @property
    def memory(self) -> Path:
        """Return the path of what earlier sessions learned, as it was when this one began."""
        return self.path / "memory.json"

    @property
    def analysis(self) -> Path:
        """Return the path of what a model says of the whole."""
        return self.path / "analysis.json"

    @property
    def page(self) -> Path:
        """Return the path of the report as one page."""
        return self.path / "report.html"

    @property
    def judge(self) -> Path:
        """Return the path of the judge's source."""
        return self.path / "judge_fn.py"

    @property
    def pause(self) -> Path:
        """Return the path whose existence asks the session to wait."""
        return self.path / "pause"

    @property
    def waiting(self) -> Path:
        """Return the path of what the session waits for."""
        return self.path / "waiting.json"

    @property
    def notes(self) -> Path:
        """Return the path of what people said."""
        return self.path / "notes.jsonl"

    @property
    def criteria(self) -> Path:
        """Return the path of the criteria that a person is asked about."""
        return self.path / "criteria.json"

    @property
    def approval(self) -> Path:
        """Return the path of a person's agreement."""
        return self.path / "approval.json"

    @property
    def clock(self) -> Path:
        """Return the path of the seconds of work so far."""
        return self.path / "clock.json"

    @property
    def origin(self) -> Path:
        """Return the path of where a branch came from."""
        return self.path / "origin.json"

    def iterations(self) -> list[int]:
        """Return the numbers of the iterations on disk, in order; 0 is what a branch was given."""
        names = (each.name.removeprefix("iter_") for each in self.path.glob("iter_*"))
        return sorted(int(name) for name in names if name.isdigit())

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
