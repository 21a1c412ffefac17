"""Measure a run by its files: its score, its guardrails and its curves.

The score is that of the contract's evaluator, on seeds that no training saw, or else of the
training's own log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from telic.errors import TelicError
from telic.storage.files import read_fields
from telic.storage.reading import file_hash, files_below
from telic.studies.canonical import content_hash
from telic.studies.documents.adapter import Adapter, RepositoryOutputs
from telic.studies.documents.base import DocumentPart, StudyActor
from telic.studies.documents.candidate import Evidence
from telic.studies.documents.metrics import MetricSpec
from telic.studies.errors import BrokenIntegrity, StudyError
from telic.studies.evidence.integrity import require_unaltered
from telic.studies.evidence.logs import Series, aggregate, read_rows, to_series
from telic.studies.evidence.store import add_evidence
from telic.studies.folder import StudyFolder
from telic.studies.launch.evaluations import EVALUATIONS, NOMINAL, expected_names
from telic.studies.state import RunState

if TYPE_CHECKING:
    from telic.studies.study import Study

ARTEFACTS = "artefacts"
_CURVE_POINTS = 120
_KINDS = {"tensorboard": "tensorboard", "csv": "csv", "json": "json", "stdout": "regex_stdout"}
"""kinds of log sources in an adapter that can be read"""


class Measurement(DocumentPart):
    """The numbers of a run; None is not measured."""

    run: str
    candidate: str
    phase: str
    seed: int
    kind: str = "train"
    primary: float | None
    scores: dict[str, float]
    """the primary metric, under an empty name; by stratum in earlier versions"""
    guardrails: dict[str, float]
    missing: tuple[str, ...] = ()
    """keys of the metric spec that the log does not have"""
    problem: str = ""
    """why nothing could be measured"""
    perturbed: dict[str, float] = Field(default_factory=dict[str, float])
    """the primary metric by perturbation of the protocol; not part of the score"""
    steps: float | None = None
    """last step in the log"""
    launched_steps: float | None = None
    """{steps} of the command that was launched"""
    wall_s: float | None = None
    protocol_hash: str | None = None
    metric_spec_hash: str | None = None
    code_hash: str | None = None
    """evaluator with everything it imports, interpreters, packages, extractor; joined by -"""
    content_hash: str | None = None
    """of the candidate as it was launched"""
    is_clean: bool | None = None
    """worktree clean at launch"""
    hardware: str | None = None
    files: dict[str, str] = Field(default_factory=dict[str, str])
    """hash of every file that was read"""
    curves: dict[str, tuple[tuple[float, float], ...]] = Field(
        default_factory=dict[str, tuple[tuple[float, float], ...]]
    )
    """thinned, for charts"""

    @property
    def value(self) -> float:
        """One number for the run."""
        return fmean(self.scores.values())


class RunLog(NamedTuple):
    """Everything that was logged, and logs that could not be read."""

    series: dict[str, Series]
    problems: tuple[str, ...]


class _LogNumbers(NamedTuple):
    """The numbers of one log."""

    scores: dict[str, float]
    guardrails: dict[str, float]
    series: dict[str, Series]


class _RunNumbers(NamedTuple):
    """The numbers of a run: means over its evaluations."""

    scores: dict[str, float]
    guardrails: dict[str, float]
    perturbed: dict[str, float]
    series: dict[str, Series]
    files: list[Path]
    problem: str


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
        raise StudyError("E_NO_RUN", f"The ledger has no run {run}.")
    return runs[run]


def measure_run(
    study: Study, run: str, state: RunState, *, is_unusable: bool = False
) -> Measurement:
    """Return the numbers of a run, from its files alone.

    A log that cannot be read is a finding: the run is not measured, and `problem` says why.
    """
    folder, spec, actual = study.folder.run(run), study.metric_spec, state.actual
    found = _read_results(study, run, state, is_unusable=is_unusable)
    rails = [rule.key for rule in spec.guardrails]
    missing = [key for key in rails if key not in found.guardrails]
    hours = actual.wall_clock_h if actual else None
    parts = (spec.primary, *spec.components, *spec.guardrails)
    drawn = {"return", *(part.key for part in parts)}
    return Measurement(
        run=run,
        candidate=state.candidate,
        phase=state.phase,
        seed=state.seed,
        kind=state.kind,
        primary=fmean(found.scores.values()) if found.scores else None,
        scores=found.scores,
        guardrails=found.guardrails,
        perturbed=found.perturbed,
        missing=tuple(missing if found.scores else [spec.primary.key, *rails]),
        problem=found.problem or ("" if found.scores else f"{spec.primary.key} is not in the log"),
        steps=last_step(found.series),
        launched_steps=state.steps,
        wall_s=None if hours is None else 3600 * hours,
        protocol_hash=study.protocol_hash,
        metric_spec_hash=study.metric_spec_hash,
        code_hash=state.code_hash
        and f"{state.code_hash}-{content_hash(spec.extractor.as_data())[:20]}",
        content_hash=state.content_hash,
        is_clean=state.is_clean,
        hardware=_hardware_class(folder / "hw.json"),
        files={str(x.relative_to(folder)): file_hash(x) for x in found.files if x.is_file()},
        curves={
            name: _thinned(each)
            for name, each in found.series.items()
            if name in drawn or name.startswith("reward/")
        },
    )


def _read_results(study: Study, run: str, state: RunState, *, is_unusable: bool) -> _RunNumbers:
    """Read the evaluations of a run, or its training log if the protocol has no evaluator.

    A missing or unreadable evaluation leaves the run unmeasured: a mean over the others would be
    another number.
    """
    folder, spec = study.folder.run(run), study.metric_spec
    names = expected_names(study.protocol, state.phase)
    paths = {f"{NOMINAL}/": _log_path(study.folder, run, spec)}
    if names:
        home = folder / ARTEFACTS / EVALUATIONS
        paths = {name: home / name / spec.extractor.path for name in names}
    worlds: dict[str, list[_LogNumbers]] = {}
    problem, files = "", list[Path]()
    for name, path in paths.items():
        if not path.resolve().is_relative_to(folder.resolve()):
            text = f"The extractor path {spec.extractor.path} leaves the run."
            raise StudyError("E_EXTRACTOR_PATH", text)
        files += files_below(path) if path.is_dir() else [path]
        try:
            require_unaltered(study, run, path)
            numbers = _read_log(spec, study.adapter, path)
            if names and not numbers.scores:
                raise TelicError(f"{spec.primary.key} is not in the evaluator's output.")
            worlds.setdefault(name.rpartition("/")[0], []).append(numbers)
        except TelicError as error:
            if isinstance(error, BrokenIntegrity) and not is_unusable:
                raise
            where = f"the evaluation {name}: " if names else ""
            problem = problem or f"{where}{error.message}"
    nominal = worlds.pop(NOMINAL, [])
    series = nominal[0].series if nominal and not names else read_run_log(study.folder, run).series
    if problem:
        return _RunNumbers({}, {}, {}, series, files, problem)
    perturbed = {
        world: fmean(fmean(each.scores.values()) for each in found)
        for world, found in worlds.items()
    }
    scores = _means([each.scores for each in nominal])
    return _RunNumbers(
        scores, _means([each.guardrails for each in nominal]), perturbed, series, files, ""
    )


def _means(tables: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean by key, of the keys that every table has."""
    keys = [key for key in tables[0] if all(key in each for each in tables)] if tables else []
    return {key: fmean(each[key] for each in tables) for key in keys}


def _read_log(spec: MetricSpec, adapter: Adapter, path: Path) -> _LogNumbers:
    """Return the numbers of one log, under logged and canonical names."""
    pattern = (spec.extractor.model_extra or {}).get("x-pattern")
    axis = spec.extractor.step or adapter.metrics.map.get("step")
    rows = read_rows(spec.extractor.kind, path, pattern)
    series = _named(to_series(rows, axis), spec, adapter)
    part = series.get(spec.primary.key)
    value = aggregate(part, spec.primary.aggregate) if part else None
    scores = {} if value is None else {"": value}
    rails = {
        rule.key: aggregate(series[rule.key], "mean")
        for rule in spec.guardrails
        if rule.key in series
    }
    return _LogNumbers(
        scores, {key: value for key, value in rails.items() if value is not None}, series
    )


def read_run_log(folder: StudyFolder, run: str) -> RunLog:
    """Return all series of a run under logged and canonical names.

    Sources are the metric spec's extractor, the run's own metrics.jsonl, and those the adapter
    names; where two have the same name the first one counts.
    """
    spec, adapter, inside = folder.read_metric_spec(), folder.read_adapter(), folder.run(run)
    artefacts, own = inside / ARTEFACTS, _log_path(folder, run, spec)
    pattern = (spec.extractor.model_extra or {}).get("x-pattern")
    places = [(spec.extractor.kind, own, pattern), ("jsonl", inside / "metrics.jsonl", None)]
    for source in adapter.logging.sources:
        template, kind = source.path_template, _KINDS.get(source.kind)
        if kind == "regex_stdout":
            places.append((kind, inside / "stdout.log", None))
        elif kind is not None and template is not None:
            path = artefacts / template.replace("{run_dir}", str(artefacts))
            if path.resolve().is_relative_to(inside.resolve()):
                kind = "jsonl" if template.endswith(".jsonl") else kind
                places.append((kind, path, None))
    series: dict[str, Series] = {}
    problems: list[str] = []
    for kind, path, pattern in places:
        if path.exists():
            axis = spec.extractor.step or adapter.metrics.map.get("step") if path == own else None
            try:
                series = {**to_series(read_rows(kind, path, pattern), axis), **series}
            except TelicError as error:
                problems.append(str(error))
    return RunLog(_named(series, spec, adapter), tuple(problems))


def _log_path(folder: StudyFolder, run: str, spec: MetricSpec) -> Path:
    """Return where the extractor reads: in the run's artefacts, else in its own folder."""
    inside = folder.run(run)
    paths = [base / spec.extractor.path for base in (inside / ARTEFACTS, inside)]
    return next((path for path in paths if path.exists()), paths[0])


def _named(series: dict[str, Series], spec: MetricSpec, adapter: Adapter) -> dict[str, Series]:
    """Return the series with the canonical names of adapter and metric spec added."""
    own = {spec.primary.key: spec.primary.source} if spec.primary.source else {}
    names = {**adapter.metrics.map, **own}
    return {**series, **{new: series[old] for new, old in names.items() if old in series}}


def last_step(series: Mapping[str, Series]) -> float | None:
    """Return the highest step that was logged; None when nothing was."""
    return max((each.steps[-1] for each in series.values() if each.steps), default=None)


def missing_outputs(inside: Path, outputs: RepositoryOutputs) -> list[str]:
    """Return the outputs of a complete run that this folder lacks."""
    marker, glob, artefacts = (
        outputs.completion.marker_file,
        outputs.checkpoint_glob,
        inside / ARTEFACTS,
    )
    missing: list[str] = []
    if marker is not None and not (artefacts / marker.removeprefix("{run_dir}/")).is_file():
        missing.append(f"marker {marker}")
    if glob is not None and not any(artefacts.glob(glob.removeprefix("{run_dir}/"))):
        missing.append(f"checkpoint {glob}")
    return missing


def _thinned(series: Series) -> tuple[tuple[float, float], ...]:
    steps, values, _ = series.finite()
    stride = max(1, math.ceil(len(steps) / _CURVE_POINTS))
    places = sorted({*range(0, len(steps), stride), *([len(steps) - 1] if steps else [])})
    return tuple((steps[i], values[i]) for i in places)


def _hardware_class(path: Path) -> str | None:
    """Return kind of CPU, GPUs and precision settings in one line; None if not recorded."""
    if not path.is_file():
        return None
    kinds = {"precision_flags": dict[str, Any] | None, "platform": str | None}
    facts = read_fields(path, gpus=list[dict[str, Any]] | None, **kinds)
    gpus = sorted({str(gpu.get("name")) for gpu in facts["gpus"] or ()})
    flags = [f"{name}={value}" for name, value in sorted((facts["precision_flags"] or {}).items())]
    machine = str(facts.get("platform", "")).split(" ")[-1]
    return "; ".join([machine, *(gpus or ["cpu"]), *flags])
