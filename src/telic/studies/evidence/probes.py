"""Probes: move one parameter of the world at a time and see how far a policy holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from telic.storage.files import read_json
from telic.studies.documents.base import Document, DocumentPart, StudyActor, read_yaml
from telic.studies.documents.candidate import Evidence
from telic.studies.errors import InvalidDocument, StudyError
from telic.studies.evidence.statistics import draw, mean, oriented, seed_of
from telic.studies.evidence.store import add_evidence

if TYPE_CHECKING:
    from telic.studies.study import Study

HOLDS = 0.80
"""retention that a range must keep"""
_PLAN = "dr_probe_plan"
_WIDER_PER_STEP = 0.10
_GRID = 7


class ProbedParameter(DocumentPart):
    """A parameter that is moved while the others stay."""

    path: str
    nominal: float
    grid: tuple[float, ...] = Field(min_length=5)
    """rising, with the nominal value"""


class ProbePlan(Document):
    """What a probe measures: one parameter at a time."""

    schema_id: str = Field(default="telic.dr_probe_plan/1", alias="schema")
    candidate: str
    checkpoint_sha: str
    protocol_hash: str
    parameters: tuple[ProbedParameter, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=3)
    episodes: int = Field(default=10, ge=10)

    @property
    def evaluations(self) -> int:
        """How many evaluations it takes; the nominal point is shared by all parameters."""
        return (1 + sum(len(each.grid) - 1 for each in self.parameters)) * len(self.seeds)


class ProbeResult(DocumentPart):
    """Scores of one setting, one per seed."""

    value: float
    scores: tuple[float, ...] = Field(min_length=1)
    guardrails_held: bool = True


class ProbedPoint(DocumentPart):
    """One setting of a parameter."""

    value: float
    retention: float
    rho_lo: float
    """5 % bootstrap bound of the retention"""
    guardrails_held: bool

    @property
    def holds(self) -> bool:
        """Whether the policy keeps its score and its guardrails."""
        return self.rho_lo >= HOLDS and self.guardrails_held


class ParameterSummary(DocumentPart):
    """What one parameter does to the policy."""

    path: str
    nominal: float
    points: tuple[ProbedPoint, ...]
    feasible: tuple[float, float]
    suggested_range: tuple[float, float]
    sensitivity: float | None
    """largest change of retention per e-fold of the parameter; None when it crosses zero"""
    censored: tuple[Literal["lo", "hi"], ...]
    """ends at which the grid ended before the policy did"""
    safety_notes: tuple[str, ...] = ()


class ProbeSummary(Document):
    """What a probe found."""

    schema_id: str = Field(default="telic.dr_probe_summary/1", alias="schema")
    candidate: str
    checkpoint_sha: str
    protocol_hash: str
    worst: float
    """score of the worst policy, which counts as retention 0"""
    parameters: tuple[ParameterSummary, ...]


def read_parameters(texts: list[str]) -> tuple[ProbedParameter, ...]:
    """Read parameters such as "body.mass=10:5..15" or "friction=1:0.25..4:log"."""
    return tuple(_read_parameter(text) for text in texts)


def _read_parameter(text: str) -> ProbedParameter:
    path, _, rest = text.partition("=")
    middle, _, ends = rest.partition(":")
    ends, _, scale = ends.partition(":")
    low, _, high = ends.partition("..")
    try:
        nominal, first, last = float(middle), float(low), float(high)
    except ValueError:
        raise StudyError(
            "E_PROBE_PARAMETER",
            f'"{text}" is not a parameter to probe.',
            hint="Write path=nominal:low..high, with :log at the end for a logarithmic grid.",
        ) from None
    points = grid(nominal, first, last, is_log=scale == "log")
    return ProbedParameter(path=path, nominal=nominal, grid=points)


def grid(nominal: float, low: float, high: float, *, is_log: bool = False) -> tuple[float, ...]:
    """Return a rising grid of seven points from low to high that holds the nominal value."""
    if not low < high or not low <= nominal <= high or (is_log and low <= 0):
        raise StudyError(
            "E_PROBE_GRID",
            f"There is no grid from {low:g} to {high:g} around {nominal:g}.",
            hint="Give low < nominal < high; a logarithmic grid stays above 0.",
        )
    shares = [place / (_GRID - 1) for place in range(_GRID)]
    values = [low * (high / low) ** x if is_log else low + x * (high - low) for x in shares]
    values = [float(f"{value:.12g}") for value in values]
    if nominal not in values:  # the nearest inner point makes room
        values[min(range(1, _GRID - 1), key=lambda i: abs(values[i] - nominal))] = nominal
    return tuple(values)


def plan_probe(
    study: Study,
    candidate: str,
    checkpoint_sha: str,
    parameters: tuple[ProbedParameter, ...],
    seeds: tuple[int, ...],
    actor: StudyActor,
    episodes: int = 10,
) -> tuple[ProbePlan, Evidence]:
    """Record what a probe will measure; its runs are candidates of kind dr_probe."""
    state = study.state
    if candidate not in state.candidates:
        raise StudyError("E_NO_CANDIDATE", f"The ledger has no candidate {candidate}.")
    try:
        plan = ProbePlan(
            candidate=candidate,
            checkpoint_sha=checkpoint_sha,
            protocol_hash=state.protocol_hash or "",
            parameters=parameters,
            seeds=seeds,
            episodes=episodes,
        )
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidDocument("E_PROBE", f"{place}: {first['msg']}.") from None
    sheet = add_evidence(
        study,
        "preflight",
        {_PLAN: plan.as_data()},
        actor,
        candidate=candidate,
        protocol_hash=plan.protocol_hash,
        producer="telic.dr_plan",
        summary=f"{plan.evaluations} evaluations",
    )
    return plan, sheet


def summarise_probe(
    study: Study, candidate: str, results: Path, actor: StudyActor, worst: float = 0.0
) -> tuple[ProbeSummary, Evidence]:
    """Sum up the results of the candidate's last planned probe and enter them as evidence.

    The file holds, per parameter, a list of {value, scores, guardrails_held}.
    """
    planned = study.latest("preflight", candidate=candidate)
    if planned is None or _PLAN not in planned.payload:
        raise StudyError(
            "E_NO_PROBE",
            f"No probe of {candidate} was planned.",
            hint="Plan one first: telic study audit CANDIDATE --parameter",
        )
    plan = ProbePlan.parse(planned.payload[_PLAN], planned.id)
    rows = read_json(results) if results.suffix == ".json" else read_yaml(results)
    direction = study.metric_spec.primary.direction
    summary = summarise(plan, _read_results(rows, results), worst, direction)
    sheet = add_evidence(
        study,
        "dr_probe",
        summary.as_data(),
        actor,
        candidate=candidate,
        protocol_hash=plan.protocol_hash,
        producer="telic.dr_summary",
        summary=", ".join(parameter.path for parameter in summary.parameters),
    )
    return summary, sheet


def _read_results(given: Any, source: Path) -> dict[str, list[ProbeResult]]:
    try:
        return {
            path: [ProbeResult.model_validate(row) for row in rows] for path, rows in given.items()
        }
    except (ValidationError, AttributeError, TypeError) as error:
        raise InvalidDocument(
            "E_PROBE_RESULTS",
            f"{source} does not hold results of a probe: {error}",
            hint="Per parameter a list of {value, scores, guardrails_held}.",
        ) from None


def summarise(
    plan: ProbePlan,
    results: Mapping[str, Sequence[ProbeResult]],
    worst: float = 0.0,
    direction: str = "max",
) -> ProbeSummary:
    """Return how far each parameter can be moved before the policy loses a fifth of its score."""
    missing = [each.path for each in plan.parameters if each.path not in results]
    if missing:
        raise StudyError("E_PROBE_RESULTS", f"There are no results for {', '.join(missing)}.")
    sign = oriented(1.0, direction)
    return ProbeSummary(
        candidate=plan.candidate,
        checkpoint_sha=plan.checkpoint_sha,
        protocol_hash=plan.protocol_hash,
        worst=worst,
        parameters=tuple(
            _summarise(each, results[each.path], worst, sign) for each in plan.parameters
        ),
    )


def range_problems(ranges: Mapping[str, tuple[float, float]], summary: ProbeSummary) -> list[str]:
    """Return why randomisation ranges go beyond what was probed; empty when they do not.

    A range may exceed the feasible one by a tenth of its width on each side, per step.
    """
    probed = {each.path: each.feasible for each in summary.parameters}
    problems: list[str] = []
    for path, (low, high) in ranges.items():
        if path not in probed:
            problems.append(f"{path} was not probed")
            continue
        start, end = probed[path]
        room = _WIDER_PER_STEP * (end - start)
        if low < start - room or high > end + room:
            problems.append(
                f"{path} {low:g} to {high:g} exceeds {start:g} to {end:g} by more than a tenth"
            )
    return problems


def _summarise(
    parameter: ProbedParameter, results: Sequence[ProbeResult], worst: float, sign: float
) -> ParameterSummary:
    above = {each.value: [sign * (x - worst) for x in each.scores] for each in results}
    held = {each.value: each.guardrails_held for each in results}
    nominal = above.get(parameter.nominal, [])
    base = mean(nominal)
    if base is None or base <= 0:
        raise StudyError(
            "E_PROBE_NOMINAL",
            f"{parameter.path} has no nominal score above the worst policy's {worst:g}.",
            hint="Evaluate the nominal point, and give the score of a random policy as worst.",
        )
    points = [
        ProbedPoint(
            value=value,
            retention=(mean(above[value]) or 0.0) / base,
            rho_lo=1.0
            if value == parameter.nominal
            else _lower_bound(above[value], nominal, f"{parameter.path}={value!r}"),
            guardrails_held=held[value],
        )
        for value in parameter.grid
        if value in above
    ]
    centre = next(i for i, point in enumerate(points) if point.value == parameter.nominal)
    low, high = _extent(points, centre, -1), _extent(points, centre, +1)
    slopes = [
        abs((b.retention - a.retention) / math.log(b.value / a.value))
        for a, b in pairwise(points)
        if a.value > 0
    ]
    ends = {"lo": low == 0, "hi": high == len(points) - 1}
    return ParameterSummary(
        path=parameter.path,
        nominal=parameter.nominal,
        points=tuple(points),
        feasible=(points[low].value, points[high].value),
        suggested_range=(_edge(points, low, -1), _edge(points, high, +1)),
        sensitivity=max(slopes) if len(slopes) == len(points) - 1 and slopes else None,
        censored=tuple(side for side in ("lo", "hi") if ends[side]),
        safety_notes=tuple(
            f"a guardrail broke at {each.value:g}" for each in points if not each.guardrails_held
        ),
    )


def _lower_bound(here: Sequence[float], nominal: Sequence[float], name: str) -> float:
    """Return the 5 % bound of the retention when seeds are drawn anew at both settings."""
    import numpy as np

    generator = np.random.PCG64(seed_of(name))
    ours, theirs = (
        np.asarray(scores)[draw(generator, len(scores))].mean(axis=1) for scores in (here, nominal)
    )
    return float(np.quantile(ours / np.maximum(theirs, 1e-12), 0.05))


def _extent(points: Sequence[ProbedPoint], centre: int, step: int) -> int:
    """Return the last place, going from the centre, up to which all points hold."""
    place = centre
    while 0 <= place + step < len(points) and points[place + step].holds:
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
