"""Learning curves of an iteration: the mean over seeds, and the range that they span."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from telic.authors.candidate import MemberScore, SessionIteration
from telic.core.pages.charts import Line, Point
from telic.storage.layout import IterationFolder, MemberFolder, RunFolder
from telic.storage.scalars import Kind, read_rows

_POINTS = 120


class Curves(NamedTuple):
    """A chart: a line per variant, the return of training episodes; evaluations are its marks."""

    title: str
    lines: tuple[Line, ...]
    seeds: int


def read_curves(files: IterationFolder, iteration: SessionIteration) -> list[Curves]:
    """Read the curves of an iteration: of the short trials, if there were any, and in full."""
    title = f"Iteration {iteration.number}"
    found = [_chart(title, files.run, iteration.members, iteration.variant)]
    if iteration.trials:
        trials = RunFolder(files.path / "trial")
        found.insert(0, _chart(f"{title}, trials", trials, iteration.trials, iteration.variant))
    return [each for each in found if each.lines]


def _chart(title: str, run: RunFolder, scores: Sequence[MemberScore], kept: int) -> Curves:
    groups: dict[int, list[MemberFolder]] = {}
    for each in scores:
        groups.setdefault(each.variant, []).append(MemberFolder(run.path / each.member))
    lines = [
        Line(
            f"variant {variant + 1}{' ★' if variant == kept else ''}",
            _thin(_over_seeds(members, "train", "episodic_return")),
            [(each.x, each.y) for each in _over_seeds(members, "eval", "mean_return")],
        )
        for variant, members in sorted(groups.items())
    ]
    seeds = max((len(members) for members in groups.values()), default=0)
    return Curves(title, tuple(each for each in lines if each.points), seeds)


def _over_seeds(members: Sequence[MemberFolder], kind: Kind, name: str) -> list[Point]:
    """Return mean, least and most at every step that all members have a value for."""
    values: dict[int, list[float]] = {}
    for member in members:
        for row in read_rows(member.scalars, kind):
            if row.get(name) is not None:
                values.setdefault(row["global_step"], []).append(row[name])
    return [
        Point(step, sum(each) / len(each), min(each), max(each))
        for step, each in sorted(values.items())
        if len(each) == len(members)
    ]


def _thin(points: list[Point]) -> list[Point]:
    """Return at most so many points that a chart can show: means of neighbours, widest band."""
    size = -(-len(points) // _POINTS) or 1
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [
        Point(
            each[-1].x,
            sum(point.y for point in each) / len(each),
            min(point.low for point in each),
            max(point.high for point in each),
        )
        for each in groups
    ]
