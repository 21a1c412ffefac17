"""From the files of a run to its numbers: what it logged, its score, its guardrails, its curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from telic.errors import TelicError
from telic.storage.facts import HardwareFacts
from telic.storage.files import read_facts
from telic.storage.reading import file_hash, files_below
from telic.studies.canonical import content_hash
from telic.studies.documents.adapter import Adapter, LogSource
from telic.studies.documents.base import DocumentPart, StudyActor
from telic.studies.documents.candidate import Evidence
from telic.studies.documents.metrics import MetricSpec
from telic.studies.errors import BrokenIntegrity, StudyError
from telic.studies.evidence.artefacts import require_unaltered
from telic.studies.evidence.logs import Row, read_rows, to_series
from telic.studies.evidence.statistics import Series, aggregate
from telic.studies.evidence.store import add_evidence
from telic.studies.folder import StudyFolder
from telic.studies.state import RunState

if TYPE_CHECKING:
    from telic.studies.study import Study

CURVE_POINTS = 120
ARTEFACTS = "artefacts"
PATTERN_KEY = "x-pattern"
"""free key of an extractor: the pattern by which text is read"""
_OWN_LOG = "metrics.jsonl"
_STDOUT = "stdout.log"
_KINDS = {
    "tensorboard": "tensorboard",
    "csv": "csv",
    "json": "json",
    "stdout": "regex_stdout",
}


class Measurement(DocumentPart):
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
    problem: str = ""
    """why nothing could be measured"""
    perturbed: dict[str, float] = Field(default_factory=dict[str, float])
    """the primary metric by perturbation of the protocol; no part of the score"""
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


class RunLog(NamedTuple):
    """What was logged, and what could not be read."""

    series: dict[str, Series]
    problems: tuple[str, ...]


def analyze_run(
    study: Study, run: str, actor: StudyActor, *, is_unusable: bool = False
) -> Evidence:
    """Measure a run that has ended and enter it as evidence; again is the same evidence.

    A run whose files were changed after it ended is not measured; with `is_unusable` it is entered
    as one that nothing is known of. Raises StudyError E_RUN_LIVE while it still runs,
    BrokenIntegrity E_ARTEFACTS for changed files.
    """
    state = run_state(study.state.runs, run)
    if state.is_live:
        raise StudyError(
            "E_RUN_LIVE", f"{run} is still {state.status}.", hint="Look at it: telic study monitor"
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
    """Return what a run came to, from its files alone.

    The score is that of the evaluator that the contract names, or else of the training's own log.
    A log that cannot be read is a finding, too: the run is not measured, and it says why.
    """
    folder, spec = study.folder, study.metric_spec
    try:
        read = _read_scores(study, run, state)
    except BrokenIntegrity as error:
        if not is_unusable:
            raise
        read = _unread(error.message)
    wanted = [spec.primary.key, *(rule.key for rule in spec.guardrails)]
    steps = state.actual.env_steps if state.actual else None
    hours = state.actual.wall_clock_h if state.actual else None
    scores = read.scores
    return Measurement(
        run=run,
        candidate=state.candidate,
        phase=state.phase,
        seed=state.seed,
        kind=state.kind,
        primary=math.fsum(scores.values()) / len(scores) if scores else None,
        scores=scores,
        guardrails=read.guardrails,
        perturbed=read.perturbed,
        missing=read.missing if scores else tuple(wanted),
        problem=read.problem or ("" if scores else f"{spec.primary.key} is not in the log"),
        steps=steps if steps is not None else last_step(read.series),
        wall_s=None if hours is None else 3600 * hours,
        protocol_hash=study.protocol_hash,
        metric_spec_hash=study.metric_spec_hash,
        code_hash=_code_hash(folder, spec),
        hardware=hardware_class(folder.run(run) / "hw.json"),
        files={
            str(x.relative_to(folder.run(run))): file_hash(x) for x in read.files if x.is_file()
        },
        curves={name: thinned(each) for name, each in read.series.items() if _is_drawn(name, spec)},
    )


class _Reading(NamedTuple):
    """What was read of one run."""

    scores: dict[str, float]
    guardrails: dict[str, float]
    perturbed: dict[str, float]
    missing: tuple[str, ...]
    problem: str
    files: tuple[Path, ...]
    series: dict[str, Series]
    """of the training"""


def _unread(problem: str, files: tuple[Path, ...] = ()) -> _Reading:
    return _Reading({}, {}, {}, (), problem, files, {})


def _read_scores(study: Study, run: str, state: RunState) -> _Reading:
    from telic.studies.evidence.evaluation import read_evaluations

    found = read_evaluations(study, run, state)
    if found is None:
        return _read_training(study, run)
    log = read_run_log(study.folder, run)
    return _Reading(*found, log.series)


def _read_training(study: Study, run: str) -> _Reading:
    """Return the numbers that a training logged itself."""
    spec, path = study.metric_spec, log_path(study.folder, run, study.metric_spec)
    files = tuple(_files(path))
    try:
        require_unaltered(study, run, path)
        axis = declared_axis(spec, study.adapter)
        rows = read_rows(spec.extractor.kind, path, pattern_of(spec))
        series = named_series(to_series(rows, axis), spec, study.adapter)
        scores = score_strata(rows, series, spec, axis)
    except BrokenIntegrity:
        raise
    except TelicError as error:
        return _unread(error.message, files)
    wanted = [spec.primary.key, *(rule.key for rule in spec.guardrails)]
    guardrails = {
        rule.key: value
        for rule in spec.guardrails
        if rule.key in series and (value := aggregate(series[rule.key], "mean")) is not None
    }
    missing = tuple(key for key in wanted if key not in series)
    return _Reading(scores, guardrails, {}, missing, "", files, series)


def read_run_log(folder: StudyFolder, run: str) -> RunLog:
    """Return all series of a run under logged and canonical names.

    Sources are the metric spec's extractor, the run's own metrics.jsonl, and those the adapter
    names; where two have the same name the first one counts. What cannot be read is named.
    """
    spec, adapter = folder.read_metric_spec(), folder.read_adapter()
    inside = folder.run(run)
    places = [(spec.extractor.kind, log_path(folder, run, spec), pattern_of(spec))]
    places.append(("jsonl", inside / _OWN_LOG, None))
    places += [
        (kind, path, None)
        for source in adapter.logging.sources
        if (kind := _kind(source)) and (path := _source_path(source, inside)) is not None
    ]
    series: dict[str, Series] = {}
    problems: list[str] = []
    axis = declared_axis(spec, adapter)
    for kind, path, pattern in places:
        if not path.exists():
            continue
        try:
            declared = axis if path == places[0][1] else None
            series = {**to_series(read_rows(kind, path, pattern), declared), **series}
        except TelicError as error:
            problems.append(str(error))
    return RunLog(named_series(series, spec, adapter), tuple(problems))


def renamed(series: Mapping[str, Series], names: Mapping[str, str]) -> dict[str, Series]:
    """Return the series with canonical names added, by the adapter's map {canonical: logged}."""
    return {**series, **{new: series[old] for new, old in names.items() if old in series}}


def _kind(source: LogSource) -> str | None:
    kind = _KINDS.get(source.kind)
    if kind == "json" and (source.path_template or "").endswith(".jsonl"):
        return "jsonl"
    return kind


def _source_path(source: LogSource, inside: Path) -> Path | None:
    """Return where a source writes inside the run folder; None when it writes elsewhere."""
    if source.kind == "stdout":
        return inside / _STDOUT
    if source.path_template is None:
        return None
    artefacts = inside / ARTEFACTS
    path = Path(source.path_template.replace("{run_dir}", str(artefacts)))
    path = path if path.is_absolute() else artefacts / path
    return path if path.resolve().is_relative_to(inside.resolve()) else None


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


def declared_axis(spec: MetricSpec, adapter: Adapter) -> str | None:
    """Return the column that is declared to count steps: by the metric spec, else the adapter."""
    return spec.extractor.step or adapter.metrics.map.get("step")


def pattern_of(spec: MetricSpec) -> str | None:
    """Return the pattern by which text is read, where the metric spec has one."""
    return (spec.extractor.model_extra or {}).get(PATTERN_KEY)


def named_series(
    series: dict[str, Series], spec: MetricSpec, adapter: Adapter
) -> dict[str, Series]:
    """Return the series with the canonical names of adapter and metric spec added."""
    own = {spec.primary.key: spec.primary.source} if spec.primary.source else {}
    return renamed(series, {**adapter.metrics.map, **own})


def score_strata(
    rows: Sequence[Row],
    series: Mapping[str, Series],
    spec: MetricSpec,
    axis: str | None = None,
) -> dict[str, float]:
    """Return the primary metric by stratum, normalised where the metric spec says how."""
    key, how = spec.primary.key, spec.primary.aggregate
    parts: dict[str, Series | None] = {"": series.get(key)}
    if spec.strata is not None:
        logged = spec.primary.source or key
        parts = {
            value: to_series(
                (row for row in rows if row.get(spec.strata.field) == value), axis
            ).get(logged)
            for value in spec.strata.values
        }
    values = {name: aggregate(part, how) for name, part in parts.items() if part is not None}
    return {name: normalised(value, spec) for name, value in values.items() if value is not None}


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
    facts = read_facts(path, HardwareFacts)
    gpus = sorted({gpu["name"] for gpu in facts.get("gpus") or ()})
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
    return [path] if path.is_file() else files_below(path)


def _is_drawn(name: str, spec: MetricSpec) -> bool:
    parts = (spec.primary, *spec.components, *spec.guardrails, *spec.diagnostics)
    return name in {"return", *(part.key for part in parts)} or name.startswith("reward/")
