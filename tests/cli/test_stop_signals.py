"""SIGTERM, a closed terminal and Ctrl-C are requests to stop: save, mark, leave."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from telic.cli._stop_signals import stoppable
from telic.storage.files import read_json
from telic.storage.layout import list_runs
from telic.storage.locks import lock_holder
from telic.training.folder import status_of
from tests.cli.kills import children, searches_in, wait_for_orphans
from tests.cli.test_commands import start_long_run

SEARCH = ("search", "--env=CartPole-v1", "--method=cma", "--runs=2", "--episodes=1000000")


@pytest.fixture(autouse=True)
def received():
    """Reset SIGHUP, which child processes would inherit if it is ignored."""
    previous = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, previous)


def start_search(folder: Path, *words: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "telic", *SEARCH, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while len(list(folder.glob("runs/*/*/journal.jsonl"))) < 2:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    return process


def test_sigterm_saves_a_run_and_prints_the_resume_command(tmp_path):
    process = start_long_run(tmp_path)
    process.terminate()
    output, _ = process.communicate(timeout=3000)
    assert process.returncode == 128 + signal.SIGTERM, output
    (run,) = list_runs(tmp_path / "runs")
    if "Run the same command again" in output:  # too busy to save in the time that a service has
        assert status_of(run) != "done"
        return
    assert "telic resume long" in output
    assert status_of(run) == "stopped" and run.state.exists()


@pytest.mark.slow
def test_a_closed_terminal_stops_a_run_that_saves(tmp_path):
    master, terminal = pty.openpty()
    words = ["--steps", "10M", "--name", "long", "--videos", "none", "num_envs=8", "horizon=32"]
    code = (
        "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
        "os.execv(sys.executable, [sys.executable, '-m', 'telic', *sys.argv[1:]])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "train", "HalfCheetah-v5", *words],
        cwd=tmp_path,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    scalars = tmp_path / "runs" / "long" / "default_seed_1" / "metrics" / "scalars.jsonl"
    os.set_blocking(master, False)
    while not (scalars.exists() and scalars.stat().st_size > 500):
        assert process.poll() is None
        time.sleep(0.1)
        try:
            os.read(master, 1 << 16)
        except BlockingIOError:
            continue
    os.close(master)
    assert process.wait(300) == 128 + signal.SIGHUP
    (run,) = list_runs(tmp_path / "runs")
    assert status_of(run) == "stopped"


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_sigterm_stops_a_search_in_one_process_and_in_several(tmp_path, jobs):
    before = children()
    process = start_search(tmp_path, f"--jobs={jobs}")
    process.terminate()
    output, _ = process.communicate(timeout=3000)
    assert process.returncode == 128 + signal.SIGTERM, output
    assert "Traceback" not in output
    (search,) = searches_in(tmp_path / "runs")
    assert read_json(search.summary)["outcome"] == "stopped"
    assert lock_holder(search.lock) is None and not wait_for_orphans(before)


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (["mcp", "serve"], signal.SIGHUP),
        (["serve", "--no-open", "--port", "0"], signal.SIGTERM),
        pytest.param(["mcp", "serve"], signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_server_leaves_when_it_is_asked_to(tmp_path, words, number):
    process = subprocess.Popen(
        [sys.executable, "-m", "telic", *words],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if "mcp" in words:
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
    assert process.stdout.readline(), "it serves"
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + number
    assert b"Traceback" not in errors


def test_what_nohup_ignores_stays_ignored():
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable(saves=True) as stopping:
            signal.raise_signal(signal.SIGHUP)
            assert not stopping()
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_a_signal_sent_to_a_process_and_to_its_group_is_one_request():
    with stoppable(saves=True) as stopping:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert stopping() and stopping.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


HANGS = {
    "does not look": "while True: time.sleep(0.1)",
    "does not let go": """
while True:
    try: time.sleep(0.1)
    except BaseException: pass
""",
    "waits for a thread": """
with concurrent.futures.ThreadPoolExecutor() as pool:
    pool.submit(time.sleep, 1000).result()
""",
}


@pytest.mark.parametrize("saves", [True, False])
@pytest.mark.parametrize("kind", HANGS)
def test_sigterm_ends_work_that_hangs(kind, saves):
    code = f"""
import concurrent.futures, os, time, typer
from telic.cli._stop_signals import stoppable
from telic.jobs import process
process._SAVE_S = process._UNWIND_S = 0.3
try:
    with stoppable(saves={saves}):
        print("ready", flush=True)
        exec({HANGS[kind]!r})
except typer.Exit as error:
    os._exit(error.exit_code)
"""
    words = [sys.executable, "-c", code]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    output, _ = process.communicate(timeout=3000)
    assert process.returncode == 128 + signal.SIGTERM, output
    assert "Traceback" not in output


def interrupted_import():
    """As a compiled module that is being imported when the signal comes."""
    try:
        signal.raise_signal(signal.SIGTERM)
    except KeyboardInterrupt as error:
        raise ImportError("initialization failed") from error


def interrupted_cleanup():
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        raise OSError("a file that is half written")


@pytest.mark.slow
def test_a_second_sigterm_ends_at_once(tmp_path):
    process = start_long_run(tmp_path)
    (worker,) = [
        int(each)
        for each in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ]
    os.kill(worker, signal.SIGSTOP)  # it will never come to save
    process.terminate()
    time.sleep(0.5)
    assert process.poll() is None
    process.terminate()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "stopped by SIGTERM. Run the same command again" in output
    (run,) = list_runs(tmp_path / "runs")
    assert read_json(run.status)["status"] == "interrupted"
    assert not Path(f"/proc/{worker}").exists()


@pytest.mark.parametrize("unwinds", [interrupted_import, interrupted_cleanup])
def test_what_becomes_of_an_interrupt_on_its_way_is_still_one(unwinds):
    with pytest.raises(typer.Exit) as caught, stoppable(saves=False):
        unwinds()
    assert caught.value.exit_code == 143


def test_an_error_that_no_signal_made_stays_one():
    with pytest.raises(ImportError), stoppable(saves=True):
        signal.raise_signal(signal.SIGTERM)  # polite: it saves, and then fails by itself
        raise ImportError("no such module")
