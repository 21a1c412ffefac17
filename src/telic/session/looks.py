"""Look at policies while they learn, and end their training as soon as they pass.

Every evaluation of a training saves its policies. A thread judges them as they come, on the fresh
episodes for choosing. Policies that promise to pass are judged on more episodes, which nothing was
chosen on, and by eye where a model can see. Once that proves enough of them, `proof.json` is
written, and training has nothing more to do. While episodes are played, a training on the same
processors stands still: what it would do beside them is wasted if they pass, and no loss if not.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import Self

from telic.authors.candidate import MemberScore, RewardCandidate
from telic.core.confidence import spending
from telic.core.events import Event, LogMessage, TrainStart
from telic.errors import TelicError
from telic.judges.fusion import unjudged
from telic.rendering.jobs import choose_backend
from telic.session.control import SessionWork
from telic.session.judgement import (
    LOOKS,
    PolicyAt,
    Proof,
    as_people_ask,
    choose,
    confirm,
    may_pass,
    watched,
)
from telic.session.labels import calibration_of
from telic.storage.files import JsonLines
from telic.training.results import EvalDone

_LONG_S = 4.0
"""seconds of training before the first look; what ends sooner is judged at its end"""


class Checkpoint(Event):
    """What the judge says of all policies of a training at one moment."""

    NAME = "session.checkpoint"

    number: int
    """iteration"""
    step: int
    scores: dict[str, float | None]
    """mean score on the episodes for choosing, by member; None: could not be judged"""
    unjudged: tuple[str, ...] = ()
    """why episodes have no score, each reason once with a count"""


class CheckpointJudge:
    """Hears the events of a training, and passes them on; ends it once its policies pass.

    Example:
        with CheckpointJudge(work, number, candidate) as judge:
            execute(job, folder, on_event=judge)
    """

    def __init__(self, work: SessionWork, number: int, candidate: RewardCandidate) -> None:
        self._work = work
        self._files = work.folder.iteration(number)
        self._number = number
        self._candidate = candidate
        self._end = 0
        self._is_refused = False
        self._playing = threading.Event()
        self._since = time.monotonic()
        self._steps: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __call__(self, event: Event) -> None:
        """Pass an event on, and note a checkpoint; the last one is judged anyway."""
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

    def is_playing(self) -> bool:
        """Say whether episodes are played and scored at this moment."""
        return self._playing.is_set()

    @contextlib.contextmanager
    def _at_play(self) -> Generator[None]:
        self._playing.set()
        try:
            yield
        finally:
            self._playing.clear()

    def _is_long(self) -> bool:
        return time.monotonic() - self._since > _LONG_S

    def _serve(self) -> None:
        # Which library draws is found out by drawing; the report then need not wait for that.
        with contextlib.suppress(TelicError):  # what is wrong with it, the report says itself
            choose_backend()
        while (step := self._steps.get()) is not None:
            if self._files.proof.exists() or not self._steps.empty():
                continue  # enough is known, or something newer
            # A checkpoint that cannot be judged is told, and costs nothing else.
            try:
                self._look(step)
            except TelicError as error:
                with contextlib.suppress(TelicError):  # where not even the log can be written
                    message = f"the policies at {step:,} steps were not judged: {error}"
                    self._work.tell(LogMessage(message=message))

    def _look(self, step: int) -> None:
        """Judge the policies of one checkpoint, and once more if they promise to pass."""
        began = time.monotonic()
        work, number, candidate = self._work, self._number, self._candidate
        policies = [
            PolicyAt(member, next((x for x in member.checkpoints() if x.step == step), None))
            for member in self._files.run.members()
        ]
        with self._at_play():
            scores = choose(work, number, candidate, policies)
        known = {score.member: score.judgement.score for score in scores}
        reasons = unjudged([each for score in scores for each in score.judgement.verdicts])
        self._record(Checkpoint(number=number, step=step, scores=known, unjudged=reasons))
        alpha = spending(number, len(policies), LOOKS, is_last=False)
        if self._is_refused or not may_pass(work.config, scores, alpha):
            return
        place = max(1, round((LOOKS + 1) * step / self._end))
        people = calibration_of(work.folder, work.config.threshold)
        with self._at_play():
            confirmed = confirm(work, number, candidate, policies, alpha, place)
        confirmed = [as_people_ask(score, people) for score in confirmed]
        if not self._pass(confirmed):
            return
        confirmed = [watched(work, self._files, score) for score in confirmed]
        self._is_refused = not self._pass(confirmed)
        if self._is_refused:
            return  # pictures say no: they are asked once more, at the end
        members = tuple(
            score.model_copy(update={"choosing": known[score.member]}) for score in confirmed
        )
        seconds = time.monotonic() - began
        proof = Proof(step=step, members=members, judging_s=seconds)
        work.records.write(self._files.proof, proof)

    def _pass(self, scores: Sequence[MemberScore]) -> bool:
        config = self._work.config
        return sum(score.low >= config.threshold for score in scores) >= config.needed

    def _record(self, checkpoint: Checkpoint) -> None:
        with JsonLines(self._files.checkpoints) as log:
            log.append(checkpoint.model_dump(mode="json"))
        self._work.tell(checkpoint)
