"""Judge trained policies on fresh episodes: by code, by eye where a model can see, and decide."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from telic.judges.code import judge_files
from telic.judges.verdict import Verdict, together
from telic.session.episodes import play
from telic.session.records import Candidate, Iteration, MemberScore, Selection, SessionConfig
from telic.session.work import Work
from telic.storage.layout import RunFolder
from telic.training.run import Run

if TYPE_CHECKING:
    from telic.session.population import Trained


def judge(work: Work, number: int, trained: Trained) -> Iteration:
    """Judge a candidate's policies and say whether they pass."""
    config, candidate, run = work.config, trained.candidate, trained.run
    scores, seconds = judge_policies(work, number, candidate, run, config.episodes, "judged")
    scores = [each.model_copy(update={"variant": trained.variant}) for each in scores]
    began = time.monotonic()
    scores = [_watched(work, number, each) for each in scores]
    seconds += time.monotonic() - began
    made = decide(config, number, candidate, scores, run.summary["training_time_s"], seconds)
    chosen = trained.selection
    return made if chosen is None else _with_trials(made, chosen)


def decide(
    config: SessionConfig, number: int, candidate: Candidate, scores: list[MemberScore],
    training_s: float, judging_s: float,
) -> Iteration:  # fmt: skip
    """Return what a candidate's policies prove together."""
    proving = sum(each.low >= config.threshold for each in scores)
    known = [each.judgement.score for each in scores if each.judgement.score is not None]
    best = max(scores, key=lambda each: each.low)
    return Iteration(
        number=number, parent=candidate.parent, change=candidate.change,
        passed=proving >= config.needed,
        score=sum(known) / len(known) if known else None,
        variant=best.variant, best=best.member, tags=best.judgement.tags, members=tuple(scores),
        steps=sum(each.step for each in scores), training_s=training_s, judging_s=judging_s,
    )  # fmt: skip


def _with_trials(made: Iteration, chosen: Selection) -> Iteration:
    return made.model_copy(
        update={
            "trials": chosen.members,
            "steps": made.steps + sum(each.step for each in chosen.members),
            "training_s": made.training_s + chosen.training_s,
            "judging_s": made.judging_s + chosen.judging_s,
        }
    )


def judge_policies(
    work: Work, number: int, candidate: Candidate, run: Run, episodes: int, where: str
) -> tuple[list[MemberScore], float]:
    """Play fresh episodes with every policy of a run, let the judge's code score them.

    Returns the scores and the seconds it took. `where` names the folder of the episodes.
    """
    began = time.monotonic()
    files, members = work.folder.iteration(number), RunFolder(run.path).members()
    folder = files.path / where if where == "judged" else files.path / f"{where}_judged"
    paths: list[Path] = []
    steps: list[int] = []
    for member in members:
        work.steering.check()
        checkpoint = member.checkpoints()[-1]
        own = [folder / member.name / f"episode_{index:02d}.npz" for index in range(episodes)]
        reward = member.reward_code.read_text()
        paths += play(checkpoint.path, reward, work.config.env, candidate.env_args, own)
        steps.append(checkpoint.step)
    verdicts = judge_files(work.folder.judge.read_text(), paths, folder)
    scores = [
        _score(member.name, step, verdicts[index * episodes : (index + 1) * episodes])
        for index, (member, step) in enumerate(zip(members, steps, strict=True))
    ]
    return scores, time.monotonic() - began


def _score(member: str, step: int, verdicts: list[Verdict]) -> MemberScore:
    config, _, seed = member.rpartition("_seed_")
    digits = config.removeprefix("reward")
    variant = int(digits) - 1 if digits.isdigit() else 0
    return MemberScore(
        member=member, variant=variant, seed=int(seed), step=step, judgement=together(verdicts)
    )


def _watched(work: Work, number: int, score: MemberScore) -> MemberScore:
    """Let the author's eyes look at a policy that would pass by code alone."""
    if score.low < work.config.threshold:
        return score  # it fails anyway: looking would cost and change nothing
    verdicts = list(score.judgement.verdicts)
    files = work.folder.iteration(number)
    paths = [files.episode(score.member, index) for index in range(len(verdicts))]
    watched = work.author.watch(paths, verdicts)
    return score.model_copy(update={"judgement": together(watched)})
