"""Judge trained policies on fresh episodes, by code, and by eye where a model can see; and decide.

Episodes begin where training and its own evaluations never did, and are recorded by a process that
has never run the candidate's code (`telic.judges.recorder`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from telic.authors.candidate import MemberScore, RewardCandidate, Selection, SessionIteration
from telic.authors.history import median_episode
from telic.core.seeds import derive
from telic.errors import TelicError, WorkerDied
from telic.judges.calibration import PersonCalibration, lowered
from telic.judges.code import judge_files, judge_too
from telic.judges.doubt import judge_doubted, unjudged
from telic.judges.recorder import PlayOrder, RecordedFile, is_unchanged, record
from telic.judges.verdict import Verdict, together, unknown
from telic.session.budget import iteration_steps, last_step
from telic.session.control import SessionWork
from telic.session.labels import calibration_of
from telic.session.records import SessionConfig
from telic.storage.facts import MemberResultFacts
from telic.storage.files import read_facts
from telic.storage.layout import IterationFolder, MemberFolder, RunFolder
from telic.storage.reading import read_text
from telic.training.run import Run

Purpose = Literal["judge", "trial"]
JUDGE: Purpose = "judge"
_TRIES = 2
TRIAL: Purpose = "trial"
"""what episodes are for: to decide whether a policy passes, or which variant is trained on"""


class TrainedCandidate(NamedTuple):
    """A candidate's policies."""

    candidate: RewardCandidate
    variant: int
    run: Run
    selection: Selection | None


def judge(work: SessionWork, number: int, trained: TrainedCandidate) -> SessionIteration:
    """Judge a candidate's policies and say whether they pass."""
    config, candidate, run = work.config, trained.candidate, trained.run
    files = work.folder.iteration(number)
    scores, seconds = judge_policies(work, number, candidate, run, config.episodes, JUDGE)
    scores = [score.model_copy(update={"variant": trained.variant}) for score in scores]
    began = time.monotonic()
    scores = [_watched(work, files, score) for score in scores]
    scores = _failure_watched(work, files, scores)
    people = calibration_of(work.folder, config.threshold)
    scores = [_as_people_ask(score, people) for score in scores]
    seconds += time.monotonic() - began
    training_s = run.summary["training_time_s"]
    iteration = decide(config, number, candidate, scores, training_s, seconds)
    verdicts = [verdict for score in scores for verdict in score.judgement.verdicts]
    iteration = iteration.model_copy(
        update={"unjudged": unjudged(verdicts), "judge_doubted": judge_doubted(verdicts)}
    )
    return _with_trials(iteration, trained.selection) if trained.selection else iteration


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
    best = max(scores, key=lambda score: score.low)
    return SessionIteration(
        number=number,
        parent=candidate.parent,
        change=candidate.change,
        passed=proving >= config.needed,
        score=mean_score(scores),
        variant=best.variant,
        best=best.member,
        tags=best.judgement.tags,
        members=tuple(scores),
        steps=sum(score.step for score in scores),
        training_s=training_s,
        judging_s=judging_s,
    )


def mean_score(scores: Sequence[MemberScore]) -> float | None:
    """Return the mean score of policies; None when none could be judged."""
    values = [score.judgement.score for score in scores if score.judgement.score is not None]
    return sum(values) / len(values) if values else None


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
    work: SessionWork,
    number: int,
    candidate: RewardCandidate,
    run: Run,
    episodes: int,
    purpose: Purpose,
) -> tuple[list[MemberScore], float]:
    """Play fresh episodes with every policy of a run, let the judge's code score them.

    Returns the scores and the seconds it took. Each purpose has starts and a folder of its own.
    """
    began = time.monotonic()
    files, members = work.folder.iteration(number), RunFolder(run.path).members()
    folder = files.judged_dir if purpose == JUDGE else files.path / "trial_judged"
    orders: dict[str, PlayOrder] = {}
    for member in members:
        if policy := newest_policy(member):
            own = [folder / member.name / f"episode_{index:02d}.npz" for index in range(episodes)]
            reward = read_text(member.reward_code)
            orders[member.name] = play_order(
                policy, reward, work.config, candidate.env_args, own, purpose
            )
    work.control.check()
    played, why = _recorded(orders, folder)
    recorded = [file for own in played.values() for file in own]
    paths = [file.path for file in recorded]
    where = (work.config.env, candidate.env_args)
    # In a folder beside the episodes: a judge may write there, and not to what it judges.
    judged = judge_files(read_text(work.folder.judge), paths, folder / "judge", where)
    if work.config.judge is not None:
        judged = judge_too(work.config.judge, work.config.intent, paths, judged, where)
    verdicts = of_recordings(recorded, judged)
    scores = [
        _score(member, [verdicts[file.path] for file in played[member.name]])
        if member.name in played
        else _score(member, [why or _broke_off(member)] * episodes)
        for member in members
    ]
    return scores, time.monotonic() - began


def of_recordings(
    files: Sequence[RecordedFile], verdicts: Sequence[Verdict]
) -> dict[Path, Verdict]:
    """Return the verdicts by episode; unknown for one that is no longer what was recorded."""
    return {
        file.path: verdict.model_copy(update={"recording": file.sha256})
        if is_unchanged(file)
        else unknown("code", f"{file.path.name} is not what its recorder wrote")
        for file, verdict in zip(files, verdicts, strict=True)
    }


def _recorded(
    orders: dict[str, PlayOrder], folder: Path
) -> tuple[dict[str, list[RecordedFile]], Verdict | None]:
    """Record the episodes, by member; where the recorder dies twice, nothing, and why.

    A recorder runs no foreign code, but it lives on a machine that may run out of memory.
    """
    reason = ""
    for _ in range(_TRIES if orders else 0):
        try:
            files = record(list(orders.values()), folder)
            return dict(zip(orders, files, strict=True)), None
        except WorkerDied as error:
            reason = str(error)
    return {}, unknown("code", f"no episode could be recorded. {reason}") if reason else None


def newest_policy(member: MemberFolder) -> Path | None:
    """Return the latest policy; None when training broke off before there was one."""
    checkpoints = member.checkpoints()
    return checkpoints[-1].path if checkpoints else None


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
        found = read_facts(member.summary, MemberResultFacts).get("findings", [])
        reasons = [finding["message"] for finding in found]
    return unknown("code", f"there is no policy. {reasons[-1] if reasons else ''}")


def _watched(work: SessionWork, files: IterationFolder, score: MemberScore) -> MemberScore:
    """Let the author's eyes look at a policy that would pass by code alone."""
    if score.low < work.config.threshold:
        return score  # it fails anyway: looking would cost and change nothing
    verdicts = list(score.judgement.verdicts)
    paths = [files.episode(score.member, index) for index in range(len(verdicts))]
    watched = work.author.watch(paths, verdicts)
    return score.model_copy(update={"judgement": together(watched)})


def _failure_watched(
    work: SessionWork, files: IterationFolder, scores: list[MemberScore]
) -> list[MemberScore]:
    """Let the author's eyes look at one failure, where nothing passes by code.

    It is the middle episode of the best policy. Its score stays: a pass needs the code. Where the
    pictures contradict it, that is on record, and the judge can be doubted.
    """
    best = max(scores, key=lambda score: score.low, default=None)
    if best is None or best.judgement.score is None or best.low >= work.config.threshold:
        return scores
    verdicts, middle = list(best.judgement.verdicts), median_episode(best)
    own = verdicts[middle]
    (seen,) = work.author.watch([files.episode(best.member, middle)], [own])
    kept = {name: getattr(seen, name) for name in ("seen", "spread", "by_judge", "disagreements")}
    verdicts[middle] = own.model_copy(update=kept)
    watched = best.model_copy(update={"judgement": together(verdicts)})
    return [watched if score is best else score for score in scores]


def _as_people_ask(score: MemberScore, people: PersonCalibration) -> MemberScore:
    """Lower the scores of a judge whose bar lies too low by people's labels."""
    if not people.shift:
        return score
    verdicts = lowered(score.judgement.verdicts, people)
    return score.model_copy(update={"judgement": together(verdicts)})


def play_order(
    policy: Path,
    reward: str,
    config: SessionConfig,
    env_args: dict[str, Any],
    paths: Sequence[Path],
    purpose: Purpose = JUDGE,
) -> PlayOrder:
    """Order fresh episodes of a policy, one per path; each purpose has starts of its own."""
    return PlayOrder(
        policy=str(policy.absolute()),
        env=config.env,
        env_args=env_args,
        seed=derive(purpose, config.env),
        paths=tuple(str(path.absolute()) for path in paths),
        reward=reward,
    )
