"""Start the interpreters that become workers, ahead of need where that is asked for.

Importing takes longer than most of what a worker does. While `kept` is in force, each worker of
this thread begins in a process that has imported already, and leaves the next one importing behind
it. A spare runs nothing foreign: it becomes a worker by the same first message, confines itself in
the same way and serves once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from telic.sandbox.environment import clean_environment
from telic.sandbox.wire import encode

LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_PACKAGE = Path(__file__).parents[2]


def start(folder: Path | None, *, stderr: int) -> subprocess.Popen[bytes]:
    """Start a process that waits for its first message."""
    return subprocess.Popen(
        # no working folder on the import path, unbuffered log, a trace of hard crashes
        [sys.executable, "-P", "-u", "-X", "faulthandler", "-m", "telic.sandbox.worker",
         str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        cwd=folder,
        env=clean_environment(folder or Path("/"), python_path=(_PACKAGE,)),
        start_new_session=True,
    )  # fmt: skip


class _Mine(threading.local):
    """Of this thread only: the kernel ends a worker with the thread that started it."""

    modules: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None


_mine = _Mine()


@contextlib.contextmanager
def kept(modules: Sequence[str]) -> Iterator[None]:
    """Have a process ready that has imported these modules; ends it after the block."""
    _mine.modules = tuple(modules)
    try:
        prepare()
        yield
    finally:
        _mine.modules = ()
        end(take())


def prepare() -> None:
    """Let the next process import, if any are kept and none is ready."""
    if not _mine.modules or _mine.process is not None:
        return
    process = start(None, stderr=subprocess.DEVNULL)
    assert process.stdin is not None
    process.stdin.write(encode({"kind": "import", "modules": list(_mine.modules)}))
    process.stdin.flush()
    _mine.process = process


def take() -> subprocess.Popen[bytes] | None:
    """Return the process that is ready, or is getting ready; None if there is none."""
    process, _mine.process = _mine.process, None
    if process is None or process.poll() is None:
        return process
    end(process)
    return None


def end(process: subprocess.Popen[bytes] | None) -> None:
    """End a process that nobody needs any more."""
    if process is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
