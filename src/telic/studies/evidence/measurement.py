"""Measure a run by its files: its score, its guardrails and its curves.

The score is that of the evaluator that the contract names, on seeds that no training saw, or else
of the training's own log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from telic.errors import TelicError
from telic.storage.files import read_fields
from telic.storage.reading import file_hash, files_below
from telic.studies.canonical import content_hash
from telic.studies.documents.adapter import Adapter, LogSource, RepositoryOutputs
from telic.studies.documents.base import DocumentPart, StudyActor
from telic.studies.documents.candidate import Evidence
from telic.studies.documents.metrics import MetricSpec
from telic.studies.errors import BrokenIntegrity, StudyError
from telic.studies.evidence.artefacts import require_unaltered
from telic.studies.evidence.logs import read_rows, to_series
from telic.studies.evidence.statistics import Series, aggregate
from telic.studies.evidence.store import add_evidence
from telic.studies.folder import StudyFolder
from telic.studies.launch.evaluations import EVALUATIONS, NOMINAL, expected_names
from telic.studies.state import RunState

if TYPE_CHECKING:
    from telic.studies.study import Study

CURVE_POINTS = 120
ARTEFACTS = "artefacts"
_PATTERN_KEY = "x-pattern"
"""free key of an extractor: the pattern by which text is read"""
_KINDS = {
    "tensorboard": "tensorboard",
    "csv": "csv",
    "json": "json",
    "stdout": "regex_stdout",
}


class Measurement(DocumentPart):
    """The numbers of a run; None is not measured."""

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
    problem: str = ""
    """why nothing could be measured"""
    perturbed: dict[str, float] = Field(default_factory=dict[str, float])
    """the primary metric by perturbation of the protocol; not part of the score"""
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
    """thinned, for charts"""


class RunLog(NamedTuple):
    """What was logged, and what could not be read."""

    series: dict[str, Series]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class _Numbers:
    """What one log, or all evaluations of a run, came to."""

    scores: dict[str, float] = field(default_factory=dict[str, float])
    guardrails: dict[str, float] = field(default_factory=dict[str, float])
    perturbed: dict[str, float] = field(default_factory=dict[str, float])
    missing: tuple[str, ...] = ()
    problem: str = ""
    files: tuple[Path, ...] = ()
    series: dict[str, Series] = field(default_factory=dict[str, Series])


def analyze_run(
    study: Study, run: str, actor: StudyActor, *, is_unusable: bool = False
) -> Evidence:
    """Measure a run that has ended and enter it as evidence; again is the same evidence.

    A run whose files were changed after it ended is not measured; with `is_unusable` it is entered
    as one without a score. Raises StudyError E_RUN_LIVE while it still runs, BrokenIntegrity
    E_ARTEFACTS for changed files.
    """
    state = run_state(study.state.runs, run)
    if state.is_live:
        raise StudyError(
            "E_RUN_LIVE", f"{run} is still {state.status}.", hint="Look at it: telic study audit"
        )
    measurement = measure_run(study, run, state, is_unusable=is_unusable)
    primary = measurement.primary
    return add_evidence(
        study,
        "metrics",
        measurement.as_data(),
        actor,
        run=run,
        candidate=state.candidate,
        protocol_hash=measurement.protocol_hash,
        producer="telic.analyze",
        summary=f"not measured: {measurement.problem}" if primary is None else f"{primary:.6g}",
    )


def run_state(runs: Mapping[str, RunState], run: str) -> RunState:
    """Return a run as the ledger knows it; raises StudyError E_NO_RUN."""
    if run not in runs:
        raise StudyError("E_NO_RUN", f"The ledger knows no run {run}.")
    return runs[run]


def measure_run(
    study: Study, run: str, state: RunState, *, is_unusable: bool = False
) -> Measurement:
    """Return the numbers of a run, from its files alone.

    A log that cannot be read is a finding: the run is not measured, and `problem` says why.
    """
    folder, spec = study.folder, study.metric_spec
    try:
        found = _read_evaluations(study, run, state) or _read_training(study, run)
    except BrokenIntegrity as error:
        if not is_unusable:
            raise
        found = _Numbers(problem=error.message)
    wanted = [spec.primary.key, *(rule.key for rule in spec.guardrails)]
    steps = state.actual.env_steps if state.actual else None
    hours = state.actual.wall_clock_h if state.actual else None
    scores = found.scores
    return Measurement(
        run=run,
        candidate=state.candidate,
        phase=state.phase,
        seed=state.seed,
        kind=state.kind,
        primary=fmean(scores.values()) if scores else None,
        scores=scores,
        guardrails=found.guardrails,
        perturbed=found.perturbed,
        missing=found.missing if scores else tuple(wanted),
        problem=found.problem or ("" if scores else f"{spec.primary.key} is not in the log"),
        steps=steps if steps is not None else last_step(found.series),
        wall_s=None if hours is None else 3600 * hours,
        protocol_hash=study.protocol_hash,
        metric_spec_hash=study.metric_spec_hash,
        code_hash=_code_hash(study),
        hardware=_hardware_class(folder.run(run) / "hw.json"),
        files={
            str(x.relative_to(folder.run(run))): file_hash(x) for x in found.files if x.is_file()
        },
        curves={
            name: thinned(each) for name, each in found.series.items() if _is_drawn(name, spec)
        },
    )


# ---------------------------------------------------------------------------- reading


def _read_log(spec: MetricSpec, adapter: Adapter, path: Path) -> _Numbers:
    """Return the numbers of one log, under logged and canonical names."""
    rows, axis = read_rows(spec.extractor.kind, path, _pattern(spec)), _axis(spec, adapter)
    series = _named(to_series(rows, axis), spec, adapter)
    parts: dict[str, Series | None] = {"": series.get(spec.primary.key)}
    if spec.strata is not None:
        logged, field = spec.primary.source or spec.primary.key, spec.strata.field
        parts = {
            stratum: to_series([row for row in rows if row.get(field) == stratum], axis).get(logged)
            for stratum in spec.strata.values
        }
    how = spec.primary.aggregate
    scores = {name: aggregate(part, how) for name, part in parts.items() if part is not None}
    rails = {
        rule.key: aggregate(series[rule.key], "mean")
        for rule in spec.guardrails
        if rule.key in series
    }
    return _Numbers(
        {name: normalised(value, spec) for name, value in scores.items() if value is not None},
        {name: value for name, value in rails.items() if value is not None},
        files=(path,),
        series=series,
    )


def _read_training(study: Study, run: str) -> _Numbers:
    """Return the numbers that a training logged itself.

    Raises BrokenIntegrity E_ARTEFACTS if the log was changed after the run ended.
    """
    spec = study.metric_spec
    path = _log_path(study.folder, run, spec)
    require_unaltered(study, run, path)
    files = (path,) if path.is_file() else tuple(files_below(path))
    try:
        found = _read_log(spec, study.adapter, path)
    except TelicError as error:
        return _Numbers(problem=error.message, files=files)
    wanted = [spec.primary.key, *(rule.key for rule in spec.guardrails)]
    missing = tuple(key for key in wanted if key not in found.series)
    return replace(found, missing=missing, files=files)


def _read_evaluations(study: Study, run: str, state: RunState) -> _Numbers | None:
    """Return the means over the evaluations of a run; None when its training log has the numbers.

    A missing or unreadable evaluation leaves the run unmeasured: a mean over the others would be
    another number. Raises as `_read_training`.
    """
    names = expected_names(study.protocol, state.phase)
    if not names:
        return None
    spec, inside = study.metric_spec, study.folder.run(run) / ARTEFACTS / EVALUATIONS
    worlds, problem = dict[str, list[_Numbers]](), ""
    for name in names:
        path = inside / name / spec.extractor.path
        require_unaltered(study, run, path)
        try:
            if not path.resolve().is_relative_to((inside / name).resolve()):
                raise TelicError(f"The extractor path {spec.extractor.path} leaves the evaluation.")
            found = _read_log(spec, study.adapter, path)
            if not found.scores:
                raise TelicError(f"{spec.primary.key} is not in what the evaluator wrote.")
            worlds.setdefault(name.rpartition("/")[0], []).append(found)
        except TelicError as error:
            problem = problem or f"the evaluation {name}: {error.message}"
    series = read_run_log(study.folder, run).series
    files = tuple(path for found in worlds.values() for each in found for path in each.files)
    nominal = worlds.pop(NOMINAL, [])
    keys = [rule.key for rule in spec.guardrails]
    missing = tuple(key for key in keys if any(key not in each.guardrails for each in nominal))
    if problem:
        return _Numbers(missing=missing, problem=problem, files=files, series=series)
    return _Numbers(
        _means([each.scores for each in nominal]),
        _means([each.guardrails for each in nominal]),
        {
            world: fmean(fmean(each.scores.values()) for each in found)
            for world, found in worlds.items()
        },
        missing,
        "",
        files,
        series,
    )


def _means(tables: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean by key, of the keys that every table has."""
    keys = [key for key in tables[0] if all(key in each for each in tables)] if tables else []
    return {key: fmean(each[key] for each in tables) for key in keys}


def read_run_log(folder: StudyFolder, run: str) -> RunLog:
    """Return all series of a run under logged and canonical names.

    Sources are the metric spec's extractor, the run's own metrics.jsonl, and those the adapter
    names; where two have the same name the first one counts. What cannot be read is named.
    """
    spec, adapter = folder.read_metric_spec(), folder.read_adapter()
    inside, axis = folder.run(run), _axis(spec, adapter)
    declared = _log_path(folder, run, spec)
    places = [(spec.extractor.kind, declared, _pattern(spec))]
    places.append(("jsonl", inside / "metrics.jsonl", None))
    places += [
        (kind, path, None)
        for source in adapter.logging.sources
        if (kind := _kind(source)) and (path := _source_path(source, inside)) is not None
    ]
    series: dict[str, Series] = {}
    problems: list[str] = []
    for kind, path, pattern in places:
        if not path.exists():
            continue
        try:
            rows = read_rows(kind, path, pattern)
            series = {**to_series(rows, axis if path == declared else None), **series}
        except TelicError as error:
            problems.append(str(error))
    return RunLog(_named(series, spec, adapter), tuple(problems))


def _kind(source: LogSource) -> str | None:
    kind = _KINDS.get(source.kind)
    if kind == "json" and (source.path_template or "").endswith(".jsonl"):
        return "jsonl"
    return kind


def _source_path(source: LogSource, inside: Path) -> Path | None:
    """Return where a source writes inside the run folder; None when it writes elsewhere."""
    if source.kind == "stdout":
        return inside / "stdout.log"
    if source.path_template is None:
        return None
    path = inside / ARTEFACTS / source.path_template.replace("{run_dir}", str(inside / ARTEFACTS))
    return path if path.resolve().is_relative_to(inside.resolve()) else None


def _log_path(folder: StudyFolder, run: str, spec: MetricSpec) -> Path:
    """Return where the extractor reads: in the run's artefacts, else in its own folder."""
    inside = folder.run(run)
    paths = [base / spec.extractor.path for base in (inside / ARTEFACTS, inside)]
    if any(not path.resolve().is_relative_to(inside.resolve()) for path in paths):
        raise StudyError(
            "E_EXTRACTOR_PATH", f"The extractor path {spec.extractor.path} leaves the run."
        )
    return next((path for path in paths if path.exists()), paths[0])


def _axis(spec: MetricSpec, adapter: Adapter) -> str | None:
    """Return the column that is declared to count steps: by the metric spec, else the adapter."""
    return spec.extractor.step or adapter.metrics.map.get("step")


def _pattern(spec: MetricSpec) -> str | None:
    return (spec.extractor.model_extra or {}).get(_PATTERN_KEY)


def _named(series: dict[str, Series], spec: MetricSpec, adapter: Adapter) -> dict[str, Series]:
    """Return the series with the canonical names of adapter and metric spec added."""
    own = {spec.primary.key: spec.primary.source} if spec.primary.source else {}
    names = {**adapter.metrics.map, **own}
    return {**series, **{new: series[old] for new, old in names.items() if old in series}}


def normalised(value: float, spec: MetricSpec) -> float:
    """Return a value of the primary metric on the scale of the metric spec, if it has one."""
    scale = spec.normalisation
    return value if scale is None else (value - scale.lo) / (scale.hi - scale.lo)


def last_step(series: Mapping[str, Series]) -> float | None:
    """Return the highest step that was logged; None when nothing was."""
    return max((each.steps[-1] for each in series.values() if each.steps), default=None)


def missing_outputs(inside: Path, outputs: RepositoryOutputs) -> list[str]:
    """Return what a complete run leaves in its folder and this one did not."""
    run_dir, marker, glob = (
        inside / ARTEFACTS,
        outputs.completion.marker_file,
        outputs.checkpoint_glob,
    )
    lacks: list[str] = []
    if marker is not None and not (run_dir / marker.removeprefix("{run_dir}/")).is_file():
        lacks.append(f"marker {marker}")
    if glob is not None and not any(run_dir.glob(glob.removeprefix("{run_dir}/"))):
        lacks.append(f"checkpoint {glob}")
    return lacks


def thinned(series: Series) -> tuple[tuple[float, float], ...]:
    """Return at most `CURVE_POINTS` finite points, the last one included."""
    steps, values, _ = series.finite()
    stride = max(1, math.ceil(len(steps) / CURVE_POINTS))
    places = list(range(0, len(steps), stride))
    if steps and places[-1] != len(steps) - 1:
        places.append(len(steps) - 1)
    return tuple((steps[i], values[i]) for i in places)


def _hardware_class(path: Path) -> str | None:
    """Return kind of processor, GPUs and precision settings in one line; None if not recorded."""
    if not path.is_file():
        return None
    kinds = {"precision_flags": dict[str, Any] | None, "platform": str | None}
    facts = read_fields(path, gpus=list[dict[str, Any]] | None, **kinds)
    gpus = sorted({str(gpu.get("name")) for gpu in facts["gpus"] or ()})
    flags = [f"{name}={value}" for name, value in sorted((facts["precision_flags"] or {}).items())]
    machine = str(facts.get("platform", "")).split(" ")[-1]
    return "; ".join([machine, *(gpus or ["cpu"]), *flags])


def _code_hash(study: Study) -> str:
    """Return one hash of evaluator, extractor and environment as they are on disk."""
    protocol = study.protocol
    files = {
        name: file_hash(path) if (path := study.root / name).is_file() else None
        for name in protocol.evaluator_files
    }
    extractor = study.metric_spec.extractor.as_data()
    return content_hash(
        {"evaluator": files, "extractor": extractor, "environment": protocol.env_config_hash}
    )


def _is_drawn(name: str, spec: MetricSpec) -> bool:
    parts = (spec.primary, *spec.components, *spec.guardrails, *spec.diagnostics)
    return name in {"return", *(part.key for part in parts)} or name.startswith("reward/")


# ---------------------------------------------------------------------------- a sample log


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
    """Read a sample log by the metric spec, before it is agreed on; writes nothing."""
    spec = folder.read_metric_spec()
    found = _read_log(spec, folder.read_adapter(), sample)
    roles = {spec.primary.key: "primary"}
    roles |= {rail.key: "guardrail" for rail in spec.guardrails}
    roles |= {component.key: "component" for component in spec.components}
    roles |= {diagnostic.key: "diagnostic" for diagnostic in spec.diagnostics}
    keys: list[SampledKey] = []
    for key, role in roles.items():
        logged = found.series.get(key)
        how = spec.primary.aggregate if role == "primary" else "mean"
        points, value = (len(logged.values), aggregate(logged, how)) if logged else (0, None)
        keys.append(SampledKey(key=key, role=role, points=points, value=value))
    return SampleCheck(
        keys=tuple(keys),
        missing=tuple(key.key for key in keys if not key.points and key.role != "diagnostic"),
        logged=tuple(sorted(found.series)),
        scores=found.scores,
    )
