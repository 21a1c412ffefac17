"""Can the metric spec read what this repository logs: try it on a sample."""

from __future__ import annotations

from pathlib import Path

from telic.studies.documents.base import Part
from telic.studies.evidence.extract import read_rows
from telic.studies.evidence.measuring import named_series, pattern_of, score_strata
from telic.studies.evidence.series import aggregate
from telic.studies.folder import StudyFolder


class SampledKey(Part):
    """A key of the metric spec in a sample log."""

    key: str
    role: str
    points: int
    value: float | None


class SampleCheck(Part):
    """What the metric spec finds in a sample log."""

    keys: tuple[SampledKey, ...]
    missing: tuple[str, ...]
    """keys that a result needs and the log does not have"""
    logged: tuple[str, ...]
    """every name in the log"""
    scores: dict[str, float]
    """the primary metric by stratum"""


def check_sample(folder: StudyFolder, sample: Path) -> SampleCheck:
    """Read a sample log by the metric spec; writes nothing."""
    spec = folder.read_metric_spec()
    rows = read_rows(spec.extractor.kind, sample, pattern_of(spec))
    series = named_series(rows, spec, folder.read_adapter())
    roles = {spec.primary.key: "primary"}
    roles |= {each.key: "guardrail" for each in spec.guardrails}
    roles |= {each.key: "component" for each in spec.components}
    roles |= {each.key: "diagnostic" for each in spec.diagnostics}
    keys = [
        SampledKey(
            key=key,
            role=role,
            points=len(series[key].values) if key in series else 0,
            value=aggregate(series[key], spec.primary.aggregate if role == "primary" else "mean")
            if key in series
            else None,
        )
        for key, role in roles.items()
    ]
    return SampleCheck(
        keys=tuple(keys),
        missing=tuple(each.key for each in keys if not each.points and each.role != "diagnostic"),
        logged=tuple(sorted(series)),
        scores=score_strata(rows, series, spec),
    )
