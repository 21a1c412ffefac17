"""Start a worker, exchange messages with it, monitor it, and end it reliably.

If a `fork_server` is running, workers are forks of it, with the modules already imported.
Otherwise they are new interpreters.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

from telic.errors import TelicError
from telic.jobs.process import PIPE, Process, own_python
from telic.sandbox.confine import Confinement, ConfinementPart, ConfinementReport, clean_environment
from telic.sandbox.fork_server import OPTIONS, PACKAGE, fork_worker
from telic.sandbox.limits import Limits, Watch, running_clock
from telic.sandbox.wire import (
    LOG_FLAGS,
    LineBuffer,
    Message,
    crashed,
    decode,
    encode,
    ended,
    garbled,
    is_record,
    read_tail,
    silent,
    unpack_error,
)

LOG_NAME = "worker.log"
POLL_S = 0.05
LAST_WORDS_S = 5.0
_MAX_HEARTBEAT_S = 3600.0

MessageListener = Callable[[Message], Message | None]
"""function that receives a worker's messages and returns the answers to questions"""
Check = Callable[[], bool]


def ignore_message(message: Message) -> None:
    """Discard the message."""


class WorkerOptions(TypedDict, total=False):
    """Resources of a worker, in addition to its writable folders."""

    readable: Sequence[Path]
    """further readable files and folders"""
    devices: Sequence[Path]
    """accessible device files"""
    programs: Sequence[Path]
    """programs that it may start, with the same confinement"""
    python_path: Sequence[Path]
    """further import folders, which are readable"""
    searched: Sequence[Path]
    """further import folders, whose entries may only be listed"""
    limits: Limits | None
    """limits on memory, disk and time"""
    log: Path
    """log of its output that may be outside of its writable folders"""
    first_beat_s: float
    """timeout in seconds for imports and preparation"""
    fresh: bool
    """whether to start a new interpreter instead of forking"""
    needs_confinement: bool
    """whether confinement by the system is required, as it is for untrusted code"""


def run_worker(
    entry: str,
    payload: dict[str, Any],
    *,
    writable: Sequence[Path],
    on_message: MessageListener = ignore_message,
    should_stop: Check | None = None,
    should_wait: Check | None = None,
    **options: Unpack[WorkerOptions],
) -> dict[str, Any]:
    """Run an entry module in a sandboxed process and return its result. See `Worker`."""
    worker = Worker(entry, payload, writable=writable, **options)
    return worker.run(on_message, should_stop, should_wait)


def available() -> ConfinementReport:
    """Confine a worker that does nothing and report the mechanisms that this system supports."""
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker("telic.sandbox.worker:do_nothing", {}, writable=[Path(folder)], fresh=True)
        try:
            worker.run()
        except TelicError as error:
            if worker.report is None:
                failed = ConfinementPart(name="trial", active=False, message=error.message)
                return ConfinementReport(parts=(failed,), landlock_abi=0)
        return cast("ConfinementReport", worker.report)


def _resolved(paths: Sequence[Path]) -> tuple[Path, ...]:
    return tuple(path.resolve() for path in paths)


class Worker:
    """Sandboxed process, from its start to its end.

    A worker must be started and awaited in the same thread, because the kernel kills a new
    interpreter when the thread that started it ends.
    """

    def __init__(
        self,
        entry: str,
        payload: dict[str, Any],
        *,
        writable: Sequence[Path],
        **options: Unpack[WorkerOptions],
    ) -> None:
        """Configure the worker without starting it."""
        self.log = options.get("log", writable[0] / LOG_NAME).absolute()
        self.report: ConfinementReport | None = None
        """active confinement, or None before the worker is confined"""
        self._limits = options.get("limits") or Limits()
        self._writable = _resolved(writable)
        imports = _resolved(options.get("python_path", ()))
        searched = _resolved(options.get("searched", ()))
        self._start_message = encode(
            {
                "kind": "start",
                "folder": str(self._writable[0]),
                "log": str(self.log),
                "python_path": list(map(str, [*imports, *searched])),
                "entry": entry,
                "payload": payload,
                "unconfined": os.environ.get("TELIC_UNCONFINED") == "allow"
                or not options.get("needs_confinement", True),
                "confinement": Confinement(
                    writable=self._writable,
                    readable=_resolved(options.get("readable", ())) + imports,
                    searched=searched,
                    devices=tuple(options.get("devices", ())),
                    programs=tuple(options.get("programs", ())),
                    limits=self._limits,
                ).model_dump(mode="json"),
            }
        )
        self._patience_s = options.get("first_beat_s", 120.0)
        self._fresh = options.get("fresh", False)
        self._doing = "it was starting"
        self._log_start = 0
        self._process: Process | None = None

    def kill(self) -> None:
        """Kill the worker and all processes that it started before it was confined."""
        if self._process is not None and self._process.code is None:
            self._process.kill()

    def run(
        self,
        on_message: MessageListener = ignore_message,
        should_stop: Check | None = None,
        should_wait: Check | None = None,
    ) -> dict[str, Any]:
        """Run the worker until it ends and return its result.

        Raises:
            TelicError: an error raised in the worker.
            WorkerDied: the worker crashed, missed its heartbeat, or violated the protocol.
            ResourceError: the worker exceeded a limit.
        """
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        conversation = _Conversation(self._launch(), self._start_message)
        pid = conversation.process.pid
        watch = Watch(pid, self._limits, self._writable)
        active_at = running_clock(pid)
        stop_sent = is_held = False
        try:
            while True:
                if should_wait is not None and should_wait() != is_held:
                    is_held = not is_held
                    conversation.process.send_signal(signal.SIGSTOP if is_held else signal.SIGCONT)
                if should_stop is not None and should_stop() and not stop_sent:
                    conversation.say({"kind": "stop"})
                    stop_sent = True
                for message in conversation.exchange(POLL_S):
                    last_word = self._receive(message, conversation, on_message)
                    if last_word is not None:
                        return last_word
                    active_at = running_clock(pid)  # listener time does not count as silence
                if conversation.is_over:
                    code = conversation.process.wait(LAST_WORDS_S)
                    if code is None:
                        raise garbled("it closed its pipe but continued to run")
                    raise ended(code, self._limits.cpu_s, self.log, self._tail)
                watch.check()
                if is_held:
                    active_at = running_clock(pid)  # a paused worker cannot send
                if running_clock(pid) - active_at > self._patience_s:
                    raise silent(self._patience_s, self._doing)
        finally:
            self.kill()
            conversation.close()

    @property
    def _tail(self) -> str:
        return read_tail(self.log, self._log_start)

    def _launch(self) -> Process:
        log = os.open(self.log, LOG_FLAGS, 0o644)
        try:
            folder = self._writable[0]
            forked = None if self._fresh else fork_worker(folder, stderr=log)
            self._process = forked or Process(
                own_python(None, *OPTIONS, "-m", "telic.sandbox.worker", str(os.getpid())),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                cwd=folder,
                env=clean_environment(folder, python_path=(PACKAGE,)),
            )
        finally:
            os.close(log)
        return self._process

    def _receive(
        self, message: Message, conversation: _Conversation, on_message: MessageListener
    ) -> dict[str, Any] | None:
        """Handle one message and return the worker's result if it is the last message."""
        match message:
            case {"kind": "message", "body": body} if is_record(body):
                reply = on_message(body)
                if reply is not None:
                    conversation.say({"kind": "reply", "body": reply})
            case {"kind": "beat", "seconds": int() | float() as seconds, "doing": str(doing)} if (
                0 <= seconds <= _MAX_HEARTBEAT_S
            ):
                self._patience_s = float(seconds)
                self._doing = doing or self._doing
            case {"kind": "confined", "report": report} if self.report is None and is_record(
                report
            ):
                try:
                    self.report = ConfinementReport.model_validate(report)
                except ValueError as error:
                    raise garbled(error) from error
                self._doing = "it was running"
            case {"kind": "result", "body": body} if is_record(body):
                return body
            case {"kind": "error", "error": error} if is_record(error):
                raise unpack_error(error)
            case {"kind": "crash"}:
                raise crashed(message, self.log, self._tail)
            case _:
                raise garbled(f"kind {message['kind']}")
        return None


class _Conversation:
    """Non-blocking communication with a worker over two pipes."""

    def __init__(self, process: Process, first: bytes) -> None:
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

    def say(self, message: Message) -> None:
        self._outgoing += encode(message)
        if self._stdin not in self._selector.get_map() and not self._stdin.closed:
            self._selector.register(self._stdin, selectors.EVENT_WRITE)

    def exchange(self, timeout_s: float) -> list[Message]:
        """Write and read until the timeout and return the messages received so far."""
        received: list[Message] = []
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._stdin:
                try:
                    sent = os.write(self._stdin.fileno(), self._outgoing)
                except BrokenPipeError:  # it has ended; its last message has yet to be read
                    sent = len(self._outgoing)
                del self._outgoing[:sent]
                if not self._outgoing:
                    self._selector.unregister(self._stdin)
                continue
            data = os.read(self._stdout.fileno(), 1 << 18)
            self.is_over = not data
            try:
                received += [decode(line) for line in self._lines.feed(data)]
            except ValueError as error:
                raise garbled(error) from error
        return received

    def close(self) -> None:
        self._selector.close()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
