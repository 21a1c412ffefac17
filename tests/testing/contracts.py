"""Contracts of authors, judges, launchers and search proposers."""

from __future__ import annotations

import time
from pathlib import Path

from telic.jobs.launcher import JobPlace, Launcher
from telic.jobs.pool import JobPool
from telic.jobs.spec import JobSpec


class LauncherContract:
    """Contract tests for every launcher. See `telic.jobs.launcher.Launcher`."""

    def make(self) -> Launcher:
        """Return the launcher under test."""
        raise NotImplementedError

    def test_job_transfers_files_and_reports_its_exit_code(self, tmp_path: Path) -> None:
        (tmp_path / "given").write_text("given")
        made = "import pathlib; given = pathlib.Path('given').read_text(); print(given)"
        write = f"{made}; pathlib.Path('out/made').write_text(given + '!'); raise SystemExit(3)"
        with self._pool(tmp_path) as pool:
            record = pool.submit(self._job("makes", write, tmp_path)).result(240)
            log = pool.board.log("makes")
        assert (record.state, record.code, len(record.attempts)) == ("done", 3, 1)
        assert (tmp_path / "out" / "made").read_text() == "given!" and log == "given\n"

    def test_job_resumes_after_a_crash(self, tmp_path: Path) -> None:
        die = "len(had) < 2 and os.kill(os.getpid(), 9)"
        grow = "open('out/had', 'a').write('x'); had = open('out/had').read()"
        with self._pool(tmp_path) as pool:
            job = self._job("dies", f"import os; {grow}; {die}", tmp_path)
            record = pool.submit(job).result(240)
        assert (record.state, record.code, len(record.attempts)) == ("done", 0, 2)
        assert "killed by signal 9" in str(record.attempts[0].ended)
        assert (tmp_path / "out" / "had").read_text() == "xx"

    def test_stopped_job_can_save_first(self, tmp_path: Path) -> None:
        save = "(open('out/saved', 'w').close(), sys.exit(5))"
        wait = "open('out/begun', 'w').close(); time.sleep(600)"
        code = f"import signal, sys, time; signal.signal(15, lambda *_: {save}); {wait}"
        with self._pool(tmp_path) as pool:
            future = pool.submit(self._job("waits", code, tmp_path))
            while not (tmp_path / "out" / "begun").exists():
                time.sleep(0.05)
            pool.board.stop("waits")
            record = future.result(240)
        assert (record.state, record.code) == ("stopped", 5)
        assert (tmp_path / "out" / "saved").exists()

    def _pool(self, folder: Path) -> JobPool:
        place = JobPlace(at_once=2)
        return JobPool(place, folder / "runs", launcher=self.make())

    def _job(self, name: str, code: str, cwd: Path) -> JobSpec:
        (cwd / "out").mkdir(exist_ok=True)
        sends = ("given",) if (cwd / "given").exists() else ()
        argv = ("python", "-c", code)
        return JobSpec(name=name, argv=argv, cwd=str(cwd), folder="out", sends=sends)
