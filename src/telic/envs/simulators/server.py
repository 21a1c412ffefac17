"""Server side of the simulator protocol, run by the simulator's Python.

An interpreter without telic runs the script, `python server.py MEMORY_FD`. It imports only the
standard library, numpy and the given adapter. Requests are JSON lines on standard input, each with
a one-line response. Arrays are in shared memory:

    {"do": "open", ...}    make the simulator      -> {"facts": ..., "arrays": their places}
    {"do": "reset", ...}   start new episodes      -> {"done": true}; fills obs and groups
    {"do": "stagger"}      set episodes' ages      -> {"done": true}; reads age
    {"do": "step"}         one control step        -> {"done": true}; reads action, fills the rest
    {"do": "close"}        end

On failure, the response is {"error": ...} and the process exits. It also exits when its parent
exits. An adapter is a file with a function `open_simulator(order)` that returns a `Simulator`.
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
    """Batch of N environments with autoreset."""

    facts: dict[str, Any]
    """obs_names, action_names and so on, as in `telic.envs.spec.EnvSpec`, and further: simulator
    (name and version), shows_final (whether the last observation of an episode is shown),
    can_stagger (whether the age of an episode can be set), groups (further observations: columns)
    """
    arrays: dict[str, np.ndarray]
    """Arrays in shared memory to read from and write to (set before the first reset)."""

    def reset(self, seeds: list[int]) -> None:
        """Start new episodes in all environments, with one seed per environment."""
        ...

    def stagger(self) -> None:
        """Set the age of every episode to `age` steps."""
        ...

    def step(self) -> None:
        """Take one control step with `action`."""
        ...

    def close(self) -> None:
        """Free the simulator's resources."""
        ...


def serve_simulator(memory: int) -> int:
    """Serve one simulator until it is closed, fails, or the parent exits."""
    # Prevent modules in this file's folder from shadowing packages of the simulator.
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [path for path in sys.path if path != here]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the host handles Ctrl-C
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    # Keep the pipes to the host, and redirect the simulator's output to its log, stderr.
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
    except BaseException as error:  # report any exception, including SystemExit
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
    """Load the adapter file and create the simulator."""
    spec = importlib.util.spec_from_file_location("telic_adapter", order["adapter"])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["telic_adapter"] = module
    spec.loader.exec_module(module)
    return module.open_simulator(order)


def _share(memory: int, n: int, facts: dict[str, Any]) -> tuple[dict[str, np.ndarray], list[Any]]:
    """Allocate arrays for N environments in shared memory. Returns the arrays and offsets."""
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
    code = serve_simulator(int(sys.argv[1]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a regular exit would wait for the simulator's threads
