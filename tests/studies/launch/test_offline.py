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


def test_processes_sockets_and_frameworks_are_refused(monkeypatch, tmp_path):
    for act in FORBIDDEN.values():
        with offline("study report"), pytest.raises(GateRefused) as caught:
            act()
        assert caught.value.code == "E_OFFLINE" and "study report" in caught.value.message
    for name in sorted(FRAMEWORKS)[:3]:
        monkeypatch.delitem(sys.modules, name, raising=False)
        with offline("study audit"), pytest.raises(GateRefused, match=f"import {name}"):
            __import__(name)
    with offline("study audit"):
        assert not git_read.is_repository(tmp_path), "git may be asked"


def test_afterwards_and_in_other_threads_nothing_is_refused():
    codes = []
    call = lambda: codes.append(subprocess.run(["true"], check=False).returncode)  # noqa: E731
    with offline("study report"):
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    call()
    assert codes == [0, 0]
