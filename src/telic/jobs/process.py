"""Start, monitor and end processes. No other module of telic starts processes.

`Process` is one child process. `spawn_pool` creates a pool of interpreters for Python functions.
`ProcessId` identifies a process across restarts, e.g. to find out whether an owner is alive.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import IO, Any, Self

from telic import SAFE_PATH, protect_imports
from telic.storage.files import open_append

PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL
HEARTBEAT_S = 2.0
GRACE_S = 30.0
"""seconds between SIGTERM and SIGKILL"""
_SOON_S = 0.01
_SAVE_S, _UNWIND_S = 8.0, 4.0
"""seconds that work has after a stop request to save and to clean up"""
_PR_SET_PDEATHSIG = 1
_LIBC: ctypes.CDLL | None = ctypes.CDLL(None) if sys.platform == "linux" else None


def own_python(module: str | None, *words: str | Path) -> list[str]:
    """Return a command line that runs a module or other arguments with this Python.

    Modules in the current folder may be untrusted and cannot shadow installed modules.
    """
    return [sys.executable, "-P", *(("-m", module) if module else ()), *map(str, words)]


def user_environment() -> dict[str, str]:
    """Return the environment without import protection, for commands that run the user's code."""
    return {name: value for name, value in os.environ.items() if (name, value) != SAFE_PATH}


class Process:
    """One child process.

    By default, the process leads a process group, so that Ctrl-C does not reach it and `kill` also
    kills its descendants.
    """

    def __init__(
        self,
        words: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int = DEVNULL,
        stdout: int | IO[bytes] | None = DEVNULL,
        stderr: int | IO[bytes] | None = subprocess.STDOUT,
        pass_fds: Sequence[int] = (),
        own_group: bool = True,
        parent_death_signal: signal.Signals | None = None,
    ) -> None:
        """Start the process. Raises OSError on failure."""
        number = parent_death_signal
        self._child = subprocess.Popen(
            list(map(str, words)),
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            pass_fds=pass_fds,
            start_new_session=own_group,
            preexec_fn=None if number is None else lambda: die_with_parent(number),
        )
        self._take(self._child.pid, self._child.stdin, self._child.stdout, own_group)

    def _take(
        self, pid: int, stdin: IO[bytes] | None, stdout: IO[bytes] | None, own_group: bool
    ) -> None:
        self.pid = pid
        self._stdin, self._stdout = stdin, stdout
        self._own_group = own_group

    @property
    def stdin(self) -> IO[bytes]:
        """Pipe to the standard input of the process."""
        assert self._stdin is not None
        return self._stdin

    @property
    def stdout(self) -> IO[bytes]:
        """Pipe from the standard output of the process."""
        assert self._stdout is not None
        return self._stdout

    @property
    def code(self) -> int | None:
        """Exit code, negative for a signal, or None while the process runs."""
        return self.wait(0.0)

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for the process and return its exit code, or None on timeout."""
        # A sandboxed process may not even query it.
        with contextlib.suppress(subprocess.TimeoutExpired, PermissionError):
            return self._child.wait(timeout_s)
        return None

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and its descendants."""
        # A sandboxed process may not send signals: its exit closes the pipes of its children.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._own_group:
                os.killpg(self.pid, number)
            elif self.code is None:
                os.kill(self.pid, number)

    def kill(self) -> int | None:
        """Kill the process and its descendants and return the exit code if available."""
        self.send_signal(signal.SIGKILL)
        return self.wait()

    def stop(self, grace_s: float = GRACE_S) -> int | None:
        """Send SIGTERM, then SIGKILL after the grace period, and return the exit code."""
        self.terminate()
        self.wait(grace_s)
        return self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process if it is still running and close the pipes."""
        if self.code is None:
            self.kill()
        for pipe in (self._stdin, self._stdout):
            if pipe is not None:
                pipe.close()

    def terminate(self) -> None:
        """Send SIGTERM only to the process, which must end its own children."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGTERM)

    def supervise(
        self,
        should_stop: Callable[[], bool],
        *,
        every_s: float | None = None,
        grace_s: float = GRACE_S,
        whole_group: bool = False,
    ) -> bool:
        """Wait for the process to end and return whether a stop was requested.

        `should_stop` is called every `every_s` seconds, or `HEARTBEAT_S`. With `whole_group`,
        SIGTERM is sent to all descendants, for programs that do not forward signals.
        """
        deadline: float | None = None
        next_beat = time.monotonic()
        try:
            while True:
                now = time.monotonic()
                if now >= next_beat:
                    next_beat = now + (every_s or HEARTBEAT_S)
                    if should_stop() and deadline is None:
                        deadline = now + grace_s
                        self.send_signal(signal.SIGTERM) if whole_group else self.terminate()
                if deadline is not None and now > deadline:
                    self.send_signal(signal.SIGKILL)
                if self.wait(max(_SOON_S, next_beat - time.monotonic())) is not None:
                    return deadline is not None
        finally:
            self.kill()  # and its leftover children

    def write(self, content: bytes | memoryview) -> None:
        """Write `content` to the standard input. Raises BrokenPipeError if the child has ended."""
        rest = memoryview(content).cast("B")
        while rest:
            rest = rest[os.write(self.stdin.fileno(), rest) :]

    @classmethod
    def detach(cls, words: Sequence[str | Path], log: Path, env: Mapping[str, str]) -> Process:
        """Start a process that outlives this one, with its output appended to a file."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with open_append(log) as output:
            process = cls(words, env=env, stdout=output)
        # Without a wait, a finished child remains a zombie while this process runs.
        threading.Thread(target=process.wait, daemon=True).start()
        return process


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Let the kernel send a signal to this process when its parent ends for any reason."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number), *[ctypes.c_ulong(0)] * 3)


def end_after_grace(code: int) -> threading.Event:
    """Force this process to exit after a grace period, first by a signal, then directly.

    The exit ends work that does not poll for stop requests or hangs during cleanup. To cancel the
    exit, set the returned event.
    """
    off = threading.Event()

    def end() -> None:
        if not off.wait(_SAVE_S):
            os.kill(os.getpid(), signal.SIGTERM)
            if not off.wait(_UNWIND_S):
                os._exit(code)

    threading.Thread(target=end, daemon=True).start()
    return off


@contextlib.contextmanager
def signals_noted(*numbers: signal.Signals) -> Generator[list[int]]:
    """Yield a list that collects the received signals, by default SIGTERM."""
    signaled: list[int] = []
    before: dict[signal.Signals, Any] = {}
    try:
        for number in numbers or (signal.SIGTERM,):
            before[number] = signal.signal(number, lambda number, frame: signaled.append(number))
    except ValueError:  # only the main thread receives signals
        pass
    try:
        yield signaled
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class ProcessId:
    """Identity of a process. The start time distinguishes processes with the same pid."""

    host: str
    pid: int
    started: float

    @classmethod
    def own(cls) -> ProcessId:
        """Return the identity of this process."""
        return cls(socket.gethostname(), os.getpid(), start_of(os.getpid()) or 0.0)

    @property
    def is_alive(self) -> bool:
        """True while the process runs. Processes on other machines count as alive."""
        return self.host != socket.gethostname() or start_of(self.pid) == self.started


def start_of(pid: int, *endings: str) -> float | None:
    """Return the start of a live process in seconds since boot, or None if it has ended.

    This time does not depend on the clock, which may be adjusted while the process runs. A process
    without an argument for each of `endings` counts as ended, because files can name any process.
    """
    import psutil

    try:
        process = psutil.Process(pid)
        words = process.cmdline() if endings else []
        if not all(any(word.endswith(ending) for word in words) for ending in endings):
            return None
        started = round(process.create_time() - psutil.boot_time(), 2)
        return None if process.status() == psutil.STATUS_ZOMBIE else started
    except (psutil.Error, ValueError, OverflowError):  # the pid may come from a foreign file
        return None


# ---- pools of interpreters


def spawn_pool(processes: int) -> ProcessPoolExecutor:
    """Return a pool of new interpreters, which end with this process and ignore its signals."""
    with safe_path():  # it starts one helper process
        resource_tracker.ensure_running()
    return ProcessPoolExecutor(
        processes, mp_context=_SafeSpawn(), initializer=_join_pool, initargs=(os.getpid(),)
    )


@contextlib.contextmanager
def safe_path() -> Iterator[None]:
    """Apply `protect_imports` to the Python processes started in the block or function."""
    was_set = SAFE_PATH[0] in os.environ
    protect_imports()
    try:
        yield
    finally:
        if not was_set:
            os.environ.pop(SAFE_PATH[0], None)


class _SafeProcess(SpawnProcess):
    def start(self) -> None:
        with safe_path():
            super().start()


class _SafeSpawn(SpawnContext):
    Process = _SafeProcess


def _join_pool(parent: int) -> None:
    die_with_parent()
    # The parent may have ended before this line, and not every kernel supports the signal.
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    # Ctrl-C and hangups reach all processes of a terminal.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
