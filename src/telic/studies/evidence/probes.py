"""Robustness probes: how far one parameter of the world may move before a policy fails."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field

from telic.core.config import Record
from telic.storage.files import as_record, read_json
from telic.studies.documents.base import Document, StudyActor, read_yaml
from telic.studies.documents.candidate import Evidence
from telic.studies.errors import StudyError
from telic.studies.evidence.statistics import draw, mean, oriented, seed_of
from telic.studies.evidence.store import add_evidence

if TYPE_CHECKING:
    from telic.studies.study import Study

HOLDS = 0.80
"""retention that a range must keep"""
_WIDER_PER_STEP = 0.10


class _Setting(Record):
    """The scores of one setting, one per seed."""

    value: float
    scores: tuple[float, ...] = Field(min_length=3)
    guardrails_held: bool = True


class _Probed(Record):
    """The settings of one parameter, the others being nominal."""

    nominal: float
    settings: tuple[_Setting, ...] = Field(min_length=3)


class _ProbeResults(Record):
    parameters: dict[str, _Probed] = Field(min_length=1)


class ProbedPoint(Record):
    """One setting of a parameter."""

    model_config = ConfigDict(extra="ignore")

    value: float
    retention: float
    """share of the nominal score that is kept"""
    rho_lo: float
    """5 % bootstrap bound of the retention"""
    guardrails_held: bool


class ParameterSummary(Record):
    """The range of one parameter in which the policy holds."""

    model_config = ConfigDict(extra="ignore")

    path: str
    nominal: float
    points: tuple[ProbedPoint, ...]
    feasible: tuple[float, float]


class ProbeSummary(Document):
    """The results of a probe; unknown fields are those of earlier versions."""

    model_config = ConfigDict(extra="ignore")

    schema_id: str = Field(default="telic.dr_probe_summary/1", alias="schema")
    candidate: str
    protocol_hash: str
    worst: float
    """score of the worst policy, which counts as retention 0"""
    parameters: tuple[ParameterSummary, ...]


def summarise_probe(
    study: Study, candidate: str, results: Path, actor: StudyActor, worst: float = 0.0
) -> tuple[ProbeSummary, Evidence]:
    """Find how far each parameter may move before a fifth of the score is lost; record it.

    The file has per parameter {nominal, settings: [{value, scores, guardrails_held}]}.
    """
    study.candidate_state(candidate)
    rows = read_json(results) if results.suffix == ".json" else read_yaml(results)
    probed = as_record({"parameters": rows}, _ProbeResults, str(results)).parameters
    direction = study.metric_spec.primary.direction
    summary = ProbeSummary(
        candidate=candidate,
        protocol_hash=study.state.protocol_hash or "",
        worst=worst,
        parameters=tuple(_summary(path, x, worst, direction) for path, x in probed.items()),
    )
    sheet = add_evidence(
        study,
        "dr_probe",
        summary.as_data(),
        actor,
        candidate=candidate,
        protocol_hash=summary.protocol_hash,
        producer="telic.dr_summary",
        summary=", ".join(probed),
    )
    return summary, sheet


def _summary(path: str, probed: _Probed, worst: float, direction: str) -> ParameterSummary:
    import numpy as np

    settings = sorted(probed.settings, key=lambda setting: setting.value)
    above = [[oriented(x - worst, direction) for x in each.scores] for each in settings]
    values = [setting.value for setting in settings]
    base = mean(above[values.index(probed.nominal)]) if probed.nominal in values else None
    if base is None or base <= 0:
        raise StudyError(
            "E_PROBE_NOMINAL",
            f"{path} has no nominal score above the worst policy's {worst:g}.",
            hint="Evaluate the nominal value, and give the score of a random policy as --worst.",
        )
    centre = values.index(probed.nominal)
    points: list[ProbedPoint] = []
    for setting, scores in zip(settings, above, strict=True):
        generator = np.random.PCG64(seed_of(f"{path}={setting.value!r}"))
        ours, theirs = (
            np.asarray(each)[draw(generator, len(each))].mean(axis=1)
            for each in (scores, above[centre])
        )
        bound = float(np.quantile(ours / np.maximum(theirs, 1e-12), 0.05))
        points.append(
            ProbedPoint(
                value=setting.value,
                retention=(mean(scores) or 0.0) / base,
                rho_lo=1.0 if setting.value == probed.nominal else bound,
                guardrails_held=setting.guardrails_held,
            )
        )
    holds = [point.rho_lo >= HOLDS and point.guardrails_held for point in points]
    low = high = centre
    while low > 0 and holds[low - 1]:
        low -= 1
    while high + 1 < len(points) and holds[high + 1]:
        high += 1
    return ParameterSummary(
        path=path,
        nominal=probed.nominal,
        points=tuple(points),
        feasible=(points[low].value, points[high].value),
    )


def range_problems(ranges: Mapping[str, tuple[float, float]], summary: ProbeSummary) -> list[str]:
    """Return why randomization ranges go beyond what was probed; empty when they do not.

    A range may exceed the feasible one by a tenth of its width on each side, per step.
    """
    probed: dict[str, Any] = {each.path: each.feasible for each in summary.parameters}
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
