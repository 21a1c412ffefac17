"""Which numbers of a study become which picture."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from telic.core.pages.charts import COLOURS, Line, Node, Point, line_chart, tree
from telic.core.pages.markup import Markup, tag
from telic.studies.evidence.claims import Audit
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.probes import HOLDS, ParameterSummary
from telic.studies.evidence.reflection import Reflection, TermReflection
from telic.studies.report.charts import Effect, Strip, forest, shares, strips
from telic.studies.report.story import Story, Told

_CURVE_PLACES = 80
_TERM_LINES = 6
_MARKS = {"accepted": "✓", "rejected": "✕", "reverted": "↶", "inconclusive": "?", "debug": "!"}
_KINDS = {
    "valid_improvement": "good",
    "baseline_established": "",
    "no_improvement": "bad",
    "invalid": "bad",
    "target_met": "good",
    "target_missed": "bad",
}


def runs_side_by_side(story: Story) -> Markup | None:
    """Every audited candidate with a dot per run, whom the study trusts first."""
    rows = [_strip(story, told, told.audit) for told in story.candidates if told.audit is not None]
    rows = [row for row in rows if row.values]
    if not rows:
        return None
    rows.sort(key=lambda row: row.kind != "trusted")
    target = story.spec.primary.target if story.spec else None
    return strips(rows, "scores of every audited run", target)


def _strip(story: Story, told: Told, audit: Audit) -> Strip:
    arm = audit.arms["x"]
    held = story.state.incumbent
    kind = "trusted" if held and held.candidate == told.name else _KINDS.get(audit.verdict, "")
    return Strip(told.name, arm.scores, arm.iqm, arm.ci, kind)


def effects(story: Story) -> Markup | None:
    """The difference of every audited candidate from the incumbent of its time."""
    rows: list[Effect] = []
    for told in story.candidates:
        audit = told.audit
        if audit and audit.stats.delta is not None and audit.stats.ci is not None:
            kind = _KINDS.get(audit.verdict, "")
            rows.append(
                Effect(told.name, audit.stats.delta, audit.stats.ci, audit.stats.delta_min, kind)
            )
    return forest(rows, "differences from the incumbent, with 95 % intervals") if rows else None


def learning_curves(story: Story) -> list[tuple[str, Markup]]:
    """The metric, the return and the guardrails over training, of the last claim's two arms.

    Where those were only evaluated, the candidates that have curves are drawn, the first ones.
    """
    if story.last_audit is None or story.spec is None:
        return []
    keys = [story.spec.primary.key, "return", *(each.key for each in story.spec.guardrails)]
    drawn: list[tuple[str, Markup]] = []
    for key in dict.fromkeys(keys):
        lines = _lines(_claimed(story, story.last_audit), key)
        lines = lines or _lines(_measured(story), key)[:COLOURS]
        if lines:
            chart = line_chart(lines, label=f"{key} over training", x_name="steps", y_name=key)
            drawn.append((key, tag("div", chart, _legend([line.name for line in lines]))))
    return drawn


def _claimed(story: Story, audit: Audit) -> dict[str, list[Measurement]]:
    """Return the measured runs of a claim's arms, by candidate."""
    arms = zip((audit.candidate, audit.incumbent), audit.arms.values(), strict=False)
    return {
        name: [story.measurements[run] for run in arm.runs if run in story.measurements]
        for name, arm in arms
        if name
    }


def _measured(story: Story) -> dict[str, list[Measurement]]:
    """Return all measured runs, by candidate."""
    found: dict[str, list[Measurement]] = {}
    for each in story.measurements.values():
        found.setdefault(each.candidate, []).append(each)
    return found


def _lines(runs: Mapping[str, Sequence[Measurement]], key: str) -> list[Line]:
    """Return a line per candidate whose runs logged a number more than once."""
    found = {
        name: over_seeds([each.curves[key] for each in own if each.curves.get(key)])
        for name, own in runs.items()
    }
    return [Line(name, points) for name, points in found.items() if len(points) > 1]


def over_seeds(curves: Sequence[Sequence[tuple[float, float]]]) -> list[Point]:
    """Return the mean over seeds at common places, and the range between its ends."""
    if not curves:
        return []
    start, end = max(each[0][0] for each in curves), min(each[-1][0] for each in curves)
    if not end > start:
        return []
    points: list[Point] = []
    for place in range(_CURVE_PLACES + 1):
        x = start + (end - start) * place / _CURVE_PLACES
        values = [_value_at(each, x) for each in curves]
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


def lineage(story: Story) -> Markup | None:
    """Candidates as a tree, each joined to its first parent."""
    if len(story.candidates) < 2:
        return None
    keys = {told.name: place for place, told in enumerate(story.candidates)}
    held = story.state.incumbent
    reached = [told.audit.arms["x"].iqm or 0.0 for told in story.candidates if told.audit]
    target = story.spec.primary.target if story.spec else None
    highest = max([*reached, target or 0.0], default=0.0)
    nodes: list[Node] = []
    for told in story.candidates:
        parent = next((keys[each] for each in told.held.parents if each in keys), None)
        nodes.append(
            Node(
                key=keys[told.name],
                parent=parent,
                title=told.name[:6],
                note=_MARKS.get(told.held.status.value, "…"),
                share=_height(told, highest),
                is_chosen=bool(held and held.candidate == told.name),
                hint=f"{told.name}: {told.held.status.value}",
            )
        )
    return tag("div", tree(nodes, "candidates by parent"), class_="wide", tabindex=0)


def term_shares(story: Story) -> Markup | None:
    """How much of the reward each term makes up at the end."""
    if story.reflection is None:
        return None
    found = [(each.name, each.share) for each in _ranked(story.reflection) if each.share]
    if not found:
        return None
    names = [f"{name} {share:.0%}" for name, share in found]
    return tag("div", shares(found, "share of each term in the reward"), _legend(names))


def _height(told: Told, highest: float) -> float | None:
    """Return how far a candidate got, as a share of the best or the target; None if unknown."""
    middle = told.audit.arms["x"].iqm if told.audit else None
    if middle is None or middle < 0 or highest <= 0:
        return None
    return middle / highest


def _ranked(reflection: Reflection) -> list[TermReflection]:
    """Return the terms, the largest first: a term has one colour in all pictures."""
    return sorted(reflection.terms, key=lambda each: -(each.share or 0.0))


def term_curves(story: Story) -> Markup | None:
    """The largest terms over training."""
    reflection = story.reflection
    found: Measurement | None = story.measurements.get(reflection.run) if reflection else None
    if reflection is None or found is None:
        return None
    lines = [
        Line(each.name, [Point(x, y, y, y) for x, y in found.curves[each.name]])
        for each in _ranked(reflection)[:_TERM_LINES]
        if len(found.curves.get(each.name, ())) > 1
    ]
    if not lines:
        return None
    chart = line_chart(lines, label="reward terms over training", x_name="steps", y_name="reward")
    return tag("div", chart, _legend([line.name for line in lines]))


def retention(parameter: ParameterSummary) -> Markup:
    """How much of its score a policy keeps as one parameter moves."""
    points = [
        Point(each.value, each.retention, each.rho_lo, max(each.retention, each.rho_lo))
        for each in parameter.points
    ]
    ends = [Point(points[0].x, HOLDS, HOLDS, HOLDS), Point(points[-1].x, HOLDS, HOLDS, HOLDS)]
    unit = f" ({parameter.unit})" if parameter.unit else ""
    return line_chart(
        [Line("retention", points), Line("needed", ends)],
        label=f"retention over {parameter.path}",
        x_name=f"{parameter.path}{unit}",
        y_name="retention",
    )


def is_drawable(parameter: ParameterSummary) -> bool:
    """Tell whether a probe has enough points for a curve."""
    return len(parameter.points) > 1 and all(
        math.isfinite(each.retention) for each in parameter.points
    )


def _legend(names: Iterable[str]) -> Markup:
    items = [
        tag("li", tag("span", class_=f"key c{place % COLOURS + 1}"), name)
        for place, name in enumerate(names)
    ]
    return tag("ul", *items, class_="legend")
