"""Everything a run logged, from all of its sources, as one set of series."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from telic.errors import TelicError
from telic.studies.documents.adapter import LogSource
from telic.studies.evidence.extract import read_series, renamed
from telic.studies.evidence.measuring import ARTEFACTS, log_path, pattern_of
from telic.studies.evidence.series import Series
from telic.studies.folder import StudyFolder

_KINDS = {
    "wandb": "wandb_offline",
    "tensorboard": "tensorboard",
    "csv": "csv",
    "json": "json",
    "stdout": "regex_stdout",
}
_OWN_LOG = "metrics.jsonl"
_STDOUT = "stdout.log"


class RunLog(NamedTuple):
    """What was logged, and what could not be read."""

    series: dict[str, Series]
    problems: tuple[str, ...]


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
        for each in adapter.logging.sources
        if (kind := _kind(each)) and (path := _source_path(each, inside)) is not None
    ]
    found: dict[str, Series] = {}
    problems: list[str] = []
    for kind, path, pattern in places:
        if not path.exists():
            continue
        try:
            found = {**read_series(kind, path, pattern), **found}
        except TelicError as error:
            problems.append(str(error))
    names = dict(adapter.metrics.map)
    if spec.primary.source:
        names[spec.primary.key] = spec.primary.source
    return RunLog(renamed(found, names), tuple(problems))


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
