"""Notice a reward that is paid for something else: the return rises while the judge's score falls.

A policy is judged at several moments: after a short trial, while it learns, at the end. Its return
under its own reward is measured at the same moments. Both should rise together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from telic.authors.candidate import MemberScore, SessionIteration
from telic.core.stats import Interval
from telic.storage.files import read_json_lines
from telic.storage.layout import IterationFolder, MemberFolder
from telic.storage.scalars import read_rows

_FELL = 0.15
"""loss of score that a few episodes more or less do not explain"""


class Moment(NamedTuple):
    """A policy at one moment of its training."""

    words: str
    score: float
    mean_return: float
    interval: Interval


def alarms(files: IterationFolder, made: SessionIteration) -> tuple[str, ...]:
    """Return a sentence for every policy whose return rose while its score fell."""
    found: list[str] = []
    for member in made.members:
        end = _moment(_trained(files, member), "the end", None, member.judgement.score)
        earlier = _earlier(files, made, member)
        then = next((each for each in earlier if end and diverged(each, end)), None)
        if then and end:
            found.append(
                f"{member.member}: from {then.words} to {end.words} its return rose from "
                f"{then.mean_return:.4g} to {end.mean_return:.4g} while the judge's score fell "
                f"from {then.score:.2f} to {end.score:.2f}. The reward pays for something else "
                "than what was asked."
            )
    return tuple(found)


def diverged(then: Moment, now: Moment) -> bool:
    """Say whether the return rose for certain and the score fell clearly.

    Comparing intervals makes it independent of the reward's scale.
    """
    return now.interval.low > then.interval.high and now.score < then.score - _FELL


def _earlier(
    files: IterationFolder, made: SessionIteration, member: MemberScore
) -> Iterator[Moment]:
    for each in made.trials:
        if (each.variant, each.seed) == (member.variant, member.seed):
            trial = MemberFolder(files.path / "trial" / each.member)
            if moment := _moment(trial, "the short trial", None, each.judgement.score):
                yield moment
    for row in read_json_lines(files.checkpoints):
        step, score = row["step"], row["scores"].get(member.member)
        if moment := _moment(_trained(files, member), f"step {step:,}", step, score):
            yield moment


def _moment(
    member: MemberFolder, words: str, step: int | None, score: float | None
) -> Moment | None:
    """Return what is known of a moment, the last one without a step; None if something is not."""
    rows = [row for row in read_rows(member.scalars, "eval") if step in (None, row["global_step"])]
    if score is None or not rows or not rows[-1].get("interval"):
        return None
    return Moment(words, score, rows[-1]["mean_return"], Interval(*rows[-1]["interval"]))


def _trained(files: IterationFolder, member: MemberScore) -> MemberFolder:
    return MemberFolder(files.run.path / member.member)
