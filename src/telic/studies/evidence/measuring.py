"""From the files of a run to one fact sheet: its score, its guardrails, its curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field

from telic.storage.files import read_json
from telic.studies.canonical import content_hash, file_hash
from telic.studies.documents.adapter import Adapter
from telic.studies.documents.base import Actor, Part
from telic.studies.documents.metrics import MetricSpec
from telic.studies.documents.runs import Evidence
from telic.studies.errors import StudyError
from telic.studies.evidence.extract import read_rows, renamed
from telic.studies.evidence.series import Row, Series, aggregate, to_series
from telic.studies.evidence.store import add_evidence
from telic.studies.folder import StudyFolder
from telic.studies.state import RunState
from telic.studies.study import Study

CURVE_POINTS = 120
ARTEFACTS = "artefacts"
PATTERN_KEY = "x-pattern"
"""free key of an extractor: the pattern by which text is read"""


class Measurement(Part):
    """What a run came to; None is not measured."""

    run: str
    candidate: str
    phase: str
    seed: int
    kind: str = "train"
    primary: float | None
    scores: dict[str, float]
    """the primary metric by stratum"""
    guardrails: dict[str, float]
    missing: tuple[str, ...] = ()
    """keys of the metric spec that the log does not have"""
    steps: float | None = None
    wall_s: float | None = None
    protocol_hash: str | None
    metric_spec_hash: str | None
    code_hash: str
    hardware: str | None = None
    files: dict[str, str] = Field(default_factory=dict[str, str])
    """what was read, by its hash"""
    curves: dict[str, tuple[tuple[float, float], ...]] = Field(
        default_factory=dict[str, tuple[tuple[float, float], ...]]
    )
    """thinned, for pictures"""


def analyze_run(study: Study, run: str, actor: Actor) -> Evidence:
    """Measure a run that has ended and enter it as evidence; again is the same evidence.

    Raises StudyError E_RUN_LIVE while it still runs.
    """
    state = study.state
    held = run_state(state.runs, run)
    if held.is_live:
        raise StudyError(
            "E_RUN_LIVE", f"{run} is still {held.status}.", hint="Look at it: telic study monitor"
        )
    found = measure_run(study, run, held)
    text = "not measured" if found.primary is None else f"{found.primary:.6g}"
    return add_evidence(
        study,
        "metrics",
        found.as_data(),
        actor,
        run=run,
        candidate=held.candidate,
        protocol_hash=found.protocol_hash,
        producer="telic.analyze",
        summary=text,
    )


def run_state(runs: Mapping[str, RunState], run: str) -> RunState:
    """Return a run as the ledger knows it; raises StudyError E_NO_RUN."""
    if run not in runs:
        raise StudyError("E_NO_RUN", f"The ledger knows no run {run}.")
    return runs[run]


def measure_run(study: Study, run: str, held: RunState) -> Measurement:
    """Return what a run came to, from its files alone."""
    folder, spec = study.folder, study.metric_spec
    path = log_path(folder, run, spec)
    rows = read_rows(spec.extractor.kind, path, pattern_of(spec))
    series = named_series(rows, spec, study.adapter)
    scores = score_strata(rows, series, spec)
    wanted = [spec.primary.key, *(each.key for each in spec.guardrails)]
    actual = held.actual
    steps = actual.env_steps if actual else None
    hours = actual.wall_clock_h if actual else None
    return Measurement(
        run=run,
        candidate=held.candidate,
        phase=held.phase,
        seed=held.seed,
        kind=held.kind,
        primary=math.fsum(scores.values()) / len(scores) if scores else None,
        scores=scores,
        guardrails={
            each.key: value
            for each in spec.guardrails
            if each.key in series and (value := aggregate(series[each.key], "mean")) is not None
        },
        missing=tuple(key for key in wanted if key not in series),
        steps=steps if steps is not None else last_step(series),
        wall_s=None if hours is None else 3600 * hours,
        protocol_hash=study.protocol_hash,
        metric_spec_hash=study.metric_spec_hash,
        code_hash=_code_hash(folder, spec),
        hardware=hardware_class(folder.run(run) / "hw.json"),
        files={str(each.relative_to(folder.run(run))): file_hash(each) for each in _files(path)},
        curves={name: thinned(each) for name, each in series.items() if _is_drawn(name, spec)},
    )


def log_path(folder: StudyFolder, run: str, spec: MetricSpec) -> Path:
    """Return where the extractor reads: in the run's artefacts, else in its own folder."""
    inside = folder.run(run)
    for base in (inside / ARTEFACTS, inside):
        path = base / spec.extractor.path
        if not path.resolve().is_relative_to(inside.resolve()):
            raise StudyError(
                "E_EXTRACTOR_PATH", f"The extractor path {spec.extractor.path} leaves the run."
            )
        if path.exists():
            return path
    return inside / ARTEFACTS / spec.extractor.path


def pattern_of(spec: MetricSpec) -> str | None:
    """Return the pattern by which text is read, where the metric spec has one."""
    return (spec.extractor.model_extra or {}).get(PATTERN_KEY)


def named_series(rows: Sequence[Row], spec: MetricSpec, adapter: Adapter) -> dict[str, Series]:
    """Return all series, canonical names of adapter and metric spec included."""
    names = dict(adapter.metrics.map)
    if spec.primary.source:
        names[spec.primary.key] = spec.primary.source
    return renamed(to_series(rows), names)


def score_strata(
    rows: Sequence[Row], series: Mapping[str, Series], spec: MetricSpec
) -> dict[str, float]:
    """Return the primary metric by stratum, normalised where the metric spec says how."""
    key, how = spec.primary.key, spec.primary.aggregate
    parts: dict[str, Series | None] = {"": series.get(key)}
    if spec.strata is not None:
        logged = spec.primary.source or key
        parts = {
            value: to_series(row for row in rows if row.get(spec.strata.field) == value).get(logged)
            for value in spec.strata.values
        }
    found = {name: aggregate(each, how) for name, each in parts.items() if each is not None}
    return {name: normalised(value, spec) for name, value in found.items() if value is not None}


def normalised(value: float, spec: MetricSpec) -> float:
    """Return a value of the primary metric on the scale that the metric spec gives, if any."""
    scale = spec.normalisation
    return value if scale is None else (value - scale.lo) / (scale.hi - scale.lo)


def last_step(series: Mapping[str, Series]) -> float | None:
    """Return the highest step that was logged; None when nothing was."""
    return max((each.steps[-1] for each in series.values() if each.steps), default=None)


def thinned(series: Series) -> tuple[tuple[float, float], ...]:
    """Return at most `CURVE_POINTS` finite points, the last one among them."""
    steps, values, _ = series.finite()
    stride = max(1, math.ceil(len(steps) / CURVE_POINTS))
    places = list(range(0, len(steps), stride))
    if steps and places[-1] != len(steps) - 1:
        places.append(len(steps) - 1)
    return tuple((steps[i], values[i]) for i in places)


def hardware_class(path: Path) -> str | None:
    """Return kind of processor, GPUs and precision settings in one line; None if not recorded."""
    if not path.is_file():
        return None
    facts = read_json(path)
    gpus = sorted({each["name"] for each in facts.get("gpus") or ()})
    flags = [f"{name}={value}" for name, value in sorted(facts.get("precision_flags", {}).items())]
    machine = str(facts.get("platform", "")).split(" ")[-1]
    return "; ".join([machine, *(gpus or ["cpu"]), *flags])


def _code_hash(folder: StudyFolder, spec: MetricSpec) -> str:
    """Return one hash of evaluator, extractor and environment as they are on disk."""
    protocol = folder.read_protocol()
    files = {
        name: file_hash(path) if (path := folder.root / name).is_file() else None
        for name in protocol.evaluator_files
    }
    return content_hash(
        {
            "evaluator": files,
            "extractor": spec.extractor.as_data(),
            "environment": protocol.env_config_hash,
        }
    )


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(each for each in path.rglob("*") if each.is_file())
    return [path] if path.is_file() else []


def _is_drawn(name: str, spec: MetricSpec) -> bool:
    wanted = {spec.primary.key, "return", *(each.key for each in spec.components)}
    wanted |= {each.key for each in spec.guardrails} | {each.key for each in spec.diagnostics}
    return name in wanted or name.startswith("reward/")
