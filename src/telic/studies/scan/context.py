"""What the questions of a scan share: the repository, its settings, its entry points."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from telic.studies.scan.documents import documented_commands
from telic.studies.scan.entry_points import find_entry_points
from telic.studies.scan.packaging import installed_scripts
from telic.studies.scan.records import EntryPoint
from telic.studies.scan.repository import REACH, Repository, Spot
from telic.studies.scan.settings import Settings
from telic.studies.scan.syntax import Call
from telic.studies.scan.tree import RepositoryTree

_SAFE_ENTRIES = 6


class Scan:
    """One reading of a repository; every question is asked of it."""

    def __init__(self, tree: RepositoryTree) -> None:
        self.tree = tree
        self.repository = Repository(tree)
        self.settings = Settings(self.repository)
        self.scripts = installed_scripts(tree)
        self.documented = documented_commands(self.repository)
        train, evaluate = find_entry_points(self.repository, self.scripts, self.documented)
        self.train: list[EntryPoint] = [each for each in train if not each.hazardous]
        self.evaluate: list[EntryPoint] = [each for each in evaluate if not each.hazardous]
        self.hardware: list[EntryPoint] = [each for each in (*train, *evaluate) if each.hazardous]

    @cached_property
    def train_reach(self) -> dict[Spot, int]:
        """What runs when the first training command runs."""
        return self.reach(self.train[:1])

    @cached_property
    def eval_reach(self) -> dict[Spot, int]:
        """What runs when the first evaluation command runs."""
        return self.reach(self.evaluate[:1])

    @cached_property
    def any_train_reach(self) -> dict[Spot, int]:
        """What runs when any of the most certain training commands runs."""
        return self.reach(self.train[:_SAFE_ENTRIES])

    @cached_property
    def train_files(self) -> frozenset[str]:
        """Files that any of the most certain training commands runs."""
        return frozenset(self.files(self.any_train_reach))

    def reach(self, entries: list[EntryPoint], depth: int = REACH) -> dict[Spot, int]:
        """Return what runs from these commands, with the files' top levels."""
        starts = {Spot(each.path, each.function) for each in entries}
        starts |= {Spot(each.path, "") for each in entries}
        return self.repository.reach(sorted(starts), depth)

    def files(self, reach: dict[Spot, int]) -> list[str]:
        """Return the files of some places, nearest first."""
        return list(dict.fromkeys(spot.path for spot in sorted(reach, key=lambda s: reach[s])))

    def calls(self, reach: dict[Spot, int]) -> Iterator[tuple[str, Call]]:
        """Return the calls made in some places."""
        for spot in reach:
            for call in self.repository.calls(spot):
                yield spot.path, call

    def source_calls(self) -> Iterator[tuple[str, Call]]:
        """Return every call of files that are the repository's own work."""
        for path, facts in self.repository.modules.items():
            if self.tree.weight(path) >= 0.5:
                for call in facts.calls:
                    yield path, call

    @cached_property
    def source_files(self) -> list[str]:
        """Python files that are the repository's own work."""
        return [path for path in self.repository.modules if self.tree.weight(path) >= 0.5]
