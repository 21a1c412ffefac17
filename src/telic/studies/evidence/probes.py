"""Probes: move one parameter of the world at a time and see how far a policy holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from telic.storage.files import read_json
from telic.studies.documents.base import Document, DocumentPart, StudyActor, read_yaml
from telic.studies.documents.candidate import Evidence
from telic.studies.errors import InvalidDocument, StudyError
from telic.studies.evidence.claims import oriented
from telic.studies.evidence.statistics import draw, mean, seed_of
from telic.studies.evidence.store import add_evidence

if TYPE_CHECKING:
    import numpy as np

    from telic.studies.study import Study

PLAN = "dr_probe_plan"
HOLDS = 0.80
"""retention that a range must keep"""
_CLIFF = 0.30
_WIDER_PER_STEP = 0.10
_GRID = 7
_EPISODES = 10


class ProbedParameter(DocumentPart):
    """A parameter that is moved while the others stay."""

    path: str
    unit: str = ""
    nominal: float
    grid: tuple[float, ...] = Field(min_length=5)
    scale: Literal["linear", "log"] = "linear"
    hard_limits: tuple[float, float] | None = None

    @model_validator(mode="after")
    def _check_grid(self) -> Self:
        if list(self.grid) != sorted(set(self.grid)):
            raise ValueError(f"the grid of {self.path} must rise")
        if self.nominal not in self.grid:
            raise ValueError(f"the grid of {self.path} lacks its nominal value {self.nominal:g}")
        if self.scale == "log" and self.grid[0] <= 0:
            raise ValueError(f"a logarithmic grid of {self.path} must be above 0")
        low, high = self.hard_limits or (-math.inf, math.inf)
        if self.grid[0] < low or self.grid[-1] > high:
            raise ValueError(f"the grid of {self.path} leaves its hard limits {low:g} to {high:g}")
        return self


class ProbedPolicy(DocumentPart):
    """The policy under test."""

    candidate: str
    checkpoint_sha: str


class ProbePlan(Document):
    """What a probe will do: one parameter at a time."""

    schema_id: str = Field(default="telic.dr_probe_plan/1", alias="schema")
    policy: ProbedPolicy
    protocol_hash: str
    parameters: tuple[ProbedParameter, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=3)
    episodes: int = Field(default=10, ge=10)
    one_at_a_time: Literal[True] = True

    @property
    def evaluations(self) -> int:
        """How many evaluations it takes; the nominal point is shared by all parameters."""
        return (1 + sum(len(each.grid) - 1 for each in self.parameters)) * len(self.seeds)


class ProbeResult(DocumentPart):
    """Scores of one setting, larger is better, one per seed."""

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


class ParameterSummary(DocumentPart):
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


def read_parameters(texts: list[str]) -> tuple[ProbedParameter, ...]:
    """Read parameters such as "body.mass=10:5..15" or "friction=1:0.25..4:log"."""
    return tuple(_read_parameter(text) for text in texts)


def _read_parameter(text: str) -> ProbedParameter:
    path, _, rest = text.partition("=")
    middle, _, ends = rest.partition(":")
    ends, _, scale = ends.partition(":")
    low, _, high = ends.partition("..")
    try:
        values = float(middle), float(low), float(high)
    except ValueError:
        raise StudyError(
            "E_PROBE_PARAMETER",
            f'"{text}" is not a parameter to probe.',
            hint="Write path=nominal:low..high, with :log at the end for a logarithmic grid.",
        ) from None
    kind = "log" if scale == "log" else "linear"
    points = grid(*values, scale=kind)
    return ProbedParameter(path=path, nominal=values[0], grid=points, scale=kind)


def plan_probe(
    study: Study,
    candidate: str,
    checkpoint_sha: str,
    parameters: tuple[ProbedParameter, ...],
    seeds: tuple[int, ...],
    actor: StudyActor,
    episodes: int = _EPISODES,
) -> tuple[ProbePlan, Evidence]:
    """Write down what a probe will measure; its runs are candidates of kind dr_probe."""
    state = study.state
    if candidate not in state.candidates:
        raise StudyError("E_NO_CANDIDATE", f"The ledger knows no candidate {candidate}.")
    try:
        plan = ProbePlan(
            policy=ProbedPolicy(candidate=candidate, checkpoint_sha=checkpoint_sha),
            protocol_hash=state.protocol_hash or "",
            parameters=parameters,
            seeds=seeds,
            episodes=episodes,
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidDocument(
            "E_PROBE", f"{'.'.join(map(str, first['loc']))}: {first['msg']}."
        ) from None
    sheet = add_evidence(
        study,
        "preflight",
        {PLAN: plan.as_data()},
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

    The file holds, per parameter, a list of {value, scores, guardrails_held}; scores are turned so
    that larger is better where the metric is to be minimised.
    """
    plan = _last_plan(study, candidate)
    rows = read_json(results) if results.suffix == ".json" else read_yaml(results)
    sign = oriented(1.0, study.metric_spec.primary.direction)
    summary = summarise(plan, _results(rows, sign, results), sign * worst)
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


def _last_plan(study: Study, candidate: str) -> ProbePlan:
    sheet = study.latest("preflight", candidate=candidate)
    if sheet is None or PLAN not in sheet.payload:
        raise StudyError(
            "E_NO_PROBE",
            f"No probe of {candidate} was planned.",
            hint="Plan one first: telic study probe",
        )
    return ProbePlan.parse(sheet.payload[PLAN], sheet.id)


def _results(given: Any, sign: float, source: Path) -> dict[str, list[ProbeResult]]:
    def read(row: Any) -> ProbeResult:
        result = ProbeResult.model_validate(row)
        return result.model_copy(update={"scores": tuple(sign * score for score in result.scores)})

    try:
        return {path: [read(row) for row in rows] for path, rows in given.items()}
    except (ValidationError, AttributeError, TypeError) as error:
        raise InvalidDocument(
            "E_PROBE_RESULTS",
            f"{source} does not hold results of a probe: {error}",
            hint="Per parameter a list of {value, scores, guardrails_held}.",
        ) from None


def grid(
    nominal: float, low: float, high: float, *, scale: str = "linear", points: int = _GRID
) -> tuple[float, ...]:
    """Return a rising grid from low to high that holds the nominal value."""
    if not low < high or not low <= nominal <= high or (scale == "log" and low <= 0):
        raise StudyError(
            "E_PROBE_GRID",
            f"There is no {scale} grid from {low:g} to {high:g} around {nominal:g}.",
            hint="Give low < nominal < high; a logarithmic grid stays above 0.",
        )
    shares = [place / (points - 1) for place in range(points)]
    if scale == "log":
        values = [low * (high / low) ** share for share in shares]
    else:
        values = [low + share * (high - low) for share in shares]
    # The nearest inner point makes room, so that the ends and the number of points stay.
    nearest = min(range(points), key=lambda i: abs(values[i] - nominal))
    if nominal not in values:
        is_end = nominal in (low, high)
        values[nearest if is_end else min(max(nearest, 1), points - 2)] = nominal
    return tuple(sorted(float(f"{value:.12g}") for value in values))


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
        parameters=tuple(
            _summarise_parameter(each, results[each.path], worst) for each in plan.parameters
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


def _summarise_parameter(
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
        drawn = np.asarray(scores, dtype=np.float64)[draw(generator, len(scores))]
        means.append(drawn.mean(axis=1) - worst)
    return float(np.quantile(means[0] / np.maximum(means[1], 1e-12), 0.05))


def _extent(points: Sequence[ProbedPoint], centre: int, step: int) -> int:
    """Return the last place, going from the centre, up to which all points hold."""
    holds = [point.rho_lo >= HOLDS and point.guardrails_held for point in points]
    place = centre
    while 0 <= place + step < len(points) and holds[place + step]:
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
