"""The ledger as a file: whole lines in, whole lines out, and a torn last line moved aside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from telic.storage.disk import disk_errors, disk_full
from telic.storage.files import write_bytes
from telic.studies.chain import decode

LARGEST_LINE = 64 * 1024


class Torn(NamedTuple):
    """A last line that was not written to its end."""

    seq: int
    start: int


def whole_lines(path: Path, start: int) -> list[bytes]:
    """Return the lines from a place on; a last one without its newline is not there yet."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            return [line + b"\n" for line in file.read().split(b"\n")[:-1]]
    except FileNotFoundError:
        return []


def commit(path: Path, line: bytes) -> None:
    """Append a line by one system call and make it survive a power cut."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            start = os.fstat(handle).st_size
            if os.write(handle, line) < len(line):
                os.ftruncate(handle, start)
                raise disk_full(path)
            os.fsync(handle)
        finally:
            os.close(handle)


def move_aside(path: Path, torn: Torn) -> dict[str, int | str]:
    """Keep a torn last line in a file of its own, and shorten the ledger to what is whole."""
    content = path.read_bytes()[torn.start :]
    aside = path.with_name(f"ledger.torn-{torn.seq}")
    write_bytes(aside, content)
    os.truncate(path, torn.start)
    return {"torn_seq": torn.seq, "bytes": len(content), "kept_in": aside.name}


def torn_tail(path: Path) -> Torn | None:
    """Return the last line of a ledger when a crash tore it: no newline, or not JSON."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - 3 * LARGEST_LINE)
        file.seek(start)
        tail = file.read()
    if not tail:
        return None
    ends = tail.endswith(b"\n")
    last = tail.rfind(b"\n", 0, len(tail) - 1 if ends else None) + 1
    if ends and _is_json(tail[last:]):
        return None
    before = tail[tail.rfind(b"\n", 0, max(0, last - 1)) + 1 : last]
    return Torn(_seq(before) + 1, start + last)


def _is_json(line: bytes) -> bool:
    try:
        decode(line)
    except ValueError:
        return False
    return True


def _seq(line: bytes) -> int:
    return int(decode(line)["seq"]) if line and _is_json(line) else 0
