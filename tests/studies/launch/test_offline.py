"""Under `offline` nothing can start a process, open a connection or import a framework."""

import os
import socket
import subprocess
import sys
import threading

import pytest

from telic.studies import _git_read as git_read
from telic.studies.errors import GateRefused
from telic.studies.offline import FRAMEWORKS, offline

FORBIDDEN = {
    "subprocess": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
    "system": lambda: os.system("true"),
    "exec": lambda: os.execv("/bin/true", ["true"]),
    "spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "fork": os.fork,
    "git that writes": lambda: subprocess.run(["git", "gc"], check=True),
    "a shell that names git": lambda: subprocess.run("git status", shell=True, check=True),
    "connect": lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
    "resolve": lambda: socket.getaddrinfo("example.org", 80),
}


@pytest.mark.parametrize("act", FORBIDDEN.values(), ids=FORBIDDEN)
def test_it_is_refused(act):
    with offline("study report"), pytest.raises(GateRefused) as caught:
        act()
    assert caught.value.code == "E_OFFLINE" and "study report" in caught.value.message


@pytest.mark.parametrize("name", sorted(FRAMEWORKS)[:3])
def test_a_training_framework_cannot_be_imported(name, monkeypatch):
    monkeypatch.delitem(sys.modules, name, raising=False)
    with offline("study audit"), pytest.raises(GateRefused, match=f"import {name}"):
        __import__(name)


def test_reading_git_is_allowed(tmp_path):
    with offline("study audit"):
        assert not git_read.is_repository(tmp_path)


def test_outside_and_afterwards_nothing_is_refused():
    with offline("study report"):
        pass
    assert subprocess.run([sys.executable, "-c", ""], check=False).returncode == 0


def test_another_thread_is_not_held_back():
    codes = []
    call = lambda: codes.append(subprocess.run(["true"], check=False).returncode)  # noqa: E731
    with offline("study report"):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    assert codes == [0]
