"""Can the metric spec read what a repository logs: a look at a sample, before people agree."""

from __future__ import annotations

from pathlib import Path

from telic.studies.documents.base import DocumentPart
from telic.studies.evidence.logs import read_rows, to_series
from telic.studies.evidence.measurement import (
    declared_axis,
    named_series,
    pattern_of,
    score_strata,
)
from telic.studies.evidence.statistics import aggregate
from telic.studies.folder import StudyFolder


class SampledKey(DocumentPart):
    """A key of the metric spec in a sample log."""

    key: str
    role: str
    points: int
    value: float | None


class SampleCheck(DocumentPart):
    """What the metric spec finds in a sample log."""

    keys: tuple[SampledKey, ...]
    missing: tuple[str, ...]
    """keys that a result needs and the log does not have"""
    logged: tuple[str, ...]
    """every name in the log"""
    scores: dict[str, float]
    """the primary metric by stratum"""


def check_sample(folder: StudyFolder, sample: Path) -> SampleCheck:
    """Read a sample log by the metric spec: can it read what is logged? Writes nothing."""
    spec = folder.read_metric_spec()
    rows = read_rows(spec.extractor.kind, sample, pattern_of(spec))
    adapter = folder.read_adapter()
    axis = declared_axis(spec, adapter)
    series = named_series(to_series(rows, axis), spec, adapter)
    roles = {spec.primary.key: "primary"}
    roles |= {rail.key: "guardrail" for rail in spec.guardrails}
    roles |= {component.key: "component" for component in spec.components}
    roles |= {diagnostic.key: "diagnostic" for diagnostic in spec.diagnostics}
    keys: list[SampledKey] = []
    for key, role in roles.items():
        logged = series.get(key)
        how = spec.primary.aggregate if role == "primary" else "mean"
        points, value = (len(logged.values), aggregate(logged, how)) if logged else (0, None)
        keys.append(SampledKey(key=key, role=role, points=points, value=value))
    return SampleCheck(
        keys=tuple(keys),
        missing=tuple(key.key for key in keys if not key.points and key.role != "diagnostic"),
        logged=tuple(sorted(series)),
        scores=score_strata(rows, series, spec, axis),
    )
