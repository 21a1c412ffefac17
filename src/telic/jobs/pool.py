"""Run jobs: start them up to the capacity, poll and retry them, and record their results.

Each running job has a thread that starts and monitors its attempts. Callers wait for a future. Only
this process records the result of a job, and only from its current attempt, so nothing is lost or
counted twice: an abandoned attempt may still be running, but is ignored. An attempt ends if its
process exits (the exit code is the result), if it is asked to stop, or if it dies, misses its
heartbeats or its node is lost. Only in the last case is it retried, from the copied files.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from telic.core.events import Listener, LogMessage, ignore
from telic.errors import TelicError
from telic.jobs.board import JobBoard
from telic.jobs.launcher import AttemptWaiting, JobPlace, Launcher, launcher_for
from telic.jobs.process import GRACE_S
from telic.jobs.spec import AttemptEnd, JobAttempt, JobFolder, JobOutcome, JobRecord, JobSpec
from telic.storage.files import write_json
from telic.storage.keys import permit

_POLL_S = 0.02
_LAUNCHER_POLL_S = 0.5
_STOP_S = GRACE_S + 15.0
"""seconds until a job that was asked to stop is killed"""


@dataclass(slots=True)
class _Work:
    """A submitted job."""

    spec: JobSpec
    folder: JobFolder
    record: JobRecord
    stopping: str | None = None
    """reason for the stop request"""

    def change(self, **values: Any) -> JobRecord:
        self.record = self.record.model_copy(update=values)
        write_json(self.folder.record, self.record)
        return self.record

    def change_attempt(self, **values: Any) -> None:
        *others, last = self.record.attempts
        self.change(attempts=(*others, last.model_copy(update=values)))


class JobPool:
    """Pool that runs jobs at one place within its limits.

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
        self._emit, self._should_stop = on_event, should_stop
        self._launcher = launcher
        self.at_once = place.at_once or 1
        self._turn = threading.Lock()  # launchers and listeners are called by one thread at a time
        self._spent_s = 0.0
        self._began: dict[str, float] = {}
        """start time of each running attempt"""
        self._is_closed = threading.Event()
        self._failure: Exception | None = None

    def __enter__(self) -> Self:
        self._connected = self._launcher or launcher_for(self.place)
        self.at_once = self.place.at_once or self._connected.room
        self._threads = ThreadPoolExecutor(self.at_once, "telic-jobs")
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed.set()
        self._threads.shutdown()
        self._connected.close()

    def submit(self, spec: JobSpec) -> Future[JobRecord]:
        """Register and run a job. The future returns its final record.

        Raises Refused if the same work is already running.
        """
        if self._failure is not None:
            raise self._failure
        asked = {name: getattr(self.place, name) for name in ("cores", "gpus", "minutes", "asks")}
        spec = spec.model_copy(update=asked)
        permit(spec.code, f"jobs on {self.place.title}")
        spec, record = self.board.take(spec, self.place.title)
        return self._threads.submit(self._run, _Work(spec, self.board.folder(spec.name), record))

    # ------------------------------------------------------------------------ in the job's thread

    def _run(self, work: _Work) -> JobRecord:
        """Run attempts until one of them ends normally and record the result of the job."""
        for tries in range(1, self.place.attempts + 1):
            if self._failure is not None:
                raise self._failure
            if reason := self._reason_to_end(work):
                return self._settle(work, "stopped", reason)
            try:
                end = self._attempt(work)
            except Exception as error:  # a launcher that fails itself ends all jobs
                self._failure = error
                raise
            if work.stopping is not None:
                code = end.code if isinstance(end, AttemptEnd) else None
                return self._settle(work, "stopped", work.stopping, code)
            if isinstance(end, AttemptEnd):
                return self._settle(work, "done", None, end.code)
            is_last = tries == self.place.attempts
            how = f" failed: {end}" if is_last else f": {end}; rescheduled"
            with self._turn:
                self._emit(LogMessage(message=f"{work.spec.name}{how}"))
            if is_last:
                return self._settle(work, "failed", f"{end} (attempt {tries} of {tries})")
            work.change(state="waiting")
        raise AssertionError("`attempts` must be at least 1")

    def _attempt(self, work: _Work) -> AttemptEnd | str:
        """Run one attempt. Return how it ended, or the reason why it was lost."""
        name, began = work.spec.name, time.time()
        with self._turn:
            number, handle = self._found(work)
        self._began[name] = began
        try:
            if handle is None:
                number += 1
                attempt = JobAttempt(number=number, started=began)
                work.change(state="running", attempts=(*work.record.attempts, attempt))
                with self._turn:
                    handle = self._connected.start(work.spec, work.folder, number)
        except (OSError, RuntimeError, TelicError) as error:
            end: AttemptEnd | str = f"failed to start: {error}"
        else:
            work.change_attempt(handle=handle)
            end = self._watch(work, number)
        finally:
            del self._began[name]
        facts: dict[str, Any] = {"seconds": time.time() - began, "ended": end}
        if isinstance(end, AttemptEnd):
            facts = {"node": end.node, "seconds": end.seconds, "ended": f"code {end.code}"}
            if end.was_stopped:
                work.stopping = work.stopping or end.error or "asked to stop"
            if work.stopping is not None:
                facts["ended"] = "stopped"
            elif end.died is not None:
                end = facts["ended"] = end.died
        self._spent_s += facts["seconds"]
        work.change_attempt(**facts)
        return end

    def _found(self, work: _Work) -> tuple[int, str | None]:
        """Return the number of the latest attempt, and its handle if it outlived its driver."""
        number, latest = len(work.record.attempts), work.record.attempts[-1:]
        if not latest or latest[0].ended is not None:
            return number, None
        handle = self._connected.find(work.spec, work.folder, number)
        if handle is None:
            work.change_attempt(ended="its driver ended")
        return number, handle

    def _watch(self, work: _Work, attempt: int) -> AttemptEnd | str:
        """Wait for an attempt, forward stop requests, and abandon it if heartbeats are missing."""
        beat, looked, beaten, beat_at, asked = work.folder.beat(attempt), 0.0, 0.0, 0.0, 0.0
        while True:
            with self._turn:
                end = self._connected.look(work.spec, work.folder, attempt)
            waits = end.reason if isinstance(end, AttemptWaiting) else None
            if end is not None and not isinstance(end, AttemptWaiting):
                return end
            if (work.record.state == "waiting", work.record.reason) != (waits is not None, waits):
                work.change(state="waiting" if waits else "running", reason=waits)
                beat_at = 0.0
            time.sleep(_POLL_S)
            now = time.monotonic()
            if now - looked < _LAUNCHER_POLL_S:
                continue
            looked, written = now, beat.stat().st_mtime if beat.exists() else 0.0
            if written != beaten:
                beaten, beat_at = written, now
            if work.stopping is None and (reason := self._reason_to_end(work)):
                work.stopping, asked = reason, now
                work.folder.stop.touch()
                self._stop(work)
            elif work.stopping is not None and now - asked > _STOP_S:
                self._stop(work, now=True)
                work.stopping += ", but it did not exit"
                return work.stopping
            elif beat_at and now - beat_at > self.place.silence_s:
                self._stop(work, now=True)
                return f"no heartbeat for {self.place.silence_s:g} s"

    def _stop(self, work: _Work, *, now: bool = False) -> None:
        with self._turn:
            self._connected.stop(work.spec, now=now)

    def _reason_to_end(self, work: _Work) -> str | None:
        if self._is_closed.is_set() or self._should_stop() or work.folder.stop.exists():
            return "asked to stop"
        limit_s = self.place.seconds
        if limit_s is None:
            return None
        running_s = sum(time.time() - began for began in list(self._began.values()))
        is_spent = self._spent_s + running_s >= limit_s
        return f"the total time budget of {limit_s:g} s is used up" if is_spent else None

    def _settle(
        self, work: _Work, state: JobOutcome, reason: str | None, code: int | None = None
    ) -> JobRecord:
        work.folder.stop.unlink(missing_ok=True)
        return work.change(state=state, reason=reason, code=code)
