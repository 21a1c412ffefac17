"""Compare sessions or runs by their settings and their results per training seed.

A difference is only computed between results that were measured in the same way: scores of sessions
with the same environment and criteria, or returns of runs in the same environment. Each training
seed is one sample, because episodes of the same policy are not independent.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from fastapi import APIRouter, Query

from telic.authors.author import MeasurableIntent
from telic.authors.candidate import SessionIteration
from telic.authors.request import SessionConfig
from telic.core.config import Record, dotted
from telic.core.text import number
from telic.judges.criteria import Criterion
from telic.session.control import CriteriaApproval
from telic.storage.files import read_fields, read_json, read_record
from telic.storage.layout import RunFolder, SessionFolder
from telic.storage.reading import read_text
from telic.storage.scalars import EvaluationRow
from telic.storage.workspace import Artifact
from telic.training.folder import environment_of
from telic.verbs.lines import ArtifactSummary, read_line
from telic.web._place import WebPlace

_LEVEL = 0.05
_NOT_SETTINGS = ("schema_version", "intent", "criteria", "members", "command", "start_seed")
"""request fields that are shown elsewhere or are different in each request"""
_MEANING = ("quantity", "kind", "direction", "zero", "goal", "unit", "weight", "is_guard")
"""criterion fields that define the measurement"""


class Difference(Record):
    """Difference between means with a confidence interval over training seeds."""

    value: float
    low: float | None
    high: float | None
    """None if there are too few training seeds or their variance is zero"""
    words: str


class ComparedArtifact(Record):
    """Session or run that takes part in a comparison."""

    line: ArtifactSummary
    values: dict[str, float]
    """measured value by training seed"""
    mean: float | None
    difference: Difference | None
    """difference from the first, or None for the first or if they are not comparable"""
    criteria: tuple[Criterion, ...]
    reward: str | None
    """code of a session's best reward, or of the reward of a run's first policy"""


class SettingDifference(Record):
    """Setting that differs between the compared artifacts."""

    name: str
    values: tuple[str, ...]


class Comparison(Record):
    """Comparison of sessions or runs."""

    measure: str
    obstacles: tuple[str, ...]
    """reasons why no difference is computed, or empty if it is computed"""
    rows: tuple[ComparedArtifact, ...]
    settings: tuple[SettingDifference, ...]


class _Measured(NamedTuple):
    environment: str
    settings: dict[str, Any]
    reward: str | None
    values: dict[str, float]
    """scores of a session, or returns of a run under its training reward"""
    task_values: dict[str, float]
    """returns of a run under the environment's reward"""
    criteria: tuple[Criterion, ...] = ()


def _session(artifact: Artifact) -> _Measured:
    folder = SessionFolder(artifact.path)
    config = read_record(folder.config, SessionConfig)
    criteria: tuple[Criterion, ...] = config.criteria or ()
    if folder.approval.exists():
        criteria = read_record(folder.approval, CriteriaApproval).criteria
    elif folder.asked.exists():
        criteria = read_record(folder.asked, MeasurableIntent).criteria
    # Iteration 0 of a branch belongs to its origin.
    files = [folder.iteration(number).judgment for number in folder.iterations() if number]
    judged = [read_record(file, SessionIteration) for file in files if file.exists()]
    best = max(judged, key=lambda each: -1.0 if each.score is None else each.score, default=None)
    values, reward = dict[str, float](), None
    if best is not None:
        code = folder.iteration(best.number).reward
        reward = read_text(code) if code.exists() else None
        own = [each for each in best.members if each.variant == best.variant]
        scores = {f"seed {each.seed}": each.judgment.score for each in own}
        values = {name: score for name, score in scores.items() if score is not None}
    return _Measured(config.env, config.model_dump(), reward, values, {}, criteria)


def _run(artifact: Artifact) -> _Measured:
    run = RunFolder(artifact.path)
    members = run.members()
    codes = [member.reward_code for member in members if member.reward_code.exists()]
    values: dict[str, dict[str, float]] = {"mean_return": {}, "env_return": {}}
    for member in members:
        best: dict[str, Any] = {}
        if member.summary.exists():
            best = read_fields(member.summary, best=EvaluationRow | None)["best"] or {}
        for name, own in values.items():
            if best.get(name) is not None:
                own[member.name.replace("_", " ")] = best[name]
    env, arguments = environment_of(run)
    where, code = f"{env} {arguments or ''}".strip(), read_text(codes[0]) if codes else None
    own, task = values.values()
    return _Measured(where, read_json(run.config), code, own, task)


def _difference(own: np.ndarray, first: np.ndarray, tests: int, what: str) -> Difference:
    """Return the difference between means with Welch's interval at a joint confidence of 95 %."""
    value, low, high = float(own.mean() - first.mean()), None, None
    if len(own) > 1 and len(first) > 1:
        from scipy.stats import ttest_ind

        interval = ttest_ind(own, first, equal_var=False).confidence_interval(1 - _LEVEL / tests)
        # Seeds with zero variance provide no information about other seeds.
        is_known = math.isfinite(interval.low) and (own.std() + first.std() > 0 or not value)
        low, high = (float(interval.low), float(interval.high)) if is_known else (None, None)
    size = f"{what} is {number(abs(value))} {'higher' if value >= 0 else 'lower'} than the first"
    if low is None or high is None:
        words = f"{size}; more training seeds are needed to establish a difference."
    elif low <= 0.0 <= high:
        words = f"No significant difference: {number(value)}, {number(low)} to {number(high)}."
    else:
        words = f"{size} (95 % confidence interval {number(low)} to {number(high)})."
    return Difference(value=value, low=low, high=high, words=words)


def _obstacles(kinds: set[str], all_of: list[_Measured]) -> tuple[str, ...]:
    """Return the reasons why results cannot be compared by a single number."""
    if len(kinds) > 1:
        return ("Sessions are scored by a judge and runs by their return.",)
    environments = dict.fromkeys(each.environment for each in all_of)
    meanings = {
        frozenset(tuple(getattr(each, name) for name in _MEANING) for each in own.criteria)
        for own in all_of
    }
    where = f"Their environments differ: {', '.join(environments)}."
    found = [where] if len(environments) > 1 else []
    found += ["Their criteria differ."] if len(meanings) > 1 else []
    return tuple(found)


def compare_artifacts(artifacts: list[Artifact]) -> Comparison:
    """Compare sessions or runs. The first is the baseline."""
    measured = [_session(each) if each.kind == "session" else _run(each) for each in artifacts]
    kinds: set[str] = {artifact.kind for artifact in artifacts}
    obstacles, measure = _obstacles(kinds, measured), "score"
    values = [each.values for each in measured]
    if kinds == {"run"}:
        is_same = len({each.reward for each in measured}) == 1
        measure = "best return" if is_same else "best task return"
        values = [each.values if is_same else each.task_values for each in measured]
    numbers, rows = [np.asarray(list(each.values())) for each in values], list[ComparedArtifact]()
    for place, (artifact, each, own) in enumerate(zip(artifacts, measured, numbers, strict=True)):
        difference = None
        if place and not obstacles and len(own) and len(numbers[0]):
            what = f"Its mean {measure}"
            difference = _difference(own, numbers[0], len(artifacts) - 1, what)
        rows.append(
            ComparedArtifact(
                line=read_line(artifact),
                values=values[place],
                mean=float(own.mean()) if len(own) else None,
                difference=difference,
                criteria=each.criteria,
                reward=each.reward,
            )
        )
    settings = [
        {name: str(value) for name, value in dotted(each.settings).items()} for each in measured
    ]
    names = dict.fromkeys(key for each in settings for key in each)
    differing = [name for name in names if len({each.get(name) for each in settings}) > 1]
    return Comparison(
        measure=f"{measure}, mean over training seeds",
        obstacles=obstacles,
        rows=tuple(rows),
        settings=tuple(
            SettingDifference(name=name, values=tuple(each.get(name, "–") for each in settings))
            for name in differing
            if name.partition(".")[0] not in _NOT_SETTINGS
        ),
    )


def routes(place: WebPlace) -> APIRouter:
    """Return the route of comparisons."""
    router = APIRouter(tags=["compare"])

    @router.get("/compare")
    def compare(artifact: Annotated[list[str], Query(min_length=2, max_length=6)]) -> Comparison:
        """Compare two to six sessions or runs over their training seeds."""
        return compare_artifacts([place.artifact(x, "session", "run") for x in artifact])

    return router
