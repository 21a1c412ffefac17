"""Workers for tests, forked from one process that has imported everything already.

A worker imports for three processor seconds before it does anything, and the tests start hundreds.
Here each is a fork of a process that only ever imports; from its first message on it is the same
worker, confined in the same way. Tests of the sandbox itself start theirs as everybody does.
"""

import contextlib
import faulthandler
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

MODULES = (
    "telic.training.worker",
    "telic.judges.recorder",
    "telic.judges.trial",
    "telic.judges.code",
)


class Zygote:
    """The process that forks; started at first need, ends with this one."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen | None = None

    def close(self) -> None:
        """End it."""
        if self._socket and self._process:
            self._socket.close()
            self._process.wait()

    def start(self, folder: Path | None, *, stderr: int) -> "ForkedProcess":
        """Start a worker that waits for its first message; see `host.start_interpreter`."""
        from telic.sandbox.confine import clean_environment

        here = self._socket or self._begin()
        environment = clean_environment(folder or Path("/"), python_path=(ROOT / "src",))
        stdin, to_worker = os.pipe()
        from_worker, stdout = os.pipe()
        status, told = os.pipe()
        sink = os.open(os.devnull, os.O_WRONLY) if stderr == subprocess.DEVNULL else os.dup(stderr)
        order = {"folder": str(folder) if folder else None, "environment": environment}
        socket.send_fds(here, [json.dumps(order).encode()], [stdin, stdout, sink, told])
        for handle in (stdin, stdout, sink, told):
            os.close(handle)
        return ForkedProcess(int(here.recv(64)), to_worker, from_worker, status)

    def _begin(self) -> socket.socket:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.zygote", str(there.fileno()), str(os.getpid())],
            env={**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
            | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
        )
        there.close()
        self._socket = here
        return here


ROOT = Path(__file__).parent.parent


class ForkedProcess:
    """What a host needs of a worker: the part of `subprocess.Popen` that it uses."""

    def __init__(self, pid: int, stdin: int, stdout: int, status: int) -> None:
        self.pid = pid
        self.stdin = os.fdopen(stdin, "wb", buffering=0)
        self.stdout = os.fdopen(stdout, "rb", buffering=0)
        self.returncode: int | None = None
        self._status = os.fdopen(status, "rb", buffering=0)

    def poll(self) -> int | None:
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._wait(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("worker", timeout or 0.0)
        return code

    def _wait(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = int(self._status.read() or b"1")
            self._status.close()
        return self.returncode


# ---- the process that forks


def serve(connection: socket.socket) -> None:
    """Fork a worker for each order until nobody is left to order."""
    children: dict[int, int] = {}
    waker, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready = select.select([connection, waker], [], [])[0]
        if waker in ready:
            os.read(waker, 1024)
            _reap(children)
        if connection in ready:
            data, handles, _, _ = socket.recv_fds(connection, 1 << 16, 4)
            if not data:
                return
            pid = os.fork()
            if pid == 0:
                _become_worker(json.loads(data), handles)
            children[pid] = handles[3]
            for handle in handles[:3]:
                os.close(handle)
            connection.send(str(pid).encode())


def _reap(children: dict[int, int]) -> None:
    for pid in list(children):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            told = children.pop(pid)
            with contextlib.suppress(BrokenPipeError):  # nobody wants to know any more
                os.write(told, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(told)


def _become_worker(order: dict, handles: list[int]) -> None:
    from telic.sandbox import worker

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number, handle in enumerate(handles[:3]):
        os.dup2(handle, number)
    os.closerange(3, 256)
    if order["folder"]:
        os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    faulthandler.enable()
    os._exit(worker.main(os.getppid()))


if __name__ == "__main__":
    import importlib

    from telic.sandbox import kernel

    kernel.die_with_parent()
    if os.getppid() != int(sys.argv[2]):
        sys.exit(1)
    for name in MODULES:
        importlib.import_module(name)
    serve(socket.socket(fileno=int(sys.argv[1])))
