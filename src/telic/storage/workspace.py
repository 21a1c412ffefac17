"""Find runs, sessions, searches, studies and policies by name.

A name is `latest`, an id, a prefix of an id, or a path. Folders are identified by their files:

    config.json      a run            session.json   a session       search.json   a search
    ledger.jsonl     a study, in .telic of a repository
    <config>_seed_<s>/ or policy_<step>.pt           a policy, inside of a run

This module also finds unfinished work that a repeated request resumes, and manages the trash.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from telic.errors import Refused, TelicError, UnknownName, UsageError
from telic.storage.files import read_fields
from telic.storage.keys import BEGUN, is_own_folder
from telic.storage.layout import LATEST, RunFolder, SessionFolder, changed_at, is_run
from telic.storage.locks import lock_holder
from telic.storage.reading import MEBIBYTE, without_links

ArtifactKind = Literal["run", "session", "search", "study", "policy"]
WORK: tuple[ArtifactKind, ...] = ("session", "run", "search")
"""kinds stored in a runs folder"""
TRASH = ".trash"
_REQUESTS: dict[str, ArtifactKind] = {"session.json": "session", "search.json": "search"}
_REQUESTED = {
    *("session.json", "events.jsonl", "lock", "clock.json", BEGUN),
    *("journal.jsonl", "journal.jsonl.lock", "untrained"),
}
"""files of a session that was requested but has not started"""
_POLICY = re.compile(r"policy_[0-9]{1,18}\.pt")
_ACTIVE = (
    "events.jsonl",
    "status.json",
    "ledger.jsonl",
    "session.json",
    "search.json",
    "config.json",
)
_START: dict[ArtifactKind, str] = {
    "run": "telic train HalfCheetah-v5",
    "session": 'telic run "run forward fast" --env HalfCheetah-v5',
    "search": "telic search --env CartPole-v1",
    "study": "telic study init --task NAME --study NAME",
    "policy": "telic train HalfCheetah-v5",
}
_SEE: dict[ArtifactKind, str] = {"run": "telic list run", "session": "telic list session"}


@dataclass(frozen=True, slots=True)
class Artifact:
    """Path and kind of an artifact."""

    kind: ArtifactKind
    path: Path

    @property
    def name(self) -> str:
        """Id, or task/study."""
        if self.kind == "study":
            return f"{self.path.parent.parent.name}/{self.path.name}"
        return self.path.name

    @property
    def is_running(self) -> bool:
        """Return whether a process holds the folder's lock."""
        return self.path.is_dir() and lock_holder(self.path / "lock") is not None

    @property
    def last_active(self) -> float:
        """Time of the last write."""
        return max(changed_at(f"{self.path}/{name}") for name in _ACTIVE)

    @property
    def has_ended(self) -> bool:
        """Return whether the work is finished, so that it cannot be resumed."""
        if self.kind == "run":
            status = self.path / "status.json"
            return status.exists() and read_fields(status, status=str)["status"] == "completed"
        summary = self.path / "summary.json"
        return summary.exists() and read_fields(summary, outcome=str)["outcome"] != "stopped"


def kind_of(path: Path) -> ArtifactKind | None:
    """Return the kind of artifact at a path, or None, also for a name that is not printable."""
    try:
        return _kind_of(path) if "".join(path.parts[-3:]).isprintable() else None
    except OSError:  # no name that a file can have
        return None


def _kind_of(path: Path) -> ArtifactKind | None:
    for name, kind in _REQUESTS.items():
        if (path / name).is_file():
            return kind
    if is_run(path):
        return "run"
    if (path / "ledger.jsonl").is_file() and path.parent.name == "studies":
        return "study"
    is_member = (path / "config.json").is_file() or (path / "checkpoints").is_dir()
    return "policy" if is_member or (_POLICY.fullmatch(path.name) and path.is_file()) else None


def _has_more_lines(events: Path) -> bool:
    """Return whether a log has more than one line."""
    if not events.is_file():
        return False
    with events.open("rb") as log:
        return b"\n" in log.read(MEBIBYTE)[:-1]


def is_unbegun(session: Path) -> bool:
    """Return whether a session was requested but has not started."""
    return {path.name for path in session.iterdir()} <= _REQUESTED


def has_begun(session: Path) -> bool:
    """Return whether a session is running or has results, so that it is listed.

    If a session ended before its intent was interpreted, its log contains only its request, unless
    a model was called.
    """
    try:
        made = {path.name for path in session.iterdir()} - _REQUESTED
        if _has_more_lines(session / "events.jsonl"):
            return True
    except OSError:  # missing or not readable: opening it reports why
        return session.exists()
    lock = session / "lock"
    return bool(made) or not lock.exists() or lock_holder(lock) is not None


class Workspace:
    """Runs folder, together with the studies of a repository."""

    def __init__(self, runs_dir: Path | str, root: Path | str = ".") -> None:
        self.runs_dir = Path(runs_dir)
        self.root = Path(root)

    def artifacts(self, *kinds: ArtifactKind) -> list[Artifact]:
        """Return all artifacts of the given kinds, most recently active first."""
        artifacts = list(self._in(self.runs_dir))
        if "study" in kinds:
            studies = self.root.glob(".telic/tasks/*/studies/*/ledger.jsonl")
            artifacts += [Artifact("study", ledger.parent) for ledger in studies]
        chosen = [artifact for artifact in artifacts if artifact.kind in kinds]
        return sorted(chosen, key=lambda each: (each.last_active, each.name), reverse=True)

    def find(self, name: str = LATEST, *kinds: ArtifactKind, prefer_live: bool = False) -> Artifact:
        """Find an artifact by its id, an id prefix, a path, or "latest".

        Raises UnknownName with the closest ids, or UsageError if the prefix is ambiguous.
        """
        kinds = kinds or WORK
        # A name takes precedence over a path: folders in the working directory must not shadow it.
        for path in (self.runs_dir / name, Path(name).expanduser()):
            kind = kind_of(path)
            if kind in kinds:
                return _without_links(Artifact(kind, path))
        known = self.artifacts(*kinds)
        if prefer_live:
            known.sort(key=lambda artifact: artifact.is_running, reverse=True)
        return _without_links(_pick(name, known, kinds, self.runs_dir))

    def run(self, name: str = LATEST) -> RunFolder:
        """Return a run."""
        return RunFolder(self.find(name, "run").path)

    def session(self, name: str = LATEST) -> SessionFolder:
        """Return a session."""
        return SessionFolder(self.find(name, "session").path)

    def unfinished(self, kind: ArtifactKind, is_same: Callable[[Path], bool]) -> Path | None:
        """Return the latest unfinished work with the same request that is not running, if any.

        Work of other users is never resumed implicitly.
        """
        for work in self.artifacts(kind):
            with contextlib.suppress(TelicError):  # a damaged folder cannot be resumed
                is_open = is_own_folder(work.path) and not work.is_running and not work.has_ended
                if is_open and is_same(work.path):
                    return _without_links(work).path
        return None

    def delete(self, artifact: Artifact) -> Path:
        """Move an artifact to the trash and return its new path. `restore` reverts this."""
        if artifact.path.resolve().parent != self.runs_dir.resolve():
            raise UsageError(
                f"{artifact.path} is not directly inside {self.runs_dir}.",
                hint="Only complete runs, sessions and searches can be deleted.",
            )
        if artifact.is_running:
            raise Refused(f"{artifact.name} is running.", hint=f"Run: telic stop {artifact.name}")
        place = self._trash / artifact.name
        number = 2
        while place.exists():
            place = self._trash / f"{artifact.name}.{number}"
            number += 1
        place.parent.mkdir(exist_ok=True)
        os.replace(artifact.path, place)
        return place

    def deleted(self) -> list[Artifact]:
        """Return the deleted artifacts that can be restored."""
        return list(self._in(self._trash))

    def restore(self, name: str = LATEST) -> Artifact:
        """Restore a deleted artifact."""
        known = sorted(self.deleted(), key=lambda each: each.path.stat().st_ctime, reverse=True)
        artifact = _pick(name, known, WORK, self._trash)
        place = self.runs_dir / artifact.name
        if place.exists():
            raise Refused(f"{place} already exists.", hint="Delete it first.")
        os.replace(artifact.path, place)
        return Artifact(artifact.kind, place)

    @property
    def _trash(self) -> Path:
        return self.runs_dir / TRASH

    def _in(self, folder: Path) -> Iterable[Artifact]:
        for path in folder.iterdir() if folder.is_dir() else ():
            kind = kind_of(path)
            if kind in WORK and (kind != "session" or has_begun(path)):
                yield Artifact(kind, path)


def _without_links(artifact: Artifact) -> Artifact:
    """Return an artifact. Raises Refused if it contains a link, which could redirect writes.

    The run and session that contain a policy are also checked.
    """
    whole = artifact.path.absolute()
    if artifact.kind == "policy":
        whole = whole.parents[2] if whole.is_file() else whole.parent
    if artifact.kind in ("run", "policy") and (whole.parents[1] / "session.json").is_file():
        whole = whole.parents[1]
    without_links(whole.resolve())  # the work folder itself may be on another disk
    return artifact


def _pick(name: str, known: list[Artifact], kinds: Sequence[ArtifactKind], where: Path) -> Artifact:
    """Return the first artifact for "latest", else the only one whose id starts with `name`."""
    words = " or ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))
    if not known:
        named = "" if name == LATEST else f' "{name}"'
        raise UsageError(
            f"No {words}{named} found in {where}.", hint=f"Start one with: {_START[kinds[0]]}"
        )
    if name == LATEST:
        return known[0]
    matches = [artifact for artifact in known if name and _starts(artifact, name)]
    exact = [artifact for artifact in matches if name in (artifact.name, artifact.path.name)]
    if not matches:
        raise UnknownName(words, name, [each.name for each in known], see=_SEE.get(kinds[0]))
    if len(matches) > 1 and len(exact) != 1:
        names = ", ".join(artifact.name for artifact in matches[:5])
        raise UsageError(
            f'"{name}" matches {len(matches)} ids: {names}.', hint="Use a longer prefix."
        )
    return (exact or matches)[0]


def _starts(artifact: Artifact, name: str) -> bool:
    """Return whether the id starts with `name`, which may omit the kind ("session_") or task."""
    full, short = artifact.name, artifact.path.name
    return any(
        text.startswith(name) for text in (full, short, short.removeprefix(f"{artifact.kind}_"))
    )
