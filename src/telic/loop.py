"""Generic loop: propose, run, judge and record work, and resume it after an interruption.

    propose -> check -> run -> judge -> record -> decide

Each kind of work implements five functions (`LoopParts`). This module calls them in order, records
the results in the journal, and resumes from it. A function may be a generator that yields requests
to the driver of the loop, e.g. for a batch of episodes.

| loop     | candidate          | run                        | verdict                           |
|----------|--------------------|----------------------------|-----------------------------------|
| session  | a reward           | trains a population        | score of fresh episodes, proven   |
| search   | policy parameters  | plays episodes             | returns, the candidate that counts|
| tracking | a configuration    | trains a motion tracker    | success and joint error           |
| study    | a change of a repo | its own training command   | contract metric and guardrails    |

Each record is appended when its step is finished, so the process may be killed at any time. Running
the loop again reads the finished steps from the journal and runs only the others. An interrupted
step (e.g. a training run or external command) must be able to resume its own work.
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
"""a result, or a generator that yields requests to the driver and then returns the result"""
_Step = TypeVar("_Step", bound=BaseModel)

EXHAUSTED = "exhausted"
"""outcome of a loop that has no more candidates"""


class LoopParts(Protocol[C, R, V]):
    """Steps of one kind of loop. The first iteration has the number 1."""

    candidate_type: type[C]
    verdict_type: type[V]

    def propose(self, number: int) -> Answer[C | None]:
        """Return the next candidate, or None if there are no more."""
        ...

    def check(self, number: int, candidate: C) -> V | None:
        """Return a verdict if the candidate should not be run, or None to run it."""
        ...

    def run(self, number: int, candidate: C) -> Answer[R]:
        """Run a candidate.

        After a crash, `run` is called again with this candidate and must resume partial work.
        """
        ...

    def judge(self, number: int, candidate: C, result: R) -> V:
        """Return the verdict on a result."""
        ...

    def decide(self, number: int, candidate: C, verdict: V) -> Answer[str | None]:
        """Process a new or a recorded verdict and return the outcome if the loop must end."""
        ...


class StepRecorder(Protocol):
    """Storage for loop records: a `Journal`, or a journal that also writes readable files."""

    def recorded(self, kind: str, record: type[_Step], subject: str | None = None) -> _Step | None:
        """Return the record of a finished step, or None if it is not finished."""
        ...

    def once(
        self, kind: str, record: type[_Step], make: Callable[[], _Step], subject: str | None = None
    ) -> _Step:
        """Return the record of a finished step, or run the step and record it."""
        ...


class Loop(Generic[C, R, V]):
    """Repeat propose, check, run, judge, record and decide until there is an outcome."""

    def __init__(
        self,
        recorder: StepRecorder,
        parts: LoopParts[C, R, V],
        *,
        iterations: int | None = None,
        safe_point: Callable[[], None] = lambda: None,
    ) -> None:
        """Create a loop.

        Args:
            recorder: storage of the records of finished steps.
            parts: implementation of the steps.
            iterations: maximum number of candidates, or None for no limit.
            safe_point: called before each iteration. It may wait, or raise to end the loop.
        """
        self._recorder, self._parts = recorder, parts
        self._iterations, self._safe_point = iterations, safe_point

    def run(self) -> str:
        """Run until there is an outcome. No step may yield requests to a driver."""
        steps = self.steps()
        try:
            request = next(steps)
        except StopIteration as end:
            return cast("str", end.value)
        raise TypeError(f"{request!r} needs a driver: use the generator `steps` instead")

    def steps(self) -> Generator[Any, Any, str]:
        """Yield the requests of the steps, receive the answers, and return the outcome."""
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
    """Return the result of a step, forwarding the step's requests to the driver."""
    if isinstance(given, GeneratorType):
        return (yield from cast("Generator[Any, Any, _Result]", given))
    return cast("_Result", given)
