"""Train a candidate's policies, with evaluations during training.

Variants of a candidate are compared in short screening runs. The best one is trained until it
passes or reaches its final step. Every evaluation saves a checkpoint, which a separate thread
judges. Once enough policies are proven to pass, `proof.json` is written and training ends. On a
CPU, training pauses meanwhile, because episodes need the same cores, and because policies that the
vision model is watching need no further steps if it agrees.

A policy's return under its training reward is measured at the same steps as its score. If the
return rises while the score falls, `alarms` reports that the reward is misspecified.
"""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from telic.authors.candidate import (
    SHORT,
    MemberScore,
    RewardCandidate,
    Selection,
    SessionIteration,
    reward_text,
    structure_text,
)
from telic.core.confidence import spending
from telic.core.events import Event, Listener, LogMessage, SessionSelected, TrainStart
from telic.core.stats import Interval
from telic.envs.spec import EnvSpec
from telic.errors import TelicError
from telic.judges.fusion import unjudged
from telic.llm.client import StopCheck
from telic.rendering.jobs import choose_backend
from telic.session._judgment import (
    CHOOSING,
    INTERIM_EVALUATIONS,
    Proof,
    TrainedCandidate,
    TrainedPolicy,
    by_labels,
    choose_policies,
    confirm,
    may_pass,
    mean_score,
    newest,
    play_out,
    score_of,
    watched,
)
from telic.session.budget import need_of
from telic.session.control import SessionControl, SessionStopped, SessionWork
from telic.session.records import Checkpoint
from telic.storage.files import JsonLines, read_fields, read_json_lines, read_record, write_text
from telic.storage.layout import IterationFolder, MemberFolder, RunFolder
from telic.storage.scalars import read_rows
from telic.training.folder import read_result, set_status, status_of
from telic.training.job import TrainJob
from telic.training.plan import plan
from telic.training.results import EvalDone
from telic.training.run import Run, execute

_TRIAL, _TRAIN = "trial", "train"
"""folders of the screening runs and of the full training run"""
_GRACE_S = 1.0
"""time for the trainer to stop, because an update of a large robot may take long"""
_TIE = 0.05
"""weight of the distance to the goals, relative to the score, when variants are compared"""
_FELL = 0.15
"""decrease in score that exceeds sampling noise"""
_LONG_S = 4.0
"""training time in seconds before the first interim evaluation"""
_MAX_REFUSALS = 2
"""number of refusals by the vision model after which it is queried only at the end of training"""


def train(work: SessionWork, number: int, candidate: RewardCandidate) -> TrainedCandidate:
    """Screen the variants, train the best variant to the end, and return the trained policies."""
    files, kept, selection = work.folder.iteration(number), 0, None
    share, starts = 1.0, _parents(work, candidate, [0])
    if len(candidate.variants) > 1:
        screen = partial(_screen, work, number, candidate)
        selection = work.records.step(files.selection, Selection, screen)
        share, kept = 1.0 - SHORT, selection.kept
        write_text(files.reward, structure_text(candidate, kept))
        screened = [score for score in selection.members if score.variant == kept]
        starts = {
            (0, score.seed): saved[-1].path
            for score in screened
            if (saved := MemberFolder(files.path / _TRIAL / score.member).checkpoints())
        }
    job = _job(work, candidate, [kept], share, starts, INTERIM_EVALUATIONS + 1)
    with CheckpointJudge(work, number, candidate) as watching:
        # A GPU continues training meanwhile. On a CPU, training and evaluation take turns.
        should_wait = watching.is_playing if job.device == "cpu" else None
        run = run_job(
            work.control,
            job,
            work.brief.spec,
            files.path,
            _TRAIN,
            watching,
            is_enough=files.proof.exists,
            should_wait=should_wait,
        )
    proof = read_record(files.proof, Proof) if files.proof.exists() else None
    return TrainedCandidate(candidate, kept, run, selection, proof)


def _screen(work: SessionWork, number: int, candidate: RewardCandidate) -> Selection:
    """Train all variants briefly and select one variant for further training."""
    variants = list(range(len(candidate.variants)))
    job = _job(work, candidate, variants, SHORT, _parents(work, candidate, variants), 1)
    folder = work.folder.iteration(number).path
    run = run_job(work.control, job, work.brief.spec, folder, _TRIAL, work.emit)
    began, policies = time.monotonic(), newest(candidate, RunFolder(run.path))
    verdicts = play_out(work, number, policies, "trial", CHOOSING)
    members = [score_of(policy, own) for policy, own in zip(policies, verdicts, strict=True)]
    kept = better_first(members, variants)[0]
    means = tuple(
        mean_score([score for score in members if score.variant == variant]) for variant in variants
    )
    work.emit(SessionSelected(number=number, kept=kept, scores=means))
    return Selection(
        kept=kept,
        members=tuple(members),
        training_s=run.summary["training_time_s"],
        judging_s=time.monotonic() - began,
    )


def better_first(members: Sequence[MemberScore], variants: Sequence[int]) -> tuple[int, ...]:
    """Return variants sorted by judge score, then by index. Unknown scores come last.

    Early in training, a violated constraint sets most scores to zero. Ties are then broken by the
    distance of measured values to their goals, from -1 to 1.
    """

    def rank(variant: int) -> tuple[float, int]:
        own = [member for member in members if member.variant == variant]
        near = [
            math.tanh((each.value - each.zero) / (each.goal - each.zero))
            for member in own
            for verdict in member.judgment.verdicts
            for each in verdict.criteria
            if each.value is not None and each.goal != each.zero
        ]
        nearness = sum(near) / len(near) if near else 0.0
        mean = mean_score(own)
        # A variant that could not be judged ranks below one with score 0.
        return (1.0 if mean is None else -mean - _TIE * nearness, variant)

    return tuple(sorted(variants, key=rank))


def _job(
    work: SessionWork,
    candidate: RewardCandidate,
    variants: list[int],
    share: float,
    starts: dict[tuple[int, int], Path],
    evaluations: int,
) -> TrainJob:
    return plan(
        work.config.env,
        reward=[reward_text(candidate, variant) for variant in variants],
        steps=round(candidate.steps * share),
        seeds=work.config.seeds,
        env_args=candidate.env_args,
        settings=candidate.settings,
        starts=starts,
        evaluations=evaluations,
        device=work.config.device,
        devices=work.config.devices,
    )


def _parents(
    work: SessionWork, candidate: RewardCandidate, variants: list[int]
) -> dict[tuple[int, int], Path]:
    """Return the parent policies from which variants start, by variant and seed."""
    if candidate.parent is None:
        return {}
    run = work.folder.iteration(candidate.parent).run
    members = run.members() if run.path.is_dir() else []
    return {
        (place, seed): saved[-1].path
        for place, variant in enumerate(variants)
        if candidate.variants[variant].warm
        for member in members
        for seed in work.config.seeds
        if member.name.endswith(f"_seed_{seed}") and (saved := member.checkpoints())
    }


# ----------------------------------------------------------------------------------------- jobs


class _Abandoned(Exception):
    """Raised after a worker that exceeded the grace period was killed. Training can be resumed."""


def run_job(
    control: SessionControl,
    job: TrainJob,
    spec: EnvSpec,
    folder: Path,
    name: str,
    on_event: Listener,
    is_enough: StopCheck = lambda: False,
    should_wait: StopCheck | None = None,
) -> Run:
    """Run a job on reserved CPU cores, with pauses if requested, and return the finished run.

    The job is shortened to the remaining step budget. A completed run is returned immediately, and
    a run stopped because `is_enough` holds counts as completed. Raises SessionStopped or
    BudgetUsedUp if the session must end.
    """
    files = RunFolder(folder / name)
    steps = control.account.fit(job.steps, len(job.members), files)
    job = job.model_copy(update={"steps": steps})
    if files.config.exists():  # may stem from an earlier version with fewer evaluations
        earlier = read_fields(files.config, evaluations=int | None)["evaluations"]
        job = job.model_copy(update={"evaluations": earlier or job.evaluations})
    stop_asked_at: float | None = None

    def should_stop() -> bool:
        nonlocal stop_asked_at
        if control.wants_stop():
            stop_asked_at = stop_asked_at or time.monotonic()
            if time.monotonic() - stop_asked_at > _GRACE_S:
                raise _Abandoned
        return control.wants_break() or is_enough()

    while True:
        is_same = (
            files.config.exists() and read_fields(files.manifest, key=str | None)["key"] == job.key
        )
        if is_same and status_of(files) == "completed":
            return Run(files.path, read_result(files))
        control.safe_point()
        control.account.check()
        with control.admitted(need_of(job, spec)) as is_admitted:
            if is_admitted:
                try:
                    execute(
                        job,
                        folder,
                        name=name,
                        on_event=on_event,
                        should_stop=should_stop,
                        should_wait=should_wait,
                    )
                except _Abandoned:
                    raise SessionStopped("The session was stopped during an update.") from None
        if is_enough() and status_of(files) == "stopped":
            set_status(files, "completed")
        if files.stop.exists():
            raise SessionStopped("The training was stopped.")


class CheckpointJudge:
    """Evaluate checkpoints during training, and end the run once enough policies pass.

    An instance serves as the event listener of the training run, and forwards every event.

    Example:
        with CheckpointJudge(work, number, candidate) as judge:
            execute(job, folder, on_event=judge)
    """

    def __init__(self, work: SessionWork, number: int, candidate: RewardCandidate) -> None:
        self._work, self._number, self._candidate = work, number, candidate
        self._files = work.folder.iteration(number)
        self._end = 0
        self._refusals = 0
        self._is_abandoned = False
        self._playing = threading.Event()
        self._since = time.monotonic()
        self._steps: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __call__(self, event: Event) -> None:
        """Forward an event, and queue the checkpoint for evaluation unless it is the last one."""
        self._work.emit(event)
        if isinstance(event, TrainStart):
            self._end, self._since = event.total_steps, time.monotonic()
            return
        is_long = time.monotonic() - self._since > _LONG_S
        if isinstance(event, EvalDone) and event.step < self._end and is_long:
            self._steps.put(event.step)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._steps.put(None)
        self._is_abandoned = kind is not None
        if kind is None:  # do not wait for an evaluation if interrupted
            self._thread.join()

    def is_playing(self) -> bool:
        """Return whether episodes are recorded, scored or watched, and no stop is requested."""
        return self._playing.is_set() and not self._work.control.wants_stop()

    def _serve(self) -> None:
        # Detect the rendering backend now, so that the report does not have to wait for it.
        with contextlib.suppress(TelicError):  # reported during rendering
            choose_backend()
        while (step := self._steps.get()) is not None:
            if self._files.proof.exists() or not self._steps.empty():
                continue  # already passed, or a newer checkpoint exists
            try:
                self._evaluate(step)
            except TelicError as error:  # skip this evaluation only
                with contextlib.suppress(TelicError):  # even the log may not be writable
                    message = f"the policies at {step:,} steps were not judged: {error}"
                    self._work.emit(LogMessage(message=message))
            except Exception:  # the process is ending, and starts no more work
                if not self._is_abandoned:
                    raise
            finally:
                self._playing.clear()

    def _evaluate(self, step: int) -> None:
        """Judge the policies at one checkpoint, with more episodes if the policies may pass."""
        began = time.monotonic()
        work, number, config = self._work, self._number, self._work.config
        policies = [
            TrainedPolicy(
                self._candidate, member, step if member.checkpoint(step).exists() else None
            )
            for member in self._files.run.members()
        ]
        self._playing.set()
        scores = choose_policies(work, number, policies)
        self._playing.clear()
        known = {score.member: score.judgment.score for score in scores}
        reasons = unjudged([each for score in scores for each in score.judgment.verdicts])
        checkpoint = Checkpoint(number=number, step=step, scores=known, unjudged=reasons)
        with JsonLines(self._files.checkpoints) as log:
            log.append(checkpoint.model_dump(mode="json"))
        work.emit(checkpoint)
        alpha = spending(number, len(policies), INTERIM_EVALUATIONS, is_last=False)
        if self._refusals == _MAX_REFUSALS or not may_pass(config, scores, alpha):
            return

        def do_pass(scores: Sequence[MemberScore]) -> bool:
            return sum(score.low >= config.threshold for score in scores) >= config.needed

        place = max(1, round((INTERIM_EVALUATIONS + 1) * step / self._end))
        self._playing.set()
        confirmed = confirm(work, number, policies, alpha, place)
        confirmed = [by_labels(work, score) for score in confirmed]
        if not do_pass(confirmed):
            return
        confirmed = [watched(work, self._files, score) for score in confirmed]
        if not do_pass(confirmed):
            self._refusals += 1  # by the vision model
            return
        members = tuple(
            score.model_copy(update={"choosing": known[score.member]}) for score in confirmed
        )
        proof = Proof(step=step, members=members, judging_s=time.monotonic() - began)
        work.records.write(self._files.proof, proof)


# ----------------------------------------------------------------------------------------- alarms


class _Moment(NamedTuple):
    """Evaluation of a policy at one training step."""

    words: str
    score: float
    mean_return: float
    interval: Interval


def alarms(files: IterationFolder, iteration: SessionIteration) -> tuple[str, ...]:
    """Return a message for every policy whose return rose while its score fell.

    Confidence intervals of the return are compared, so the scale of the reward has no influence.
    """
    sentences: list[str] = []
    for member in iteration.members:
        moments = list(_moments(files, iteration, member))
        if not moments or moments[-1].words != "the end":
            continue
        end = moments[-1]
        for then in moments[:-1]:
            if end.interval.low > then.interval.high and end.score < then.score - _FELL:
                sentences.append(
                    f"{member.member}: from {then.words} to {end.words} its return rose from "
                    f"{then.mean_return:.4g} to {end.mean_return:.4g} while the judge's score "
                    f"fell from {then.score:.2f} to {end.score:.2f}. The reward does not match "
                    "the intent."
                )
                break
    return tuple(sentences)


def _moments(
    files: IterationFolder, iteration: SessionIteration, member: MemberScore
) -> Iterator[_Moment]:
    """Yield the evaluations that have a return and a code score, in chronological order."""
    trained = MemberFolder(files.run.path / member.member)
    sources: list[tuple[MemberFolder, str, int | None, float | None]] = [
        (
            MemberFolder(files.path / _TRIAL / trial.member),
            "the screening run",
            None,
            trial.code_score,
        )
        for trial in iteration.trials
        if (trial.variant, trial.seed) == (member.variant, member.seed)
    ]
    for row in read_json_lines(files.checkpoints):
        step = row["step"]
        sources.append((trained, f"step {step:,}", step, row["scores"].get(member.member)))
    sources.append((trained, "the end", None, member.code_score))
    for folder, words, step, score in sources:
        rows = [
            row for row in read_rows(folder.scalars, "eval") if step in (None, row["global_step"])
        ]
        if score is not None and rows and rows[-1].get("interval"):
            interval = Interval(*rows[-1]["interval"])
            yield _Moment(words, score, rows[-1]["mean_return"], interval)
