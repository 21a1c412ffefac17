"""Process of a run, according to the supervisor's files in the run folder."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from pathlib import Path
from typing import Any, Literal

from telic.jobs.process import start_of
from telic.storage.files import read_fields, write_json
from telic.studies.canonical import utc_now
from telic.studies.launch import supervisor

ProcessState = Literal["unclaimed", "given_up", "elsewhere", "alive", "ended", "gone"]


class RunProcess:
    """Supervisor process of one run. Its files are read at every access.

    A process is identified by pid, start time and boot id.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        return read_fields(path) if path.exists() else None

    @property
    def claim(self) -> dict[str, Any] | None:
        """Content of pid.json, or None. The file is written by the supervisor or by a recovery."""
        return self._read(supervisor.PID_FILE)

    @property
    def exit_record(self) -> dict[str, Any] | None:
        """Exit record of the run, or None if the run has not ended or left no record."""
        return self._read(supervisor.EXIT_FILE)

    @property
    def heartbeat(self) -> dict[str, Any] | None:
        """Last heartbeat of the run."""
        return self._read(supervisor.HEARTBEAT_FILE)

    @property
    def stop_request(self) -> dict[str, Any] | None:
        """Stop request, with the author and the reason."""
        return self._read(supervisor.STOP_FILE)

    @property
    def state(self) -> ProcessState:
        """State of the launch. If the supervisor ended without an exit record, it is `gone`."""
        claim = self.claim
        if claim is not None and "given_up" in claim:
            return "given_up"
        if self.exit_record is not None:
            return "ended"
        if claim is None:
            return "unclaimed"
        if claim.get("host") != socket.gethostname():
            return "elsewhere"
        is_same_boot, pid = claim.get("boot") == supervisor.boot_id(), int(claim["pid"])
        words = supervisor.__name__, self.folder.name
        if is_same_boot and start_of(pid, *words) == (claim.get("started") or 0.0):
            return "alive"
        # The record may have been written between the two reads.
        return "gone" if self.exit_record is None else "ended"

    def give_up(self, why: str) -> bool:
        """Prevent this launch from starting. Return False if it has already started.

        A supervisor that starts later finds the existing claim and exits.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        claim = {"given_up": why, "at": utc_now()}
        return supervisor.claim(self.folder / supervisor.PID_FILE, claim)

    def ask_to_stop(self, by: str, why: str) -> bool:
        """Record a stop request and signal the supervisor if it is alive on this machine."""
        if self.stop_request is None:
            facts = {"by": by, "why": why, "at": utc_now()}
            write_json(self.folder / supervisor.STOP_FILE, facts)
        claim = self.claim
        if claim is None or self.state != "alive":
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(claim["pid"]), signal.SIGTERM)
        return True

    def end_leftovers(self) -> int:
        """Kill the remaining processes of a dead supervisor and return their number."""
        claim, child = self.claim or {}, (self.heartbeat or {}).get("child")
        if child is None or claim.get("boot") != supervisor.boot_id():
            return 0
        # The kernel does not reuse the id of a session that still has members.
        if start_of(child["pid"]) not in (None, child["started"]):
            return 0  # the session belongs to another process
        left = supervisor.session_members(child["pid"])
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(left)
