"""What to tell the user when a worker ended without a result."""

from __future__ import annotations

import signal
from pathlib import Path

from telic.errors import ResourceError, TelicError, WorkerDied
from telic.sandbox.wire import Message, printable

LOG_TAIL = 2000

_SIGNALS = {
    signal.SIGSEGV: "It crashed inside compiled code; runaway recursion or a library bug.",
    signal.SIGBUS: "It crashed inside compiled code; a full disk or a shortened file.",
    signal.SIGABRT: "A library gave up (abort).",
    signal.SIGFPE: "It crashed on an arithmetic fault inside compiled code.",
    signal.SIGSYS: "It made a system call of another machine type, which is refused outright.",
    signal.SIGKILL: "Something outside ended it, most likely the system for lack of memory.",
    signal.SIGTERM: "Something outside asked it to end.",
}


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
