"""Interpreters ahead of need: the same worker, sooner, and none left behind."""

import os
import threading
from pathlib import Path

import pytest

from telic.sandbox import host
from telic.sandbox.host import LOG_NAME, run_worker

HERE = Path(__file__).parent


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "outside").write_text("read before confinement")
    made = tmp_path / "run"
    made.mkdir()
    return made


def work(folder: Path) -> dict:
    payload = {"act": "echo", "data": 1, "outside": str(folder.parent / "outside")}
    return run_worker("worker_entry", payload, writable=[folder], python_path=[HERE])


def ready() -> list[int]:
    assert all(each.poll() is None for each in host._mine.ready)
    return [each.pid for each in host._mine.ready]


def test_workers_are_those_that_were_ready_and_the_last_one_leaves_more_behind(folder, monkeypatch):
    monkeypatch.setenv("TELIC_TEST_API_KEY", "sk-secret")
    with host.prewarmed(["json"]):
        first, second = ready()
        result = work(folder)
        assert result["cwd"] == str(folder)
        assert "TELIC_TEST_API_KEY" not in result["environment"]
        assert "a stray line" in (folder / LOG_NAME).read_text()
        assert ready() == [second]
        with host.prewarmed(["nothing_more"]):
            work(folder)
        others = ready()
        assert len(others) == 2 and not {first, second} & set(others)
    for pid in (first, second, *others):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_those_that_died_are_not_missed(folder):
    with host.prewarmed(["json"]):
        for process in host._mine.ready:
            process.kill()
            process.wait()
        assert work(folder)["data"] == 1


def test_those_that_cannot_import_end_and_the_worker_starts_by_itself(folder):
    with host.prewarmed(["no_such_module"]):
        assert all(each.wait(60) != 0 for each in host._mine.ready)
        assert work(folder)["data"] == 1


def test_other_threads_start_their_own(folder):
    with host.prewarmed(["json"]):
        mine, results = ready(), []
        thread = threading.Thread(target=lambda: results.append(work(folder)))
        thread.start()
        thread.join()
        assert ready() == mine and results[0]["data"] == 1
