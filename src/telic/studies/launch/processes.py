"""Is the process of a run alive, and is it that one: pid, start time and boot together."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from pathlib import Path
from typing import Any

import psutil

from telic.storage.files import read_json, write_json
from telic.studies.launch.supervisor import (
    EXIT_FILE,
    HEARTBEAT_FILE,
    PID_FILE,
    STOP_FILE,
    boot_id,
    claim,
    session_members,
    start_ticks,
)
from telic.studies.names import utc_now

_GIVEN_UP = "given_up"


def _read(path: Path) -> dict[str, Any] | None:
    return read_json(path) if path.exists() else None


def read_pid_record(folder: Path) -> dict[str, Any] | None:
    """Return who runs it, or None while nobody has claimed the launch."""
    return _read(folder / PID_FILE)


def read_exit(folder: Path) -> dict[str, Any] | None:
    """Return how the run ended, or None when it left no word."""
    return _read(folder / EXIT_FILE)


def read_heartbeat(folder: Path) -> dict[str, Any] | None:
    """Return the last sign of life."""
    return _read(folder / HEARTBEAT_FILE)


def stop_request(folder: Path) -> dict[str, Any] | None:
    """Return who asked for the end of the run."""
    return _read(folder / STOP_FILE)


def is_given_up(record: dict[str, Any]) -> bool:
    """Return whether the claim is that of somebody who gave the launch up."""
    return _GIVEN_UP in record


def give_up(folder: Path, why: str) -> bool:
    """Make sure that this launch never starts; False when it has started already.

    A supervisor that comes late finds the claim taken and leaves.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return claim(folder / PID_FILE, {_GIVEN_UP: why, "at": utc_now()})


def is_here(record: dict[str, Any]) -> bool:
    """Return whether the process was started on this machine, so that we can look for it."""
    return record.get("host") == socket.gethostname()


def is_alive(record: dict[str, Any]) -> bool:
    """Return whether the recorded process still runs; its number alone proves nothing."""
    if record.get("boot_id") != boot_id():
        return False
    pid = int(record["pid"])
    try:
        if psutil.Process(pid).status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return False
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        pass
    return start_ticks(pid) == record.get("start_ticks")


def end_leftovers(record: dict[str, Any]) -> int:
    """Kill what a dead supervisor left running in its session; return how many there were."""
    if not is_here(record) or record.get("boot_id") != boot_id():
        return 0
    session = int(record["session"])
    if session != record["pid"]:
        return 0  # the session was somebody else's
    # The kernel gives no new process the number of a session that still has members, so whoever
    # is found here belongs to the run.
    left = [pid for pid in session_members(session) if pid != session]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def ask_to_stop(folder: Path, by: str, why: str) -> bool:
    """Write down who wants the run to end and tell its supervisor, if one is alive here."""
    if not (folder / STOP_FILE).exists():
        write_json(folder / STOP_FILE, {"by": by, "why": why, "at": utc_now()})
    record = read_pid_record(folder)
    if record is None or is_given_up(record) or not is_here(record) or not is_alive(record):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(record["pid"]), signal.SIGTERM)
    return True
