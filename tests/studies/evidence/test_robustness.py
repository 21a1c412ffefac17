"""Probes and curricula: known answers from measured runs, and what no run has shown is refused."""

import pytest

from telic.studies.contract import amend
from telic.studies.documents.base import update_yaml
from telic.studies.errors import StudyError
from telic.studies.evidence.robustness import (
    ProbeSummary,
    probe_candidate,
    range_problems,
)
from tests.studies.candidates.small_study import AGENT, HUMAN, established, measure

CASES = {"m5": 5.0, "m8": 8.0, "m12": 12.0, "m15": 15.0}


@pytest.fixture
def probed(study):
    """Return a function that measures the incumbent's runs under perturbations."""

    def measured(scores, runs=3):
        settings = [
            {"name": name, "parameter": "mass", "value": value, "nominal": 10.0}
            for name, value in CASES.items()
        ]
        update_yaml(study.folder.protocol, {"perturbations": settings})
        amend(study, HUMAN, "perturbations")
        name = established(study)
        for run in list(study.state.runs_of(name, "incumbent_validation"))[:runs]:
            score = study.latest("metrics", run=run).payload["primary"]
            found = {case: score * share for case, share in zip(CASES, scores, strict=True)}
            measure(study, run, score, perturbed=found)
        return study, name

    return measured


def test_the_feasible_range_ends_where_a_fifth_of_the_score_is_lost(probed):
    study, name = probed((0.5, 0.9, 0.95, 0.1))
    summary = ProbeSummary.parse(probe_candidate(study, name, AGENT).payload)
    assert len(summary.runs) == 3
    (mass,) = summary.parameters
    assert mass.feasible == (8.0, 12.0)
    assert [round(point.retention, 3) for point in mass.points] == [0.5, 0.9, 1.0, 0.95, 0.1]
    wide = range_problems(study, {"mass": (7.0, 12.0), "wind": (0, 1)}, summary)
    assert [each.split()[0] for each in wide] == ["mass", "wind"]
    assert list(range_problems(study, {"mass": (7.7, 12.3)}, summary)) == []


def test_a_number_without_a_run_is_refused(probed):
    study, name = probed((0.5, 0.9, 0.95, 0.1), runs=2)
    with pytest.raises(StudyError, match="E_PROBE_RUNS"):
        probe_candidate(study, name, AGENT)
    typed = ProbeSummary(candidate=name, protocol_hash="p", parameters=())
    for runs in ((), ("r-made-up",)):
        forged = typed.model_copy(update={"runs": runs})
        (why,) = range_problems(study, {"mass": (8.0, 12.0)}, forged)
        assert "does not use runs" in why
