"""Choose among trained policies, confirm the choice on other episodes, and decide.

The best checkpoint of every policy, and the best policy, are chosen on one set of fresh episodes.
Whether a policy passes is confirmed on another set, which nothing was chosen on: by code, and by
eye where a model can see. What it proves holds together with everything else the session claims
(`telic.core.confidence`). Policies that are neither proven nor disproven play more episodes.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from typing import NamedTuple

from telic.authors.candidate import MemberScore, RewardCandidate, Selection, SessionIteration
from telic.core.confidence import ALPHA, fewest_scores, proves, spending
from telic.core.config import Record
from telic.errors import TelicError
from telic.judges.fusion import judge_doubted, unjudged
from telic.judges.verdict import PersonCalibration, Verdict, lowered, together
from telic.session.budget import iteration_steps
from telic.session.control import SessionWork
from telic.session.fresh import CHOOSE, CONFIRM, FreshStarts, PolicyAt, newest, play, score_of
from telic.session.labels import calibration_of
from telic.session.records import SessionConfig
from telic.storage.files import read_json_lines
from telic.storage.layout import IterationFolder, RunFolder
from telic.storage.reading import file_hash
from telic.training.run import Run

CHOOSING = 16
"""fresh episodes on which checkpoints and policies are compared"""
LOOKS = 7
"""at policies before their training ends, at most"""
LONGEST = 4
"""how many times the usual number of episodes a policy plays that may yet prove itself"""


class Proof(Record):
    """Policies that passed before their training came to its end."""

    schema_version: int = 1
    step: int
    members: tuple[MemberScore, ...]
    judging_s: float


class TrainedCandidate(NamedTuple):
    """A candidate's policies."""

    candidate: RewardCandidate
    variant: int
    run: Run
    selection: Selection | None
    proof: Proof | None = None


def judge(work: SessionWork, number: int, trained: TrainedCandidate) -> SessionIteration:
    """Judge a candidate's policies and say whether they pass."""
    config, candidate, run = work.config, trained.candidate, trained.run
    files = work.folder.iteration(number)
    work.control.check()
    if trained.proof is not None:
        scores, seconds = list(trained.proof.members), trained.proof.judging_s
    else:
        scores, seconds = _judge_at_end(work, number, candidate, RunFolder(run.path))
    scores = [score.model_copy(update={"variant": trained.variant}) for score in scores]
    iteration = decide(config, number, candidate, scores, run.summary["training_time_s"], seconds)
    verdicts = [verdict for score in scores for verdict in score.judgement.verdicts]
    iteration = iteration.model_copy(
        update={
            "steps": iteration_steps(files),
            "unjudged": unjudged(verdicts),
            "judge_doubted": judge_doubted(verdicts),
        }
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
    best = max(scores, key=lambda score: _standing(score, config.threshold))
    passed = proving >= config.needed
    return SessionIteration(
        number=number,
        parent=candidate.parent,
        change=candidate.change,
        passed=passed,
        score=mean_score(scores),
        variant=best.variant,
        best=best.member,
        tags=() if passed else _lacking(scores, config.threshold),
        members=tuple(scores),
        scores={score.member: score.judgement.score for score in scores},
        steps=sum(score.step for score in scores),
        training_s=training_s,
        judging_s=judging_s,
    )


def _lacking(scores: list[MemberScore], threshold: float) -> tuple[str, ...]:
    """Return what the best of those that do not pass lacks: who passes lacks nothing."""
    failing = [score for score in scores if score.low < threshold] or scores
    return max(failing, key=lambda score: _standing(score, threshold)).judgement.tags


def _standing(score: MemberScore, threshold: float) -> tuple[bool, float, float]:
    """Return what orders policies: those that pass first, then by the episodes for choosing."""
    chosen = score.low if score.choosing is None else score.choosing
    return score.low >= threshold, chosen, score.low


def looks_otherwise(passed: SessionIteration) -> tuple[str, ...]:
    """Say where most pictures show less than the judge's code measured, also at a closer look."""
    verdicts = [verdict for member in passed.members for verdict in member.judgement.verdicts]
    doubt = judge_doubted(verdicts, only_less=True)
    return () if doubt is None else (doubt,)


def too_few(config: SessionConfig, passed: SessionIteration) -> tuple[str, ...]:
    """Say where fewer trainings, each of its own seed, prove it than the request wants."""
    proving = [member for member in passed.members if member.low >= config.threshold]
    seeds = {member.seed for member in proving}.intersection(config.seeds)
    policies = {member.policy_hash for member in proving}
    if (found := min(len(seeds), len(policies))) >= config.needed:
        return ()
    wanted = f"{config.needed} of {len(config.seeds)} training seeds"
    return (f"{wanted} must prove {config.threshold:g}, and {found} of those judged do",)


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
            "training_s": iteration.training_s + selection.training_s,
            "judging_s": iteration.judging_s + selection.judging_s,
        }
    )


# ------------------------------------------------------------------------------ choose and confirm


def _judge_at_end(
    work: SessionWork, number: int, candidate: RewardCandidate, run: RunFolder
) -> tuple[list[MemberScore], float]:
    """Choose the best checkpoint of every policy, and judge it; returns the seconds as well."""
    began = time.monotonic()
    last = newest(run)
    scores = choose(work, number, candidate, last)
    seen = _seen_before(work.folder.iteration(number))
    chosen: list[PolicyAt] = []
    worths: list[float | None] = []
    for policy, score in zip(last, scores, strict=True):
        step, worth = score.step, score.judgement.score
        for earlier, other in seen.get(score.member, {}).items():
            if other is not None and (worth is None or other > worth):
                step, worth = earlier, other
        saved = [each for each in policy.member.checkpoints() if each.step == step]
        chosen.append(PolicyAt(policy.member, saved[0]) if saved else policy)
        worths.append(worth)
    alpha = spending(number, len(chosen), LOOKS, is_last=True)
    scores = confirm(work, number, candidate, chosen, alpha)
    files = work.folder.iteration(number)
    scores = _failure_watched(work, files, [watched(work, files, score) for score in scores])
    people = calibration_of(work.folder, work.config.threshold)
    scores = [
        as_people_ask(score, people).model_copy(update={"choosing": worth})
        for score, worth in zip(scores, worths, strict=True)
    ]
    return scores, time.monotonic() - began


def _seen_before(files: IterationFolder) -> dict[str, dict[int, float | None]]:
    """Return the scores of earlier checkpoints on the episodes for choosing, by member and step."""
    seen: dict[str, dict[int, float | None]] = {}
    for row in read_json_lines(files.checkpoints):
        for member, score in row["scores"].items():
            seen.setdefault(member, {})[row["step"]] = score
    return seen


def choose(
    work: SessionWork, number: int, candidate: RewardCandidate, policies: Sequence[PolicyAt]
) -> list[MemberScore]:
    """Score policies on the episodes for choosing: the same for every checkpoint of a training."""
    verdicts = play(work, number, candidate, policies, FreshStarts(CHOOSE, CHOOSING))
    shutil.rmtree(work.folder.iteration(number).path / "chosen", ignore_errors=True)
    return [score_of(policy, own) for policy, own in zip(policies, verdicts, strict=True)]


def may_pass(config: SessionConfig, scores: Sequence[MemberScore], alpha: float) -> bool:
    """Say whether enough policies would prove themselves on more episodes of the same kind."""
    times = -(-judged_episodes(config, alpha) // CHOOSING)
    promising = sum(
        proves(_values(score.judgement.verdicts) * times, config.threshold, alpha)
        for score in scores
    )
    return promising >= config.needed


def confirm(
    work: SessionWork,
    number: int,
    candidate: RewardCandidate,
    policies: Sequence[PolicyAt],
    alpha: float,
    look: int = 0,
) -> list[MemberScore]:
    """Judge policies on episodes that nothing was chosen on.

    Whoever may yet prove the threshold plays more of them. The bound allows for that.

    Args:
        work: the session.
        number: of the iteration.
        candidate: what was trained.
        policies: whom to judge.
        alpha: the chance that a claim about one of them is wrong.
        look: which look it is, from 1; 0: the one at the end. Each has starts of its own.
    """
    config = work.config
    usual = judged_episodes(config, alpha)
    verdicts: list[list[Verdict]] = [[] for _ in policies]
    going_on = list(range(len(policies)))
    hashes = [policy.checkpoint and file_hash(policy.checkpoint.path) for policy in policies]
    while True:
        played = len(verdicts[going_on[0]])
        starts = FreshStarts(CONFIRM, usual, (look, played), first=played)
        own = [policies[place] for place in going_on]
        for place, more in zip(going_on, play(work, number, candidate, own, starts), strict=True):
            verdicts[place].extend(more)
        scores = [
            score_of(policy, own, alpha=alpha, threshold=config.threshold, policy_hash=digest)
            for policy, own, digest in zip(policies, verdicts, hashes, strict=True)
        ]
        going_on = _undecided(config, scores, going_on)
        if not going_on or played + 2 * usual > LONGEST * usual:
            return scores


def _undecided(
    config: SessionConfig, scores: Sequence[MemberScore], places: Sequence[int]
) -> list[int]:
    """Return who may yet prove the threshold, while that would make a difference."""
    proven = sum(score.low >= config.threshold for score in scores)
    open_ = [
        place
        for place in places
        if scores[place].low < config.threshold <= _mean(scores[place].judgement.verdicts)
    ]
    return open_ if proven < config.needed <= proven + len(open_) else []


def judged_episodes(config: SessionConfig, alpha: float) -> int:
    """Return on how many episodes a policy is judged: as asked, and enough to prove anything."""
    return max(config.episodes, fewest_scores(config.threshold, alpha))


def _values(verdicts: Sequence[Verdict]) -> list[float]:
    return [verdict.score or 0.0 for verdict in verdicts]


def _mean(verdicts: Sequence[Verdict]) -> float:
    """Return the mean score, with nothing for episodes that nobody could judge."""
    return sum(_values(verdicts)) / len(verdicts)


def watched(work: SessionWork, files: IterationFolder, score: MemberScore) -> MemberScore:
    """Let the author's eyes look at a policy that would pass by code alone."""
    if score.low < work.config.threshold:
        return score  # it fails anyway: looking would cost and change nothing
    verdicts = list(score.judgement.verdicts)
    paths = [files.episode(score.member, index) for index in range(len(verdicts))]
    return _with_verdicts(score, work.author.watch(paths, verdicts), work.config.threshold)


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
    verdicts, middle = list(best.judgement.verdicts), best.median_episode
    own = verdicts[middle]
    (seen,) = work.author.watch([files.episode(best.member, middle)], [own])
    kept = {name: getattr(seen, name) for name in ("seen", "spread", "by_judge", "disagreements")}
    verdicts[middle] = own.model_copy(update=kept)
    seen_too = _with_verdicts(best, verdicts, work.config.threshold)
    return [seen_too if score is best else score for score in scores]


def as_people_ask(score: MemberScore, people: PersonCalibration) -> MemberScore:
    """Lower the scores of a judge whose bar lies too low by people's labels."""
    if not people.shift:
        return score
    return _with_verdicts(score, lowered(score.judgement.verdicts, people), people.threshold)


def _with_verdicts(
    score: MemberScore, verdicts: Sequence[Verdict], threshold: float
) -> MemberScore:
    """Return a policy's score with other verdicts on the same episodes, as sure as before."""
    alpha = ALPHA if score.judgement.alpha is None else score.judgement.alpha
    judgement = together(verdicts, alpha=alpha, threshold=threshold)
    return score.model_copy(update={"judgement": judgement})
