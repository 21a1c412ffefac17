"""Work done elsewhere, as studies: sessions, searches and trainings of trackers.

They are found, read, and written as a study. To add a kind (another tool's sweep), write one module
with a class like those in `from_session` and `from_search`, and name it in `importers`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from telic.errors import UnknownName, UsageError
from telic.storage.layout import LATEST

if TYPE_CHECKING:
    from telic.importers.records import ImportedStudy


class Importer(Protocol):
    """A kind of work whose records can be told as a study. It only ever reads."""

    kind: str
    """what people call it: session"""

    def is_one(self, path: Path) -> bool:
        """Say whether a folder holds the records of one."""
        ...

    def listed(self, runs_dir: Path) -> list[Path]:
        """Return the folders of all that there are, the newest first."""
        ...

    def read(self, path: Path) -> ImportedStudy:
        """Read all records of one, finished or not.

        Called again later it tells the same and more: ids, run keys and the order of candidates
        never change, and nothing that was told before is left out.
        """
        ...


def importers() -> tuple[Importer, ...]:
    """Return one importer of each kind; loaded when asked for, as they bring numpy with them."""
    from telic.importers.from_search import SearchImporter
    from telic.importers.from_session import SessionImporter
    from telic.importers.from_tracking import TrackingImporter

    return SessionImporter(), SearchImporter(), TrackingImporter()


class FoundWork(NamedTuple):
    """Work that can be told."""

    importer: Importer
    path: Path

    def read(self) -> ImportedStudy:
        """Read all its records."""
        return self.importer.read(self.path)

    def starts_with(self, start: str) -> bool:
        """Say whether its id, with or without its kind, begins so."""
        name = self.path.name
        return name.startswith((start, f"{self.importer.kind}_{start}"))


def find_source(runs_dir: Path, name: str) -> FoundWork:
    """Return the work meant by a path, an id, the start of one, or "latest".

    Raises UnknownName with the closest ids, or UsageError when a start fits several.
    """
    for path in (runs_dir / name, Path(name).expanduser()):
        for importer in importers():
            if importer.is_one(path):
                return FoundWork(importer, path)
    works = [FoundWork(each, path) for each in importers() for path in each.listed(runs_dir)]
    if not works:
        raise UsageError(
            f'There is no session, search or tracking run "{name}": {runs_dir} holds none yet.',
            hint="Name its folder, or the folder of runs with --runs-dir.",
        )
    if name == LATEST:
        return max(works, key=lambda work: work.path.stat().st_mtime)
    matches = [work for work in works if work.starts_with(name)]
    if not matches:
        raise UnknownName(
            "session, search or tracking run", name, [work.path.name for work in works]
        )
    if len(matches) > 1:
        names = ", ".join(work.path.name for work in matches[:5])
        raise UsageError(
            f'"{name}" is the start of {len(matches)} ids: {names}.', hint="Add a few letters."
        )
    return matches[0]
