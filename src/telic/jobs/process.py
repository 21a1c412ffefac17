"""Start, watch and end processes. Nothing else in telic starts one (a test checks it).

`Process` is one child process. `spawn_pool` is a pool of interpreters for Python functions.
`ProcessId` names a process across restarts, so that an orphan is distinguished from a living owner.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import IO, Self

from telic.core.config import Record

PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL
BEAT_S = 2.0
GRACE_S = 30.0
"""seconds between a request to terminate and the kill"""
_LINE_BYTES = 1 << 20
_POLL_S = 0.2
_SOON_S = 0.01
_LAST_WORDS_S = 5.0
_SAVE_S, _UNWIND_S = 8.0, 4.0
"""that work which was asked to end may take to save, and then to clean up"""
_PR_SET_PDEATHSIG = 1
_SAFE_PATH = "PYTHONSAFEPATH"
_LIBC: ctypes.CDLL | None = ctypes.CDLL(None) if sys.platform == "linux" else None


def own_python(module: str | None, *words: str | Path) -> list[str]:
    """Return the command line of an installed module, or of other words, in this Python.

    The current folder may be anybody's, and a module in it must not shadow one of ours.
    """
    return [sys.executable, "-P", *(("-m", module) if module else ()), *map(str, words)]


class Process:
    """One child process.

    By default it leads a process group of its own: Ctrl-C does not reach it, and `kill` ends it
    with everything it has started.
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
        """Start it; raises OSError when that fails."""
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
        """The pipe to it."""
        assert self._stdin is not None
        return self._stdin

    @property
    def stdout(self) -> IO[bytes]:
        """The pipe from it."""
        assert self._stdout is not None
        return self._stdout

    @property
    def code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self.wait(0.0)

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Wait for its end and return the exit code; None: it still runs."""
        # A confined process may not even ask.
        with contextlib.suppress(subprocess.TimeoutExpired, PermissionError):
            return self._child.wait(timeout_s)
        return None

    def send_signal(self, number: signal.Signals) -> None:
        """Signal it and all that it has started."""
        # A confined process may not signal: its own end closes the pipes of what it started.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._own_group:
                os.killpg(self.pid, number)
            elif self.code is None:
                os.kill(self.pid, number)

    def kill(self) -> int | None:
        """Kill it and all that it has started, and return the exit code if we may know it."""
        self.send_signal(signal.SIGKILL)
        return self.wait()

    def stop(self, grace_s: float = GRACE_S) -> int | None:
        """Terminate it, kill it after the grace period, and return the exit code."""
        self.terminate()
        self.wait(grace_s)
        return self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what still runs and close the pipes."""
        if self.code is None:
            self.kill()
        for pipe in (self._stdin, self._stdout):
            if pipe is not None:
                pipe.close()

    def terminate(self) -> None:
        """Ask it to end; what it has started is its own to end."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGTERM)

    def supervise(self, should_stop: Callable[[], bool]) -> bool:
        """Wait for its end; return whether it was asked to stop."""
        deadline: float | None = None
        next_beat = time.monotonic()
        try:
            while True:
                now = time.monotonic()
                if now >= next_beat:
                    next_beat = now + BEAT_S
                    if should_stop() and deadline is None:
                        deadline = now + GRACE_S
                        self.terminate()
                if deadline is not None and now > deadline:
                    self.send_signal(signal.SIGKILL)
                if self.wait(max(_SOON_S, next_beat - time.monotonic())) is not None:
                    return deadline is not None
        finally:
            self.kill()  # and what it left behind

    def write(self, content: bytes | memoryview) -> None:
        """Write to its standard input, all of it; raises BrokenPipeError when it has ended."""
        rest = memoryview(content).cast("B")
        while rest:
            rest = rest[os.write(self.stdin.fileno(), rest) :]

    def lines(self, silence_s: float, should_stop: Callable[[], bool]) -> Iterator[str]:
        """Yield the lines it prints until it ends, is silent for too long, or we are stopped."""
        handle, rest = self.stdout.fileno(), b""
        last_heard = time.monotonic()
        while not should_stop() and time.monotonic() - last_heard < silence_s:
            if not select.select([handle], [], [], _POLL_S)[0]:
                continue
            chunk = os.read(handle, 1 << 16)
            if not chunk:
                self.wait(_LAST_WORDS_S)  # its own exit code says more than that of a kill
                return
            last_heard = time.monotonic()
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _LINE_BYTES:
                return
            for line in lines:
                yield line.decode(errors="replace")

    @classmethod
    def detach(cls, words: Sequence[str | Path], log: Path, env: Mapping[str, str]) -> Process:
        """Start one that outlives this process; what it prints is appended to a file."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process = cls(words, env=env, stdout=output)
        # Without a wait, a finished child stays in the process table for as long as we run.
        threading.Thread(target=process.wait, daemon=True).start()
        return process


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel signal this process when its parent ends, however that happens."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number), *[ctypes.c_ulong(0)] * 3)


def end_after_grace(code: int) -> threading.Event:
    """End this process unless it ends by itself: signal it again, then exit at once.

    Work that does not look at a request to stop, or hangs while it is unwound, ends all the same.
    Setting the returned event calls it off.
    """
    off = threading.Event()

    def end() -> None:
        if not off.wait(_SAVE_S):
            os.kill(os.getpid(), signal.SIGTERM)
            if not off.wait(_UNWIND_S):
                os._exit(code)

    threading.Thread(target=end, daemon=True).start()
    return off


class ProcessId(Record):
    """A process of some machine; its start distinguishes it from a later one of its number."""

    host: str
    pid: int
    started: float

    @classmethod
    def own(cls) -> ProcessId:
        """Return that of this process."""
        import psutil

        process = psutil.Process()
        return cls(host=socket.gethostname(), pid=process.pid, started=process.create_time())

    @property
    def is_alive(self) -> bool:
        """True while it runs; a process of another machine is assumed to."""
        return self.host != socket.gethostname() or is_same_process(self.pid, self.started)


def is_same_process(pid: int, started: float) -> bool:
    """Say whether the process of this number and start time runs on this machine."""
    import psutil

    try:
        process = psutil.Process(pid)
        return process.create_time() == started and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


# ---- pools of interpreters


def spawn_pool(processes: int) -> ProcessPoolExecutor:
    """Return a pool of new interpreters that end with this process and leave signals to it."""
    with _safe_path():  # it starts a process of its own, once
        resource_tracker.ensure_running()
    return ProcessPoolExecutor(
        processes, mp_context=_SafeSpawn(), initializer=_join_pool, initargs=(os.getpid(),)
    )


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Keep the current folder out of the import path of Pythons that start in this block."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


class _SafeProcess(SpawnProcess):
    def start(self) -> None:
        with _safe_path():
            super().start()


class _SafeSpawn(SpawnContext):
    Process = _SafeProcess


def _join_pool(parent: int) -> None:
    die_with_parent()
    # The parent may have ended before that line, and not every kernel has the signal.
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    # Ctrl-C and a lost terminal reach all processes of a terminal at once.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
