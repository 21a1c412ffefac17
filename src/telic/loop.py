"""The loop of telic: one file that says how work is proposed, run, judged and resumed.

    propose -> check -> run -> judge -> record -> decide

A kind of work supplies five functions (`LoopParts`); this module calls them in order, records what
they return in the journal, and resumes. Sessions run through it; searches, tracking runs and
studies have the same shape and still drive themselves:

| loop     | candidate          | run                        | verdict                           |
|----------|--------------------|----------------------------|-----------------------------------|
| session  | a reward           | trains a population        | score of fresh episodes, proven   |
| search   | policy parameters  | plays episodes             | returns, the candidate that counts|
| tracking | a configuration    | trains a motion tracker    | success and joint error           |
| study    | a change of a repo | its own training command   | contract metric and guardrails    |

Each record is appended when its step is finished, so a process may be killed at any line: running
the loop again reads the finished steps back instead of taking them again, and takes the others as
if nothing had happened. What a step leaves half done (a training, a command that runs) is resumed
by the step itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any, Generic, Protocol, TypeVar, cast

from pydantic import BaseModel

C = TypeVar("C", bound=BaseModel)
V = TypeVar("V", bound=BaseModel)
R = TypeVar("R")
_Step = TypeVar("_Step", bound=BaseModel)

EXHAUSTED = "exhausted"
"""the outcome of a loop that has nothing left to try"""


class LoopParts(Protocol[C, R, V]):
    """What one kind of loop does in each step; iterations count from 1."""

    candidate_type: type[C]
    verdict_type: type[V]

    def propose(self, number: int) -> C | None:
        """Return the next candidate; None when there is nothing left to try."""
        ...

    def check(self, number: int, candidate: C) -> V | None:
        """Return the verdict on a candidate that is not worth running; None: run it."""
        ...

    def run(self, number: int, candidate: C) -> R | Generator[Any, Any, R]:
        """Run a candidate; a generator asks its driver for work that loops share, such as a batch.

        Called again with the same candidate after a crash, so it resumes what it left half done.
        """
        ...

    def judge(self, number: int, candidate: C, result: R) -> V:
        """Return the verdict on a result."""
        ...

    def decide(self, number: int, candidate: C, verdict: V) -> str | None:
        """Take a verdict into account, also one that is read back; return the outcome, if any."""
        ...


class StepRecorder(Protocol):
    """Where the records of a loop are kept: a `Journal`, or one that also writes readable files."""

    def recorded(self, kind: str, record: type[_Step], subject: str | None = None) -> _Step | None:
        """Return the record of a finished step; None when it was not finished."""
        ...

    def once(
        self, kind: str, record: type[_Step], make: Callable[[], _Step], subject: str | None = None
    ) -> _Step:
        """Return the record of a finished step, or take the step and record it."""
        ...


class Loop(Generic[C, R, V]):
    """Propose, check, run, judge, record and decide until there is an outcome."""

    def __init__(
        self,
        recorder: StepRecorder,
        parts: LoopParts[C, R, V],
        *,
        iterations: int | None = None,
        safe_point: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare a loop.

        Args:
            recorder: where finished steps are recorded and read back.
            parts: what the loop does in each step.
            iterations: candidates to try at most; None: until `propose` has no more.
            safe_point: called before each iteration; waits or raises when the loop must not go on.
        """
        self._recorder, self._parts = recorder, parts
        self._iterations, self._safe_point = iterations, safe_point

    def run(self) -> str:
        """Run to the outcome in this thread; no part may ask its driver for anything."""
        steps = self.steps()
        try:
            request = next(steps)
        except StopIteration as end:
            return cast("str", end.value)
        raise TypeError(f"nobody answers {request!r}: drive the generator of `steps` instead")

    def steps(self) -> Generator[Any, Any, str]:
        """Yield what `run` asks for, be sent the answers, and return the outcome."""
        number = 0
        while self._iterations is None or number < self._iterations:
            number += 1
            self._safe_point()
            candidate = self._propose(number)
            if candidate is None:
                break
            verdict = yield from self._verdict(number, candidate)
            outcome = self._parts.decide(number, candidate, verdict)
            if outcome is not None:
                return outcome
        return EXHAUSTED

    def _propose(self, number: int) -> C | None:
        kind, subject = self._parts.candidate_type, str(number)
        known = self._recorder.recorded("candidate", kind, subject)
        if known is not None:
            return known
        candidate = self._parts.propose(number)
        if candidate is None:
            return None
        return self._recorder.once("candidate", kind, lambda: candidate, subject)

    def _verdict(self, number: int, candidate: C) -> Generator[Any, Any, V]:
        """Return the verdict that is on record, or check, run and judge the candidate."""
        kind, subject = self._parts.verdict_type, str(number)
        known = self._recorder.recorded("verdict", kind, subject)
        if known is not None:
            return known
        verdict = self._parts.check(number, candidate)
        if verdict is None:
            running = self._parts.run(number, candidate)
            result = (
                (yield from cast("Generator[Any, Any, R]", running))
                if isinstance(running, GeneratorType)
                else cast("R", running)
            )
            verdict = self._parts.judge(number, candidate, result)
        judged = verdict
        return self._recorder.once("verdict", kind, lambda: judged, subject)
