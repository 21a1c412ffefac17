"""The loop of telic: one file that says how work is proposed, run, judged and resumed.

    propose -> check -> run -> judge -> record -> decide

A kind of work supplies five functions (`LoopParts`); this module calls them in order, records what
they return in the journal, and resumes. A part that is a generator asks the driver of the loop for
work that loops share, such as a batch of episodes.

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
_Result = TypeVar("_Result")
Answer = _Result | Generator[Any, Any, _Result]
"""a result, or a generator that asks the driver of the loop for something and then returns it"""
_Step = TypeVar("_Step", bound=BaseModel)

EXHAUSTED = "exhausted"
"""the outcome of a loop that has nothing left to try"""


class LoopParts(Protocol[C, R, V]):
    """The steps of one kind of loop; iterations count from 1."""

    candidate_type: type[C]
    verdict_type: type[V]

    def propose(self, number: int) -> Answer[C | None]:
        """Return the next candidate; None when there is nothing left to try."""
        ...

    def check(self, number: int, candidate: C) -> V | None:
        """Return the verdict on a candidate that is not worth running; None: run it."""
        ...

    def run(self, number: int, candidate: C) -> Answer[R]:
        """Run a candidate.

        Called again with the same candidate after a crash, so it resumes what it left half done.
        """
        ...

    def judge(self, number: int, candidate: C, result: R) -> V:
        """Return the verdict on a result."""
        ...

    def decide(self, number: int, candidate: C, verdict: V) -> Answer[str | None]:
        """Take a verdict into account, also one that is read back; return the outcome, if any."""
        ...


class StepRecorder(Protocol):
    """Storage for the records of a loop: a `Journal`, or one that also writes readable files."""

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
            safe_point: called before each iteration; waits or raises if the loop must not continue.
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
        raise TypeError(f"no driver answers {request!r}: drive the generator of `steps` instead")

    def steps(self) -> Generator[Any, Any, str]:
        """Yield what parts ask for, be sent the answers, and return the outcome."""
        parts, number = self._parts, 0
        while self._iterations is None or number < self._iterations:
            number += 1
            self._safe_point()
            subject = str(number)
            candidate = self._recorder.recorded("candidate", parts.candidate_type, subject)
            if candidate is None:
                candidate = yield from _answer(parts.propose(number))
                if candidate is None:
                    break
                candidate = self._record("candidate", candidate, subject)
            verdict = self._recorder.recorded("verdict", parts.verdict_type, subject)
            if verdict is None:
                verdict = parts.check(number, candidate)
                if verdict is None:
                    result = yield from _answer(parts.run(number, candidate))
                    verdict = parts.judge(number, candidate, result)
                verdict = self._record("verdict", verdict, subject)
            outcome = yield from _answer(parts.decide(number, candidate, verdict))
            if outcome is not None:
                return outcome
        return EXHAUSTED

    def _record(self, kind: str, record: _Step, subject: str) -> _Step:
        return self._recorder.once(kind, type(record), lambda: record, subject)


def _answer(given: Answer[_Result]) -> Generator[Any, Any, _Result]:
    """Return what a part returned, after the driver has answered what it asks for."""
    if isinstance(given, GeneratorType):
        return (yield from cast("Generator[Any, Any, _Result]", given))
    return cast("_Result", given)
