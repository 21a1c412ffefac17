"""Train a candidate's policies, and look at them while they learn.

Several variants of a candidate are trained for a short while each; the one that the judge prefers
is trained until it passes, or to the end. The judge looks at policies while they learn
(`telic.session.looks`).

Those looks also give a reward away that is paid for something else. A policy's return under its own
reward is measured at the same moments: after a short trial, while it learns, at the end. Both
should rise together; a return that rises while the score falls is an alarm.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from telic.authors.candidate import (
    SHORT,
    MemberScore,
    RewardCandidate,
    Selection,
    SessionIteration,
    reward_text,
    structure_text,
)
from telic.core.events import Listener, SessionSelected
from telic.core.stats import Interval
from telic.envs.spec import EnvSpec
from telic.llm.client import StopCheck
from telic.session.control import SessionControl, SessionStopped, SessionWork
from telic.session.forecast import need_of
from telic.session.judgement import (
    CHOOSING,
    LOOKS,
    Proof,
    TrainedCandidate,
    mean_score,
    newest,
    newest_policy,
    play,
    score_of,
)
from telic.session.looks import CheckpointJudge
from telic.storage.facts import ManifestFacts, RunRequestFacts
from telic.storage.files import read_facts, read_json_lines, read_record, write_text
from telic.storage.layout import IterationFolder, MemberFolder, RunFolder
from telic.storage.scalars import read_rows
from telic.training.folder import read_result, set_status, status_of
from telic.training.job import TrainJob
from telic.training.plan import plan
from telic.training.run import Run, execute

_TRIAL, _TRAIN = "trial", "train"
"""folders of short trials, and of the training to the end"""
_GRACE_S = 1.0
"""seconds for the trainer to end by itself; a slow update of a large robot takes longer"""
_TIE = 0.05
"""what nearness to the goals counts beside the score, where variants are compared"""
_FELL = 0.15
"""loss of score that a few episodes more or less do not explain"""


def train(work: SessionWork, number: int, candidate: RewardCandidate) -> TrainedCandidate:
    """Train every variant for a while, keep the one that the judge prefers, train it to the end."""
    if len(candidate.variants) == 1:
        starts = _parents(work, candidate, [0])
        run = _run(work, number, candidate, [0], 1.0, starts)
        return TrainedCandidate(candidate, 0, run, None, _proof(work, number))
    files = work.folder.iteration(number)
    selecting = partial(_select, work, number, candidate)
    selection = work.records.step(files.selection, Selection, selecting)
    write_text(files.reward, structure_text(candidate, selection.kept))
    starts = {
        (0, score.seed): policy
        for score in selection.members
        if score.variant == selection.kept
        and (policy := newest_policy(MemberFolder(files.path / _TRIAL / score.member)))
    }
    run = _run(work, number, candidate, [selection.kept], 1.0 - SHORT, starts)
    return TrainedCandidate(candidate, selection.kept, run, selection, _proof(work, number))


def _proof(work: SessionWork, number: int) -> Proof | None:
    path = work.folder.iteration(number).proof
    return read_record(path, Proof) if path.exists() else None


def _select(work: SessionWork, number: int, candidate: RewardCandidate) -> Selection:
    """Train all variants for a short while, and choose the one to train further."""
    variants = list(range(len(candidate.variants)))
    starts = _parents(work, candidate, variants)
    run = _run(work, number, candidate, variants, SHORT, starts, name=_TRIAL)
    began, policies = time.monotonic(), newest(RunFolder(run.path))
    verdicts = play(work, number, candidate, policies, "trial", CHOOSING)
    members = [score_of(policy, own) for policy, own in zip(policies, verdicts, strict=True)]
    kept = better_first(members, variants)[0]
    means = tuple(
        mean_score([score for score in members if score.variant == variant]) for variant in variants
    )
    work.tell(SessionSelected(number=number, kept=kept, scores=means))
    return Selection(
        kept=kept,
        members=tuple(members),
        training_s=run.summary["training_time_s"],
        judging_s=time.monotonic() - began,
    )


def better_first(members: Sequence[MemberScore], variants: Sequence[int]) -> tuple[int, ...]:
    """Return variants by the judge's score; the first of equals first, unknown ones last.

    Early on, a guard that is still broken multiplies most scores by nothing, and what is far from
    its goal earns nothing yet. Then those are better whose measured values are nearer to the goals.
    """

    def rank(variant: int) -> tuple[float, int]:
        own = [member for member in members if member.variant == variant]
        mean = mean_score(own)
        # What could not be judged is behind what is worth nothing.
        return (1.0 if mean is None else -mean - _TIE * _nearness(own), variant)

    return tuple(sorted(variants, key=rank))


def _nearness(members: Sequence[MemberScore]) -> float:
    """Return how near what was measured comes to the goals, from -1 to 1, also short of credit."""
    leaves = [
        leaf
        for member in members
        for verdict in member.judgement.verdicts
        for leaf in verdict.leaves
        if leaf.value is not None and leaf.goal != leaf.zero
    ]
    near = [
        math.tanh(((leaf.value or 0.0) - leaf.zero) / (leaf.goal - leaf.zero)) for leaf in leaves
    ]
    return sum(near) / len(near) if near else 0.0


def _run(
    work: SessionWork,
    number: int,
    candidate: RewardCandidate,
    variants: list[int],
    share: float,
    starts: dict[tuple[int, int], Path],
    name: str = _TRAIN,
) -> Run:
    """Train some variants with every seed as one population; goes on by itself."""
    rewards = [reward_text(candidate, variant) for variant in variants]
    job = plan(
        work.config.env,
        reward=rewards,
        steps=round(candidate.steps * share),
        seeds=work.config.seeds,
        env_args=candidate.env_args,
        settings=candidate.settings,
        starts=starts,
        evaluations=1 if name != _TRAIN else LOOKS + 1,
        device=work.config.device,
        devices=work.config.devices,
    )
    files = work.folder.iteration(number)
    run = partial(run_job, work.control, job, work.brief.spec, files.path, name)
    if name != _TRAIN:  # short, and judged at its end
        return run(work.tell)
    with CheckpointJudge(work, number, candidate) as watching:
        # A GPU trains on beside it; processors are better given to one of them at a time.
        should_wait = watching.is_playing if job.device == "cpu" else None
        return run(watching, is_enough=files.proof.exists, should_wait=should_wait)


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
    """Return the finished run of a job, done with processors of its own, through all pauses.

    The job is shortened to the steps that may still be taken. A run that is complete already is
    returned as it is, and one of which nothing more is wanted counts as complete. Raises
    SessionStopped or AllowanceUsedUp where it was ended for good.
    """
    files = RunFolder(folder / name)
    steps = control.account.fit(job.steps, len(job.members), files)
    job = job.model_copy(update={"steps": steps})
    if files.config.exists():  # begun by an earlier version, which may have evaluated less often
        evaluations = read_facts(files.config, RunRequestFacts).get("evaluations", job.evaluations)
        job = job.model_copy(update={"evaluations": evaluations})
    while (run := _finished(job, files)) is None:
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
                        should_stop=_break(control, is_enough),
                        should_wait=should_wait,
                    )
                except _Abandoned:
                    raise SessionStopped("The session was stopped during an update.") from None
        if is_enough() and status_of(files) == "stopped":
            set_status(files, "completed")
        if files.stop.exists():
            raise SessionStopped("The training was stopped.")
    return run


class _Abandoned(Exception):
    """The worker is not waited for; no error of the training, which only was interrupted."""


def _break(control: SessionControl, is_enough: StopCheck) -> StopCheck:
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
        return control.wants_break() or is_enough()

    return wants_break


def _finished(job: TrainJob, files: RunFolder) -> Run | None:
    """Return the run of exactly this job if it is complete."""
    if not files.config.exists() or read_facts(files.manifest, ManifestFacts).get("key") != job.key:
        return None
    is_done = status_of(files) == "completed"
    return Run(files.path, read_result(files)) if is_done else None


def _parents(
    work: SessionWork, candidate: RewardCandidate, variants: list[int]
) -> dict[tuple[int, int], Path]:
    """Return the parent's policies, by variant and seed, for the variants that go on from them."""
    if candidate.parent is None:
        return {}
    run = work.folder.iteration(candidate.parent).run
    members = run.members() if run.path.is_dir() else []
    return {
        (place, seed): policy
        for place, variant in enumerate(variants)
        if candidate.variants[variant].warm
        for member in members
        for seed in work.config.seeds
        if member.name.endswith(f"_seed_{seed}") and (policy := newest_policy(member))
    }


# ----------------------------------------------------------------------------------------- alarms


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
        end = _moment(trained, "the end", None, _by_code(member))
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


def _by_code(member: MemberScore) -> float | None:
    """Return what code gives a policy, as while it learned: looks that lower it came afterwards."""
    verdicts = member.judgement.verdicts
    if not any("code" in each.by_judge for each in verdicts):
        return member.judgement.score
    given = [each.by_judge.get("code", each.score) for each in verdicts]
    known = [score for score in given if score is not None]
    return sum(known) / len(known) if known else None


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
            folder = MemberFolder(files.path / _TRIAL / trial.member)
            if moment := _moment(folder, "the short trial", None, _by_code(trial)):
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
