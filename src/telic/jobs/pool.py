"""Main flow of jobs: start jobs up to capacity, poll and retry them, and record each end.

A driver thread runs the loop. The submitter waits for a future. Only this process settles a job,
and only for its current attempt, so nothing is lost or counted twice: an abandoned attempt may
still be running, but is ignored. An attempt ends in one of three ways: the process exited (its exit
code is the result), it was asked to stop, or it died, missed its heartbeats or vanished with its
node. Only the last is retried, from the copied files.

    python -m telic.jobs.pool FILE CWD PROGRAM ARGUMENTS...

runs one command as the job of a file (`PlacedJob`) and exits with its code, which is how runs of
studies are executed on other machines.
"""

from __future__ import annotations

import hashlib
import os
import queue
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from telic.core.config import Record
from telic.core.events import Listener, LogMessage, ignore
from telic.errors import TelicError
from telic.jobs.board import JobBoard
from telic.jobs.launcher import JobPlace, Launcher, launcher_for
from telic.jobs.process import GRACE_S, own_python
from telic.jobs.spec import AttemptReport, JobAttempt, JobFolder, JobOutcome, JobRecord, JobSpec
from telic.jobs.worker import signals_noted
from telic.storage.files import read_record, write_json
from telic.storage.keys import permit

_ROUND_S = 0.02
_LOOK_S = 0.5
_STOP_S = GRACE_S + 15.0
"""seconds until a job that was asked to stop is killed"""


@dataclass(slots=True)
class _Work:
    """A submitted job."""

    spec: JobSpec
    folder: JobFolder
    record: JobRecord
    future: Future[JobRecord]
    earlier: int
    """attempts by previous drivers, which do not count towards the limit"""
    heard: float = 0.0
    """time of the latest heartbeat or output, by this process's clock"""
    beat: float = 0.0
    """modification time of the beat file"""
    stopping: str | None = None
    """reason for the stop request"""
    asked: float = 0.0

    @property
    def attempt(self) -> int:
        return self.record.attempts[-1].number

    def change(self, **values: Any) -> None:
        self.record = self.record.model_copy(update=values)
        write_json(self.folder.record, self.record)

    def change_attempt(self, **values: Any) -> None:
        last = self.record.attempts[-1].model_copy(update=values)
        self.record = self.record.model_copy(
            update={"attempts": (*self.record.attempts[:-1], last)}
        )


class JobPool:
    """Pool that runs jobs at one location within its limits.

    Example:
        with JobPool(read_place("ray://head:10001"), runs_dir) as pool:
            record = pool.submit(spec).result()
    """

    def __init__(
        self,
        place: JobPlace,
        runs_dir: Path,
        *,
        on_event: Listener = ignore,
        should_stop: Callable[[], bool] = lambda: False,
        launcher: Launcher | None = None,
    ) -> None:
        """Create the pool without starting jobs."""
        self.place, self.board = place, JobBoard(runs_dir)
        self._tell, self._should_stop = on_event, should_stop
        self._launcher = launcher
        self.at_once = place.at_once or 1
        self._new: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._waiting: deque[_Work] = deque()
        self._running: dict[str, _Work] = {}
        self._spent_s, self._looked = 0.0, 0.0
        self._is_closed = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._drive, name="telic-jobs", daemon=True)

    def __enter__(self) -> Self:
        self._connected = self._launcher or launcher_for(self.place)
        self.at_once = self.place.at_once or self._connected.room
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closed.set()
        self._thread.join()

    def submit(self, spec: JobSpec) -> Future[JobRecord]:
        """Register and run a job. The future returns its final record.

        Raises Refused if the same work is already running.
        """
        if self._failure is not None:
            raise self._failure
        asked = {
            name: getattr(self.place, name)
            for name in ("cores", "gpus", "minutes", "cluster", "asks")
        }
        permit(spec.code)
        spec, record = self.board.take(spec.model_copy(update=asked), self.place.title)
        work = _Work(spec, self.board.folder(spec.name), record, Future(), len(record.attempts))
        self._new.put(work)
        return work.future

    # ------------------------------------------------------------------------ the driving thread

    def _drive(self) -> None:
        try:
            while not self._is_closed.is_set() or self._running:
                self._round()
                time.sleep(_ROUND_S)
        except Exception as error:  # top level of the thread: reported to every waiting future
            self._failure = error
            for work in [*self._running.values(), *self._all_waiting()]:
                work.future.set_exception(error)
        else:
            for work in self._all_waiting():
                self._settle(work, "stopped", "the driver ended")
        finally:
            self._connected.close()

    def _round(self) -> None:
        """Process messages, and start jobs up to capacity."""
        reason = self._reason_to_end()
        if reason is not None:
            for work in self._all_waiting():
                self._settle(work, "stopped", reason)
            for work in self._running.values():
                self._ask_to_stop(work, reason)
        is_time = time.monotonic() - self._looked > _LOOK_S
        if is_time:
            self._looked = time.monotonic()
        for work in list(self._running.values()):
            self._listen(work)
            if is_time and work.spec.name in self._running:
                self._watch(work)
        for work in self._all_waiting() if reason is None else ():
            if len(self._running) < self.at_once:
                self._waiting.remove(work)
                self._start(work)

    def _all_waiting(self) -> list[_Work]:
        while not self._new.empty():
            self._waiting.append(self._new.get())
        return list(self._waiting)

    def _reason_to_end(self) -> str | None:
        if self._is_closed.is_set() or self._should_stop():
            return "asked to stop"
        limit_s = self.place.seconds
        if limit_s is None:
            return None
        now = time.time()
        running_s = sum(now - work.record.attempts[-1].started for work in self._running.values())
        is_spent = self._spent_s + running_s >= limit_s
        return f"the total time budget of {limit_s:g} s is used up" if is_spent else None

    def _start(self, work: _Work) -> None:
        if work.folder.stop.exists():
            self._settle(work, "stopped", "asked to stop")
            return
        number = len(work.record.attempts) + 1
        attempt = JobAttempt(number=number, started=time.time())
        work.change(state="running", attempts=(*work.record.attempts, attempt))
        work.heard = work.beat = 0.0
        self._running[work.spec.name] = work
        try:
            handle = self._connected.start(work.spec, work.folder, number)
        except (OSError, RuntimeError, TelicError) as error:
            self._again(work, f"failed to start: {error}")
            return
        work.change_attempt(handle=handle)

    def _listen(self, work: _Work) -> None:
        """Poll the current attempt."""
        report = self._connected.look(work.spec, work.folder, work.attempt)
        if report.state == "gone":
            self._again(work, report.detail)
        elif report.state == "done":
            self._finish(work, report)

    def _finish(self, work: _Work, report: AttemptReport) -> None:
        end = report.end
        assert end is not None
        work.change_attempt(node=end.node, seconds=end.seconds)
        died = end.died
        if work.stopping is not None or (end.was_stopped and died is None):
            work.change_attempt(ended="stopped")
            self._settle(work, "stopped", work.stopping or "asked to stop", end.code)
        elif died is not None:
            self._again(work, died)
        else:
            work.change_attempt(ended=f"code {end.code}")
            self._settle(work, "done", None, end.code)

    def _watch(self, work: _Work) -> None:
        """Abandon an attempt that missed its heartbeats, and forward stop requests."""
        beat, now = work.folder.beat(work.attempt), time.monotonic()
        written = beat.stat().st_mtime if beat.exists() else 0.0
        if written != work.beat:
            work.beat, work.heard = written, now
        if work.folder.stop.exists():
            self._ask_to_stop(work, "asked to stop")
        if work.stopping is not None and now - work.asked > _STOP_S:
            self._connected.stop(work.spec, now=True)
            self._settle(work, "stopped", f"{work.stopping}, but it did not exit")
        elif work.heard and now - work.heard > self.place.silence_s:
            self._connected.stop(work.spec, now=True)
            self._again(work, f"no heartbeat for {self.place.silence_s:g} s")

    def _ask_to_stop(self, work: _Work, reason: str) -> None:
        if work.stopping is None:
            work.stopping, work.asked = reason, time.monotonic()
            work.folder.stop.touch()
            self._connected.stop(work.spec, now=False)

    def _again(self, work: _Work, reason: str) -> None:
        """Retry a job unless its attempts are exhausted."""
        attempt = work.record.attempts[-1]
        seconds = time.time() - attempt.started if attempt.seconds is None else attempt.seconds
        work.change_attempt(ended=reason, seconds=seconds)
        if work.stopping is not None:
            self._settle(work, "stopped", work.stopping)
            return
        tries = len(work.record.attempts) - work.earlier
        if tries >= self.place.attempts:
            self._tell(LogMessage(message=f"{work.spec.name} failed: {reason}"))
            self._settle(work, "failed", f"{reason} (attempt {tries} of {self.place.attempts})")
            return
        self._tell(LogMessage(message=f"{work.spec.name}: {reason}; rescheduled"))
        self._leave(work)
        work.change(state="waiting")
        self._waiting.appendleft(work)

    def _leave(self, work: _Work) -> None:
        if self._running.pop(work.spec.name, None) is not None:
            self._spent_s += work.record.attempts[-1].seconds or 0.0

    def _settle(
        self, work: _Work, state: JobOutcome, reason: str | None, code: int | None = None
    ) -> None:
        self._leave(work)
        if work in self._waiting:
            self._waiting.remove(work)
        work.change(state=state, reason=reason, code=code)
        work.folder.stop.unlink(missing_ok=True)
        work.future.set_result(work.record)


# ---------------------------------------------------------------------------- one command


class PlacedJob(Record):
    """Job with its location. Its command and working folder are set when it starts."""

    place: JobPlace
    job: JobSpec


def placed_command(path: Path, cwd: Path, argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs `argv` in `cwd` as the job described in a file."""
    return tuple(own_python("telic.jobs.pool", path, cwd, *argv))


def run_placed(path: Path, cwd: str, argv: Sequence[str]) -> int:
    """Run a command as a job and return its exit code, or EX_TEMPFAIL if its machine was lost."""
    given = read_record(path, PlacedJob)
    digest = hashlib.sha256("\0".join(argv).encode()).hexdigest()[:8]
    own = {"name": f"{given.job.name}-{digest}", "argv": tuple(argv), "cwd": cwd}
    job = given.job.model_copy(update=own)
    with (
        signals_noted() as signalled,
        JobPool(given.place, path.parent, should_stop=lambda: bool(signalled)) as pool,
    ):
        record = pool.submit(job).result()
    for attempt in record.attempts:
        log = pool.board.folder(job.name).log(attempt.number)
        if log.exists():
            with log.open("rb") as printed:
                shutil.copyfileobj(printed, sys.stdout.buffer)
    if record.reason is not None:
        sys.stderr.write(f"{record.reason}\n")
    code = os.EX_TEMPFAIL if record.state == "failed" else 1
    return code if record.code is None else record.code


if __name__ == "__main__":
    sys.exit(run_placed(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
