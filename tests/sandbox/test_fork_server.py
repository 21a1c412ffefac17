"""Workers that are forks of a process that has imported: the same workers, sooner, none left."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from telic.errors import WorkerDied
from telic.sandbox import fork_server
from telic.sandbox.fork_server import prewarmed
from telic.sandbox.host import LOG_NAME, run_worker
from tests.sandbox.test_host import is_alive, wait_for

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def none_yet(no_fork_server):
    """Each test has its own; the tests' common one serves others."""


def work(folder: Path, act: str = "echo", **more) -> dict:
    payload = {"act": act, "data": 1, "outside": str(folder.parent / "outside"), **more}
    return run_worker("worker_entry", payload, writable=[folder], python_path=[HERE])


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def test_workers_are_forks_of_one_process_which_ends_with_the_outermost_block(folder, monkeypatch):
    monkeypatch.setenv("TELIC_TEST_API_KEY", "sk-secret")
    with prewarmed(["json"]):
        server = fork_server._shared.server.pid
        assert "sk-secret" not in Path(f"/proc/{server}/environ").read_text()
        first = work(folder)
        with prewarmed(["nothing_more"]):
            second = work(folder)
        assert first["parent"] == second["parent"] == server
        assert first["cwd"] == str(folder)
        assert "TELIC_TEST_API_KEY" not in first["environment"]
        assert "a stray line" in (folder / LOG_NAME).read_text()
        assert children(server) == []
    assert fork_server._shared.server is None and not is_alive(server)


def test_a_fork_is_confined_like_any_other_worker(folder):
    alone = work(folder)
    with prewarmed(["json"]):
        forked = work(folder)
    for fact in ("environment", "descriptors", "cwd"):
        assert forked[fact] == alone[fact]
    with prewarmed(["json"]), pytest.raises(WorkerDied, match="PermissionError"):
        work(folder, "read_outside")


def test_a_fork_server_that_was_killed_or_cannot_import_is_not_missed(folder):
    with prewarmed(["json"]):
        os.kill(fork_server._shared.server.pid, signal.SIGKILL)
        assert work(folder)["data"] == 1
    with prewarmed(["no_such_module"]):
        assert work(folder)["data"] == 1


def test_threads_share_it(folder, tmp_path):
    folders = [tmp_path / str(number) for number in range(4)]
    results = []
    with prewarmed(["json"]):
        server = fork_server._shared.server.pid
        threads = []
        for own in folders:
            own.mkdir()
            threads.append(threading.Thread(target=lambda own=own: results.append(work(own))))
            threads[-1].start()
        for thread in threads:
            thread.join()
    assert [result["parent"] for result in results] == [server] * 4
    assert sorted(result["cwd"] for result in results) == sorted(map(str, folders))


def test_a_host_that_is_killed_leaves_neither_server_nor_fork(tmp_path):
    code = (
        "import sys; from pathlib import Path; from telic.sandbox import fork_server;"
        "from telic.sandbox.host import run_worker\n"
        "with fork_server.prewarmed(['json']):\n"
        "    print(fork_server._shared.server.pid, flush=True)\n"
        "    run_worker('worker_entry', {'act': 'announce_and_sleep', 'outside': sys.argv[2]},"
        " writable=[Path(sys.argv[1])], python_path=[Path(sys.argv[3])])\n"
    )
    (tmp_path / "outside").write_text("read before confinement")
    words = [sys.executable, "-c", code, tmp_path, tmp_path / "outside", HERE]
    with subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, text=True) as host:
        server = int(host.stdout.readline())
        forks = wait_for(lambda: children(server))
        host.kill()
    assert wait_for(lambda: not any(map(is_alive, (server, *forks))))
