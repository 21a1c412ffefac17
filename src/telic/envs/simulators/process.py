"""One simulator in a process of its own: start it, speak with it, notice when it hangs or dies.

The other side is `server.py`, run by the simulator's own Python; numbers go through memory that
both have mapped, orders and answers through pipes. The simulator is not confined: it is software
that the user installed, with the user's rights, but it is given no secrets of ours.
"""

from __future__ import annotations

import contextlib
import io
import json
import mmap
import os
import select
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, ValidationError

from telic.core.config import Record
from telic.core.text import printable
from telic.envs.simulators.names import ADAPTERS, SimulatedTask
from telic.errors import BadEnvironment, SimulatorError
from telic.jobs.process import PIPE, Process

OPEN_S = 900.0
"""how long a simulator may take to start; the first start compiles"""
ANSWER_S = 100.0
"""how long a step may take before the simulator counts as hung"""
_CLOSE_S = 5.0
_LOG_BYTES = 1 << 24
_LAST_LINES, _LAST_CHARACTERS = 12, 1500
_ALIGNED = 4096
"""pages: memory of a GPU's driver is pinned by whole ones"""
_SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


class Hello(Record):
    """What a simulator says of itself when it is open."""

    protocol: Literal[1]
    simulator: str = Field(description="name and version")
    description: str
    obs_names: tuple[str, ...] = Field(min_length=1)
    action_names: tuple[str, ...] = Field(min_length=1)
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    num_actions: int | None = Field(default=None, ge=2)
    dt_s: float | None = Field(default=None, gt=0)
    max_episode_steps: int | None = Field(default=None, ge=1)
    seeding: Literal["rows", "batch"] = Field(
        description="whether every environment follows from a seed of its own, or all from one"
    )
    shows_final: bool = Field(description="whether an episode's last observation is told")
    can_stagger: bool = Field(description="whether the age of an episode can be set")
    groups: dict[str, int] = Field(default={}, description="further observations: columns")
    notes: tuple[str, ...] = ()


class SimulatorOrder(NamedTuple):
    """The simulator to start."""

    what: SimulatedTask
    num_envs: int
    device: str
    seed: int
    arguments: Mapping[str, Any]
    python: str


class SharedArrays:
    """Memory that two processes have mapped, and the arrays in it."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self.file = os.memfd_create("telic-simulator", 0)
        else:  # macOS
            with tempfile.TemporaryFile() as file:
                self.file = os.dup(file.fileno())
        self.arrays: dict[str, np.ndarray] = {}
        self.places: list[tuple[str, str, list[int], int]] = []
        self.size = 0
        self._memory: mmap.mmap | None = None

    def lay_out(self, hello: Hello, num_envs: int) -> None:
        """Give every array its place, and map them."""
        obs, n = len(hello.obs_names), num_envs
        action = ("<i8", [n]) if hello.num_actions else ("<f4", [n, len(hello.action_names)])
        wanted: dict[str, tuple[str, list[int]]] = {
            "action": action,
            "obs": ("<f4", [n, obs]),
            "reward": ("<f4", [n]),
            "terminated": ("|b1", [n]),
            "truncated": ("|b1", [n]),
        }
        if hello.shows_final:
            wanted["final_obs"] = ("<f4", [n, obs])
        if hello.can_stagger:
            wanted["age"] = ("<i8", [n])
        for name, width in hello.groups.items():
            wanted[f"group:{name}"] = ("<f4", [n, width])
        for name, (dtype, shape) in wanted.items():
            self.places.append((name, dtype, shape, self.size))
            count = int(np.prod(shape)) * np.dtype(dtype).itemsize
            self.size += -(-count // _ALIGNED) * _ALIGNED
        os.ftruncate(self.file, self.size)
        self._memory = mmap.mmap(self.file, self.size)
        for name, dtype, shape, offset in self.places:
            self.arrays[name] = np.ndarray(shape, np.dtype(dtype), self._memory, offset)

    def close(self) -> None:
        """Let the memory go; it ends with the last array that is still used."""
        self.arrays = {}
        if self.file >= 0:
            os.close(self.file)
            self.file = -1


class SimulatorProcess:
    """A simulator that was started; `open` waits until it is ready."""

    def __init__(self, order: SimulatorOrder, answer_s: float = ANSWER_S) -> None:
        self._order = order
        self._answer_s = answer_s
        self.shared = SharedArrays()
        self._log = _log_file()
        self._heard = b""
        self._steps = 0
        self._process = self._start()
        self._send(
            {
                "do": "open",
                "simulator": order.what.simulator,
                "adapter": str(ADAPTERS[order.what.simulator].file),
                "task": order.what.task,
                "num_envs": order.num_envs,
                "device": order.device,
                "seed": order.seed,
                "arguments": dict(order.arguments),
            }
        )

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def name(self) -> str:
        """What is simulated, as the user calls it."""
        return ":".join(self._order.what)

    def open(self) -> Hello:
        """Wait until the simulator is ready, map the memory, and return what it is."""
        said = self.answer(OPEN_S)["hello"]
        try:
            hello = Hello.model_validate(said)
        except ValidationError as error:
            raise BadEnvironment(
                f"The adapter of {self.name} says something else than the protocol asks for: "
                f"{error.errors()[0]['loc']}: {error.errors()[0]['msg']}."
            ) from error
        self.shared.lay_out(hello, self._order.num_envs)
        self._send({"do": "map", "bytes": self.shared.size, "arrays": self.shared.places})
        self.copied = str(self.answer(OPEN_S)["mapped"])
        return hello

    def tell(self, do: str, **more: Any) -> None:
        """Give an order; `answer` waits until it is done."""
        self._send({"do": do, **more})

    def answer(self, patience_s: float | None = None) -> dict[str, Any]:
        """Wait for the answer to the latest order.

        Raises:
            BadEnvironment: the simulator, or its task, is not there.
            SimulatorError: it failed, died, or took too long.
        """
        patience_s = self._answer_s if patience_s is None else patience_s
        until = time.monotonic() + patience_s
        while b"\n" not in self._heard:
            left = until - time.monotonic()
            if left <= 0:
                raise self._hung(patience_s)
            self._hear(min(left, 1.0))
        line, _, self._heard = self._heard.partition(b"\n")
        said = json.loads(line)
        if "error" in said:
            raise self._failed(said["error"])
        self._trim_log()
        return said

    def close(self) -> None:
        """End the simulator: politely, then for certain."""
        if self._log.closed:
            return
        self._send({"do": "close"})
        self._process.stdin.close()
        if self._process.wait(_CLOSE_S) is None:
            self._process.kill()
        self._process.stdout.close()
        self.shared.close()
        self._log.close()

    def _start(self) -> Process:
        order = self._order
        # The kernel ends it with the thread that starts it: right only if that one stays.
        lasting = threading.current_thread() is threading.main_thread()
        server = Path(__file__).with_name("server.py")
        command = [order.python, str(server), str(self.shared.file), "1" if lasting else "0"]
        try:
            return Process(
                command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=self._log,
                pass_fds=[self.shared.file],
                env=_environment(),
                own_group=False,  # it ends with the group of a confined worker
            )
        except OSError as error:
            self.shared.close()
            self._log.close()
            raise BadEnvironment(
                f"{self.name} cannot be started: {order.python}: {error.strerror}.",
                hint="Name the Python of the simulator's own environment: --python DIR/bin/python.",
            ) from error

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # it is gone: `answer` says why
            self._process.write(json.dumps(message).encode() + b"\n")

    def _hear(self, seconds: float) -> None:
        outbox = self._process.stdout
        if not select.select([outbox], [], [], seconds)[0]:
            return
        data = os.read(outbox.fileno(), 1 << 16)
        if not data:
            raise self._died()
        self._heard += data

    # ---- what went wrong, in a paragraph

    def _died(self) -> SimulatorError:
        code = self._process.wait(_CLOSE_S)
        how = "" if code is None else f" (signal {-code})" if code < 0 else f" (exit code {code})"
        return SimulatorError(
            f"The simulator of {self.name} ended by itself{how}.{self._last_words()}",
            hint="Run the same command again: a training goes on from its last save.",
        )

    def _hung(self, patience_s: float) -> SimulatorError:
        self._process.kill()
        return SimulatorError(
            f"The simulator of {self.name} gave no answer for {patience_s:g} s and was given up."
            f"{self._last_words()}",
            hint="If it is only slow, allow more: --env-arg answer_s=600.",
        )

    def _failed(self, error: dict[str, Any]) -> BadEnvironment | SimulatorError:
        kind, text, place, hint = (error.get(part) for part in ("kind", "text", "place", "hint"))
        if kind in ("NotInstalled", "UnknownTask"):
            return BadEnvironment(f"{self.name} cannot be made: {text}.", hint=hint)
        where = f" ({place})" if place else ""
        return SimulatorError(
            f"The simulator of {self.name} failed: {kind}: {text}{where}.{self._last_words()}",
            hint=hint,
        )

    def _last_words(self) -> str:
        """Return the end of what the simulator printed."""
        size = os.fstat(self._log.fileno()).st_size
        start = max(0, size - 8 * _LAST_CHARACTERS)
        text = os.pread(self._log.fileno(), size - start, start).decode(errors="replace")
        lines = [line.strip() for line in printable(text).splitlines() if line.strip()]
        words = " | ".join(lines[-_LAST_LINES:])[-_LAST_CHARACTERS:]
        return f" Its last words: {words}" if words else " It had printed nothing."

    def _trim_log(self) -> None:
        """Forget what a talkative simulator printed long ago."""
        self._steps += 1
        if self._steps % 1000 == 0 and os.fstat(self._log.fileno()).st_size > _LOG_BYTES:
            os.ftruncate(self._log.fileno(), 0)


def _log_file() -> io.FileIO:
    """Return a file without a name that is always written at its end."""
    handle, path = tempfile.mkstemp(prefix="telic-simulator-")
    os.close(handle)
    try:
        return io.FileIO(os.open(path, os.O_RDWR | os.O_APPEND), "r+")
    finally:
        os.unlink(path)


def _environment() -> dict[str, str]:
    """Return the environment of the simulator: ours, without keys and what is of our Python."""
    ours = ("PYTHONHOME", "VIRTUAL_ENV", "PYTHONPATH")
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ours and not any(word in name.upper() for word in _SECRETS)
    }
    home = os.path.expanduser("~")  # a confined process is not told where it is
    return {**kept, **({} if home == "~" else {"HOME": home}), "PYTHONUNBUFFERED": "1"}
