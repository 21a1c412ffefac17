"""What the results of a benchmark come to: pass rates with intervals, and what a pass takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Literal, get_args

from telic.bench.records import BenchConfig, CaseResult, Outcome
from telic.bench.suite import DIFFICULTIES, Case, Suite
from telic.core.config import Record
from telic.core.stats import wilson


class Rate(Record):
    """How many of some passed, with the 95 % Wilson interval of the share."""

    passed: int
    total: int
    share: float | None
    low: float | None
    high: float | None


class Group(Record):
    """The cases that have something in common."""

    name: str
    rate: Rate
    mean_score: float | None
    """over those that have a score"""


class Tally(Record):
    """A benchmark's result. A case that was refused or crashed did not pass."""

    schema_version: Literal[1] = 1
    suite: str
    about: str
    config: BenchConfig
    cases_in_suite: int
    waiting: tuple[str, ...]
    """cases that were asked for and have not come to an end; they are in no rate"""
    overall: Rate
    by_difficulty: tuple[Group, ...]
    by_category: tuple[Group, ...]
    by_env: tuple[Group, ...]
    outcomes: dict[str, int]
    median_seconds_to_pass: float | None
    median_steps_to_pass: float | None
    seconds: float
    usd: float | None
    """None: the price of a part is unknown"""
    results: tuple[CaseResult, ...]


def tally(
    suite: Suite, asked: Sequence[Case], config: BenchConfig, results: Sequence[CaseResult]
) -> Tally:
    """Sum up the cases of a suite that have come to an end."""
    current = {each.case.id: each for each in results if each.case in suite.case}
    ended = [current[case.id] for case in suite.case if _has_ended(current.get(case.id))]
    known = {each.case.id for each in ended}
    passes = [each for each in ended if each.outcome == "passed"]
    counts = Counter(each.outcome for each in ended)
    return Tally(
        suite=suite.name,
        about=suite.about,
        config=config,
        cases_in_suite=len(suite.case),
        waiting=tuple(each.id for each in asked if each.id not in known),
        overall=_rate(ended),
        by_difficulty=_groups(ended, lambda each: each.case.difficulty, DIFFICULTIES),
        by_category=_groups(ended, lambda each: each.case.category),
        by_env=_groups(ended, lambda each: each.case.env),
        outcomes={name: counts[name] for name in get_args(Outcome) if counts[name]},
        median_seconds_to_pass=_median([each.seconds for each in passes]),
        median_steps_to_pass=_median([each.env_steps for each in passes]),
        seconds=sum(each.seconds for each in ended),
        usd=_sum([each.usd for each in ended]),
        results=tuple(ended),
    )


def rate(passed: int, total: int) -> Rate:
    """Return a share with its interval; without cases there is none."""
    interval = wilson(passed, total)
    return Rate(
        passed=passed,
        total=total,
        share=passed / total if total else None,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
    )


def _rate(results: Sequence[CaseResult]) -> Rate:
    return rate(sum(each.outcome == "passed" for each in results), len(results))


def _has_ended(result: CaseResult | None) -> bool:
    return result is not None and result.outcome != "stopped"


def _groups(
    results: Sequence[CaseResult], key: Callable[[CaseResult], str], order: Sequence[str] = ()
) -> tuple[Group, ...]:
    names = list(dict.fromkeys(key(each) for each in results))
    names.sort(key=lambda name: order.index(name) if name in order else len(order))
    groups: list[Group] = []
    for name in names:
        own = [each for each in results if key(each) == name]
        scores = [each.score for each in own if each.score is not None]
        mean = fmean(scores) if scores else None
        groups.append(Group(name=name, rate=_rate(own), mean_score=mean))
    return tuple(groups)


def _median(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return median(known) if known else None


def _sum(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) if len(known) == len(values) else None
