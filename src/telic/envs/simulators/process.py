"""One simulator in a process of its own: start it, talk to it, notice when it hangs or dies.

The other side is `server.py`, run by the simulator's own Python; numbers go through memory that
both have mapped, orders and answers through pipes. The simulator is not confined: it is software
that the user installed, with the user's rights, but it is given no keys or tokens.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import select
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

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
_SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


class SimulatorProcess:
    """A simulator that was started; `open` waits until it is ready."""

    def __init__(self, task: SimulatedTask, python: str, answer_s: float, **order: Any) -> None:
        """Start it; `order` has num_envs, device, seed and arguments."""
        self.name = ":".join(task)
        self.arrays: dict[str, Tensor] = {}
        self._answer_s = answer_s
        self._heard = b""
        self._answers = 0
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        fcntl.fcntl(self._log, fcntl.F_SETFL, os.O_APPEND)  # it may be cut off behind the writer
        self._memory = _shared_memory()
        server = Path(__file__).with_name("server.py")
        try:
            self._process = Process(
                [python, server, str(self._memory)],
                stdin=PIPE,
                stdout=PIPE,
                stderr=self._log,
                pass_fds=[self._memory],
                env=_environment(),
                own_group=False,  # it ends with the group of a confined worker
            )
        except OSError as error:
            self._free()
            raise BadEnvironment(
                f"{self.name} cannot be started: {python}: {error.strerror}.",
                hint="Name the Python of the simulator's own environment: --python DIR/bin/python.",
            ) from error
        adapter = str(ADAPTERS[task.simulator].file)
        self.tell("open", simulator=task.simulator, task=task.task, adapter=adapter, **order)

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def open(self) -> dict[str, Any]:
        """Wait until the simulator is ready, map the memory, and return its facts."""
        answer = self.answer(OPEN_S)
        memory = mmap.mmap(self._memory, 0)
        for name, kind, shape, offset in answer["arrays"]:
            dtype = {"<f4": torch.float32, "<i8": torch.int64, "|b1": torch.bool}[kind]
            count = 1
            for size in shape:
                count *= size
            flat = torch.frombuffer(memory, dtype=dtype, count=count, offset=offset)
            self.arrays[name] = flat.view(shape)
        return answer["facts"]

    def tell(self, do: str, **more: Any) -> None:
        """Give an order; `answer` waits until it is done."""
        with contextlib.suppress(BrokenPipeError):  # it is gone: `answer` says why
            self._process.write(json.dumps({"do": do, **more}).encode() + b"\n")

    def answer(self, patience_s: float | None = None) -> dict[str, Any]:
        """Wait for the answer to the latest order.

        Raises:
            BadEnvironment: the simulator, or its task, is not there.
            SimulatorError: it failed, died, or took too long.
        """
        patience_s = self._answer_s if patience_s is None else patience_s
        until = time.monotonic() + patience_s
        outbox = self._process.stdout
        while b"\n" not in self._heard:
            left = until - time.monotonic()
            if left <= 0:
                raise self._hung(patience_s)
            if select.select([outbox], [], [], min(left, 1.0))[0]:
                data = os.read(outbox.fileno(), 1 << 16)
                if not data:
                    raise self._died()
                self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise self._failed(answer["error"])
        self._answers += 1
        if self._answers % 1000 == 0 and os.fstat(self._log.fileno()).st_size > _LOG_BYTES:
            os.ftruncate(self._log.fileno(), 0)
        return answer

    def close(self) -> None:
        """Ask the simulator to end, and kill it if it does not."""
        if self._log.closed:
            return
        self.tell("close")
        self._process.stdin.close()
        if self._process.wait(_CLOSE_S) is None:
            self._process.kill()
        self._process.stdout.close()
        self._free()

    def _free(self) -> None:
        """Let the memory go; it ends with the last array that is still used."""
        self.arrays = {}
        self._log.close()
        os.close(self._memory)

    # ---- what went wrong, in a paragraph

    def _died(self) -> SimulatorError:
        code = self._process.wait(_CLOSE_S)
        how = "" if code is None else f" (signal {-code})" if code < 0 else f" (exit code {code})"
        return SimulatorError(
            f"The simulator of {self.name} ended by itself{how}.{self._last_words()}",
            hint="Run the same command again: training resumes from its last checkpoint.",
        )

    def _hung(self, patience_s: float) -> SimulatorError:
        self._process.kill()
        return SimulatorError(
            f"The simulator of {self.name} gave no answer for {patience_s:g} s and was killed."
            f"{self._last_words()}",
            hint="If it is only slow, allow more: --env-arg answer_s=600.",
        )

    def _failed(self, error: dict[str, Any]) -> BadEnvironment | SimulatorError:
        kind, text, place, hint = (error.get(part) for part in ("kind", "text", "place", "hint"))
        if kind == "Unavailable":
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
        return f" Its last output: {words}" if words else " It had printed nothing."


def _shared_memory() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("telic-simulator", 0)
    with tempfile.TemporaryFile() as file:  # macOS
        return os.dup(file.fileno())


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
