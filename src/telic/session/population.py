"""Train a candidate: short trials of its variants, then the best one in full with every seed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import NamedTuple

from telic.authors.candidate import MemberScore, RewardCandidate, weights_in, with_weights
from telic.core.events import SessionSelected
from telic.session.checkpoints import CheckpointJudge
from telic.session.judging import judge_policies
from telic.session.records import Selection
from telic.session.work import Work
from telic.storage.files import once
from telic.storage.layout import MemberFolder
from telic.training.plan import plan
from telic.training.run import Run

SHORT = 0.3
"""share of the steps that a trial takes"""
_EPISODES = 4
"""fresh episodes that choose among variants"""


class Trained(NamedTuple):
    """A candidate's policies."""

    candidate: RewardCandidate
    variant: int
    run: Run
    selection: Selection | None


def train(work: Work, number: int, candidate: RewardCandidate) -> Trained:
    """Train every variant for a while, keep the one that the judge prefers, train it to the end."""
    if len(candidate.variants) == 1:
        starts = _parents(work, candidate, [0])
        return Trained(candidate, 0, _run(work, number, candidate, [0], 1.0, starts), None)
    files = work.folder.iteration(number)
    selection = once(files.selection, Selection, partial(_select, work, number, candidate))
    starts = {
        (0, each.seed): newest
        for each in selection.members
        if each.variant == selection.kept
        and (newest := _newest(MemberFolder(files.path / "trial" / each.member)))
    }
    run = _run(work, number, candidate, [selection.kept], 1.0 - SHORT, starts)
    return Trained(candidate, selection.kept, run, selection)


def _select(work: Work, number: int, candidate: RewardCandidate) -> Selection:
    everyone = list(range(len(candidate.variants)))
    starts = _parents(work, candidate, everyone)
    run = _run(work, number, candidate, everyone, SHORT, starts, name="trial")
    scores, seconds = judge_policies(work, number, candidate, run, _EPISODES, "trial")
    means = [mean_score(scores, variant) for variant in everyone]
    # What could not be judged is behind what is worth nothing; the first of equals is kept.
    worths = [-1.0 if each is None else each for each in means]
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
    own = [each.judgement.score for each in scores if each.variant == variant]
    known = [each for each in own if each is not None]
    return sum(known) / len(known) if known else None


def _run(
    work: Work,
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
        with_weights(candidate.reward, {**own, **candidate.variants[each].weights})
        for each in variants
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
    folder = work.folder.iteration(number).path
    if name == "trial":  # short, and judged at its end
        return work.steering.train(job, work.spec, folder, name, work.tell)
    with CheckpointJudge(work, number) as watching:
        return work.steering.train(job, work.spec, folder, name, watching)


def _parents(
    work: Work, candidate: RewardCandidate, variants: list[int]
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
