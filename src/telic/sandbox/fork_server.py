"""Process that imports modules once and is then forked to start workers quickly.

Imports take longer than most tasks of a worker. While `prewarmed` is active, a fork server imports
the modules once in the background, and every worker is a fork of it. The server receives no
requests. A fork reads its first message from a pipe, confines itself, and serves one request, like
a newly started worker.

The fork server ends when its socket closes, i.e. whenever its host ends; the kernel then kills its
forks. It has only one thread, so that forking is safe.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from telic.jobs.process import Process, own_python
from telic.sandbox import _kernel as kernel
from telic.sandbox.confine import clean_environment

PACKAGE = Path(__file__).parents[2]
OPTIONS = ("-u", "-X", "faulthandler")
"""import path without the working folder, unbuffered log, tracebacks on hard crashes"""
_ORDER_BYTES = 1 << 16


@contextlib.contextmanager
def loading() -> Generator[None]:
    """Disable garbage collection inside the block, because imported objects are kept anyway.

    Later collections skip these objects too, so that forks continue to share their memory.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class ForkedProcess(Process):
    """Child of the fork server process, which reports the child's exit code through a pipe."""

    def __init__(self, pid: int, stdin: int, stdout: int, status: int) -> None:
        self._take(pid, os.fdopen(stdin, "wb", 0), os.fdopen(stdout, "rb", 0), own_group=True)
        self._status = os.fdopen(status, "rb", buffering=0)
        self._code: int | None = None

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the process and return its exit code, or None after a timeout."""
        if self._code is None and select.select([self._status], [], [], timeout_s)[0]:
            # End of the pipe without a code: the fork server and its forks were killed.
            self._code = int(self._status.read() or -signal.SIGKILL)
            self._status.close()
        return self._code


class ForkServer:
    """Handle of the fork server process in its host."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._lock = threading.Lock()
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = here
        self._process = Process(
            own_python(None, *OPTIONS, "-m", __name__, str(there.fileno()), *modules),
            env=clean_environment(Path("/"), python_path=(PACKAGE,)),
            pass_fds=[there.fileno()],
        )
        there.close()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def fork(self, folder: Path | None, *, stderr: int) -> ForkedProcess | None:
        """Start a worker that waits for a message, or return None if the fork server has ended."""
        stdin, to_worker = os.pipe()
        from_worker, stdout = os.pipe()
        status, exit_pipe = os.pipe()
        environment = clean_environment(folder or Path("/"), python_path=(PACKAGE,))
        order = {"folder": str(folder) if folder else None, "environment": environment}
        try:
            with self._lock:
                handles = [stdin, stdout, stderr, exit_pipe]
                socket.send_fds(self._socket, [json.dumps(order).encode()], handles)
                answer = self._socket.recv(64)
        except OSError:  # its imports failed, or it was killed
            answer = b""
        for handle in (stdin, stdout, exit_pipe):
            os.close(handle)
        if not answer:
            for handle in (to_worker, from_worker, status):
                os.close(handle)
            return None
        return ForkedProcess(int(answer), to_worker, from_worker, status)

    def close(self) -> None:
        """Kill the fork server and its remaining forks."""
        self._socket.close()
        self._process.kill()


class _Shared:
    """Fork server shared by all blocks of this process, with a reference count."""

    lock = threading.Lock()
    server: ForkServer | None = None
    users = 0


_shared = _Shared()


@contextlib.contextmanager
def prewarmed(modules: Sequence[str]) -> Generator[None]:
    """Fork workers from a process that has imported these modules, until the last block ends.

    Nested blocks use the modules of the outermost block. Workers import all other modules.
    """
    with _shared.lock:
        if _shared.server is None and kernel.LINUX:
            _shared.server = ForkServer(modules)
        _shared.users += 1
    try:
        yield
    finally:
        with _shared.lock:
            _shared.users -= 1
            if _shared.users == 0 and _shared.server is not None:
                _shared.server.close()
                _shared.server = None


def fork_worker(folder: Path | None, *, stderr: int) -> ForkedProcess | None:
    """Fork a worker from the fork server process, or return None if no fork server is running."""
    server = _shared.server
    return None if server is None else server.fork(folder, stderr=stderr)


# ------------------------------------------------------------------------ the process that forks


def serve_orders(connection: socket.socket) -> None:
    """Fork a worker for each request until the host closes the connection."""
    children: dict[int, int] = {}
    waker, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, _wake)
    while True:
        ready = select.select([connection, waker], [], [])[0]
        if waker in ready:
            os.read(waker, 1024)
            _reap(children)
        if connection in ready:
            data, handles, _, _ = socket.recv_fds(connection, _ORDER_BYTES, 4)
            if not data:
                return
            pid = os.fork()
            if pid == 0:
                _become_worker(json.loads(data), handles)
            children[pid] = handles[3]
            for handle in handles[:3]:
                os.close(handle)
            connection.send(str(pid).encode())


def _wake(number: int, frame: FrameType | None) -> None:
    """Do nothing. Without a handler, the signal would not wake the loop."""


def _reap(children: dict[int, int]) -> None:
    """Report the exit codes of children that have ended."""
    for pid in list(children):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            exit_pipe = children.pop(pid)
            with contextlib.suppress(BrokenPipeError):  # the host no longer reads
                os.write(exit_pipe, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(exit_pipe)


def _become_worker(order: dict[str, Any], handles: list[int]) -> None:
    """Continue as `python -m telic.sandbox.worker` does after its imports."""
    from telic.sandbox import worker

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number, handle in enumerate(handles[:3]):
        os.dup2(handle, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    if order["folder"]:
        os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    faulthandler.enable()  # to the log's descriptor
    code = 1
    try:
        code = worker.serve_request(os.getppid())
    finally:
        os._exit(code)


def run_fork_server(arguments: Sequence[str]) -> None:
    """Import the modules listed after the socket number in the arguments, and serve requests."""
    number, *modules = arguments
    connection = socket.socket(fileno=int(number))
    with loading():
        for module in (*modules, "telic.sandbox.worker"):
            importlib.import_module(module)
    serve_orders(connection)


if __name__ == "__main__":
    run_fork_server(sys.argv[1:])
