"""Sandboxed process that runs untrusted code and sends results through a pipe.

Started by `host` as: python -m telic.sandbox.worker PARENT_PID. The request on standard input names
a module with these functions, or "module:function" to replace `run`:

    prepare(payload, channel) -> state          optional, not confined: model files, devices
    run(state, payload, channel) -> dict        permanently confined, may run untrusted code

`prepare` must not start threads or execute untrusted code.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from telic.errors import Refused, TelicError
from telic.jobs.process import die_with_parent
from telic.sandbox.confine import Confinement, confine
from telic.sandbox.wire import LOG_FLAGS, LineBuffer, Message, decode, encode, is_record, pack_error
from telic.storage.keys import permit_all

_NO_MEMORY = ("can't allocate memory", "not enough memory")
"""messages of torch's memory allocators"""


class HostChannel:
    """Connection from a running worker to its host."""

    def __init__(self, inbox: int, outbox: int) -> None:
        self._inbox = inbox
        self._outbox = outbox
        self._lines = LineBuffer()
        self._unread: list[bytes] = []
        self._stopping = False

    def send(self, message: Message) -> None:
        """Send a message, which is any JSON object, to the host's `on_message`."""
        self.post("message", body=message)

    def ask(self, message: Message) -> Message:
        """Send a message and return the host's answer."""
        self.send(message)
        return self.reply()

    def reply(self) -> Message:
        """Wait for the answer of the host to an earlier message."""
        while True:
            match self.next():
                case {"kind": "reply", "body": body} if is_record(body):
                    return body
                case {"kind": "stop"}:
                    self._stopping = True
                case _:
                    raise EOFError("The host process has ended.")

    def heartbeat(self, seconds: float, doing: str = "") -> None:
        """Set the time until the next message, after which the host kills the worker."""
        self.post("beat", seconds=seconds, doing=doing)

    def should_stop(self) -> bool:
        """Return whether the host has requested a stop or ended, without blocking."""
        while not self._stopping and (self._unread or select.select([self._inbox], [], [], 0)[0]):
            self._stopping = self.next()["kind"] in ("stop", "gone")
        return self._stopping

    def next(self) -> Message:
        """Wait for a message from the host."""
        while not self._unread:
            data = os.read(self._inbox, 1 << 16)
            self._unread = self._lines.feed(data or encode({"kind": "gone"}))
        return decode(self._unread.pop(0))

    def post(self, kind: str, **content: Any) -> None:
        """Send a protocol message."""
        data = memoryview(encode({"kind": kind, **content}))
        while data:
            data = data[os.write(self._outbox, data) :]


def do_nothing(state: None, payload: dict[str, Any], channel: HostChannel) -> dict[str, Any]:
    """Do nothing. This is the entry point for a worker that only tests its confinement."""
    return {}


def serve_request(parent: int) -> int:
    """Serve one request and return the exit code."""
    die_with_parent()
    if os.getppid() != parent:  # the host ended before the line above
        return 1
    channel = _take_over_pipes()
    start = channel.next()
    if start["kind"] != "start":
        return 1
    try:
        result = _serve(start, channel)
    except TelicError as error:
        _log_traceback()
        channel.post("error", error=pack_error(error))
        return 1
    except BaseException as error:
        # Top level of untrusted code: all exceptions, including SystemExit, are reported.
        _log_traceback()
        channel.post("crash", type=_kind(error), text=str(error)[:2000])
        return 1
    channel.post("result", body=result)
    return 0


def _serve(start: Message, channel: HostChannel) -> dict[str, Any]:
    _move_in(Path(start["folder"]), start["log"])
    permit_all()  # the host has checked the code that runs before confinement
    # Foreign folders come last, and for trusted entries only after confinement: a module there may
    # have the same name as one that we import.
    late, early = start["python_path"], list[str]()
    if not start["entry"].startswith("telic."):
        late, early = early, late
    sys.path.extend(early)
    module, _, function = start["entry"].partition(":")
    entry = importlib.import_module(module)
    payload = start["payload"]
    prepare = getattr(entry, "prepare", None)
    state = None if prepare is None else prepare(payload, channel)
    report = confine(Confinement.model_validate(start["confinement"]))
    channel.post("confined", report=report.model_dump())
    if report.missing and not start["unconfined"]:
        raise Refused(
            f"Untrusted code cannot be run on this system: {report.missing[0].name}, "
            f"{report.missing[0].message}.",
            hint="See telic doctor. To run it without a sandbox, set TELIC_UNCONFINED=allow.",
        )
    sys.path.extend(late)
    return getattr(entry, function or "run")(state, payload, channel)


def _move_in(folder: Path, log: str) -> None:
    """Change to the folder of the request, and redirect output to the log file."""
    os.chdir(folder)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # libraries may have cached another folder
    handle = os.open(log, LOG_FLAGS, 0o644)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)


def _log_traceback() -> None:
    # A full disk accepts no log, but the host must still be informed.
    with contextlib.suppress(OSError):
        traceback.print_exc()


def _kind(error: BaseException) -> str:
    """Return the class name of an error (the same for all out-of-memory errors)."""
    no_memory = isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY)
    return "MemoryError" if no_memory else type(error).__name__


def _take_over_pipes() -> HostChannel:
    """Open the pipes to the host, and redirect all other output to the log (stderr)."""
    channel = HostChannel(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return channel


if __name__ == "__main__":
    code = serve_request(int(sys.argv[1]))
    # Skip interpreter shutdown: it would wait for threads and run cleanup code of untrusted code.
    os._exit(code)
