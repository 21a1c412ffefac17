"""Judge policies while they are still being trained: what the judge says as they learn.

Training's own evaluations leave a poor, a median and a good episode of every policy behind. A
thread judges them as they come, and training does not wait for it. They say how it goes; whether a
policy passes is decided later, by fresh episodes.

They also give a reward away that is paid for something else. A policy's return under its own reward
is measured at the same moments: after a short trial, while it learns, at the end. Both should rise
together; a return that rises while the score falls is an alarm.
"""

from __future__ import annotations

import contextlib
import queue
import statistics
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self

from telic.authors.candidate import MemberScore, SessionIteration
from telic.core.config import Record
from telic.core.events import EvalDone, Event, Listener, LogMessage, SessionCheckpoint, TrainStart
from telic.core.stats import Interval
from telic.errors import TelicError
from telic.judges.code import judge_files
from telic.rendering.jobs import choose_backend
from telic.storage.files import JsonLines, read_json_lines
from telic.storage.layout import IterationFolder, MemberFolder, SessionFolder
from telic.storage.scalars import read_rows

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
        with CheckpointJudge(folder, number, tell) as judge:
            execute(job, folder, on_event=judge)
    """

    def __init__(self, folder: SessionFolder, number: int, tell: Listener) -> None:
        self._judge_code = folder.judge
        self._files = folder.iteration(number)
        self._tell = tell
        self._number = number
        self._end = 0
        self._since = time.monotonic()
        self._steps: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __call__(self, event: Event) -> None:
        """Pass an event on, and note a checkpoint; the last one is judged anyway, by more."""
        self._tell(event)
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
                    self._tell(LogMessage(message=message))

    def _record(self, checkpoint: Checkpoint) -> None:
        with JsonLines(self._files.checkpoints) as log:
            log.append(checkpoint.model_dump(mode="json"))
        step, scores = checkpoint.step, checkpoint.scores
        self._tell(SessionCheckpoint(number=self._number, step=step, scores=scores))

    def _judge(self, step: int) -> Checkpoint:
        episodes = {
            member.name: [file.path for file in member.trajectories() if file.step == step]
            for member in self._files.run.members()
        }
        paths = [path for own in episodes.values() for path in own]
        folder = self._files.path / "checkpoints"
        judged = judge_files(self._judge_code.read_text(), paths, folder)
        verdicts = dict(zip(paths, judged, strict=True))
        scores: dict[str, float | None] = {}
        for name, own in episodes.items():
            known = [score for path in own if (score := verdicts[path].score) is not None]
            scores[name] = statistics.fmean(known) if known else None
        return Checkpoint(step=step, scores=scores)


_FELL = 0.15
"""loss of score that a few episodes more or less do not explain"""


class Moment(NamedTuple):
    """A policy at one moment of its training."""

    words: str
    score: float
    mean_return: float
    interval: Interval


def alarms(files: IterationFolder, iteration: SessionIteration) -> tuple[str, ...]:
    """Return a sentence for every policy whose return rose while its score fell."""
    sentences: list[str] = []
    for member in iteration.members:
        end = _moment(_trained(files, member), "the end", None, member.judgement.score)
        earlier = _earlier(files, iteration, member)
        then = next((moment for moment in earlier if end and diverged(moment, end)), None)
        if then and end:
            sentences.append(
                f"{member.member}: from {then.words} to {end.words} its return rose from "
                f"{then.mean_return:.4g} to {end.mean_return:.4g} while the judge's score fell "
                f"from {then.score:.2f} to {end.score:.2f}. The reward pays for something else "
                "than what was asked."
            )
    return tuple(sentences)


def diverged(then: Moment, now: Moment) -> bool:
    """Say whether the return rose for certain and the score fell clearly.

    Comparing intervals makes it independent of the reward's scale.
    """
    return now.interval.low > then.interval.high and now.score < then.score - _FELL


def _earlier(
    files: IterationFolder, iteration: SessionIteration, member: MemberScore
) -> Iterator[Moment]:
    for trial in iteration.trials:
        if (trial.variant, trial.seed) == (member.variant, member.seed):
            folder = MemberFolder(files.path / "trial" / trial.member)
            if moment := _moment(folder, "the short trial", None, trial.judgement.score):
                yield moment
    for row in read_json_lines(files.checkpoints):
        step, score = row["step"], row["scores"].get(member.member)
        if moment := _moment(_trained(files, member), f"step {step:,}", step, score):
            yield moment


def _moment(
    member: MemberFolder, words: str, step: int | None, score: float | None
) -> Moment | None:
    """Return what is known of a moment, the last one without a step; None if something is not."""
    rows = [row for row in read_rows(member.scalars, "eval") if step in (None, row["global_step"])]
    if score is None or not rows or not rows[-1].get("interval"):
        return None
    return Moment(words, score, rows[-1]["mean_return"], Interval(*rows[-1]["interval"]))


def _trained(files: IterationFolder, member: MemberScore) -> MemberFolder:
    return MemberFolder(files.run.path / member.member)
