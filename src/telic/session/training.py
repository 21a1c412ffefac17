"""Train a candidate's policies, and look at them while they learn.

Several variants of a candidate are trained for a short while each; the one that the judge prefers
is trained to the end. Training's own evaluations leave a poor, a median and a good episode of every
policy behind. A thread judges them as they come, and training does not wait for it. They say how
it goes; whether a policy passes is decided later, by fresh episodes (`telic.session.judgement`).

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
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from telic.authors.candidate import (
    SHORT,
    MemberScore,
    RewardCandidate,
    Selection,
    SessionIteration,
    weights_in,
    with_weights,
)
from telic.core.config import Record
from telic.core.events import (
    EvalDone,
    Event,
    Listener,
    LogMessage,
    SessionCheckpoint,
    SessionSelected,
    TrainStart,
)
from telic.core.stats import Interval
from telic.envs.spec import EnvSpec
from telic.errors import TelicError
from telic.judges.code import judge_files
from telic.judges.doubt import unjudged
from telic.rendering.jobs import choose_backend
from telic.session.control import SessionControl, SessionStopped, SessionWork, StopCheck
from telic.session.forecast import need_of
from telic.session.judgement import (
    TRIAL,
    TrainedCandidate,
    judge_policies,
    mean_score,
    newest_policy,
)
from telic.storage.facts import FinishedRunFacts, ManifestFacts
from telic.storage.files import JsonLines, once, read_facts, read_json_lines
from telic.storage.layout import IterationFolder, MemberFolder, RunFolder, SessionFolder
from telic.storage.reading import read_text
from telic.storage.scalars import read_rows
from telic.storage.trajectories import Environment
from telic.training.job import TrainJob
from telic.training.plan import plan
from telic.training.run import Run, execute, status_of

_EPISODES = 4
"""fresh episodes that choose among variants"""
_GRACE_S = 1.0
"""seconds for the trainer to end by itself; a slow update of a large robot takes longer"""
_LONG_S = 15.0
"""seconds after which somebody may want to know; what ends sooner is judged at its end"""
_FELL = 0.15
"""loss of score that a few episodes more or less do not explain"""


def train(work: SessionWork, number: int, candidate: RewardCandidate) -> TrainedCandidate:
    """Train every variant for a while, keep the one that the judge prefers, train it to the end."""
    if len(candidate.variants) == 1:
        starts = _parents(work, candidate, [0])
        return TrainedCandidate(candidate, 0, _run(work, number, candidate, [0], 1.0, starts), None)
    files = work.folder.iteration(number)
    selection = once(files.selection, Selection, partial(_select, work, number, candidate))
    starts = {
        (0, score.seed): newest
        for score in selection.members
        if score.variant == selection.kept
        and (newest := newest_policy(MemberFolder(files.path / "trial" / score.member)))
    }
    run = _run(work, number, candidate, [selection.kept], 1.0 - SHORT, starts)
    return TrainedCandidate(candidate, selection.kept, run, selection)


def _select(work: SessionWork, number: int, candidate: RewardCandidate) -> Selection:
    """Train all variants for a short while and say which one is worth going on with."""
    everyone = list(range(len(candidate.variants)))
    starts = _parents(work, candidate, everyone)
    run = _run(work, number, candidate, everyone, SHORT, starts, name="trial")
    scores, seconds = judge_policies(work, number, candidate, run, _EPISODES, TRIAL)
    means = [
        mean_score([score for score in scores if score.variant == variant]) for variant in everyone
    ]
    # What could not be judged is behind what is worth nothing; the first of equals is kept.
    worths = [-1.0 if mean is None else mean for mean in means]
    kept = worths.index(max(worths))
    work.tell(SessionSelected(number=number, kept=kept, scores=tuple(means)))
    return Selection(
        kept=kept,
        members=tuple(scores),
        training_s=run.summary["training_time_s"],
        judging_s=seconds,
    )


def _run(
    work: SessionWork,
    number: int,
    candidate: RewardCandidate,
    variants: list[int],
    share: float,
    starts: dict[tuple[int, int], Path],
    name: str = "train",
) -> Run:
    """Train some variants with every seed as one population; goes on by itself."""
    own = weights_in(candidate.reward)
    rewards = [
        with_weights(candidate.reward, {**own, **candidate.variants[variant].weights})
        for variant in variants
    ]
    job = plan(
        work.config.env,
        reward=rewards,
        steps=round(candidate.steps * share),
        seeds=work.config.seeds,
        env_args=candidate.env_args,
        settings=candidate.settings,
        starts=starts,
        evaluations=1 if name == "trial" else 2,
        device=work.config.device,
    )
    run = partial(
        run_job, work.control, job, work.brief.spec, work.folder.iteration(number).path, name
    )
    if name == "trial":  # short, and judged at its end
        return run(work.tell)
    where = (work.config.env, candidate.env_args)
    with CheckpointJudge(work.folder, number, where, work.tell) as watching:
        return run(watching)


def run_job(
    control: SessionControl,
    job: TrainJob,
    spec: EnvSpec,
    folder: Path,
    name: str,
    on_event: Listener,
) -> Run:
    """Return the finished run of a job, done with processors of its own, through all pauses.

    The job is shortened to the steps that may still be taken. A run that is complete already is
    returned as it is. Raises SessionStopped or AllowanceUsedUp where it was ended for good.
    """
    files = RunFolder(folder / name)
    steps = control.account.fit(job.steps, len(job.members), files)
    job = job.model_copy(update={"steps": steps})
    while (run := _finished(job, files)) is None:
        control.safe_point()
        control.account.check()
        with control.admitted(need_of(job, spec)) as is_admitted:
            if is_admitted:
                try:
                    execute(job, folder, name=name, on_event=on_event, should_stop=_break(control))
                except _Abandoned:
                    raise SessionStopped("The session was stopped during an update.") from None
        if files.stop.exists():
            raise SessionStopped("The training was stopped.")
    return run


class _Abandoned(Exception):
    """The worker is not waited for; no error of the training, which only was interrupted."""


def _break(control: SessionControl) -> StopCheck:
    """Return what says whether training shall return; it gives up when an end takes too long.

    The worker is then killed, and a rerun goes on from its last save.
    """
    asked_at: float | None = None

    def wants_break() -> bool:
        nonlocal asked_at
        if control.wants_stop():
            asked_at = asked_at or time.monotonic()
            if time.monotonic() - asked_at > _GRACE_S:
                raise _Abandoned
        return control.wants_break()

    return wants_break


def _finished(job: TrainJob, files: RunFolder) -> Run | None:
    """Return the run of exactly this job if it is complete."""
    if not files.config.exists() or read_facts(files.manifest, ManifestFacts).get("key") != job.key:
        return None
    is_done = status_of(files) == "completed"
    return Run(files.path, dict(read_facts(files.summary, FinishedRunFacts))) if is_done else None


def _parents(
    work: SessionWork, candidate: RewardCandidate, variants: list[int]
) -> dict[tuple[int, int], Path]:
    """Return the parent's policies, by variant and seed, for the variants that go on from them."""
    if candidate.parent is None:
        return {}
    run = work.folder.iteration(candidate.parent).run
    members = run.members() if run.path.is_dir() else []
    return {
        (place, seed): newest
        for place, variant in enumerate(variants)
        if candidate.variants[variant].warm
        for member in members
        for seed in work.config.seeds
        if member.name.endswith(f"_seed_{seed}") and (newest := newest_policy(member))
    }


# ------------------------------------------------------------------------------------ checkpoints


class Checkpoint(Record):
    """What the judge says of all policies of a training at one moment."""

    step: int
    scores: dict[str, float | None]
    """mean score of a policy's three episodes, by its name; None: could not be judged"""
    unjudged: tuple[str, ...] = ()
    """why episodes have no score, each reason once with a count"""


class CheckpointJudge:
    """Hears the events of a training, and passes them on.

    Example:
        with CheckpointJudge(folder, number, environment, tell) as judge:
            execute(job, folder, on_event=judge)
    """

    def __init__(
        self, folder: SessionFolder, number: int, environment: Environment, tell: Listener
    ) -> None:
        self._judge_code = folder.judge
        self._environment = environment
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
        facts = checkpoint.model_dump()
        self._tell(SessionCheckpoint(number=self._number, **facts))

    def _judge(self, step: int) -> Checkpoint:
        episodes = {
            member.name: [file.path for file in member.trajectories() if file.step == step]
            for member in self._files.run.members()
        }
        paths = [path for own in episodes.values() for path in own]
        folder = self._files.path / "checkpoints"
        judged = judge_files(read_text(self._judge_code), paths, folder, self._environment)
        verdicts = dict(zip(paths, judged, strict=True))
        scores: dict[str, float | None] = {}
        for name, own in episodes.items():
            known = [score for path in own if (score := verdicts[path].score) is not None]
            scores[name] = statistics.fmean(known) if known else None
        return Checkpoint(step=step, scores=scores, unjudged=unjudged(judged))


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
        trained = MemberFolder(files.run.path / member.member)
        end = _moment(trained, "the end", None, member.judgement.score)
        if end is None:
            continue
        earlier = _earlier(files, trained, iteration, member)
        if then := next((moment for moment in earlier if diverged(moment, end)), None):
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
    files: IterationFolder, trained: MemberFolder, iteration: SessionIteration, member: MemberScore
) -> Iterator[Moment]:
    for trial in iteration.trials:
        if (trial.variant, trial.seed) == (member.variant, member.seed):
            folder = MemberFolder(files.path / "trial" / trial.member)
            if moment := _moment(folder, "the short trial", None, trial.judgement.score):
                yield moment
    for row in read_json_lines(files.checkpoints):
        step, score = row["step"], row["scores"].get(member.member)
        if moment := _moment(trained, f"step {step:,}", step, score):
            yield moment


def _moment(
    member: MemberFolder, words: str, step: int | None, score: float | None
) -> Moment | None:
    """Return what is known of a moment, the last one without a step; None if something is not."""
    rows = [row for row in read_rows(member.scalars, "eval") if step in (None, row["global_step"])]
    if score is None or not rows or not rows[-1].get("interval"):
        return None
    return Moment(words, score, rows[-1]["mean_return"], Interval(*rows[-1]["interval"]))
