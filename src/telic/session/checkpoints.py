"""Judge policies while they are still being trained: what the judge says as they learn.

Training's own evaluations leave a poor, a median and a good episode of every policy behind. A
thread judges them as they come, and training does not wait for it. They say how it goes; whether a
policy passes is decided later, by fresh episodes.
"""

from __future__ import annotations

import contextlib
import queue
import statistics
import threading
import time
from types import TracebackType
from typing import Self

from telic.core.config import Record
from telic.core.events import EvalDone, Event, LogMessage, SessionCheckpoint, TrainStart
from telic.errors import TelicError
from telic.judges.code import judge_files
from telic.rendering.jobs import choose_backend
from telic.session.work import Work
from telic.storage.files import JsonLines

_LONG_S = 15.0
"""seconds after which somebody may want to know; what ends sooner is judged at its end"""


class Checkpoint(Record):
    """What the judge says of all policies of a training at one moment."""

    step: int
    scores: dict[str, float | None]
    """mean score of a policy's three episodes, by its name; None: could not be judged"""


class CheckpointJudge:
    """Hears the events of a training, and passes them on.

    Example:
        with CheckpointJudge(work, number) as judge:
            execute(job, folder, on_event=judge)
    """

    def __init__(self, work: Work, number: int) -> None:
        self._work = work
        self._files = work.folder.iteration(number)
        self._number = number
        self._end = 0
        self._since = time.monotonic()
        self._steps: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __call__(self, event: Event) -> None:
        """Pass an event on, and note a checkpoint; the last one is judged anyway, by more."""
        self._work.tell(event)
        if isinstance(event, TrainStart):
            self._end, self._since = event.total_steps, time.monotonic()
        elif isinstance(event, EvalDone) and event.step < self._end and self._is_long():
            self._steps.put(event.step)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._steps.put(None)
        if kind is None:  # an interrupted training does not wait for what it no longer needs
            self._thread.join()

    def _is_long(self) -> bool:
        return time.monotonic() - self._since > _LONG_S

    def _serve(self) -> None:
        # Which library draws is found out by drawing; the report then need not wait for that.
        with contextlib.suppress(TelicError):  # what is wrong with it, the report says itself
            choose_backend()
        while (step := self._steps.get()) is not None:
            # A checkpoint that cannot be judged is told, and costs nothing else.
            try:
                self._record(self._judge(step))
            except TelicError as error:
                with contextlib.suppress(TelicError):  # where not even the log can be written
                    message = f"the policies at {step:,} steps were not judged: {error}"
                    self._work.tell(LogMessage(message=message))

    def _record(self, made: Checkpoint) -> None:
        with JsonLines(self._files.checkpoints) as log:
            log.append(made.model_dump(mode="json"))
        self._work.tell(SessionCheckpoint(number=self._number, step=made.step, scores=made.scores))

    def _judge(self, step: int) -> Checkpoint:
        episodes = {
            member.name: [each.path for each in member.trajectories() if each.step == step]
            for member in self._files.run.members()
        }
        paths = [path for own in episodes.values() for path in own]
        source = self._work.folder.judge.read_text()
        verdicts = dict(
            zip(paths, judge_files(source, paths, self._files.path / "checkpoints"), strict=True)
        )
        scores: dict[str, float | None] = {}
        for name, own in episodes.items():
            known = [score for path in own if (score := verdicts[path].score) is not None]
            scores[name] = statistics.fmean(known) if known else None
        return Checkpoint(step=step, scores=scores)
