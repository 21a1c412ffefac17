"""The simulator's side of the protocol: a program for the simulator's own Python.

Run as a file, `python server.py MEMORY_FD DIES_WITH_PARENT`, by an interpreter that has never heard
of telic: it imports the standard library and numpy, and then the adapter it is told. Orders come as
JSON lines on standard input and each is answered by one line; numbers go through shared memory:

    {"do": "open", ...}    make the simulator      -> {"hello": facts}
    {"do": "map", ...}     where the arrays lie    -> {"mapped": "how they are copied"}
    {"do": "reset", ...}   start new episodes      -> {"done": true}; fills obs and groups
    {"do": "stagger"}      set episodes' ages      -> {"done": true}; reads age
    {"do": "step"}         one control step        -> {"done": true}; reads action, fills the rest
    {"do": "close"}        end

or by {"error": ...}, after which the process ends. It also ends with its parent, whatever it is
doing. An adapter is a file with a function `open_simulator(order)` that returns a `Simulator`.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import mmap
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Protocol

import numpy as np

PROTOCOL = 1
_PR_SET_PDEATHSIG = 1
_LOOK_S = 1.0


class Simulator(Protocol):
    """What an adapter gives: N environments that start anew by themselves when they end."""

    facts: dict[str, Any]
    """what the host must know; see `telic.envs.simulators.process.Hello`"""

    def attach(self, arrays: dict[str, np.ndarray]) -> str:
        """Take the shared arrays to read from and write to; say how they are copied."""
        ...

    def reset(self, seeds: list[int]) -> None:
        """Start new episodes everywhere, from one seed per environment."""
        ...

    def stagger(self) -> None:
        """Set the age of every episode to `age`, in steps."""
        ...

    def step(self) -> None:
        """Make one control step from `action`."""
        ...

    def close(self) -> None:
        """Free what the simulator holds."""
        ...


def main(memory: int, dies_with_parent: bool) -> int:
    """Serve one simulator until it is closed, fails, or is left alone."""
    # The folder of this file must not hide a package of the same name from the simulator.
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [path for path in sys.path if path != here]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's, meant for the host: it ends us
    _watch_parent(dies_with_parent)
    inbox, outbox = _take_over_pipes()
    try:
        _serve(inbox, outbox, memory)
    except BaseException as error:  # whatever the simulator raises is told, SystemExit included
        traceback.print_exc()
        _flush()
        _send(outbox, {"error": _told(error)})
        return 1
    return 0


def _serve(inbox: Any, outbox: int, memory: int) -> None:
    simulator: Simulator | None = None
    for line in inbox:
        order = json.loads(line)
        kind = order["do"]
        if kind == "open":
            simulator = _open(order)
            _send(outbox, {"hello": {"protocol": PROTOCOL, **simulator.facts}})
            continue
        assert simulator is not None, "the first order opens a simulator"
        if kind == "map":
            _send(outbox, {"mapped": simulator.attach(_arrays(memory, order))})
            continue
        if kind == "close":
            simulator.close()
            return
        if kind == "reset":
            simulator.reset(order["seeds"])
        elif kind == "stagger":
            simulator.stagger()
        else:
            simulator.step()
        _send(outbox, {"done": True})


def _send(outbox: int, message: dict[str, Any]) -> None:
    data = memoryview(json.dumps(message).encode() + b"\n")
    while data:
        data = data[os.write(outbox, data) :]


def _open(order: dict[str, Any]) -> Simulator:
    """Load the adapter's file and let it make the simulator."""
    spec = importlib.util.spec_from_file_location("telic_adapter", order["adapter"])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["telic_adapter"] = module
    spec.loader.exec_module(module)
    return module.open_simulator(order)


def _arrays(memory: int, order: dict[str, Any]) -> dict[str, np.ndarray]:
    shared = mmap.mmap(memory, order["bytes"])
    return {
        name: np.ndarray(shape, np.dtype(dtype), buffer=shared, offset=offset)
        for name, dtype, shape, offset in order["arrays"]
    }


def _told(error: BaseException) -> dict[str, str | None]:
    """Say what an error is and where it came from, without this file's own frames."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if frame.filename != __file__]
    place = f"{theirs[-1].filename}, line {theirs[-1].lineno}" if theirs else None
    return {
        "kind": type(error).__name__,
        "text": str(error)[:2000],
        "place": place,
        "hint": getattr(error, "hint", None),
    }


def _watch_parent(dies_with_parent: bool) -> None:
    """End with the parent: by the kernel where that is right, and by looking once a second."""
    parent = os.getppid()
    if dies_with_parent and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_S)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def _take_over_pipes() -> tuple[Any, int]:
    """Keep the pipes to the host; what the simulator prints goes to its log, which is stderr."""
    inbox, outbox = os.fdopen(os.dup(0)), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return inbox, outbox


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


if __name__ == "__main__":
    code = main(int(sys.argv[1]), sys.argv[2] == "1")
    _flush()
    os._exit(code)  # simulators leave threads behind that an orderly end would wait for
