"""Which numbers of a study become which chart."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from telic.core.text import span
from telic.report.charts import (
    COLOURS,
    ChartLine,
    LineChart,
    Node,
    Point,
    Row,
    RowChart,
    Shares,
    Tone,
    Tree,
)
from telic.report.document import Figure
from telic.studies.evidence.claims import Audit
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.probes import HOLDS, ParameterSummary
from telic.studies.evidence.reflection import Reflection, TermReflection
from telic.studies.report.facts import CandidateFacts, StudyFacts

_CURVE_PLACES = 80
_TERM_LINES = 6
_MARKS = {"accepted": "✓", "rejected": "✕", "reverted": "↶", "inconclusive": "?", "debug": "!"}
_TONES: dict[str, Tone] = {
    "valid_improvement": "good",
    "no_improvement": "bad",
    "invalid": "bad",
    "target_met": "good",
    "target_missed": "bad",
}
_ABOUT_RUNS = (
    "Every run of every audited candidate. The bar is the 95 % interval of the middle half, the "
    "tick its mean, the dashed line the target."
)
_ABOUT_EFFECTS = {
    False: "Difference from the incumbent of its time. A claim must clear the shaded part, and its "
    "interval must not touch zero.",
    True: "Difference from the candidate that it was made from, shown for comparison only: the two "
    "may differ in how long they trained, too.",
}
"""by whether the study tells of work done elsewhere"""


def results(facts: StudyFacts) -> list[Figure]:
    """Return every audited run side by side, whom the study trusts first, and the differences."""
    runs: list[Row] = []
    effects: list[Row] = []
    for candidate in facts.candidates:
        audit = candidate.audit
        if audit is None:
            continue
        arm, stats, tone = audit.arms["x"], audit.stats, _TONES.get(audit.verdict, "")
        is_trusted = candidate.name == facts.trusted
        if arm.scores:
            own: Tone = "good" if is_trusted else tone
            row = Row(candidate.name, arm.iqm, arm.ci, arm.scores, tone=own, is_chosen=is_trusted)
            runs.append(row)
        if stats.delta is not None and stats.ci is not None:
            effects.append(
                Row(candidate.name, stats.delta, stats.ci, (), stats.delta_min, "", tone)
            )
    runs.sort(key=lambda row: not row.is_chosen)
    target = facts.spec.primary.target if facts.spec else None
    figures: list[Figure] = []
    if runs:
        chart = RowChart("Scores of every audited run", tuple(runs), target)
        figures.append(Figure(chart, caption=_ABOUT_RUNS))
    if effects:
        label = "Differences from the incumbent, with 95 % intervals"
        chart = RowChart(label, tuple(effects), zero="no difference")
        figures.append(Figure(chart, caption=_ABOUT_EFFECTS[facts.source is not None]))
    return figures


def learning_curves(facts: StudyFacts) -> list[Figure]:
    """Return the metric, the return and the guardrails over training, of the last claim's arms.

    Where those were only evaluated, the candidates that have curves are drawn, the first ones.
    """
    if facts.last_audit is None or facts.spec is None:
        return []
    keys = [facts.spec.primary.key, "return", *(rail.key for rail in facts.spec.guardrails)]
    figures: list[Figure] = []
    for key in dict.fromkeys(keys):
        lines = _lines(_claimed(facts, facts.last_audit), key)
        lines = lines or _lines(_measured(facts), key)[:COLOURS]
        if lines:
            chart = LineChart(f"{key} over training", tuple(lines), "steps", key)
            figures.append(Figure(chart, key))
    return figures


def _claimed(facts: StudyFacts, audit: Audit) -> dict[str, list[Measurement]]:
    """Return the measured runs of a claim's arms, by candidate."""
    arms = zip((audit.candidate, audit.incumbent), audit.arms.values(), strict=False)
    return {
        name: [facts.measurements[run] for run in arm.runs if run in facts.measurements]
        for name, arm in arms
        if name
    }


def _measured(facts: StudyFacts) -> dict[str, list[Measurement]]:
    """Return all measured runs, by candidate."""
    runs: dict[str, list[Measurement]] = {}
    for measurement in facts.measurements.values():
        runs.setdefault(measurement.candidate, []).append(measurement)
    return runs


def _lines(runs: Mapping[str, Sequence[Measurement]], key: str) -> list[ChartLine]:
    """Return a line per candidate whose runs logged a number more than once."""
    curves = {
        name: over_seeds([run.curves[key] for run in own if run.curves.get(key)])
        for name, own in runs.items()
    }
    return [ChartLine(name, points) for name, points in curves.items() if len(points) > 1]


def over_seeds(curves: Sequence[Sequence[tuple[float, float]]]) -> list[Point]:
    """Return the mean over seeds at common places, and the range between its ends."""
    if not curves:
        return []
    start, end = max(curve[0][0] for curve in curves), min(curve[-1][0] for curve in curves)
    if not end > start:
        return []
    points: list[Point] = []
    for place in range(_CURVE_PLACES + 1):
        x = start + (end - start) * place / _CURVE_PLACES
        values = [_value_at(curve, x) for curve in curves]
        points.append(Point(x, statistics.fmean(values), min(values), max(values)))
    return points


def _value_at(curve: Sequence[tuple[float, float]], x: float) -> float:
    """Return the value at a place by linear interpolation."""
    before = curve[0]
    for point in curve:
        if point[0] >= x:
            width = point[0] - before[0]
            share = (x - before[0]) / width if width else 0.0
            return before[1] + share * (point[1] - before[1])
        before = point
    return before[1]


def lineage(facts: StudyFacts) -> list[Tree]:
    """Return candidates as a tree, each joined to its first parent; nothing for a single one."""
    if len(facts.candidates) < 2:
        return []
    keys = {candidate.name: place for place, candidate in enumerate(facts.candidates)}
    target = facts.spec.primary.target if facts.spec else None
    reached = [c.audit.arms["x"].iqm or 0.0 for c in facts.candidates if c.audit]
    highest = max([*reached, target or 0.0], default=0.0)
    nodes: list[Node] = []
    for candidate in facts.candidates:
        status = candidate.state.status.value
        parents = (keys[name] for name in candidate.state.parents if name in keys)
        nodes.append(
            Node(
                key=keys[candidate.name],
                parent=next(parents, None),
                title=candidate.name[:6],
                note=_MARKS.get(status, "…"),
                share=_height(candidate, highest),
                is_chosen=candidate.name == facts.trusted,
                hint=f"{candidate.name}: {status}",
            )
        )
    return [Tree("Candidates by parent", tuple(nodes))]


def _height(candidate: CandidateFacts, highest: float) -> float | None:
    """Return how far a candidate got, as a share of the best or the target; None if unknown."""
    middle = candidate.audit.arms["x"].iqm if candidate.audit else None
    return None if middle is None or middle < 0 or highest <= 0 else middle / highest


def terms(facts: StudyFacts, reflection: Reflection) -> list[Shares | LineChart]:
    """Return how much of the reward each term makes up, and the largest terms over training."""
    # A term has one colour in both pictures: the largest comes first.
    ranked: list[TermReflection] = sorted(reflection.terms, key=lambda term: -(term.share or 0.0))
    pieces = tuple((term.name, term.share) for term in ranked if term.share)
    measurement = facts.measurements.get(reflection.run)
    curves = measurement.curves if measurement else {}
    lines = [
        ChartLine(term.name, [Point(x, y, y, y) for x, y in curves[term.name]])
        for term in ranked[:_TERM_LINES]
        if len(curves.get(term.name, ())) > 1
    ]
    charts: list[Shares | LineChart] = []
    if pieces:
        charts.append(Shares("Share of each term in the reward", pieces))
    if lines:
        charts.append(LineChart("Reward terms over training", tuple(lines), "steps", "reward"))
    return charts


def retention(parameter: ParameterSummary) -> Figure | None:
    """Return how much of its score a policy keeps as one parameter moves; None for few points."""
    if len(parameter.points) < 2 or not all(math.isfinite(p.retention) for p in parameter.points):
        return None
    points = [
        Point(point.value, point.retention, point.rho_lo, max(point.retention, point.rho_lo))
        for point in parameter.points
    ]
    ends = [Point(point.x, HOLDS, HOLDS, HOLDS) for point in (points[0], points[-1])]
    unit = f" ({parameter.unit})" if parameter.unit else ""
    lines = (ChartLine("retention", points), ChartLine("needed", ends))
    name = f"{parameter.path}{unit}"
    chart = LineChart(f"retention over {parameter.path}", lines, name, "retention")
    return Figure(chart, f"{parameter.path}: holds from {span(parameter.feasible)}")
