"""Every path name of a search.

runs/search_<time>_<hex>/
    search.json                  the request
    manifest.json                protocol, switches, versions
    summary.json page.html       result; the map of tried policies
    events.jsonl lock stop
    replies/ orders/             what was asked of a model
    run_<NN>/
        iterations.jsonl         a line per iteration, with every candidate
        summary.json
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from telic.search.records import SearchIteration
from telic.storage.files import read_json_lines
from telic.storage.layout import WorkFolder
from telic.storage.workspace import Workspace


@dataclass(frozen=True, slots=True)
class SearchRunFolder:
    """The files of one run."""

    path: Path

    @property
    def iterations(self) -> Path:
        """Return the path of the log of iterations."""
        return self.path / "iterations.jsonl"

    @property
    def summary(self) -> Path:
        """Return the path of the result."""
        return self.path / "summary.json"

    def read(self) -> Iterator[SearchIteration]:
        """Yield the finished iterations."""
        for row in read_json_lines(self.iterations):
            yield SearchIteration.model_validate(row)


@dataclass(frozen=True, slots=True)
class SearchFolder(WorkFolder):
    """The files of one search."""

    @property
    def config(self) -> Path:
        """Return the path of the request."""
        return self.path / "search.json"

    @property
    def manifest(self) -> Path:
        """Return the path of protocol, switches and versions."""
        return self.path / "manifest.json"

    @property
    def page(self) -> Path:
        """Return the path of the map of tried policies."""
        return self.path / "page.html"

    def run(self, number: int) -> SearchRunFolder:
        """Return the folder of a run, counted from 1."""
        return SearchRunFolder(self.path / f"run_{number:02d}")


def new_search(runs_dir: Path) -> SearchFolder:
    """Return a folder for a new search; nothing is made yet."""
    stamp = datetime.now(UTC).strftime("%Y%m%d_%H%M%S")
    return SearchFolder(runs_dir / f"search_{stamp}_{secrets.token_hex(4)}")


def list_searches(runs_dir: Path) -> list[SearchFolder]:
    """Return the searches of a folder, the newest first."""
    if not runs_dir.is_dir():
        return []
    found = [path for path in runs_dir.iterdir() if (path / "search.json").is_file()]
    return [SearchFolder(path) for path in sorted(found, reverse=True)]


def find_search(runs_dir: Path, name: str) -> SearchFolder:
    """Return the search meant by an id, the start of one, a path, or "latest"."""
    return SearchFolder(Workspace(runs_dir).find(name, "search").path)
