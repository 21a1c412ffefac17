"""Benchmarks of intents: what each came to, case by case, with the pictures of its cases."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from fastapi.responses import FileResponse

from telic.bench.results import BenchConfig, CaseResult, Tally
from telic.core.config import Record
from telic.errors import TelicError, UnknownName
from telic.storage.files import as_record, read_json_lines, read_record
from telic.storage.layout import changed_at
from telic.storage.locks import lock_holder
from telic.web.gate import API
from telic.web.place import WebPlace

_MEDIA = {".mp4": "video/mp4", ".png": "image/png"}


class BenchmarkLine(Record):
    """A benchmark in a list."""

    id: str
    config: BenchConfig | None
    tally: Tally | None
    """None: it has not come to an end yet"""
    is_running: bool
    updated: float
    error: str | None = None


class BenchmarkCase(Record):
    """A case and the addresses of its pictures."""

    result: CaseResult
    strip_url: str | None
    video_url: str | None


class BenchmarkDetail(Record):
    """A benchmark, case by case."""

    line: BenchmarkLine
    cases: tuple[BenchmarkCase, ...]


def _folders(place: WebPlace) -> dict[str, Path]:
    found = place.runs_dir.glob("bench_*/bench.json")
    return {file.parent.name: file.parent for file in found if not file.parent.is_symlink()}


def _folder(place: WebPlace, name: str) -> Path:
    known = _folders(place)
    if name not in known:
        raise UnknownName("benchmark", name[:200], list(known))
    return known[name]


def _line(folder: Path) -> BenchmarkLine:
    facts: dict[str, Any] = {"config": None, "tally": None}
    try:
        facts["config"] = read_record(folder / "bench.json", BenchConfig)
        if (folder / "results.json").exists():
            facts["tally"] = read_record(folder / "results.json", Tally)
    except TelicError as error:  # a damaged one must not hide the others
        facts["error"] = error.message
    running = lock_holder(folder / "lock") is not None
    times = (changed_at(folder / each) for each in ("results.jsonl", "bench.json"))
    return BenchmarkLine(id=folder.name, is_running=running, updated=max(times), **facts)


def _cases(folder: Path) -> list[CaseResult]:
    """Return the latest result of each case."""
    rows = read_json_lines(folder / "results.jsonl")
    results = [as_record(row, CaseResult, str(folder)) for row in rows]
    return list({result.case.id: result for result in results}.values())


def _pictures(folder: Path) -> dict[str, Path]:
    """Return the files that results name, by key."""
    named = [name for case in _cases(folder) for name in (case.strip, case.video) if name]
    return {_key(name): folder / name for name in named}


def _key(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:20]


def _url(folder: Path, name: str | None) -> str | None:
    return None if name is None else f"{API}/benchmarks/{folder.name}/files/{_key(name)}"


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of benchmarks."""
    router = APIRouter(tags=["benchmarks"])

    @router.get("/benchmarks")
    def list_benchmarks() -> list[BenchmarkLine]:
        """List benchmarks, the latest first."""
        lines = map(_line, _folders(place).values())
        return sorted(lines, key=lambda line: line.updated, reverse=True)

    @router.get("/benchmarks/{benchmark}")
    def read_benchmark(benchmark: str) -> BenchmarkDetail:
        """Return a benchmark, case by case."""
        folder = _folder(place, benchmark)
        cases = tuple(
            BenchmarkCase(
                result=case, strip_url=_url(folder, case.strip), video_url=_url(folder, case.video)
            )
            for case in _cases(folder)
        )
        return BenchmarkDetail(line=_line(folder), cases=cases)

    @router.get("/benchmarks/{benchmark}/files/{key}", response_class=FileResponse)
    def read_picture(benchmark: str, key: str) -> FileResponse:
        """Return a picture or a video of a case."""
        known = _pictures(_folder(place, benchmark))
        if key not in known or known[key].suffix not in _MEDIA:
            raise UnknownName("file", key[:60], [])
        path = place.inside(known[key])
        return FileResponse(path, media_type=_MEDIA[known[key].suffix])

    return router
