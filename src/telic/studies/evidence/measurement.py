"""Measure finished runs based on their files.

The score comes from the contract's evaluator, on seeds not used in training, or else from the
training log.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import Field

from telic.errors import TelicError
from telic.storage.files import read_fields
from telic.storage.reading import file_hash, files_below
from telic.studies.canonical import content_hash
from telic.studies.documents.base import DocumentPart, StudyActor
from telic.studies.documents.candidate import Evidence
from telic.studies.errors import BrokenIntegrity, StudyError
from telic.studies.evidence._logs import Aggregate, Series, aggregate, read_rows, to_series
from telic.studies.evidence.store import add_evidence, require_unaltered
from telic.studies.launch.command import EVALUATIONS, NOMINAL, expected_names

if TYPE_CHECKING:
    from telic.studies.study import Study

_CURVE_POINTS = 120
_MUST_BE_FINITE = re.compile(r"loss|return|reward|grad", re.IGNORECASE)
_KINDS = {"tensorboard": "tensorboard", "csv": "csv", "json": "json", "stdout": "regex_stdout"}
"""adapter log source kind -> reader kind"""


class Measurement(DocumentPart):
    """Measured values of a run. A value that was not measured is None."""

    run: str
    candidate: str
    phase: str
    seed: int
    kind: str = "train"
    primary: float | None
    scores: dict[str, float]
    """primary metric under the empty name, or by stratum in earlier versions"""
    guardrails: dict[str, float]
    missing: tuple[str, ...] = ()
    """keys of the metric spec missing in the log"""
    problem: str = ""
    """reason why the run could not be measured"""
    perturbed: dict[str, float] = Field(default_factory=dict[str, float])
    """primary metric by protocol perturbation, not part of the score"""
    diverged: tuple[str, ...] = ()
    """series of the training log whose last value is not finite"""
    steps: float | None = None
    """last step in the log"""
    launched_steps: float | None = None
    """value of {steps} in the launched command"""
    wall_s: float | None = None
    protocol_hash: str | None = None
    metric_spec_hash: str | None = None
    code_hash: str | None = None
    """hashes of the evaluator's code, interpreters, packages and extractor, joined by -"""
    content_hash: str | None = None
    """content hash of the candidate at launch"""
    is_clean: bool | None = None
    """whether the worktree was clean at launch"""
    hardware: str | None = None
    files: dict[str, str] = Field(default_factory=dict[str, str])
    """hashes of all files read"""
    curves: dict[str, tuple[tuple[float, float], ...]] = Field(
        default_factory=dict[str, tuple[tuple[float, float], ...]]
    )
    """downsampled curves for charts"""

    @property
    def value(self) -> float:
        """Score of the run, as a single number."""
        return fmean(self.scores.values())


class RunLog(NamedTuple):
    """All logged series of a run, and a list of unreadable logs."""

    series: dict[str, Series]
    problems: tuple[str, ...]


def analyze_run(
    study: Study, run: str, actor: StudyActor, *, is_unusable: bool = False
) -> Evidence:
    """Measure a finished run and record the result as evidence. Repeated calls have no effect.

    If a log is unreadable, the run is not measured and `problem` gives the reason. If the run's
    files changed after its end, the run is not measured, but recorded without a score if
    `is_unusable` is true. Raises StudyError E_RUN_LIVE if the run is live, or BrokenIntegrity
    E_ARTIFACTS if files changed.
    """
    state, folder, spec = study.run_state(run), study.folder.run(run), study.metric_spec
    if state.is_live:
        raise StudyError(
            "E_RUN_LIVE",
            f"{run} is still {state.status}.",
            hint=f"Wait until it ends, or stop it: telic study run --stop {run}",
        )
    names = expected_names(study.protocol, state.phase)
    paths = {f"{NOMINAL}/": _log_path(study, run)}
    if names:
        home = study.folder.artifacts(run) / EVALUATIONS
        paths = {name: home / name / spec.extractor.path for name in names}
    worlds: dict[str, list[dict[str, float]]] = {}
    problem, files, series = "", list[Path](), None
    for name, path in paths.items():
        if not path.resolve().is_relative_to(folder.resolve()):
            text = f"The extractor path {spec.extractor.path} is outside the run."
            raise StudyError("E_EXTRACTOR_PATH", text)
        files += files_below(path) if path.is_dir() else [path]
        try:
            require_unaltered(study, run, path)
            numbers, logged = _read_log(study, path)
            if names and "" not in numbers:
                raise TelicError(f"{spec.primary.key} is not in the evaluator's output.")
            worlds.setdefault(name.rpartition("/")[0], []).append(numbers)
            series = series if names else logged
        except TelicError as error:  # a mean over the other evaluations is not comparable
            if isinstance(error, BrokenIntegrity) and not is_unusable:
                raise
            problem = problem or (f"the evaluation {name}: " if names else "") + error.message
    means = {
        world: {key: fmean(x[key] for x in rows) for key in rows[0] if all(key in x for x in rows)}
        for world, rows in ({} if problem else worlds).items()
    }
    nominal = means.pop(NOMINAL, {})
    score = nominal.pop("", None)
    series = read_run_log(study, run).series if series is None else series
    rails = [rule.key for rule in spec.guardrails]
    hours = state.actual.wall_clock_h if state.actual else None
    drawn = {"return", spec.primary.key, *(part.key for part in spec.components), *rails}
    extractor = content_hash(spec.extractor.as_data())[:20]
    found = Measurement(
        run=run,
        candidate=state.candidate,
        phase=state.phase,
        seed=state.seed,
        kind=state.kind,
        primary=score,
        scores={} if score is None else {"": score},
        guardrails=nominal,
        perturbed={world: numbers[""] for world, numbers in means.items()},
        missing=(
            *(() if score is not None else (spec.primary.key,)),
            *(key for key in rails if score is None or key not in nominal),
        ),
        problem=problem or ("" if score is not None else f"{spec.primary.key} is not in the log"),
        diverged=divergence(series, spec.primary.key),
        steps=max((each.steps[-1] for each in series.values()), default=None),
        launched_steps=state.steps,
        wall_s=None if hours is None else 3600 * hours,
        protocol_hash=study.protocol_hash,
        metric_spec_hash=study.metric_spec_hash,
        code_hash=state.code_hash and f"{state.code_hash}-{extractor}",
        content_hash=state.content_hash,
        is_clean=state.is_clean,
        hardware=_hardware_class(folder / "hw.json"),
        files={str(x.relative_to(folder)): file_hash(x) for x in files if x.is_file()},
        curves={
            name: _thinned(each)
            for name, each in series.items()
            if name in drawn or name.startswith("reward/")
        },
    )
    text = f"not measured: {found.problem}" if score is None else f"{score:.6g}"
    return add_evidence(study, "metrics", found.as_data(), actor, run=run, summary=text)


def _read_log(study: Study, path: Path) -> tuple[dict[str, float], dict[str, Series]]:
    """Return a log's guardrails by key (the primary metric has the key "") and all series."""
    spec = study.metric_spec
    series = _named(study, _series(study, spec.extractor.kind, path))
    wanted: dict[str, tuple[str, Aggregate]] = {x.key: (x.key, "mean") for x in spec.guardrails}
    wanted[""] = (spec.primary.key, spec.primary.aggregate)
    numbers = {
        name: value
        for name, (key, how) in wanted.items()
        if key in series and (value := aggregate(series[key], how)) is not None
    }
    return numbers, series


def _series(study: Study, kind: str, path: Path) -> dict[str, Series]:
    """Read the series of a log according to the metric spec."""
    extractor = study.metric_spec.extractor
    pattern = (extractor.model_extra or {}).get("x-pattern")
    axis = extractor.step or study.adapter.metrics.map.get("step")
    return to_series(read_rows(kind, path, pattern), axis)


def read_run_log(study: Study, run: str) -> RunLog:
    """Return all series of a run under their logged and canonical names.

    The sources are the extractor of the metric spec, the run's metrics.jsonl, and the log sources
    of the adapter. For duplicate names, the first source is used.
    """
    inside, artifacts = study.folder.run(run), study.folder.artifacts(run)
    own = _log_path(study, run)
    places: dict[Path, str] = {own: study.metric_spec.extractor.kind}
    places.setdefault(inside / "metrics.jsonl", "jsonl")
    for source in study.adapter.logging.sources:
        template, kind = source.path_template, _KINDS.get(source.kind)
        if kind == "regex_stdout":
            places.setdefault(inside / "stdout.log", kind)
        elif kind is not None and template is not None:
            path = artifacts / template.replace("{run_dir}", str(artifacts))
            if path.resolve().is_relative_to(inside.resolve()):
                places.setdefault(path, "jsonl" if template.endswith(".jsonl") else kind)
    series: dict[str, Series] = {}
    problems: list[str] = []
    for path, kind in places.items():
        if path.exists():
            try:
                found = _series(study, kind, path) if path == own else None
                found = to_series(read_rows(kind, path)) if found is None else found
                series = {**found, **series}
            except TelicError as error:
                problems.append(str(error))
    return RunLog(_named(study, series), tuple(problems))


def _log_path(study: Study, run: str) -> Path:
    """Return the path that the extractor reads, in the run's output folder or the run folder."""
    bases = (study.folder.artifacts(run), study.folder.run(run))
    paths = [base / study.metric_spec.extractor.path for base in bases]
    return next((path for path in paths if path.exists()), paths[0])


def _named(study: Study, series: dict[str, Series]) -> dict[str, Series]:
    """Return the series, adding the canonical names of the adapter and the metric spec."""
    primary = study.metric_spec.primary
    own = {primary.key: primary.source} if primary.source else {}
    names = {**study.adapter.metrics.map, **own}
    return {**series, **{new: series[old] for new, old in names.items() if old in series}}


def missing_outputs(study: Study, run: str) -> list[str]:
    """Return the required outputs of a complete run that are missing."""
    outputs, artifacts, missing = study.adapter.outputs, study.folder.artifacts(run), list[str]()
    marker, glob = outputs.completion.marker_file, outputs.checkpoint_glob
    if marker is not None and not (artifacts / marker.removeprefix("{run_dir}/")).is_file():
        missing.append(f"marker {marker}")
    if glob is not None and not any(artifacts.glob(glob.removeprefix("{run_dir}/"))):
        missing.append(f"checkpoint {glob}")
    return missing


def _thinned(series: Series) -> tuple[tuple[float, float], ...]:
    points = list(zip(*series.finite(), strict=True))
    stride = max(1, math.ceil(len(points) / _CURVE_POINTS))
    return tuple(dict.fromkeys([*points[::stride], *points[-1:]]))


def _hardware_class(path: Path) -> str | None:
    """Return CPU model, GPUs and precision settings in one line, or None if not recorded."""
    if not path.is_file():
        return None
    kinds = {"precision_flags": dict[str, Any] | None, "platform": str | None}
    facts = read_fields(path, gpus=list[dict[str, Any]] | None, **kinds)
    gpus = sorted({str(gpu.get("name")) for gpu in facts["gpus"] or ()})
    flags = [f"{name}={value}" for name, value in sorted((facts["precision_flags"] or {}).items())]
    machine = str(facts.get("platform", "")).split(" ")[-1]
    return "; ".join([machine, *(gpus or ["cpu"]), *flags])


def divergence(series: Mapping[str, Series], primary: str) -> tuple[str, ...]:
    """Return the losses, returns, rewards, gradients and metric that end without a finite value."""
    names = {primary, *filter(_MUST_BE_FINITE.search, series)} & series.keys()
    return tuple(x for x in sorted(names) if not math.isfinite(series[x].values[-1]))
