"""A world in which a study is cheap to live: git is remembered, runs end at once, disks are fast.

Everything between is real: the ledger, the gates, the launch path, the supervisor's own records.
"""

import hashlib
import json
import os
import random
import shutil
import time
from dataclasses import asdict
from pathlib import Path

from telic.jobs.process import ProcessId
from telic.studies import _git_read as git_read
from telic.studies._ledger import Ledger
from telic.studies.canonical import utc_now
from telic.studies.folder import StudyFolder
from telic.studies.launch import _isolation as isolation
from telic.studies.launch import launch, supervisor
from telic.studies.study import Study
from tests.studies.launch import toy_study


class Crash(BaseException):
    """The process dies at this very write."""


class World:
    """Surroundings of a study: commits of the repository, active runs, a failing disk."""

    ODDS = (14, 2, 1, 1, 1, 1)
    """of how a run ends"""

    def __init__(self, home: Path, luck: random.Random) -> None:
        self.home, self.luck = home, luck
        self.root = home / "repo"
        self.head, self.commits = "c" * 40, ["c" * 40]
        self.moved: set[str] = set()
        """commits that changed more than the studies' own records"""
        self.trees: dict[Path, str] = {}
        """worktrees, and the commits that they are at"""
        self.dirty = False
        self.until_crash: int | None = None
        self._ledger: Ledger | None = None

    @property
    def study(self) -> Study:
        """The study, as a new process sees it."""
        if self._ledger is None:
            self._ledger = Ledger(StudyFolder.find(self.root))
        return Study(self._ledger.folder, self._ledger)

    def commit(self, *, ours_only: bool) -> None:
        self.head = f"{len(self.commits):040x}"
        self.commits.append(self.head)
        self.dirty = False
        if not ours_only:
            self.moved.add(self.head)

    def differing(self, root: Path, one: str, other: str) -> tuple[str, ...]:
        first, last = sorted((self.commits.index(one), self.commits.index(other)))
        is_moved = self.moved & set(self.commits[first + 1 : last + 1])
        return ("README.md",) if is_moved else (".telic/registry.yaml",)

    # ------------------------------------------------------------------ runs

    def start(self, attempt) -> dict:
        """Start a run that has ended, or hangs, or is gone, before anybody looks."""
        folder = attempt.run_folder
        claim = {"nonce": attempt.nonce, "at": utc_now(), "boot": supervisor.boot_id()}
        claim |= asdict(ProcessId.own())
        how = self.luck.choices(
            ("finished", "hangs", "vanished", "failed", "unreadable", "silent"), self.ODDS
        )[0]
        if how == "vanished":
            claim["started"] = -1.0
        supervisor.claim(folder / supervisor.PID_FILE, claim)
        (folder / "key").write_text(attempt.variables[supervisor.SEAL_VARIABLE])
        if how not in ("hangs", "vanished"):
            self.end(folder, how)
        return claim

    def end(self, folder: Path, how: str, *, ended_by: str | None = None) -> None:
        """Let the supervisor of a run write its last word."""
        inside = folder / "artifacts"
        if how != "silent":
            (inside / "done").write_text("yes")
        score = round(self.luck.uniform(0.3, 0.7), 3)
        row = f'{{"step": 1, "success": {score}, "falls": 0.1}}\n'
        (inside / "metrics.jsonl").write_text("no json\n\n" if how == "unreadable" else row)
        key = (folder / "key").read_text()
        code = 1 if how == "failed" else 0
        over = supervisor._Supervisor.__new__(supervisor._Supervisor)
        over.folder, over.began, over.ended_by = folder, time.monotonic(), ended_by
        over.order = json.loads((folder / supervisor.ORDER_FILE).read_text())
        measured_by = json.dumps(over.order["evaluator"]["files"])
        over.code_hash = hashlib.sha256(measured_by.encode()).hexdigest()
        over._finish(key, utc_now(), [{"name": "train", "code": code, "error": None}])

    # ------------------------------------------------------------------ the disk

    def write(self, real):
        """Return a way of writing that fails when its time has come."""

        def written(*args, **kwargs):
            if self.until_crash is not None:
                self.until_crash -= 1
                if self.until_crash < 0:
                    self.until_crash = self._ledger = None
                    raise Crash
            return real(*args, **kwargs)

        return written


def enter(patch, world: World) -> None:
    """Put the world in place of git, the process table and the disk."""
    fakes = {
        "is_repository": lambda root: True,
        "head_commit": lambda root: world.trees.get(root, world.head),
        "has_commit": lambda root, commit: commit in world.commits,
        "changed_paths": lambda root: (
            ("train.py",) if world.dirty and root not in world.trees else ()
        ),
        "differing_paths": world.differing,
        "why_patch_fails": lambda *_: None,
        "ask": lambda *_, **__: git_read.Answer(0, "", ""),
        "read_patch": lambda *_: git_read.Patch(
            ("reward.py",), ("weight = 1",), ("weight = 2",), ()
        ),
    }
    for name, fake in fakes.items():
        patch.setattr(git_read, name, fake)
    patch.setattr(isolation, "_blobs", lambda *_: {})
    patch.setattr(isolation, "_altered", lambda *_: ())
    patch.setattr(isolation, "_git", lambda folder, *words, **_: _worktree(world, words))
    patch.setattr(launch, "_start", world.start)
    # A hanging run is this very process; told to end, it does so when it is its time.
    patch.setattr(os, "kill", lambda pid, signal: None)
    for name in ("replace", "write", "truncate"):
        patch.setattr(os, name, world.write(getattr(os, name)))
    patch.setattr(os, "fsync", world.write(lambda handle: None))


def _worktree(world: World, words: tuple[str, ...]) -> None:
    if words[:2] == ("worktree", "add"):
        skipped = shutil.ignore_patterns(".git", ".telic")
        shutil.copytree(world.root, words[3], ignore=skipped, dirs_exist_ok=True)
        world.trees[Path(words[3])] = words[4]
    elif words[:2] == ("worktree", "remove"):
        shutil.rmtree(words[-1], ignore_errors=True)


def make_template(home: Path) -> None:
    """Make a study with every approval, in a repository without git, once for all walks."""
    study = toy_study.make_study(home / "repo")
    toy_study.change_contract(
        study,
        {
            "budget": {"launches": 400},
            "seeds": {"promotion": "100-119", "validation": "900-929"},
            "baseline": {"commit": "c" * 40, "est": {"wall_clock_h": 0.01}},
            "generated_code": {"allowed": True},
        },
    )
