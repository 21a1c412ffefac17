"""Judge trained policies on fresh episodes: by code, by eye where a model can see, and decide."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from telic.authors.candidate import MemberScore, RewardCandidate, SessionIteration
from telic.errors import TelicError
from telic.judges.code import judge_files
from telic.judges.verdict import Verdict, together, unknown
from telic.session.divergence import alarms
from telic.session.episodes import JUDGE, TRIAL, play
from telic.session.records import Selection, SessionConfig
from telic.session.spending import iteration_steps, last_step
from telic.session.work import Work
from telic.storage.files import read_json
from telic.storage.layout import IterationFolder, MemberFolder, RunFolder
from telic.training.run import Run

if TYPE_CHECKING:
    from telic.session.population import Trained


def judge(work: Work, number: int, trained: Trained) -> SessionIteration:
    """Judge a candidate's policies and say whether they pass."""
    config, candidate, run = work.config, trained.candidate, trained.run
    scores, seconds = judge_policies(work, number, candidate, run, config.episodes, "judged")
    scores = [each.model_copy(update={"variant": trained.variant}) for each in scores]
    began = time.monotonic()
    scores = [_watched(work, number, each) for each in scores]
    seconds += time.monotonic() - began
    made = decide(config, number, candidate, scores, run.summary["training_time_s"], seconds)
    chosen = trained.selection
    made = made if chosen is None else _with_trials(made, chosen)
    return made.model_copy(update={"alarms": alarms(work.folder.iteration(number), made)})


def decide(
    config: SessionConfig,
    number: int,
    candidate: RewardCandidate,
    scores: list[MemberScore],
    training_s: float,
    judging_s: float,
) -> SessionIteration:
    """Return what a candidate's policies prove together."""
    proving = sum(each.low >= config.threshold for each in scores)
    known = [each.judgement.score for each in scores if each.judgement.score is not None]
    best = max(scores, key=lambda each: each.low)
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
        steps=sum(each.step for each in scores),
        training_s=training_s,
        judging_s=judging_s,
    )


def untrained(
    files: IterationFolder,
    number: int,
    candidate: RewardCandidate,
    error: TelicError,
    seconds: float,
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
        steps=iteration_steps(files),
        training_s=seconds,
        judging_s=0.0,
        failure=str(error),
    )


def _with_trials(made: SessionIteration, chosen: Selection) -> SessionIteration:
    return made.model_copy(
        update={
            "trials": chosen.members,
            "steps": made.steps + sum(each.step for each in chosen.members),
            "training_s": made.training_s + chosen.training_s,
            "judging_s": made.judging_s + chosen.judging_s,
        }
    )


def judge_policies(
    work: Work, number: int, candidate: RewardCandidate, run: Run, episodes: int, where: str
) -> tuple[list[MemberScore], float]:
    """Play fresh episodes with every policy of a run, let the judge's code score them.

    Returns the scores and the seconds it took. `where` names the folder of the episodes: "judged",
    or "trial" for those that choose among variants, which begin elsewhere.
    """
    began = time.monotonic()
    files, members = work.folder.iteration(number), RunFolder(run.path).members()
    folder = files.path / where if where == "judged" else files.path / f"{where}_judged"
    played: dict[str, list[Path]] = {}
    for member in members:
        work.steering.check()
        if checkpoints := member.checkpoints():
            own = [folder / member.name / f"episode_{index:02d}.npz" for index in range(episodes)]
            reward = member.reward_code.read_text()
            played[member.name] = play(
                checkpoints[-1].path,
                reward,
                work.config.env,
                candidate.env_args,
                own,
                JUDGE if where == "judged" else TRIAL,
            )
    paths = [path for own in played.values() for path in own]
    found = judge_files(work.folder.judge.read_text(), paths, folder)
    verdicts = dict(zip(paths, found, strict=True))
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
    findings = read_json(member.summary)["findings"] if member.summary.exists() else []
    return unknown("code", f"there is no policy. {findings[-1]['message'] if findings else ''}")


def _watched(work: Work, number: int, score: MemberScore) -> MemberScore:
    """Let the author's eyes look at a policy that would pass by code alone."""
    if score.low < work.config.threshold:
        return score  # it fails anyway: looking would cost and change nothing
    verdicts = list(score.judgement.verdicts)
    files = work.folder.iteration(number)
    paths = [files.episode(score.member, index) for index in range(len(verdicts))]
    watched = work.author.watch(paths, verdicts)
    return score.model_copy(update={"judgement": together(watched)})
