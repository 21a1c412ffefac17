"""Every path name of a benchmark of intents.

runs/bench_<suite>_<time>_<hex>/
    bench.json                   suite and options
    results.jsonl                a line per attempt at a case, append-only
    results.json index.html      what it all comes to
    cases/<id>/session_.../      the sessions of a case
    cases/<id>/error.txt         traceback of its last crash
    lock
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from telic.bench.records import BenchConfig
from telic.storage.files import read_record, write_json


@dataclass(frozen=True, slots=True)
class BenchFolder:
    """The files of one benchmark."""

    path: Path

    @property
    def config(self) -> Path:
        """Return the path of the request."""
        return self.path / "bench.json"

    @property
    def attempts(self) -> Path:
        """Return the path of the append-only log."""
        return self.path / "results.jsonl"

    @property
    def results(self) -> Path:
        """Return the path of the result for programs."""
        return self.path / "results.json"

    @property
    def page(self) -> Path:
        """Return the path of the result for people."""
        return self.path / "index.html"

    @property
    def lock(self) -> Path:
        """Return the path of the lock."""
        return self.path / "lock"

    def case(self, case_id: str) -> Path:
        """Return the folder of a case's sessions."""
        return self.path / "cases" / case_id

    def error(self, case_id: str) -> Path:
        """Return where the traceback of a case's crash goes."""
        return self.case(case_id) / "error.txt"


def open_folder(config: BenchConfig, runs_dir: Path, fresh: bool) -> BenchFolder:
    """Return the newest folder of exactly this request, or a new one."""
    found = [] if fresh else sorted(runs_dir.glob(f"bench_{config.suite}_*/bench.json"))
    for path in reversed(found):
        if read_record(path, BenchConfig) == config:
            return BenchFolder(path.parent)
    stamp = datetime.now(UTC).strftime("%Y%m%d_%H%M%S")
    folder = BenchFolder(runs_dir / f"bench_{config.suite}_{stamp}_{secrets.token_hex(2)}")
    write_json(folder.config, config)
    return folder
