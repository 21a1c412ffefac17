"""One way to start a process, and what it holds: limits, stopping, whole groups, orphans."""

import ast
import os
import signal
import sys
import time
from functools import cache
from pathlib import Path

import pytest

from telic.jobs.process import PIPE, Process, own_python, spawn_pool, start_of

SOURCE = Path(__file__).parents[2] / "src" / "telic"
STARTERS = {
    "subprocess": {"Popen", "*"},
    "multiprocessing": {"*"},
    "os": {"fork", "forkpty", "system", "popen", "posix_spawn", "spawnv", "spawnl", "execv"},
    "pty": {"*"},
    "concurrent.futures": {"ProcessPoolExecutor"},
}
ALLOWED = {
    "jobs/process.py",
    "sandbox/fork_server.py",  # forks of a process that has imported already
    "sandbox/confine.py",  # tries whether a sandboxed process can fork
}


def starts(tree):
    """Yield what a module uses of the functions that start processes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in STARTERS:
            known = STARTERS[node.module]
            yield from (name.name for name in node.names if name.name in known or "*" in known)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in ("multiprocessing", "pty"))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            known = STARTERS.get(node.value.id, ())
            yield from (f"{node.value.id}.{node.attr}" for name in known if name == node.attr)


@cache
def modules():
    found = SOURCE.rglob("*.py")
    return {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in found}


def test_nothing_else_starts_processes():
    found = {path: used for path, tree in modules().items() if (used := list(starts(tree)))}
    assert found.keys() <= ALLOWED, found
    assert "jobs/process.py" in found


def gone(pid):
    for _ in range(600):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


FAMILY = "trap '' TERM; sleep 600 & echo $!; while true; do sleep 0.05; done"


@pytest.mark.parametrize("end", [Process.kill, lambda process: process.stop(0.3)])
def test_what_it_has_started_ends_with_it(end):
    with Process(["sh", "-c", FAMILY], stdout=PIPE) as process:
        child = int(process.stdout.readline())
        assert end(process) == -signal.SIGKILL
    assert gone(child)


def test_it_may_save_before_it_is_killed(tmp_path):
    code = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); print('up');"
    code += "time.sleep(600)"
    with Process([sys.executable, "-uc", code], stdout=PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        assert process.stop() == 7


def test_it_ends_with_its_parent():
    code = "from telic.jobs.process import Process; import signal, os;"
    code += "p = Process(['sleep', '600'], parent_death_signal=signal.SIGKILL);"
    code += "print(p.pid, flush=True); os.kill(os.getpid(), 9)"
    with Process([sys.executable, "-c", code], stdout=PIPE) as parent:
        child = int(parent.stdout.readline())
        assert parent.wait() == -signal.SIGKILL and gone(child)


POOL = """
import os, signal
from telic.jobs.process import spawn_pool
if __name__ == "__main__":
    pool = spawn_pool(1)
    print(pool.submit(os.getpid).result(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_processes_of_a_pool_end_with_their_parent(tmp_path):
    (tmp_path / "pool.py").write_text(POOL)
    with Process([sys.executable, tmp_path / "pool.py"], stdout=PIPE) as parent:
        child = int(parent.stdout.readline())
        assert parent.wait() == -signal.SIGKILL and gone(child)


# ---- the import path of our own Python

INTERPRETERS = {
    "jobs/process.py",
    "jobs/spec.py",  # the user's own command
    "envs/simulators/names.py",  # the identity of a Python, and its name in a message
    "envs/simulators/env.py",
    "envs/simulators/lab_adapter.py",
}


def test_our_own_python_is_started_in_one_place():
    raw = {
        path
        for path, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "executable"
        if isinstance(node.value, ast.Name) and node.value.id == "sys"
    }
    assert raw <= INTERPRETERS, raw - INTERPRETERS


def test_modules_of_the_current_folder_do_not_shadow_ours(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("telic", "multiprocessing", "pip"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    before = dict(os.environ)
    with spawn_pool(1) as pool:
        assert pool.submit(os.path.basename, "a/b").result() == "b"
    assert dict(os.environ) == before
    with Process(own_python("telic.errors")) as started:
        assert started.wait(300) == 0
    assert not (tmp_path / "ran").exists()


PROGRAM = Path(sys.executable).with_name("telic")


def plant(folder):
    """Write a working `struct.py` that leaves a mark when it is imported."""
    (folder / "struct.py").write_text(
        f"open({str(folder / 'ran')!r}, 'w')\n"
        "import sys\n"
        "sys.path.pop(0)\n"
        "del sys.modules['struct']\n"
        "sys.modules['struct'] = __import__('struct')\n"
    )


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([PROGRAM, "envs"], marks=pytest.mark.slow),
        own_python(None, "-c", "import telic, mujoco"),
    ],
)
def test_processes_that_libraries_start_do_not_import_from_the_current_folder(tmp_path, command):
    plant(tmp_path)  # importing mujoco imports glfw, which runs `python -c`
    with Process(command, cwd=tmp_path) as started:
        started.wait(300)
    assert not (tmp_path / "ran").exists()


def test_a_pid_that_no_process_can_have_belongs_to_no_process():
    assert start_of(os.getpid()) is not None
    assert [start_of(pid) for pid in (-1, 2**31, 2**70, -(2**70))] == [None] * 4


def test_it_is_asked_to_stop_at_a_heartbeat():
    beats = []

    def beat():
        beats.append(1)
        return True

    process = Process(["sleep", "600"])
    assert process.supervise(beat) and process.code == -signal.SIGTERM
    assert beats and not Process(["true"]).supervise(lambda: False)
