"""Confine this throw-away process and try what confined code must not be able to do.

Run by `confine.available` as: python -m telic.sandbox.trial WRITABLE_FOLDER FILE_OUTSIDE
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from telic.sandbox.confine import Confinement, confine
from telic.sandbox.report import ConfinementReport, Part


def main(folder: str, outside: str) -> None:
    """Confine, try, and write the report as JSON to standard output."""
    report = confine(Confinement(writable=(Path(folder),)))
    doors = [
        _try("reading a file outside", lambda: Path(outside).read_text()),
        _try("writing a file outside", lambda: Path(outside).write_text("changed")),
        _try("opening a socket", lambda: socket.socket()),
        _try("starting a process", _fork),
        _try("signalling the parent", lambda: os.kill(os.getppid(), 0)),
    ]
    Path(folder, "inside").write_text("still allowed")
    whole = ConfinementReport((*report.parts, *doors), report.landlock_abi)
    sys.stdout.write(json.dumps(whole.as_dict()))


def _try(name: str, act: Callable[[], object]) -> Part:
    try:
        act()
    except OSError as error:
        return Part(name, True, f"stopped: {error.strerror}")
    return Part(name, False, "not stopped on this system")


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)
    os.wait()


if __name__ == "__main__":
    main(*sys.argv[1:3])
