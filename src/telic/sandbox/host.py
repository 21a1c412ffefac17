"""Start a worker, listen to it, watch it, and end it for certain."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from telic.errors import ResourceError, TelicError, WorkerDied
from telic.sandbox import interpreters
from telic.sandbox.confine import ConfinementReport
from telic.sandbox.limits import Limits, Watch
from telic.sandbox.wire import (
    LineBuffer,
    Message,
    decode,
    encode,
    is_record,
    printable,
    unpack_error,
)

LOG_NAME = "worker.log"
LOG_TAIL = 2000
POLL_S = 0.05
LAST_WORDS_S = 5.0

_SIGNALS = {
    signal.SIGSEGV: "It crashed inside compiled code; runaway recursion or a library bug.",
    signal.SIGBUS: "It crashed inside compiled code; a full disk or a shortened file.",
    signal.SIGABRT: "A library gave up (abort).",
    signal.SIGFPE: "It crashed on an arithmetic fault inside compiled code.",
    signal.SIGSYS: "It made a system call of another machine type, which is refused outright.",
    signal.SIGKILL: "Something outside ended it, most likely the system for lack of memory.",
    signal.SIGTERM: "Something outside asked it to end.",
}


def ignore(message: Message) -> None:
    """Listen to nothing."""


class WorkerOptions(TypedDict, total=False):
    """What a worker may use besides the folders it writes to."""

    readable: Sequence[Path]
    """further files and folders it may read"""
    devices: Sequence[Path]
    """device files it may use"""
    python_path: Sequence[Path]
    """further folders to import from, readable as well"""
    limits: Limits | None
    """memory, disk, time and so on"""
    first_beat_s: float
    """how long it may take to import and prepare; two minutes unless told"""


def run_worker(
    entry: str,
    payload: dict[str, Any],
    *,
    writable: Sequence[Path],
    on_message: Callable[[Message], None] = ignore,
    should_stop: Callable[[], bool] | None = None,
    **options: Unpack[WorkerOptions],
) -> dict[str, Any]:
    """Run an entry module in a confined process and return its result; see `Worker`."""
    return Worker(entry, payload, writable=writable, **options).run(on_message, should_stop)


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
        **options: Unpack[WorkerOptions],
    ) -> None:
        """Describe the process; nothing starts yet.

        Args:
            entry: module with `prepare` and `run` (see `worker`).
            payload: plain JSON data for both.
            writable: folders it may write to; the first is its working folder and holds its log.
            **options: see `WorkerOptions`.
        """
        self.log = writable[0].resolve() / LOG_NAME
        self.report: ConfinementReport | None = None
        """what is in force; None until the worker has confined itself"""
        self._limits = options.get("limits") or Limits()
        self._writable = [path.resolve() for path in writable]
        imports = [path.resolve() for path in options.get("python_path", ())]
        readable = [*(path.resolve() for path in options.get("readable", ())), *imports]
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
                    "devices": list(map(str, options.get("devices", ()))),
                    "memory_bytes": self._limits.memory_bytes + self._limits.reserved_bytes,
                    "file_bytes": self._limits.file_bytes,
                    "open_files": self._limits.open_files,
                    "cpu_s": self._limits.cpu_s,
                },
            }
        )
        self._patience_s = options.get("first_beat_s", 120.0)
        self._doing = "it was starting"
        self._process: subprocess.Popen[bytes] | None = None

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
            if should_stop is not None and should_stop() and not stop_sent:
                conversation.say({"kind": "stop"})
                stop_sent = True
            for message in conversation.exchange(POLL_S):
                heard_at = time.monotonic()
                last_word = self._hear(message, on_message, log_start)
                if last_word is not None:
                    return last_word
            if conversation.is_over:
                code = conversation.exit_code()
                tail = read_tail(self.log, log_start)
                raise ended(code, self._limits.cpu_s, self.log, tail)
            watch.check()
            if time.monotonic() - heard_at > self._patience_s:
                raise silent(self._patience_s, self._doing)

    def _hear(
        self, message: Message, on_message: Callable[[Message], None], log_start: int
    ) -> dict[str, Any] | None:
        """Act on one message; return the result when it is the last one."""
        match message:
            case {"kind": "message", "body": body} if is_record(body):
                on_message(body)
            case {"kind": "beat", "seconds": int() | float() as seconds, "doing": str(doing)}:
                self._patience_s = float(seconds)
                self._doing = doing or self._doing
            case {"kind": "confined", "report": report} if self.report is None and is_record(
                report
            ):
                self.report = ConfinementReport.from_dict(report)
                self._doing = "it was running"
                interpreters.prepare()
            case {"kind": "result", "body": body} if is_record(body):
                return body
            case {"kind": "error", "error": error} if is_record(error):
                raise unpack_error(error)
            case {"kind": "crash"}:
                tail = read_tail(self.log, log_start)
                raise crashed(message, self.log, tail)
            case _:
                raise garbled(f"kind {message['kind']}")
        return None


class Conversation:
    """The two pipes of a worker: lines out, messages in, never blocking."""

    def __init__(self, process: subprocess.Popen[bytes], first: bytes) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process = process
        self.is_over = False
        self._outgoing = bytearray(first)
        self._lines = LineBuffer()
        self._stdin = process.stdin
        self._stdout = process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._selector.register(self._stdin, selectors.EVENT_WRITE)
        self._writing = True

    def say(self, message: Message) -> None:
        """Queue a message for the worker."""
        self._outgoing += encode(message)
        if not self._writing and not self._stdin.closed:
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
            self._writing = True

    def exchange(self, timeout_s: float) -> list[Message]:
        """Write and read what is possible within the time; return the messages that arrived."""
        received: list[Message] = []
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._stdin:
                self._write()
            else:
                received += self._read()
        return received

    def exit_code(self) -> int:
        """Return the exit code of a worker whose pipe is closed."""
        try:
            return self.process.wait(LAST_WORDS_S)
        except subprocess.TimeoutExpired as error:
            raise garbled("it closed its pipe and ran on") from error

    def close(self) -> None:
        """Close both pipes."""
        self._selector.close()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _write(self) -> None:
        try:
            sent = os.write(self._stdin.fileno(), self._outgoing)
        except BrokenPipeError:  # it has ended; what it said last is still to be read
            sent = len(self._outgoing)
        del self._outgoing[:sent]
        if not self._outgoing:
            self._selector.unregister(self._stdin)
            self._writing = False

    def _read(self) -> list[Message]:
        data = os.read(self._stdout.fileno(), 1 << 18)
        if not data:
            self.is_over = True
            return []
        try:
            return [decode(line) for line in self._lines.feed(data)]
        except ValueError as error:
            raise garbled(error) from error


def silent(seconds: float, doing: str) -> WorkerDied:
    """Describe a worker that was ended because it gave no sign of life."""
    return WorkerDied(
        f"The worker was ended: no sign of life for {seconds:g} s while {printable(doing, 200)}.",
        hint="An endless or very slow loop is the usual cause: bound every loop and compute with "
        "arrays.",
    )


def garbled(reason: object) -> WorkerDied:
    """Describe a worker that was ended because it broke the protocol."""
    return WorkerDied(
        f"The worker was ended: what it sent is not a message ({printable(reason, 200)}).",
        hint="Foreign code that writes to the worker's pipe does that; read the reward.",
    )


def crashed(message: Message, log: Path, tail: str) -> TelicError:
    """Describe an exception that left the worker's entry."""
    kind, text = printable(message.get("type"), 100), printable(message.get("text"), 2000)
    if kind == "MemoryError":
        return ResourceError(
            f"The worker ran out of its memory limit. {text}".rstrip(),
            hint="Look for lists and tensors that grow with every step, or raise the limit.",
        )
    if kind in {"SystemExit", "KeyboardInterrupt", "GeneratorExit"}:
        return WorkerDied(
            f"Foreign code tried to end the worker with {kind}.",
            hint="Raise a ValueError to report a problem, and return otherwise.",
        )
    return WorkerDied(f"The worker failed: {kind}: {text}", hint=_see(log, tail))


def ended(code: int, cpu_limit_s: int | None, log: Path, tail: str) -> TelicError:
    """Describe a worker that is gone without a last word."""
    if code >= 0:
        return WorkerDied(
            f"The worker ended with exit code {code} before it gave a result.",
            hint=_see(log, tail),
        )
    number = signal.Signals(-code)
    if number == signal.SIGXCPU:
        return ResourceError(
            f"The worker used more than its {cpu_limit_s} s of processor time.",
            hint="Give it more time, or less to do.",
        )
    why = _SIGNALS.get(number, "")
    return WorkerDied(f"The worker was ended by {number.name}. {why}".strip(), hint=_see(log, tail))


def read_tail(log: Path, start: int) -> str:
    """Return the last lines that the worker wrote to its log since `start`."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(start, size - LOG_TAIL))
            return printable(file.read().decode(errors="replace")).strip()
    except OSError:
        return ""


def _see(log: Path, tail: str) -> str:
    lines = "\n".join(tail.splitlines()[-12:])
    return f"The log is {log}" + (f"; its last lines:\n{lines}" if lines else ", and it is empty.")
