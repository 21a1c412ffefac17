"""Worker that runs one attempt of a job, and writes heartbeats, a log and the result.

    python -m telic.jobs.worker FOLDER ATTEMPT DIGEST

A stop is requested by the job's stop file or by a signal to the worker, which schedulers send to
preempt it. The job then receives SIGTERM and has time to save before it is killed. If the worker is
killed, the kernel signals the job, so that no abandoned job continues to run. Slurm sends SIGUSR2
before a time limit: the worker then puts the attempt back into the queue, also without a driver.
"""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from telic.jobs.process import Process, signals_noted, user_environment
from telic.jobs.spec import AttemptEnd, JobFolder, JobHeartbeat, JobSpec
from telic.storage.files import json_text, open_append, read_record, write_json


def run_attempt_in(path: str, attempt: int, digest: str) -> int:
    """Run an attempt of a job in a folder shared by driver and worker.

    `digest` is the hash of the submitted specification, because others may write to the folder.
    """
    folder = JobFolder(Path(path))
    folder.end(attempt).unlink(missing_ok=True)  # of the same attempt before it was requeued
    spec = read_record(folder.spec, JobSpec)
    if hashlib.sha256(json_text(spec).encode()).hexdigest() != digest:
        why = f"{folder.spec} was modified after the job was submitted"
        end = AttemptEnd(code=None, seconds=0.0, node=socket.gethostname(), error=why)
        write_json(folder.end(attempt), end)
        return 1

    def beat(alive: JobHeartbeat) -> bool:
        write_json(folder.beat(attempt), alive)
        return folder.stop.exists()

    with open_append(folder.log(attempt)) as log:
        end = run_attempt(spec, Path(spec.cwd), log, beat)
    if end.at_limit:
        with Process(("scontrol", "requeue", os.environ["SLURM_JOB_ID"])) as requeue:
            if requeue.wait() == 0:
                return 0
    write_json(folder.end(attempt), end)
    return 1 if end.code is None else end.code


def read_end(folder: JobFolder, attempt: int) -> AttemptEnd | None:
    """Return how an attempt ended, or None if it has not ended."""
    path = folder.end(attempt)
    return read_record(path, AttemptEnd) if path.exists() else None


def run_attempt(
    spec: JobSpec,
    cwd: Path,
    log: IO[bytes],
    beat: Callable[[JobHeartbeat], bool],
    *,
    node: str | None = None,
    holds: tuple[int, ...] = (),
) -> AttemptEnd:
    """Run the process of a job until it ends. `beat` returns whether the job must stop."""
    began, node = time.monotonic(), node or socket.gethostname()
    try:
        process = Process(
            spec.words(),
            cwd=cwd,
            env={**user_environment(), **spec.env},
            stdout=log,
            pass_fds=holds,
            parent_death_signal=signal.SIGTERM,
        )
    except OSError as error:
        why = f"failed to start on {node}: {error}"
        return AttemptEnd(code=None, seconds=0.0, node=node, error=why)

    def is_asked() -> bool:
        return beat(JobHeartbeat(time=time.time(), node=node, pid=process.pid))

    with signals_noted(signal.SIGTERM, signal.SIGUSR2) as signaled:
        was_stopped = process.supervise(lambda: is_asked() or bool(signaled))
    code = process.code or 0
    seconds = time.monotonic() - began
    if signaled and was_stopped:
        at_limit = signal.SIGUSR2 in signaled and "SLURM_JOB_ID" in os.environ
        why = f"{'time limit' if at_limit else 'preempted'} on {node}"
        return AttemptEnd(code=None, seconds=seconds, node=node, at_limit=at_limit, error=why)
    return AttemptEnd(
        code=code if code >= 0 else None,
        signal=None if code >= 0 else -code,
        seconds=seconds,
        node=node,
        was_stopped=was_stopped,
    )


if __name__ == "__main__":
    sys.exit(run_attempt_in(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
