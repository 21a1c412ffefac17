"""Start a worker, listen to it, watch it, and end it for certain."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from telic.sandbox import endings, interpreters
from telic.sandbox.conversation import Conversation
from telic.sandbox.limits import Limits, Watch
from telic.sandbox.report import ConfinementReport
from telic.sandbox.wire import Message, encode, unpack_error

LOG_NAME = "worker.log"
POLL_S = 0.05


def ignore(message: Message) -> None:
    """Listen to nothing."""


class Worker:
    """One confined process, from start to end.

    Start and wait in the same thread: the kernel ends the worker with the thread that started it.
    """

    def __init__(
        self,
        entry: str,
        payload: dict[str, Any],
        *,
        writable: Sequence[Path],
        readable: Sequence[Path] = (),
        devices: Sequence[Path] = (),
        python_path: Sequence[Path] = (),
        limits: Limits | None = None,
        first_beat_s: float = 120.0,
    ) -> None:
        """Describe the process; nothing starts yet.

        Args:
            entry: module with `prepare` and `run` (see `worker`).
            payload: plain JSON data for both.
            writable: folders it may write to; the first is its working folder and holds its log.
            readable: further files and folders it may read.
            devices: device files it may use.
            python_path: further folders to import from, readable as well.
            limits: memory, disk, time and so on.
            first_beat_s: how long it may take to import and prepare.
        """
        self.log = writable[0].resolve() / LOG_NAME
        self.report: ConfinementReport | None = None
        """what is in force; None until the worker has confined itself"""
        self._limits = limits or Limits()
        self._writable = [path.resolve() for path in writable]
        imports = [path.resolve() for path in python_path]
        readable = [*(path.resolve() for path in readable), *imports]
        self._start_message = encode(
            {
                "kind": "start",
                "folder": str(self._writable[0]),
                "log": str(self.log),
                "python_path": list(map(str, imports)),
                "entry": entry,
                "payload": payload,
                "confinement": {
                    "writable": list(map(str, self._writable)),
                    "readable": list(map(str, readable)),
                    "devices": list(map(str, devices)),
                    "memory_bytes": self._limits.memory_bytes + self._limits.reserved_bytes,
                    "file_bytes": self._limits.file_bytes,
                    "open_files": self._limits.open_files,
                    "cpu_s": self._limits.cpu_s,
                },
            }
        )
        self._patience_s = first_beat_s
        self._doing = "it was starting"
        self._stop_wanted = False
        self._process: subprocess.Popen[bytes] | None = None

    def request_stop(self) -> None:
        """Ask the worker to finish early; safe in a signal handler."""
        self._stop_wanted = True

    def kill(self) -> None:
        """End the worker now, and everything it may have started before it was confined."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def run(
        self,
        on_message: Callable[[Message], None] = ignore,
        should_stop: Callable[[], bool] | None = None,
    ) -> dict[str, Any]:
        """Run to the end and return the worker's result.

        Args:
            on_message: called with each object the worker sends.
            should_stop: asked about twenty times a second; True asks the worker to finish early.

        Raises:
            TelicError: what the worker raised, rebuilt here.
            WorkerDied: it crashed, fell silent or broke the protocol.
            ResourceError: it exceeded a limit.
        """
        log_start = self.log.stat().st_size if self.log.exists() else 0
        conversation = Conversation(self._launch(), self._start_message)
        try:
            return self._converse(conversation, on_message, should_stop, log_start)
        finally:
            self.kill()
            conversation.close()

    def _launch(self) -> subprocess.Popen[bytes]:
        self._process = interpreters.take()
        if self._process is None:
            log = os.open(self.log, interpreters.LOG_FLAGS, 0o644)
            try:
                self._process = interpreters.start(self._writable[0], stderr=log)
            finally:
                os.close(log)
        return self._process

    def _converse(
        self,
        conversation: Conversation,
        on_message: Callable[[Message], None],
        should_stop: Callable[[], bool] | None,
        log_start: int,
    ) -> dict[str, Any]:
        watch = Watch(conversation.process.pid, self._limits, self._writable)
        heard_at = time.monotonic()
        stop_sent = False
        while True:
            if should_stop is not None and should_stop():
                self._stop_wanted = True
            if self._stop_wanted and not stop_sent:
                conversation.say({"kind": "stop"})
                stop_sent = True
            for message in conversation.exchange(POLL_S):
                heard_at = time.monotonic()
                last_word = self._hear(message, on_message, log_start)
                if last_word is not None:
                    return last_word
            if conversation.is_over:
                code = conversation.exit_code()
                tail = endings.read_tail(self.log, log_start)
                raise endings.ended(code, self._limits.cpu_s, self.log, tail)
            watch.check()
            if time.monotonic() - heard_at > self._patience_s:
                raise endings.silent(self._patience_s, self._doing)

    def _hear(
        self, message: Message, on_message: Callable[[Message], None], log_start: int
    ) -> dict[str, Any] | None:
        """Act on one message; return the result when it is the last one."""
        match message:
            case {"kind": "message", "body": dict(body)}:
                on_message(body)
            case {"kind": "beat", "seconds": int() | float() as seconds, "doing": str(doing)}:
                self._patience_s = float(seconds)
                self._doing = doing or self._doing
            case {"kind": "confined", "report": dict(report)} if self.report is None:
                self.report = ConfinementReport.from_dict(report)
                self._doing = "it was running"
                interpreters.prepare()
            case {"kind": "result", "body": dict(body)}:
                return body
            case {"kind": "error", "error": dict(error)}:
                raise unpack_error(error)
            case {"kind": "crash"}:
                tail = endings.read_tail(self.log, log_start)
                raise endings.crashed(message, self.log, tail)
            case _:
                raise endings.garbled(f"kind {message['kind']}")
        return None


def run_worker(
    entry: str,
    payload: dict[str, Any],
    *,
    writable: Sequence[Path],
    readable: Sequence[Path] = (),
    devices: Sequence[Path] = (),
    python_path: Sequence[Path] = (),
    limits: Limits | None = None,
    first_beat_s: float = 120.0,
    on_message: Callable[[Message], None] = ignore,
    should_stop: Callable[[], bool] | None = None,
) -> dict[str, Any]:
    """Run an entry module in a confined process and return its result; see `Worker`."""
    worker = Worker(
        entry,
        payload,
        writable=writable,
        readable=readable,
        devices=devices,
        python_path=python_path,
        limits=limits,
        first_beat_s=first_beat_s,
    )
    return worker.run(on_message, should_stop)
