"""The map of a search: every policy that was tried as a point, with its score, reason and film."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from fastapi import APIRouter

from telic.core.config import Record
from telic.storage.files import plain
from telic.web.place import WebPlace


class SearchMapData(Record):
    """What the map shows; `telic search page` writes the same into one file."""

    search: str
    data: dict[str, Any]


class SearchMaps:
    """Maps that were made, until the records they rest on change."""

    def __init__(self) -> None:
        self._made: dict[Path, tuple[tuple[float, ...], dict[str, Any]]] = {}
        self._turn = threading.Lock()

    def of(self, folder: Path) -> dict[str, Any]:
        """Return the map of a search; policies are played for it, which takes seconds."""
        from telic.search.report import page_data
        from telic.search.results import load

        files = [*folder.glob("run_*/iterations.jsonl"), folder / "summary.json"]
        stamp = tuple(sorted(file.stat().st_mtime for file in files if file.exists()))
        with self._turn:
            known = self._made.get(folder)
            if known is None or known[0] != stamp:
                data = plain(page_data(load(folder.parent, folder.name)))
                known = self._made[folder] = (stamp, data)
            return known[1]


def routes(place: WebPlace) -> APIRouter:
    """Return the route of maps."""
    router, maps = APIRouter(tags=["searches"]), SearchMaps()

    @router.get("/things/{thing}/map")
    def read_map(thing: str) -> SearchMapData:
        """Return every policy that a search tried, as a point of a plane."""
        return SearchMapData(search=thing, data=maps.of(place.thing(thing, "search").path))

    return router
