"""What the evaluator of the contract said about a run: on seeds that no training saw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from telic.errors import TelicError
from telic.studies.evidence.artefacts import require_unaltered
from telic.studies.evidence.logs import read_rows, to_series
from telic.studies.evidence.measurement import (
    ARTEFACTS,
    declared_axis,
    named_series,
    pattern_of,
    score_strata,
)
from telic.studies.evidence.statistics import aggregate
from telic.studies.launch.evaluations import EVALUATIONS, NOMINAL, expected_names
from telic.studies.state import RunState

if TYPE_CHECKING:
    from telic.studies.study import Study


class EvaluatedRun(NamedTuple):
    """The numbers of all evaluations of a run."""

    scores: dict[str, float]
    """the primary metric by stratum, the mean over evaluation seeds"""
    guardrails: dict[str, float]
    perturbed: dict[str, float]
    """the primary metric by perturbation"""
    missing: tuple[str, ...]
    problem: str
    files: tuple[Path, ...]


class _Evaluation(NamedTuple):
    world: str
    scores: dict[str, float]
    guardrails: dict[str, float]
    file: Path


def read_evaluations(study: Study, run: str, state: RunState) -> EvaluatedRun | None:
    """Return what the evaluations of a run came to; None when its training log has the numbers.

    An evaluation that is missing or cannot be read leaves the run unmeasured: a mean over those
    that happen to be there would be another number. Raises BrokenIntegrity E_ARTEFACTS.
    """
    names = expected_names(study.protocol, state.phase)
    if not names:
        return None
    found, problem = list[_Evaluation](), ""
    for name in names:
        try:
            found.append(_read_one(study, run, name))
        except TelicError as error:
            if getattr(error, "code", None) == "E_ARTEFACTS":
                raise
            problem = problem or f"the evaluation {name}: {error.message}"
    files = tuple(each.file for each in found)
    keys = [rule.key for rule in study.metric_spec.guardrails]
    nominal = [each for each in found if each.world == NOMINAL]
    missing = tuple(key for key in keys if any(key not in each.guardrails for each in nominal))
    if problem:
        return EvaluatedRun({}, {}, {}, missing, problem, files)
    worlds = dict.fromkeys(each.world for each in found if each.world != NOMINAL)
    return EvaluatedRun(
        _means([each.scores for each in nominal]),
        _means([each.guardrails for each in nominal]),
        {world: _overall([x for x in found if x.world == world]) for world in worlds},
        missing,
        "",
        files,
    )


def _read_one(study: Study, run: str, name: str) -> _Evaluation:
    spec, adapter = study.metric_spec, study.adapter
    inside = study.folder.run(run) / ARTEFACTS / EVALUATIONS / name
    path = inside / spec.extractor.path
    if not path.resolve().is_relative_to(inside.resolve()):
        raise TelicError(f"The extractor path {spec.extractor.path} leaves the evaluation.")
    require_unaltered(study, run, path)
    rows, axis = (
        read_rows(spec.extractor.kind, path, pattern_of(spec)),
        declared_axis(spec, adapter),
    )
    series = named_series(to_series(rows, axis), spec, adapter)
    scores = score_strata(rows, series, spec, axis)
    if not scores:
        raise TelicError(f"{spec.primary.key} is not in what the evaluator wrote.")
    guardrails = {
        rule.key: value
        for rule in spec.guardrails
        if rule.key in series and (value := aggregate(series[rule.key], "mean")) is not None
    }
    return _Evaluation(name.rpartition("/")[0], scores, guardrails, path)


def _means(tables: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean by key, of the keys that every table has."""
    keys = [key for key in tables[0] if all(key in each for each in tables)] if tables else []
    return {key: math.fsum(each[key] for each in tables) / len(tables) for key in keys}


def _overall(found: Sequence[_Evaluation]) -> float:
    means = [math.fsum(each.scores.values()) / len(each.scores) for each in found]
    return math.fsum(means) / len(means)
