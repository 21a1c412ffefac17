"""Plan a probe of the world around a policy, and sum up what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from telic.storage.files import read_json
from telic.studies.documents.base import Actor
from telic.studies.documents.files import read_yaml
from telic.studies.documents.runs import Evidence
from telic.studies.errors import InvalidDocument, StudyError
from telic.studies.evidence.probe_summary import ProbeResult, ProbeSummary, summarise
from telic.studies.evidence.probes import ProbedParameter, ProbedPolicy, ProbePlan, grid
from telic.studies.evidence.store import add_evidence
from telic.studies.study import Study

PLAN = "dr_probe_plan"
_EPISODES = 10


def read_parameters(given: list[str]) -> tuple[ProbedParameter, ...]:
    """Read parameters such as "body.mass=10:5..15" or "friction=1:0.25..4:log"."""
    return tuple(_parameter(each) for each in given)


def _parameter(text: str) -> ProbedParameter:
    path, _, rest = text.partition("=")
    middle, _, ends = rest.partition(":")
    ends, _, scale = ends.partition(":")
    low, _, high = ends.partition("..")
    try:
        values = float(middle), float(low), float(high)
    except ValueError:
        raise StudyError(
            "E_PROBE_PARAMETER",
            f'"{text}" is not a parameter to probe.',
            hint="Write path=nominal:low..high, with :log at the end for a logarithmic grid.",
        ) from None
    kind = "log" if scale == "log" else "linear"
    made = grid(*values, scale=kind)
    return ProbedParameter(path=path, nominal=values[0], grid=made, scale=kind)


def plan_probe(
    study: Study,
    candidate: str,
    checkpoint_sha: str,
    parameters: tuple[ProbedParameter, ...],
    seeds: tuple[int, ...],
    actor: Actor,
    episodes: int = _EPISODES,
) -> tuple[ProbePlan, Evidence]:
    """Write down what a probe will measure; its runs are candidates of kind dr_probe."""
    state = study.state
    if candidate not in state.candidates:
        raise StudyError("E_NO_CANDIDATE", f"The ledger knows no candidate {candidate}.")
    try:
        plan = ProbePlan(
            policy=ProbedPolicy(candidate=candidate, checkpoint_sha=checkpoint_sha),
            protocol_hash=state.protocol_hash or "",
            parameters=parameters,
            seeds=seeds,
            episodes=episodes,
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidDocument(
            "E_PROBE", f"{'.'.join(map(str, first['loc']))}: {first['msg']}."
        ) from None
    facts = {PLAN: plan.as_data()}
    sheet = add_evidence(
        study,
        "preflight",
        facts,
        actor,
        candidate=candidate,
        protocol_hash=plan.protocol_hash,
        producer="telic.dr_plan",
        summary=f"{plan.evaluations} evaluations",
    )
    return plan, sheet


def summarise_probe(
    study: Study, candidate: str, results: Path, actor: Actor, worst: float = 0.0
) -> tuple[ProbeSummary, Evidence]:
    """Sum up the results of the candidate's last planned probe and enter them as evidence.

    The file holds, per parameter, a list of {value, scores, guardrails_held}; scores are turned so
    that larger is better where the metric is to be minimised.
    """
    plan = _last_plan(study, candidate)
    given = read_json(results) if results.suffix == ".json" else read_yaml(results)
    sign = 1.0 if study.metric_spec.primary.direction == "max" else -1.0
    found = summarise(plan, _results(given, sign, results), sign * worst)
    sheet = add_evidence(
        study,
        "dr_probe",
        found.as_data(),
        actor,
        candidate=candidate,
        protocol_hash=plan.protocol_hash,
        producer="telic.dr_summary",
        summary=", ".join(each.path for each in found.parameters),
    )
    return found, sheet


def _last_plan(study: Study, candidate: str) -> ProbePlan:
    sheet = study.latest("preflight", candidate=candidate)
    if sheet is None or PLAN not in sheet.payload:
        raise StudyError(
            "E_NO_PROBE",
            f"No probe of {candidate} was planned.",
            hint="Plan one first: telic study dr-plan",
        )
    return ProbePlan.parse(sheet.payload[PLAN], sheet.id)


def _results(given: Any, sign: float, source: Path) -> dict[str, list[ProbeResult]]:
    try:
        made = {
            path: [ProbeResult.model_validate(row) for row in rows] for path, rows in given.items()
        }
    except (ValidationError, AttributeError, TypeError) as error:
        raise InvalidDocument(
            "E_PROBE_RESULTS",
            f"{source} does not hold results of a probe: {error}",
            hint="Per parameter a list of {value, scores, guardrails_held}.",
        ) from None
    return {
        path: [
            each.model_copy(update={"scores": tuple(sign * score for score in each.scores)})
            for each in rows
        ]
        for path, rows in made.items()
    }
