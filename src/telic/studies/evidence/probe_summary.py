"""What a probe found: how far each parameter can be moved before the policy fails."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

from pydantic import Field

from telic.studies.documents.base import Document, Part
from telic.studies.errors import StudyError
from telic.studies.evidence.probes import ProbedParameter, ProbedPolicy, ProbePlan
from telic.studies.evidence.series import mean
from telic.studies.evidence.statistics import RESAMPLES, seed_of

HOLDS = 0.80
"""retention that a range must keep"""
_CLIFF = 0.30
_WIDER_PER_STEP = 0.10


class ProbeResult(Part):
    """Scores of one setting, larger is better, one per seed."""

    value: float
    scores: tuple[float, ...] = Field(min_length=1)
    guardrails_held: bool = True


class ProbedPoint(Part):
    """One setting of a parameter."""

    value: float
    retention: float
    rho_lo: float
    """5 % bootstrap bound of the retention"""
    guardrails_held: bool


class ParameterSummary(Part):
    """What one parameter does to the policy."""

    path: str
    unit: str = ""
    nominal: float
    points: tuple[ProbedPoint, ...]
    feasible: tuple[float, float]
    suggested_range: tuple[float, float]
    cliffs: tuple[tuple[float, float], ...]
    """neighbours between which the retention falls by more than 0.30"""
    sensitivity: float | None
    """largest change of retention per e-fold of the parameter; None when it crosses zero"""
    censored: tuple[Literal["lo", "hi"], ...]
    """ends at which the grid ended before the policy did"""
    safety_notes: tuple[str, ...] = ()


class ProbeSummary(Document):
    """What a probe found."""

    schema_id: str = Field(default="telic.dr_probe_summary/1", alias="schema")
    policy: ProbedPolicy
    protocol_hash: str
    worst: float
    """score of the worst policy, which counts as retention 0"""
    parameters: tuple[ParameterSummary, ...]


def summarise(
    plan: ProbePlan, results: Mapping[str, Sequence[ProbeResult]], worst: float = 0.0
) -> ProbeSummary:
    """Return how far each parameter can be moved before the policy loses a fifth of its score."""
    missing = [each.path for each in plan.parameters if each.path not in results]
    if missing:
        raise StudyError("E_PROBE_RESULTS", f"There are no results for {', '.join(missing)}.")
    return ProbeSummary(
        policy=plan.policy,
        protocol_hash=plan.protocol_hash,
        worst=worst,
        parameters=tuple(_parameter(each, results[each.path], worst) for each in plan.parameters),
    )


def range_problems(ranges: Mapping[str, tuple[float, float]], summary: ProbeSummary) -> list[str]:
    """Return why randomisation ranges go beyond what was probed; empty when they do not.

    A range may exceed the feasible one by a tenth of its width on each side, per step.
    """
    known = {each.path: each for each in summary.parameters}
    problems: list[str] = []
    for path, (low, high) in ranges.items():
        if path not in known:
            problems.append(f"{path} was not probed")
            continue
        start, end = known[path].feasible
        room = _WIDER_PER_STEP * (end - start)
        if low < start - room or high > end + room:
            problems.append(
                f"{path} {low:g} to {high:g} exceeds {start:g} to {end:g} by more than a tenth"
            )
    return problems


def _parameter(
    parameter: ProbedParameter, results: Sequence[ProbeResult], worst: float
) -> ParameterSummary:
    by_value = {each.value: each for each in results}
    nominal = by_value.get(parameter.nominal)
    base = mean(nominal.scores) if nominal else None
    if nominal is None or base is None or base <= worst:
        raise StudyError(
            "E_PROBE_NOMINAL",
            f"{parameter.path} has no nominal score above the worst policy's {worst:g}.",
            hint="Evaluate the nominal point, and give the score of a random policy as worst.",
        )
    measured = [value for value in parameter.grid if value in by_value]
    points = [_point(by_value[value], nominal, worst, parameter.path) for value in measured]
    centre = measured.index(parameter.nominal)
    low, high = _extent(points, centre, -1), _extent(points, centre, +1)
    ends = {"lo": low == 0, "hi": high == len(points) - 1}
    return ParameterSummary(
        path=parameter.path,
        unit=parameter.unit,
        nominal=parameter.nominal,
        points=tuple(points),
        feasible=(points[low].value, points[high].value),
        suggested_range=(_edge(points, low, -1), _edge(points, high, +1)),
        cliffs=tuple(
            (a.value, b.value)
            for a, b in pairwise(points)
            if abs(a.retention - b.retention) > _CLIFF
        ),
        sensitivity=_sensitivity(points),
        censored=tuple(side for side in ("lo", "hi") if ends[side]),
        safety_notes=tuple(
            f"a guardrail broke at {each.value:g}" for each in points if not each.guardrails_held
        ),
    )


def _point(result: ProbeResult, nominal: ProbeResult, worst: float, path: str) -> ProbedPoint:
    base, here = mean(nominal.scores) or 0.0, mean(result.scores) or 0.0
    is_nominal = result.value == nominal.value
    return ProbedPoint(
        value=result.value,
        retention=1.0 if is_nominal else (here - worst) / (base - worst),
        rho_lo=1.0 if is_nominal else _lower_bound(result, nominal, worst, path),
        guardrails_held=result.guardrails_held,
    )


def _lower_bound(result: ProbeResult, nominal: ProbeResult, worst: float, path: str) -> float:
    """Return the 5 % bound of the retention when seeds are drawn anew at both settings."""
    import numpy as np

    generator = np.random.PCG64(seed_of(f"{path}={result.value!r}"))
    means: list[np.ndarray] = []
    for scores in (result.scores, nominal.scores):
        draws = generator.random_raw(RESAMPLES * len(scores)) % len(scores)
        drawn = np.asarray(scores, dtype=np.float64)[draws.reshape(RESAMPLES, len(scores))]
        means.append(drawn.mean(axis=1) - worst)
    return float(np.quantile(means[0] / np.maximum(means[1], 1e-12), 0.05))


def _holds(point: ProbedPoint) -> bool:
    return point.rho_lo >= HOLDS and point.guardrails_held


def _extent(points: Sequence[ProbedPoint], centre: int, step: int) -> int:
    """Return the last place, going from the centre, up to which all points hold."""
    place = centre
    while 0 <= place + step < len(points) and _holds(points[place + step]):
        place += step
    return place


def _edge(points: Sequence[ProbedPoint], place: int, step: int) -> float:
    """Return where the retention bound is thought to cross 0.80 beyond the last point that holds.

    Where a guardrail broke, the last point that held is the edge.
    """
    beyond = place + step
    inner = points[place]
    if not 0 <= beyond < len(points) or not points[beyond].guardrails_held:
        return inner.value
    outer = points[beyond]
    share = (inner.rho_lo - HOLDS) / (inner.rho_lo - outer.rho_lo)
    return inner.value + share * (outer.value - inner.value)


def _sensitivity(points: Sequence[ProbedPoint]) -> float | None:
    if any(each.value <= 0 for each in points):
        return None
    slopes = [
        abs((b.retention - a.retention) / math.log(b.value / a.value)) for a, b in pairwise(points)
    ]
    return max(slopes, default=None)
