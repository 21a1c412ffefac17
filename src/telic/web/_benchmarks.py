"""Results of intent benchmarks by case, with pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter
from fastapi.responses import FileResponse

from telic.bench.results import (
    BenchConfig,
    BenchFolder,
    BenchmarkSummary,
    CaseResult,
    Suite,
    results_in,
    summarize,
)
from telic.core.config import Record
from telic.errors import TelicError, UnknownName
from telic.storage.files import read_record
from telic.storage.layout import changed_at
from telic.storage.locks import lock_holder
from telic.web._files import file_key
from telic.web._gate import API
from telic.web._place import WebPlace

_MEDIA = {".mp4": "video/mp4", ".png": "image/png"}


class BenchmarkEntry(Record):
    """A benchmark in a list."""

    id: str
    config: BenchConfig | None
    summary: BenchmarkSummary | None
    """totals, or None while the benchmark is running"""
    is_running: bool
    updated: float
    error: str | None = None


class BenchmarkDetail(Record):
    """Results of a benchmark by case."""

    line: BenchmarkEntry
    cases: tuple[CaseResult, ...]
    files: dict[str, str]
    """URLs of the pictures and videos of cases"""


def _line(folder: Path) -> BenchmarkEntry:
    facts: dict[str, Any] = {"config": None, "summary": None}
    try:
        facts["config"] = read_record(folder / "bench.json", BenchConfig)
        if (folder / "results.json").exists():
            counted = read_record(folder / "results.json", BenchmarkSummary)
            passed = [each.case.id for each in counted.results if each.outcome == "passed"]
            proven = {x.case.id for x in results_in(BenchFolder(folder)) if x.outcome == "passed"}
            facts["summary"] = _recount(facts["config"], counted, folder)
            if claimed := [case for case in passed if case not in proven]:
                facts |= {"summary": None, "error": f"claimed, not verified: {', '.join(claimed)}"}
    except TelicError as error:  # list damaged benchmarks without failing
        facts["error"] = error.message
    running = lock_holder(folder / "lock") is not None
    times = (changed_at(folder / each) for each in ("results.jsonl", "bench.json"))
    return BenchmarkEntry(id=folder.name, is_running=running, updated=max(times), **facts)


def _recount(config: BenchConfig, claimed: BenchmarkSummary, folder: Path) -> BenchmarkSummary:
    """Return the totals of the verified results. Those in the file may be edited."""
    names = {each.case.id for each in claimed.results}
    results = [each for each in results_in(BenchFolder(folder)) if each.case.id in names]
    cases = tuple(each.case for each in results)
    suite = Suite.model_construct(name=claimed.suite, about=claimed.about, case=cases)
    counted = summarize(suite, (), config, results)
    asked = {"waiting": claimed.waiting, "cases_in_suite": claimed.cases_in_suite}
    return counted.model_copy(update=asked)


def _files(cases: list[CaseResult]) -> dict[str, str]:
    """Return the keys of all files to which the results of a benchmark refer."""
    return {name: file_key(name) for case in cases for name in (case.strip, case.video) if name}


def routes(place: WebPlace) -> APIRouter:
    """Return the routes for benchmarks."""
    router = APIRouter(tags=["benchmarks"])

    def folders() -> dict[str, Path]:
        found = (file.parent for file in place.runs_dir.glob("bench_*/bench.json"))
        return {x.name: x for x in found if x.name.isprintable() and not x.is_symlink()}

    def folder_of(name: str) -> Path:
        known = folders()
        if name not in known:
            raise UnknownName("benchmark", name[:200], list(known))
        return known[name]

    @router.get("/benchmarks")
    def list_benchmarks() -> list[BenchmarkEntry]:
        """List benchmarks, newest first."""
        return sorted(map(_line, folders().values()), key=lambda x: x.updated, reverse=True)

    @router.get("/benchmarks/{benchmark}")
    def read_benchmark(benchmark: str) -> BenchmarkDetail:
        """Return the results of a benchmark by case."""
        folder = folder_of(benchmark)
        cases, home = results_in(BenchFolder(folder)), f"{API}/benchmarks/{folder.name}/files"
        files = {name: f"{home}/{key}" for name, key in _files(cases).items()}
        return BenchmarkDetail(line=_line(folder), cases=tuple(cases), files=files)

    @router.get("/benchmarks/{benchmark}/files/{key}", response_class=FileResponse)
    def read_picture(benchmark: str, key: str) -> FileResponse:
        """Return a picture or a video of a case."""
        folder = folder_of(benchmark)
        names = {key: name for name, key in _files(results_in(BenchFolder(folder))).items()}
        path = folder / names.get(key, "")
        if key not in names or path.suffix not in _MEDIA:
            raise UnknownName("file", key[:60], [])
        return FileResponse(place.inside(path), media_type=_MEDIA[path.suffix])

    return router
