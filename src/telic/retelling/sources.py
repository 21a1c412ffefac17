"""The door: every kind of work that can be told as a study, and finding one by what people type.

To add a kind (a tracker's training, another tool's sweep), write one module with a class like those
in `of_session` and `of_search`, and name it in `SOURCES`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

from telic.errors import UnknownName, UsageError
from telic.retelling.of_search import Searches
from telic.retelling.of_session import Sessions
from telic.retelling.tale import Tale
from telic.storage.layout import LATEST


class Source(Protocol):
    """A kind of work whose records can be told as a study. It only ever reads."""

    kind: str
    """what people call it: session"""

    def is_one(self, path: Path) -> bool:
        """Say whether a folder holds the records of one."""
        ...

    def listed(self, runs_dir: Path) -> list[Path]:
        """Return the folders of all that there are, the newest first."""
        ...

    def tell(self, path: Path) -> Tale:
        """Read all records of one, finished or not.

        Called again later it tells the same and more: ids, run keys and the order of candidates
        never change, and nothing that was told before is left out.
        """
        ...


SOURCES: tuple[Source, ...] = (Sessions(), Searches())


class Found(NamedTuple):
    """Work that can be told."""

    source: Source
    path: Path


def find_source(runs_dir: Path, name: str) -> Found:
    """Return the work meant by a path, an id, the start of one, or "latest".

    Raises UnknownName with the closest ids, or UsageError when a start fits several.
    """
    for path in (runs_dir / name, Path(name).expanduser()):
        for source in SOURCES:
            if source.is_one(path):
                return Found(source, path)
    known = [Found(source, path) for source in SOURCES for path in source.listed(runs_dir)]
    if not known:
        raise UsageError(
            f'There is no session or search "{name}": {runs_dir} holds none yet.',
            hint="Name its folder, or the folder of runs with --runs-dir.",
        )
    if name == LATEST:
        return max(known, key=lambda each: each.path.stat().st_mtime)
    matches = [each for each in known if _starts(each, name)]
    if not matches:
        raise UnknownName("session or search", name, [each.path.name for each in known])
    if len(matches) > 1:
        names = ", ".join(each.path.name for each in matches[:5])
        raise UsageError(
            f'"{name}" is the start of {len(matches)} ids: {names}.', hint="Add a few letters."
        )
    return matches[0]


def _starts(found: Found, given: str) -> bool:
    full = found.path.name
    return full.startswith(given) or full.removeprefix(f"{found.source.kind}_").startswith(given)
