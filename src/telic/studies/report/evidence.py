"""What the evidence of a study looks like: runs, effects, curves, terms, the last claim, judges."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from telic.core.text import MISSING, figure, percent, signed, span
from telic.report import document as doc
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
from telic.studies.evidence.audit import TITLES, Audit
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.probes import HOLDS, ParameterSummary
from telic.studies.evidence.reflection import Reflection, TermReflection
from telic.studies.report.facts import VERDICTS, StudyFacts

_CURVE_PLACES = 80
_TERM_LINES = 6
_MARKS = {"accepted": "✓", "rejected": "✕", "reverted": "↶", "inconclusive": "?", "debug": "!"}
_TONES: dict[str, Tone] = {
    "valid_improvement": "good",
    "no_improvement": "bad",
    "invalid": "bad",
}
_ABOUT_RUNS = (
    "Every run of every audited candidate. The bar is the 95 % interval of the middle half, the "
    "tick its mean, the dashed line the target."
)
_ABOUT_EFFECTS = (
    "Difference from the incumbent of its time. A claim must clear the shaded part, and its "
    "interval must not touch zero."
)


def results(facts: StudyFacts) -> list[doc.Figure]:
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
    figures: list[doc.Figure] = []
    if runs:
        chart = RowChart("Scores of every audited run", tuple(runs), target)
        figures.append(doc.Figure(chart, caption=_ABOUT_RUNS))
    if effects:
        label = "Differences from the incumbent, with 95 % intervals"
        chart = RowChart(label, tuple(effects), zero="no difference")
        figures.append(doc.Figure(chart, caption=_ABOUT_EFFECTS))
    return figures


def learning_curves(facts: StudyFacts) -> list[doc.Figure]:
    """Return the metric, the return and the guardrails over training, of the last claim's arms.

    Where those were only evaluated, the candidates that have curves are drawn, the first ones.
    """
    audit, measurements = facts.last_audit, facts.measurements
    if audit is None or facts.spec is None:
        return []
    arms = zip((audit.candidate, audit.incumbent), audit.arms.values(), strict=False)
    claimed = {
        name: [measurements[run] for run in arm.runs if run in measurements]
        for name, arm in arms
        if name
    }
    measured: dict[str, list[Measurement]] = {}
    for measurement in measurements.values():
        measured.setdefault(measurement.candidate, []).append(measurement)
    keys = [facts.spec.primary.key, "return", *(rail.key for rail in facts.spec.guardrails)]
    figures: list[doc.Figure] = []
    for key in dict.fromkeys(keys):
        lines = _lines(claimed, key) or _lines(measured, key)[:COLOURS]
        if lines:
            chart = LineChart(f"{key} over training", tuple(lines), "steps", key)
            figures.append(doc.Figure(chart, key))
    return figures


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
        points.append(Point(x, fmean(values), min(values), max(values)))
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
                share=_share(candidate.audit, highest),
                is_chosen=candidate.name == facts.trusted,
                hint=f"{candidate.name}: {status}",
            )
        )
    return [Tree("Candidates by parent", tuple(nodes))]


def _share(audit: Audit | None, highest: float) -> float | None:
    """Return how far a candidate got, as a share of the best or the target; None if unknown."""
    middle = audit.arms["x"].iqm if audit else None
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


def retention(parameter: ParameterSummary) -> doc.Figure | None:
    """Return how much of its score a policy keeps as one parameter moves; None for few points."""
    if len(parameter.points) < 2 or not all(math.isfinite(p.retention) for p in parameter.points):
        return None
    points = [
        Point(point.value, point.retention, point.rho_lo, max(point.retention, point.rho_lo))
        for point in parameter.points
    ]
    ends = [Point(point.x, HOLDS, HOLDS, HOLDS) for point in (points[0], points[-1])]
    lines = (ChartLine("retention", points), ChartLine("needed", ends))
    chart = LineChart(f"retention over {parameter.path}", lines, parameter.path, "retention")
    return doc.Figure(chart, f"{parameter.path}: holds from {span(parameter.feasible)}")


def last_audit(facts: StudyFacts) -> list[doc.Block]:
    """Return the last audit in full."""
    audit = facts.last_audit
    if audit is None:
        return []
    verdict = doc.Strong(f"{audit.candidate}: {VERDICTS[audit.verdict]}.")
    reasons = [*audit.reasons]
    if audit.n_star is not None:
        reasons.append(f"{audit.n_star} seeds per arm would show the smallest Δ in 80 % of tries")
    arms = [
        (
            name or MISSING,
            str(arm.n),
            figure(arm.iqm),
            span(arm.ci),
            ", ".join(map(str, arm.seeds)),
            ", ".join(map(figure, arm.scores)),
        )
        for name, arm in zip((audit.candidate, audit.incumbent), audit.arms.values(), strict=False)
    ]
    checks: list[doc.Words] = []
    for check in audit.checks:
        why = (doc.Soft(f" {check.why}"),) if check.why else ()
        checks.append(
            (
                doc.Tick(check.passed),
                doc.Strong(check.id),
                f" {TITLES.get(check.id, check.id)}",
                *why,
            )
        )
    rails = [
        (
            rail.key,
            span(rail.ci),
            doc.Badge("holds", "good") if rail.passed else doc.Badge("broken", "bad"),
            rail.severity,
        )
        for rail in audit.guardrails
    ]
    return [
        doc.Text((verdict, f" {_conclusion(audit)}")),
        *([doc.Items(tuple(reasons))] if reasons else []),
        doc.FactSheet(_numbers(audit, _expected(facts, audit)), heads=("number", "value")),
        doc.Table(("arm", "n", "IQM", "95 %", "seeds", "scores"), arms),
        doc.Heading("Checks"),
        doc.Items(tuple(checks), "checks"),
        *([doc.Heading("Guardrails")] if rails else []),
        *([doc.Table(("guardrail", "95 %", "", "severity"), rails)] if rails else []),
    ]


def _expected(facts: StudyFacts, audit: Audit) -> float | None:
    """Return the gain that the author of a candidate foretold; None when they named none."""
    records = (each.record for each in facts.candidates if each.name == audit.candidate)
    record = next(records, None)
    expected = record.hypothesis.expected if record else None
    return expected.magnitude if expected else None


def _numbers(audit: Audit, expected: float | None) -> list[tuple[str, str]]:
    stats = audit.stats
    name = ("audit", f"{audit.id}, {audit.label}")
    test = "p (paired t)" if stats.is_paired else "p (Welch, one-sided)"
    test = "p (signs of the pairs)" if stats.is_counted else test
    return [
        ("runs per arm", " against ".join(str(arm.n) for arm in audit.arms.values())),
        ("Δ (IQM)", signed(stats.delta)),
        *([] if expected is None else [("size of Δ that its author expected", figure(expected))]),
        ("95 % interval", span(stats.ci)),
        ("smallest Δ that counts", figure(stats.delta_min)),
        (test, _chance(stats.welch_p)),
        ("p after Holm", _chance(stats.holm_p)),
        ("p (exact Mann-Whitney)", _chance(stats.mwu_p)),
        ("PoI", percent(stats.poi)),
        ("look, alpha", f"{stats.look}, {stats.alpha:g}"),
        ("noise floor σ₀", figure(stats.sigma_0)),
        ("seed of the resampling", str(audit.prng_seed)),
        name,
    ]


def _chance(value: float | None) -> str:
    if value is None:
        return MISSING
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def _conclusion(audit: Audit) -> str:
    """Say in one sentence what an audit found."""
    stats = audit.stats
    if audit.verdict == "baseline_established":
        return f"The baseline repeats; its noise floor is {figure(stats.sigma_0)}."
    if stats.delta is None:
        return "There was nothing to compare."
    return (
        f"{signed(stats.delta)} against {audit.incumbent} (95 % {span(stats.ci)}); "
        f"{figure(stats.delta_min)} would count. A run of it beats one of the incumbent's with a "
        f"chance of {percent(stats.poi)}."
    )
