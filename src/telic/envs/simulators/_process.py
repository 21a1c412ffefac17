"""Run a simulator in a separate process, with timeouts and crash detection.

The process runs `server.py` with the simulator's Python. Arrays are in shared memory, and requests
and responses go through pipes. The simulator is not sandboxed, because it is installed by the user
and runs with the user's permissions, but without environment variables that hold keys or tokens.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
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
from telic.envs.simulators.names import ADAPTERS, SimulatedTask, absolute_python
from telic.errors import BadEnvironment, SimulatorError, TelicError
from telic.jobs.process import PIPE, Process
from telic.storage.keys import require_permitted

ANSWER_S = 100.0
"""Default timeout of a request, in seconds."""
_OPEN_S = 900.0
"""Timeout of the start, which may include compilation, in seconds."""
_CLOSE_S = 5.0
_LOG_BYTES = 1 << 24
_LAST_LINES, _LAST_CHARACTERS = 12, 1500
_SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
_DTYPES = {"<f4": torch.float32, "<i8": torch.int64, "|b1": torch.bool}


class SimulatorProcess:
    """Simulator process. `open` waits until the simulator is ready."""

    def __init__(self, task: SimulatedTask, python: str, answer_s: float, **order: Any) -> None:
        """Start the process. `order` contains `num_envs`, `device`, `seed` and arguments."""
        self.name = ":".join(task)
        require_permitted(f"{self.name} run by {absolute_python(python)}")
        self.arrays: dict[str, Tensor] = {}
        self._answer_s = answer_s
        self._received = b""
        self._answers = 0
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - open for the lifetime of the process
        fcntl.fcntl(self._log, fcntl.F_SETFL, os.O_APPEND)  # allows truncation while in use
        if hasattr(os, "memfd_create"):
            self._memory = os.memfd_create("telic-simulator", 0)
        else:  # macOS
            with tempfile.TemporaryFile() as file:
                self._memory = os.dup(file.fileno())
        server = Path(__file__).with_name("server.py")
        try:
            self._process = Process(
                [python, server, str(self._memory)],
                stdin=PIPE,
                stdout=PIPE,
                stderr=self._log,
                pass_fds=[self._memory],
                env=_environment(),
                own_group=False,  # killed with the process group of a sandboxed worker
            )
        except OSError as error:
            self._free()
            raise BadEnvironment(
                f"{self.name} cannot be started: {python}: {error.strerror}.",
                hint="Pass the Python of the simulator's environment with --python DIR/bin/python.",
            ) from error
        adapter = str(ADAPTERS[task.simulator].file)
        self.send("open", simulator=task.simulator, task=task.task, adapter=adapter, **order)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def open(self) -> dict[str, Any]:
        """Wait until the simulator is ready, map the memory, and return its properties."""
        answer = self.wait(_OPEN_S)
        memory = mmap.mmap(self._memory, 0)
        for name, kind, shape, offset in answer["arrays"]:
            flat = torch.frombuffer(
                memory, dtype=_DTYPES[kind], count=math.prod(shape), offset=offset
            )
            self.arrays[name] = flat.view(shape)
        return answer["facts"]

    def send(self, do: str, **more: Any) -> None:
        """Send a request. `wait` returns its response."""
        with contextlib.suppress(BrokenPipeError):  # the process ended; `wait` reports why
            self._process.write(json.dumps({"do": do, **more}).encode() + b"\n")

    def wait(self, patience_s: float | None = None) -> dict[str, Any]:
        """Wait for the response to the latest request.

        Raises:
            BadEnvironment: the simulator or its task is not available.
            SimulatorError: the simulator failed, exited, or timed out.
        """
        patience_s = self._answer_s if patience_s is None else patience_s
        until = time.monotonic() + patience_s
        while b"\n" not in self._received:
            left = until - time.monotonic()
            if left <= 0:
                self._process.kill()
                raise self._error(
                    f"did not respond for {patience_s:g} s and was killed",
                    "If it is slow, increase the timeout with --env-arg answer_s=600.",
                )
            if select.select([self._process.stdout], [], [], min(left, 1.0))[0]:
                data = os.read(self._process.stdout.fileno(), 1 << 16)
                if not data:
                    code = self._process.wait(_CLOSE_S) or 0
                    how = f"signal {-code}" if code < 0 else f"exit code {code}"
                    raise self._error(
                        f"exited ({how})",
                        "Rerun the same command to resume training from the last checkpoint.",
                    )
                self._received += data
        line, _, self._received = self._received.partition(b"\n")
        answer = json.loads(line)
        if error := answer.get("error"):
            if error["kind"] == "Unavailable":
                text = f"{self.name} cannot be created: {error['text']}."
                raise BadEnvironment(text, hint=error["hint"])
            where = f" ({error['place']})" if error["place"] else ""
            raise self._error(f"failed: {error['kind']}: {error['text']}{where}", error["hint"])
        self._answers += 1
        if self._answers % 1000 == 0 and os.fstat(self._log.fileno()).st_size > _LOG_BYTES:
            os.ftruncate(self._log.fileno(), 0)
        return answer

    def close(self) -> None:
        """Ask the simulator to exit, and kill it after a timeout."""
        if self._log.closed:
            return
        self.send("close")
        self._process.stdin.close()
        if self._process.wait(_CLOSE_S) is None:
            self._process.kill()
        self._process.stdout.close()
        self._free()

    def _free(self) -> None:
        self.arrays = {}
        self._log.close()
        os.close(self._memory)

    def _error(self, what: str, hint: str | None) -> TelicError:
        """Return an error that includes the last lines of the simulator's output."""
        size = os.fstat(self._log.fileno()).st_size
        start = max(0, size - 8 * _LAST_CHARACTERS)
        text = os.pread(self._log.fileno(), size - start, start).decode(errors="replace")
        lines = [line.strip() for line in printable(text).splitlines() if line.strip()]
        words = " | ".join(lines[-_LAST_LINES:])[-_LAST_CHARACTERS:] or "none"
        return SimulatorError(
            f"The simulator of {self.name} {what}. Its last output: {words}", hint=hint
        )


def _environment() -> dict[str, str]:
    """Return the environment variables, except secrets and settings of this Python."""
    ours = ("PYTHONHOME", "VIRTUAL_ENV", "PYTHONPATH")
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ours and not any(word in name.upper() for word in _SECRETS)
    }
    home = os.path.expanduser("~")  # HOME may not be set in a sandbox
    return {**kept, **({} if home == "~" else {"HOME": home}), "PYTHONUNBUFFERED": "1"}
