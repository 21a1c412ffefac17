"""Why the best policy is the best: its criteria beside those of the runner-up."""

from __future__ import annotations

from typing import NamedTuple

from telic.authors.candidate import MemberScore, SessionIteration
from telic.judges.criteria import Leaf
from telic.judges.verdict import Judgement


class CriterionGap(NamedTuple):
    """One criterion, for the best policy and the runner-up."""

    title: str
    unit: str
    credit: float
    other_credit: float
    value: float | None
    other_value: float | None

    @property
    def gain(self) -> float:
        """Credit that the best policy has more."""
        return self.credit - self.other_credit


class SeedStanding(NamedTuple):
    """How the seeds of one reward stand; compared as a session decides."""

    proving: int
    """seeds that prove the threshold"""
    mean_low: float
    """mean of what they prove; a seed that could not be judged proves nothing"""
    seeds: int


class RunnerUp(NamedTuple):
    """The policy that stands second, beside the best."""

    iteration: int
    """of the runner-up"""
    other: MemberScore
    same_reward: bool
    """whether only the training seed differs"""
    standing: SeedStanding
    other_standing: SeedStanding
    differences: tuple[CriterionGap, ...]
    """the largest first"""


def compare(
    history: list[SessionIteration], best: SessionIteration, member: MemberScore, threshold: float
) -> RunnerUp | None:
    """Return the best policy against the best of another reward, or else of another seed."""
    groups: dict[tuple[int, int], list[MemberScore]] = {}
    for iteration in history:
        for score in iteration.members:
            groups.setdefault((iteration.number, score.variant), []).append(score)
    mine = (best.number, member.variant)
    standings = {key: _standing(score, threshold) for key, score in groups.items()}
    others = [key for key in groups if key != mine]
    rival = max(others, key=lambda key: standings[key], default=mine)
    rivals = [
        score
        for score in groups[rival]
        if score.judgement.score is not None and (rival != mine or score.seed != member.seed)
    ]
    if not rivals or member.judgement.score is None:
        return None
    other = max(rivals, key=lambda score: score.low)
    differences = _differences(member.judgement, other.judgement)
    return RunnerUp(rival[0], other, rival == mine, standings[mine], standings[rival], differences)


def _standing(members: list[MemberScore], threshold: float) -> SeedStanding:
    lows = [member.judgement.low or 0.0 for member in members]
    return SeedStanding(sum(low >= threshold for low in lows), sum(lows) / len(lows), len(lows))


def _differences(own: Judgement, other: Judgement) -> tuple[CriterionGap, ...]:
    differences: list[CriterionGap] = []
    for title, leaf in parts(own).items():
        if title in other.leaves:
            (credit, value), (other_credit, other_value) = own.leaves[title], other.leaves[title]
            differences.append(
                CriterionGap(title, leaf.unit, credit, other_credit, value, other_value)
            )
    return tuple(sorted(differences, key=lambda difference: -abs(difference.gain)))


def parts(judgement: Judgement) -> dict[str, Leaf]:
    """Return the criteria of a judgement by title, as they stand in the first judged episode."""
    leaves: dict[str, Leaf] = {}
    for verdict in judgement.verdicts:
        for leaf in verdict.leaves:
            leaves.setdefault(leaf.title, leaf)
    return {title: leaves[title] for title in judgement.leaves if title in leaves}
