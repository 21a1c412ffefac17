"""The steps that cost something: train policies, judge them on fresh episodes, and decide.

Several variants of a candidate are trained for a short while each; the one that the judge prefers
is trained to the end. Judged is by code, and by eye where a model can see.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from telic.authors.candidate import (
    MemberScore,
    RewardCandidate,
    SessionIteration,
    weights_in,
    with_weights,
)
from telic.core.events import Listener, SessionSelected
from telic.envs.spec import EnvSpec
from telic.errors import TelicError
from telic.judges.code import judge_files, judge_too
from telic.judges.verdict import Verdict, together, unknown
from telic.session.budget import iteration_steps, last_step
from telic.session.checkpoints import CheckpointJudge, alarms
from telic.session.control import SessionControl, SessionStopped, SessionWork, StopCheck
from telic.session.episodes import JUDGE, TRIAL, play
from telic.session.forecast import need_of
from telic.session.records import SHORT, Selection, SessionConfig
from telic.storage.files import once, read_json
from telic.storage.layout import MemberFolder, RunFolder
from telic.training.job import TrainJob
from telic.training.plan import plan
from telic.training.run import Run, execute, status_of

_EPISODES = 4
"""fresh episodes that choose among variants"""
_GRACE_S = 1.0
"""seconds for the trainer to end by itself; a slow update of a large robot takes longer"""


class TrainedCandidate(NamedTuple):
    """A candidate's policies."""

    candidate: RewardCandidate
    variant: int
    run: Run
    selection: Selection | None


# --------------------------------------------------------------------------------------- training


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
        and (newest := _newest(MemberFolder(files.path / "trial" / score.member)))
    }
    run = _run(work, number, candidate, [selection.kept], 1.0 - SHORT, starts)
    return TrainedCandidate(candidate, selection.kept, run, selection)


def _select(work: SessionWork, number: int, candidate: RewardCandidate) -> Selection:
    """Train all variants for a short while and say which one is worth going on with."""
    everyone = list(range(len(candidate.variants)))
    starts = _parents(work, candidate, everyone)
    run = _run(work, number, candidate, everyone, SHORT, starts, name="trial")
    scores, seconds = judge_policies(work, number, candidate, run, _EPISODES, "trial")
    means = [mean_score(scores, variant) for variant in everyone]
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


def mean_score(scores: list[MemberScore] | tuple[MemberScore, ...], variant: int) -> float | None:
    """Return the mean score of a variant's policies; None when none could be judged."""
    own = [score.judgement.score for score in scores if score.variant == variant]
    known = [score for score in own if score is not None]
    return sum(known) / len(known) if known else None


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
    with CheckpointJudge(work.folder, number, work.tell) as watching:
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
    if not files.config.exists() or read_json(files.manifest)["key"] != job.key:
        return None
    is_done = status_of(files) == "completed"
    return Run(files.path, read_json(files.summary)) if is_done else None


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
        if member.name.endswith(f"_seed_{seed}") and (newest := _newest(member))
    }


def _newest(member: MemberFolder) -> Path | None:
    """Return the latest policy; None when training broke off before there was one."""
    checkpoints = member.checkpoints()
    return checkpoints[-1].path if checkpoints else None


# ---------------------------------------------------------------------------------------- judging


def judge(work: SessionWork, number: int, trained: TrainedCandidate) -> SessionIteration:
    """Judge a candidate's policies and say whether they pass."""
    config, candidate, run = work.config, trained.candidate, trained.run
    scores, seconds = judge_policies(work, number, candidate, run, config.episodes, "judged")
    scores = [score.model_copy(update={"variant": trained.variant}) for score in scores]
    began = time.monotonic()
    scores = [_watched(work, number, score) for score in scores]
    seconds += time.monotonic() - began
    training_s = run.summary["training_time_s"]
    iteration = decide(config, number, candidate, scores, training_s, seconds)
    if trained.selection is not None:
        iteration = _with_trials(iteration, trained.selection)
    divergences = alarms(work.folder.iteration(number), iteration)
    return iteration.model_copy(update={"alarms": divergences})


def decide(
    config: SessionConfig,
    number: int,
    candidate: RewardCandidate,
    scores: list[MemberScore],
    training_s: float,
    judging_s: float,
) -> SessionIteration:
    """Return what a candidate's policies prove together."""
    proving = sum(score.low >= config.threshold for score in scores)
    known = [score.judgement.score for score in scores if score.judgement.score is not None]
    best = max(scores, key=lambda score: score.low)
    return SessionIteration(
        number=number,
        parent=candidate.parent,
        change=candidate.change,
        passed=proving >= config.needed,
        score=sum(known) / len(known) if known else None,
        variant=best.variant,
        best=best.member,
        tags=best.judgement.tags,
        members=tuple(scores),
        steps=sum(score.step for score in scores),
        training_s=training_s,
        judging_s=judging_s,
    )


def untrained(
    work: SessionWork, number: int, candidate: RewardCandidate, error: TelicError, seconds: float
) -> SessionIteration:
    """Return the iteration of a candidate whose training failed: nothing to judge, and why."""
    return SessionIteration(
        number=number,
        parent=candidate.parent,
        change=candidate.change,
        passed=False,
        score=None,
        variant=0,
        best=None,
        tags=(),
        members=(),
        steps=iteration_steps(work.folder.iteration(number)),
        training_s=seconds,
        judging_s=0.0,
        failure=str(error),
    )


def _with_trials(iteration: SessionIteration, selection: Selection) -> SessionIteration:
    """Return the iteration with what the short trials took and showed."""
    return iteration.model_copy(
        update={
            "trials": selection.members,
            "steps": iteration.steps + sum(score.step for score in selection.members),
            "training_s": iteration.training_s + selection.training_s,
            "judging_s": iteration.judging_s + selection.judging_s,
        }
    )


def judge_policies(
    work: SessionWork, number: int, candidate: RewardCandidate, run: Run, episodes: int, where: str
) -> tuple[list[MemberScore], float]:
    """Play fresh episodes with every policy of a run, let the judge's code score them.

    Returns the scores and the seconds it took. `where` names the folder of the episodes: "judged",
    or "trial" for those that choose among variants, which begin elsewhere.
    """
    began = time.monotonic()
    files, members = work.folder.iteration(number), RunFolder(run.path).members()
    folder = files.judged_dir if where == "judged" else files.path / f"{where}_judged"
    played: dict[str, list[Path]] = {}
    for member in members:
        work.control.check()
        if policy := _newest(member):
            own = [folder / member.name / f"episode_{index:02d}.npz" for index in range(episodes)]
            purpose = JUDGE if where == "judged" else TRIAL
            reward = member.reward_code.read_text()
            played[member.name] = play(
                policy, reward, work.config.env, candidate.env_args, own, purpose
            )
    paths = [path for own in played.values() for path in own]
    judged = judge_files(work.folder.judge.read_text(), paths, folder)
    if work.config.judge is not None:
        judged = judge_too(work.config.judge, work.config.intent, paths, judged)
    verdicts = dict(zip(paths, judged, strict=True))
    scores = [
        _score(member, [verdicts[path] for path in played[member.name]])
        if member.name in played
        else _score(member, [_broke_off(member)] * episodes)
        for member in members
    ]
    return scores, time.monotonic() - began


def _score(member: MemberFolder, verdicts: list[Verdict]) -> MemberScore:
    config, _, seed = member.name.rpartition("_seed_")
    digits = config.removeprefix("reward")
    variant = int(digits) - 1 if digits.isdigit() else 0
    checkpoints = member.checkpoints()
    step = checkpoints[-1].step if checkpoints else last_step(member.scalars)
    return MemberScore(
        member=member.name, variant=variant, seed=int(seed), step=step, judgement=together(verdicts)
    )


def _broke_off(member: MemberFolder) -> Verdict:
    """Return the verdict on a policy that is none: training ended before one was saved."""
    reasons: list[str] = []
    if member.summary.exists():
        reasons = [finding["message"] for finding in read_json(member.summary)["findings"]]
    return unknown("code", f"there is no policy. {reasons[-1] if reasons else ''}")


def _watched(work: SessionWork, number: int, score: MemberScore) -> MemberScore:
    """Let the author's eyes look at a policy that would pass by code alone."""
    if score.low < work.config.threshold:
        return score  # it fails anyway: looking would cost and change nothing
    verdicts = list(score.judgement.verdicts)
    files = work.folder.iteration(number)
    paths = [files.episode(score.member, index) for index in range(len(verdicts))]
    watched = work.author.watch(paths, verdicts)
    return score.model_copy(update={"judgement": together(watched)})
