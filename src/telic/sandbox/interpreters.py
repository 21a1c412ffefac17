"""Start the interpreters that become workers, ahead of need where that is asked for.

Importing takes longer than most of what a worker does. While `prewarmed` is in force, each worker
of this thread begins in a process that has imported already, and who takes the last one leaves the
next importing behind it. A spare runs nothing foreign: it becomes a worker by the same first
message, confines itself in the same way and serves once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from pathlib import Path

from telic.sandbox.confine import clean_environment
from telic.sandbox.wire import encode

LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_PACKAGE = Path(__file__).parents[2]
_OPTIONS = ("-P", "-u", "-X", "faulthandler")
"""no working folder on the import path, unbuffered log, a trace of hard crashes"""


def start(folder: Path | None, *, stderr: int) -> subprocess.Popen[bytes]:
    """Start a process that waits for its first message."""
    return subprocess.Popen(
        [sys.executable, *_OPTIONS, "-m", "telic.sandbox.worker", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        cwd=folder,
        env=clean_environment(folder or Path("/"), python_path=(_PACKAGE,)),
        start_new_session=True,
    )


class _Mine(threading.local):
    """Of this thread only: the kernel ends a worker with the thread that started it."""

    modules: tuple[str, ...] = ()
    ready: tuple[subprocess.Popen[bytes], ...] = ()


_mine = _Mine()


@contextlib.contextmanager
def prewarmed(modules: Sequence[str]) -> Generator[None]:
    """Have a process ready that has imported these modules; ends it after the outermost block."""
    if _mine.modules:
        yield
        return
    _mine.modules = tuple(modules)
    try:
        prepare()
        yield
    finally:
        _mine.modules = ()
        for process in _mine.ready:
            end(process)
        _mine.ready = ()


def prepare() -> None:
    """Let the next two processes import, if any are kept and none is left.

    Two, because much that is short comes in pairs: who took the last one is likely to be long.
    """
    if _mine.modules and not _mine.ready:
        _mine.ready = tuple(_importing() for _ in range(2))


def _importing() -> subprocess.Popen[bytes]:
    process = start(None, stderr=subprocess.DEVNULL)
    assert process.stdin is not None
    process.stdin.write(encode({"kind": "import", "modules": list(_mine.modules)}))
    process.stdin.flush()
    return process


def take() -> subprocess.Popen[bytes] | None:
    """Return a process that is ready, or is getting ready; None if there is none."""
    while _mine.ready:
        process, *rest = _mine.ready
        _mine.ready = tuple(rest)
        if process.poll() is None:
            return process
        end(process)
    return None


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that nobody needs any more."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
