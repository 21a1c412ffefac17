"""Workspace of a dashboard, in which runs and studies are found by their exact ids.

Ids are compared with existing folders and never used to build paths. Only files in the workspace
are served, and links that lead out of it are refused.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from telic.errors import Refused, UnknownName, UsageError
from telic.storage.layout import IterationFolder, MemberFolder, RunFolder, SessionFolder
from telic.storage.locks import lock_holder
from telic.storage.workspace import Artifact, ArtifactKind, has_begun, kind_of
from telic.verbs.background import starting
from telic.verbs.lines import ArtifactSummary, artifact_id, read_line

_FRESH_S = 0.25
"""maximum age of the list, so that simultaneous requests share one scan"""
_SCAN_SHARE = 10
"""minimum interval between scans, as a multiple of the scan duration"""
_STAMPED = (
    *("", "events.jsonl", "ledger.jsonl", "labels.jsonl", "vetoes.jsonl"),
    *("about.json", "lock"),
)
"""the folder, and files that change while work is running"""
_LISTED: tuple[ArtifactKind, ...] = ("session", "run", "search", "study")


class NotTrained(UsageError):
    """Raised if nothing has been trained yet."""


def current_run(files: IterationFolder) -> RunFolder | None:
    """Return the training run of an iteration, or else its screening run, or else None."""
    for run in (files.run, RunFolder(files.path / "trial")):
        if run.config.exists():
            return run
    return None


class ListedArtifact(NamedTuple):
    """Artifact with its list row, cached until the folder changes."""

    artifact: Artifact
    line: ArtifactSummary
    stamp: tuple[Any, ...]


class WebPlace:
    """Workspace with a runs folder and a repository with studies."""

    def __init__(self, runs_dir: Path, root: Path) -> None:
        self.runs_dir, self.root = runs_dir, root
        self._known: dict[str, ListedArtifact] = {}
        self._stale_at = float("-inf")
        self._turn = threading.Lock()

    def listed(self) -> dict[str, ListedArtifact]:
        """Return all artifacts by id. Only folders that have changed are read again."""
        with self._turn:
            start = time.monotonic()
            if start > self._stale_at:
                found = ((name, self._read(name, path)) for name, path in self._folders())
                self._known = {name: entry for name, entry in found if entry is not None}
                end = time.monotonic()
                self._stale_at = end + max(_FRESH_S, _SCAN_SHARE * (end - start))
            return self._known

    def forget(self) -> None:
        """Invalidate the artifact list, so that the next request scans the folders again."""
        self._stale_at = float("-inf")

    def entry(self, name: str) -> ListedArtifact | None:
        """Return the artifact with exactly this id, or None."""
        known = self._known.get(name)
        path = known.artifact.path if known else dict(self._folders()).get(name)
        return None if path is None else self._read(name, path)

    def artifact(self, name: str, *kinds: ArtifactKind) -> Artifact:
        """Return the artifact with this id. Raises UnknownName, or UsageError for a wrong kind."""
        found = self.entry(name)
        if found is None:
            known = list(self.listed())
            raise UnknownName("session, run, search or study", name[:200], known)
        if kinds and found.artifact.kind not in kinds:
            raise UsageError(f"{name} is a {found.artifact.kind}; expected {' or '.join(kinds)}.")
        return found.artifact

    def session(self, name: str) -> SessionFolder:
        """Return a session."""
        return SessionFolder(self.artifact(name, "session").path)

    def iteration(self, name: str, number: int) -> IterationFolder:
        """Return an iteration of a session."""
        session = self.session(name)
        known = session.iterations()
        if number not in known:
            raise UnknownName("iteration", str(number), list(map(str, known)))
        return session.iteration(number)

    def run(self, name: str, iteration: int | None = None) -> RunFolder:
        """Return a run, or the training run of a session's iteration (default: the last one).

        While the variants of an iteration are screened, this is their screening run.
        """
        artifact = self.artifact(name, "run", "session")
        if artifact.kind == "run":
            return RunFolder(artifact.path)
        number = iteration
        if number is None:
            number = max(SessionFolder(artifact.path).iterations(), default=None)
        run = None if number is None else current_run(self.iteration(name, number))
        if run is None:
            raise NotTrained(f"{name} has not trained a policy yet.")
        return run

    def member(self, run: RunFolder, name: str) -> MemberFolder:
        """Return the member of a run with this exact name."""
        known = {member.name: member for member in run.members()}
        if name not in known:
            raise UnknownName("member", name[:200], list(known))
        return known[name]

    def inside(self, path: Path) -> Path:
        """Resolve the path of a file in the workspace. Raises Refused for any other file.

        This check is necessary because sandboxed workers may create links in some of the folders.
        """
        real = Path(os.path.realpath(path))  # unlike resolve, accepts a loop of links
        homes = (self.runs_dir.resolve(), (self.root / ".telic").resolve())
        if not any(real.is_relative_to(home) for home in homes) or not real.is_file():
            raise Refused(f"{path.name} is not a file in this workspace.")
        return real

    def _folders(self) -> Iterator[tuple[str, Path]]:
        """Yield the id and path of every candidate folder, skipping links."""
        if self.runs_dir.is_dir():
            with os.scandir(self.runs_dir) as entries:
                for entry in entries:
                    if entry.name[0] != "." and entry.is_dir(follow_symlinks=False):
                        yield entry.name, Path(entry.path)
        for path in self.root.glob(".telic/tasks/*/studies/*"):
            yield artifact_id(Artifact("study", path)), path

    def _read(self, name: str, path: Path) -> ListedArtifact | None:
        """Return the artifact in a folder (cached until the folder changes)."""
        holder = lock_holder(path / "lock")
        paths = [f"{path}/{each}" for each in _STAMPED]
        if holder is None:  # any file may be evidence of the verdict
            paths += [f"{place}/{file}" for place, _, files in os.walk(path) for file in files]
        stamp = (*map(_changed, paths), holder)
        known = self._known.get(name)
        if known is not None and known.stamp == stamp:
            return known
        kind = kind_of(path)
        if kind not in _LISTED or (kind == "session" and not has_begun(path)):
            return None
        artifact = Artifact(kind, path)
        line = read_line(artifact)
        if line.state == "interrupted" and name in starting(self.runs_dir):
            return ListedArtifact(artifact, line.model_copy(update={"state": "starting"}), ())
        return ListedArtifact(artifact, line, stamp)


def _changed(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ctime_ns, found.st_size
