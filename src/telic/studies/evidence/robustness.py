"""Measure robustness from finished runs: feasible parameter ranges and learnable cases.

The protocol evaluates every run under its perturbations (`parameter`, `value`), and this module
summarizes the scores of a candidate's finished runs. Numbers that no run measured are rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from telic.core.config import Record
from telic.studies.documents.base import Document, DocumentPart, StudyActor
from telic.studies.documents.candidate import Evidence, RunStatus
from telic.studies.errors import StudyError
from telic.studies.evidence._statistics import draw, oriented, seed_of
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.store import add_evidence
from telic.studies.launch.command import perturbations_of

if TYPE_CHECKING:
    from telic.studies.study import Study

HOLDS = 0.80
"""minimum fraction of the nominal score in a feasible range"""
_WIDER_PER_STEP = 0.10
_MIN_RUNS = 3
_LEARNABLE_SHARE = 0.60
_RARE, _CERTAIN = 0.1, 0.9
"""minimum and maximum success rate of a learnable case"""


class ProbedPoint(Record):
    """Result for one parameter value."""

    value: float
    retention: float
    """fraction of the nominal score retained"""
    rho_lo: float
    """5th percentile of the retention over bootstrap samples"""


class ParameterSummary(Record):
    """Range of one parameter in which the policy is feasible."""

    path: str
    nominal: float
    points: tuple[ProbedPoint, ...]
    feasible: tuple[float, float]


class ProbeSummary(Document):
    """Results of a robustness probe."""

    schema_id: str = Field(default="telic.dr_probe_summary/1", alias="schema")
    candidate: str
    protocol_hash: str
    runs: tuple[str, ...] = ()
    parameters: tuple[ParameterSummary, ...]


class Curriculum(DocumentPart):
    """Extra fields of a curriculum or environment-generation candidate."""

    mode: Literal["reweight", "schedule", "generate"]
    cases: tuple[str, ...] = Field(min_length=1)
    """protocol perturbations under which the incumbent was measured"""
    bridges: dict[str, str] = Field(default={})
    """failure of the incumbent that each generated case addresses"""


def _measured(study: Study, candidate: str) -> list[Measurement]:
    """Return the measurements of a candidate's finished runs under perturbations."""
    found = [
        study.measurement(name)
        for name, run in study.state.runs_of(candidate).items()
        if run.status == RunStatus.FINISHED and run.phase != "smoke"
    ]
    now = study.protocol_hash
    return [each for each in found if each and each.perturbed and each.protocol_hash == now]


def probe_candidate(study: Study, candidate: str, actor: StudyActor) -> Evidence:
    """Find and record the range of each parameter in which the policy keeps 80 % of its score.

    Raises StudyError E_PROBE_RUNS if too few runs were evaluated under perturbations.
    """
    runs, primary = _measured(study, candidate), study.metric_spec.primary
    zero, direction = primary.bounds[0] if primary.bounds else 0.0, primary.direction
    settings: dict[str, dict[float, str]] = {}
    nominals: dict[str, float] = {}
    for each in perturbations_of(study.protocol):
        if each.parameter is not None and each.value is not None and each.nominal is not None:
            settings.setdefault(each.parameter, {})[each.value] = each.name
            nominals[each.parameter] = each.nominal
    if len(runs) < _MIN_RUNS or not settings:
        raise StudyError(
            "E_PROBE_RUNS",
            f"{len(runs)} finished runs of {candidate} were evaluated under perturbations of a "
            f"parameter; {_MIN_RUNS} are required.",
            hint="Add perturbations with parameter, value, nominal and args to eval_protocol.yaml.",
        )
    base = [oriented((run.primary or 0.0) - zero, direction) for run in runs]
    if fmean(base) <= 0:
        raise StudyError("E_PROBE_NOMINAL", f"{candidate} does not score above the worst policy.")
    parameters = [
        _parameter(
            path,
            nominals[path],
            base,
            {
                value: [oriented(run.perturbed[name] - zero, direction) for run in runs]
                for value, name in values.items()
            },
        )
        for path, values in settings.items()
    ]
    summary = ProbeSummary(
        candidate=candidate,
        protocol_hash=study.state.protocol_hash or "",
        runs=tuple(run.run for run in runs),
        parameters=tuple(parameters),
    )
    text = ", ".join(f"{x.path} {x.feasible[0]:g} to {x.feasible[1]:g}" for x in parameters)
    data = summary.as_data()
    return add_evidence(study, "dr_probe", data, actor, candidate=candidate, summary=text)


def _parameter(
    path: str, nominal: float, base: list[float], scores: Mapping[float, list[float]]
) -> ParameterSummary:
    points: list[ProbedPoint] = []
    for value, found in sorted({**scores, nominal: base}.items()):
        generator = np.random.PCG64(seed_of(f"{path}={value!r}"))
        places = draw(generator, len(base))  # resample runs with both of their scores
        ours, theirs = (np.asarray(x)[places].mean(axis=1) for x in (found, base))
        bound = float(np.quantile(ours / np.maximum(theirs, 1e-12), 0.05))
        kept = fmean(found) / fmean(base)
        low = 1.0 if value == nominal else bound
        points.append(ProbedPoint(value=value, retention=kept, rho_lo=low))
    center = [point.value for point in points].index(nominal)
    low = high = center
    while low > 0 and points[low - 1].rho_lo >= HOLDS:
        low -= 1
    while high + 1 < len(points) and points[high + 1].rho_lo >= HOLDS:
        high += 1
    feasible = (points[low].value, points[high].value)
    return ParameterSummary(path=path, nominal=nominal, points=tuple(points), feasible=feasible)


def range_problems(
    study: Study, ranges: Mapping[str, tuple[float, float]], summary: ProbeSummary
) -> Iterator[str]:
    """Yield a problem for each randomization range that exceeds the measured range.

    A change may extend the feasible range by 10 % of its width on each side.
    """
    if not summary.runs or not study.state.runs.keys() >= set(summary.runs):
        yield "its probe does not use runs of this study"
        return
    probed: dict[str, Any] = {each.path: each.feasible for each in summary.parameters}
    for path, (low, high) in ranges.items():
        if path not in probed:
            yield f"{path} was not probed"
            continue
        start, end = probed[path]
        room = _WIDER_PER_STEP * (end - start)
        if low < start - room or high > end + room:
            yield f"{path} {low:g} to {high:g} exceeds {start:g} to {end:g} by more than a tenth"


def curriculum_problems(study: Study, given: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the problems of a curriculum, whose cases must be measured and learnable."""
    try:
        plan = Curriculum.model_validate(given or {})
    except ValidationError as error:
        for each in error.errors():
            yield f"curriculum.{'.'.join(map(str, each['loc']))}: {each['msg']}"
        return
    runs = _measured(study, study.incumbent.candidate) if study.incumbent else []
    chances = {
        case: fmean(run.perturbed[case] for run in runs)
        for case in plan.cases
        if runs and all(case in run.perturbed for run in runs)
    }
    for case in plan.cases:
        if case not in chances:
            yield f"no run of the incumbent was evaluated under the case {case}"
        elif plan.mode == "generate" and case not in plan.bridges:
            yield f"case {case} does not state which failure it addresses"
    good = [_RARE <= chance <= _CERTAIN for chance in chances.values()]
    if good and sum(good) / len(good) < _LEARNABLE_SHARE:
        yield (
            f"only {sum(good) / len(good):.0%} of the cases are learnable ({_RARE} <= success <= "
            f"{_CERTAIN}); {_LEARNABLE_SHARE:.0%} are needed"
        )
