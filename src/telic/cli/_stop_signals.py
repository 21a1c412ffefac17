"""Handle Ctrl-C, SIGTERM and SIGHUP as stop requests.

On the first signal, resumable work saves its state and exits, and other work is unwound so that no
temporary files or processes remain. A second Ctrl-C or SIGTERM exits immediately. Repeated SIGHUPs
from a closing terminal count as one request. Work that is still running some seconds after SIGTERM
or SIGHUP is unwound and then killed. It resumes from its last save.

    Ctrl-C (SIGINT)   exit code 1, as for all unfinished work
    SIGTERM           exit code 143
    SIGHUP            exit code 129

A signal that was ignored at startup (`nohup`) stays ignored. Work that ends before it polls for a
stop request exits with its usual exit code.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import FrameType

import typer

from telic.jobs.process import end_after_grace

_ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ECHO_S = 0.2
"""`timeout` and terminals signal both a process and its group (a single request)"""


class SignalInterrupt(KeyboardInterrupt):
    """Exception that unwinds a command in the same way as Ctrl-C.

    This subclass is needed because Python records a KeyboardInterrupt that passes through a module
    imported by compiled code. Python then ignores the requested exit code and exits as on Ctrl-C.
    """


class StopSignal:
    """Request to end the running command with a specific exit code."""

    def __init__(self, *, saves: bool) -> None:
        self.asked_by: signal.Signals | None = None
        self.repeats_from, self.watch = 0.0, threading.Event()
        self._saves = saves
        self._shown = [handle for handle in (0, 1, 2) if _is_terminal(handle)]

    def __call__(self) -> bool:
        """Return whether a stop was requested. Long-running work polls this function."""
        return self.asked_by is not None

    @property
    def exit_code(self) -> int:
        """Exit code of a command ended by this signal."""
        if self.asked_by in (None, signal.SIGINT):
            return 1
        return 128 + self.asked_by

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        if number == signal.SIGHUP:
            self._leave_terminal()
        if self.asked_by is None:
            self.asked_by = signal.Signals(number)
            self.repeats_from = time.monotonic() + _ECHO_S
            if number != signal.SIGINT:
                self.watch = end_after_grace(self.exit_code)
            if not self._saves:
                raise SignalInterrupt
            # Unbuffered: the signal may have interrupted a buffered write.
            with suppress(OSError):
                os.write(2, b"\nstopping after this update (Ctrl-C again: now) ...\n")
        elif number != signal.SIGHUP and time.monotonic() > self.repeats_from:
            raise SignalInterrupt

    def _leave_terminal(self) -> None:
        """Discard further output, because writing to a closed terminal would raise an error."""
        nothing = os.open(os.devnull, os.O_RDWR)
        for handle in self._shown:
            os.dup2(nothing, handle)
        os.close(nothing)


@contextmanager
def stoppable(*, saves: bool) -> Generator[StopSignal]:
    """Convert signals to stop requests if the work polls for them (`saves`), else to exceptions."""
    request = StopSignal(saves=saves)
    if threading.current_thread() is not threading.main_thread():
        yield request  # only the main thread can handle signals
        return
    previous = {number: signal.getsignal(number) for number in _ASKING if _is_ours(number, saves)}
    for number in previous:
        signal.signal(number, request.handle)
    try:
        yield request
    except BaseException as error:
        request.repeats_from = math.inf  # further signals are ignored
        if request.asked_by is None or not _is_interrupt(error):
            raise
        how = "Run the same command again to resume from the last save." if saves else ""
        with suppress(OSError):
            from telic.cli._console import errors

            errors.print(f"stopped by {request.asked_by.name}. {how}".rstrip())
        raise typer.Exit(request.exit_code) from None
    finally:
        request.watch.set()
        for number, handler in previous.items():
            signal.signal(number, handler)


def _is_interrupt(error: BaseException | None) -> bool:
    """Return whether an error was caused by a stop request.

    Python converts an interrupt during the import of compiled code to an ImportError.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _is_ours(number: signal.Signals, saves: bool) -> bool:
    if number == signal.SIGINT:  # Python itself unwinds on Ctrl-C
        return saves
    return signal.getsignal(number) is not signal.SIG_IGN


def _is_terminal(handle: int) -> bool:
    try:
        return os.isatty(handle)
    except OSError:
        return False
