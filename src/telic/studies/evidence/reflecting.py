"""Reflect on the reward of a run: read its log, judge the terms, enter the evidence."""

from __future__ import annotations

from collections.abc import Mapping

from telic.studies.documents.base import Actor, Part
from telic.studies.documents.metrics import MetricSpec
from telic.studies.documents.runs import Evidence
from telic.studies.errors import StudyError
from telic.studies.evidence.hacking import Degenerate, GuardrailSeries, JudgeConflict
from telic.studies.evidence.logs import read_run_log
from telic.studies.evidence.measuring import run_state
from telic.studies.evidence.reflection import Reflection, RewardLog, reflect
from telic.studies.evidence.series import Series, mean
from telic.studies.evidence.store import add_evidence, latest
from telic.studies.study import Study

_TERMS = "reward/"


class ReflectionResult(Part):
    """A reflection and the evidence that a candidate cites."""

    reflection: Reflection
    evidence: Evidence


def reflect_run(study: Study, run: str, actor: Actor) -> ReflectionResult:
    """Reflect on a run's reward; raises StudyError E_NO_TERMS when its log has no reward terms."""
    held = run_state(study.state.runs, run)
    spec = study.metric_spec
    series = read_run_log(study.folder, run).series
    terms = reward_terms(series, spec)
    if not terms:
        raise StudyError(
            "E_NO_TERMS",
            f"The log of {run} has no reward terms.",
            hint=f"Log each term as {_TERMS}NAME, or name them as components in metric_spec.yaml.",
        )
    sign = 1.0 if spec.primary.direction == "max" else -1.0
    metric = series.get(spec.primary.key)
    target = spec.primary.target
    found = reflect(
        RewardLog(
            run=run,
            terms=terms,
            metric=metric and metric._replace(values=tuple(sign * v for v in metric.values)),
            returns=series.get("return"),
            components=spec.components,
            target=None if target is None else sign * target,
            guardrails=tuple(
                GuardrailSeries(rule=each, series=series[each.key])
                for each in spec.guardrails
                if each.key in series
            ),
            degenerate=degenerate_signs(series),
            judges=_judges(study, held.candidate),
        )
    )
    evidence = add_evidence(
        study,
        "reflection",
        found.as_data(),
        actor,
        run=run,
        candidate=held.candidate,
        producer="telic.reflect",
        summary=f"hacking risk {found.hacking.level}",
    )
    return ReflectionResult(reflection=found, evidence=evidence)


def reward_terms(series: Mapping[str, Series], spec: MetricSpec) -> dict[str, Series]:
    """Return the weighted contribution of every term.

    Terms are the components of the metric spec, else every series named reward/…; one whose
    weight is logged apart is multiplied by it.
    """
    terms = {each.key: series[each.key] for each in spec.components if each.key in series}
    for each in spec.components:
        weight = series.get(each.weight_key) if each.weight_key else None
        if each.key in terms and weight is not None:
            terms[each.key] = _weighted(terms[each.key], weight)
    return terms or {name: each for name, each in series.items() if name.startswith(_TERMS)}


def degenerate_signs(series: Mapping[str, Series]) -> Degenerate:
    """Return the measures of degenerate behaviour that the log has."""
    length = series.get("episode_length")
    before = mean(length.finite().first(0.2).values) if length else None
    after = mean(length.finite().last(0.2).values) if length else None
    return Degenerate(
        horizon_share=_end(series.get("horizon_share")),
        motion_ratio=_end(series.get("motion_ratio")),
        action_saturation=_end(series.get("action_saturation")),
        episode_length_ratio=after / before if before and after is not None else None,
        violation_ratio=_end(series.get("violation_ratio")),
    )


def _end(series: Series | None) -> float | None:
    return mean(series.finite().last(0.2).values) if series else None


def _weighted(term: Series, weight: Series) -> Series:
    # Before its first entry a weight is taken to have been what it was then.
    weights = [weight.at(step) for step in term.steps]
    values = [
        value * (weight.values[0] if each is None else each)
        for value, each in zip(term.values, weights, strict=True)
    ]
    return term._replace(values=tuple(values))


def _judges(study: Study, candidate: str) -> JudgeConflict:
    """Return what judges and reviewers made of the candidate, where evidence says so."""
    state, folder = study.state, study.folder
    judged = latest(folder, state, "judgment", candidate=candidate)
    review = latest(folder, state, "review", candidate=candidate)
    scores = judged.payload if judged else {}
    return JudgeConflict(
        code=scores.get("code"),
        visual=scores.get("visual"),
        is_flagged=bool(review and review.payload.get("exploit")),
    )
