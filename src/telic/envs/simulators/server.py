"""The simulator's side of the protocol: a program for the simulator's own Python.

Run as a file, `python server.py MEMORY_FD`, by an interpreter without telic: it imports the
standard library and numpy, and then the adapter it is given. Orders are JSON lines on standard
input, each answered by one line; numbers go through shared memory:

    {"do": "open", ...}    make the simulator      -> {"facts": ..., "arrays": their places}
    {"do": "reset", ...}   start new episodes      -> {"done": true}; fills obs and groups
    {"do": "stagger"}      set episodes' ages      -> {"done": true}; reads age
    {"do": "step"}         one control step        -> {"done": true}; reads action, fills the rest
    {"do": "close"}        end

or by {"error": ...}, after which the process ends. It also ends with its parent at any time. An
adapter is a file with a function `open_simulator(order)` that returns a `Simulator`.
"""

from __future__ import annotations

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

_PAGE = 4096


class Simulator(Protocol):
    """N environments that start new episodes by themselves when one ends."""

    facts: dict[str, Any]
    """obs_names, action_names and so on, as in `telic.envs.spec.EnvSpec`, and further: simulator
    (name and version), shows_final (whether the last observation of an episode is shown),
    can_stagger (whether the age of an episode can be set), groups (further observations: columns)
    """
    arrays: dict[str, np.ndarray]
    """shared memory to read from and write to; set before the first reset"""

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
        """Free the simulator's resources."""
        ...


def main(memory: int) -> int:
    """Serve one simulator until it is closed, fails, or its parent ends."""
    # The folder of this file must not hide a package of the same name from the simulator.
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [path for path in sys.path if path != here]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host, which ends us
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    # Keep the pipes to the host; what the simulator prints goes to its log, which is stderr.
    inbox, outbox = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "wb", 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)

    def send(message: dict[str, Any]) -> None:
        data = memoryview(json.dumps(message).encode() + b"\n")
        while data:
            data = data[outbox.write(data) :]

    simulator: Any = None
    try:
        for line in inbox:
            order = json.loads(line)
            answer: dict[str, Any] = {"done": True}
            if order["do"] == "open":
                simulator = _open(order)
                simulator.arrays, places = _share(memory, order["num_envs"], simulator.facts)
                answer = {"facts": simulator.facts, "arrays": places}
            elif order["do"] == "reset":
                simulator.reset(order["seeds"])
            else:
                getattr(simulator, order["do"])()
            if order["do"] == "close":
                return 0
            send(answer)
    except BaseException as error:  # whatever the simulator raises is reported, also SystemExit
        traceback.print_exc()
        sys.stdout.flush()
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [f"{f.filename}, line {f.lineno}" for f in frames if f.filename != __file__]
        described = {
            "kind": type(error).__name__,
            "text": str(error)[:2000],
            "place": theirs[-1] if theirs else None,
            "hint": getattr(error, "hint", None),
        }
        send({"error": described})
        return 1
    return 0


def _open(order: dict[str, Any]) -> Simulator:
    """Load the adapter's file and let it make the simulator."""
    spec = importlib.util.spec_from_file_location("telic_adapter", order["adapter"])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["telic_adapter"] = module
    spec.loader.exec_module(module)
    return module.open_simulator(order)


def _share(memory: int, n: int, facts: dict[str, Any]) -> tuple[dict[str, np.ndarray], list[Any]]:
    """Lay out the arrays of N environments in shared memory; return them and their places."""
    obs = len(facts["obs_names"])
    is_discrete = facts.get("num_actions") is not None
    wanted: dict[str, tuple[str, list[int]]] = {
        "action": ("<i8", [n]) if is_discrete else ("<f4", [n, len(facts["action_names"])]),
        "obs": ("<f4", [n, obs]),
        "reward": ("<f4", [n]),
        "terminated": ("|b1", [n]),
        "truncated": ("|b1", [n]),
        "final_obs": ("<f4", [n, obs]),
        "age": ("<i8", [n]),
        **{f"group:{name}": ("<f4", [n, width]) for name, width in facts["groups"].items()},
    }
    places: list[Any] = []
    end = 0
    for name, (kind, shape) in wanted.items():
        places.append((name, kind, shape, end))
        end += -(-int(np.prod(shape)) * np.dtype(kind).itemsize // _PAGE) * _PAGE
    os.ftruncate(memory, end)
    shared = mmap.mmap(memory, end)
    arrays = {name: np.ndarray(shape, kind, shared, at) for name, kind, shape, at in places}
    return arrays, places


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    code = main(int(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # simulators leave threads behind that an orderly end would wait for
