"""Interpreters ahead of need: the same worker, sooner, and none left behind."""

import os
import threading
from pathlib import Path

import pytest

from telic.sandbox import interpreters
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


def ready() -> int:
    process = interpreters._mine.process
    assert process is not None and process.poll() is None
    return process.pid


def test_each_worker_is_the_one_that_was_ready_and_leaves_the_next_behind(folder, monkeypatch):
    monkeypatch.setenv("TELIC_TEST_API_KEY", "sk-secret")
    with interpreters.kept(["json"]):
        first = ready()
        result = work(folder)
        second = ready()
        assert second != first
        assert result["cwd"] == str(folder)
        assert "TELIC_TEST_API_KEY" not in result["environment"]
        assert "a stray line" in (folder / LOG_NAME).read_text()
        work(folder)
        third = ready()
    assert third not in (first, second)
    for pid in (first, second, third):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_one_that_died_is_not_missed(folder):
    with interpreters.kept(["json"]):
        process = interpreters._mine.process
        assert process is not None
        process.kill()
        process.wait()
        assert work(folder)["data"] == 1


def test_one_that_cannot_import_ends_and_the_worker_says_why_itself(folder):
    with interpreters.kept(["no_such_module"]):
        process = interpreters._mine.process
        assert process is not None and process.wait(60) != 0
        assert work(folder)["data"] == 1


def test_other_threads_start_their_own(folder):
    with interpreters.kept(["json"]):
        mine, results = ready(), []
        thread = threading.Thread(target=lambda: results.append(work(folder)))
        thread.start()
        thread.join()
        assert ready() == mine and results[0]["data"] == 1
