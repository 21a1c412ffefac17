"""Probes and curricula: known answers and what is refused."""

import json

import pytest

from telic.errors import TelicError
from telic.studies.evidence.curriculum import curriculum_problems
from telic.studies.evidence.probes import ProbeSummary, range_problems, summarise_probe
from tests.studies.candidates.small_study import AGENT

VALUES = (0.5, 0.75, 1.0, 1.25, 1.5)


@pytest.fixture
def probe(study, tmp_path):
    def summarise(scores, broken=(), nominal=1.0, **more):
        settings = [
            {"value": value, "scores": score, "guardrails_held": value not in broken}
            for value, score in zip(VALUES, scores, strict=True)
        ]
        file = tmp_path / "results.json"
        file.write_text(json.dumps({"mass": {"nominal": nominal, "settings": settings}}))
        name = study.state.incumbent.candidate
        summary, sheet = summarise_probe(study, name, file, AGENT, **more)
        assert ProbeSummary.parse(sheet.payload) == summary
        return summary

    return summarise


def flat(*retentions):
    """Scores without noise, so that bounds equal the means."""
    return [[10 * each] * 3 for each in retentions]


def test_the_feasible_range_is_contiguous_around_the_nominal_value(probe):
    found = probe(flat(0.9, 0.5, 1.0, 0.9, 0.4))
    assert found.parameters[0].feasible == (1.0, 1.25), "0.5 holds again, but not from the centre"
    broken = probe(flat(0.9, 0.9, 1.0, 0.95, 0.95), broken=(1.25,))
    assert broken.parameters[0].feasible == (0.5, 1.0)


def test_the_worst_policy_counts_as_zero_and_noise_lowers_the_bound(probe):
    found = probe([[score] * 3 for score in (-50.0, -20.0, 0.0, -10.0, -90.0)], worst=-100.0)
    retention = [each.retention for each in found.parameters[0].points]
    assert retention == pytest.approx([0.5, 0.8, 1, 0.9, 0.1])
    assert found.parameters[0].feasible == (0.75, 1.25)
    noisy = probe([*flat(0.9, 0.9, 1.0), [10.0, 10.0, 7.0], *flat(0.9)]).parameters[0].points[3]
    assert noisy.retention == pytest.approx(0.9) and noisy.rho_lo < 0.81


def test_results_that_are_missing_are_named(probe):
    with pytest.raises(TelicError, match="worst policy"):
        probe(flat(1, 1, 0, 1, 1))
    with pytest.raises(TelicError, match="mass has no nominal score"):
        probe(flat(1, 1, 1, 1, 1), nominal=1.1)
    with pytest.raises(TelicError, match="scores"):
        probe([[1.0, 2.0]] * 5)


def test_ranges_may_exceed_what_was_probed_by_a_tenth(probe):
    found = probe(flat(0.5, 0.9, 1.0, 0.9, 0.4))  # feasible 0.75 to 1.25
    assert range_problems({"mass": (0.7, 1.3)}, found) == []
    assert "more than a tenth" in range_problems({"mass": (0.69, 1.3)}, found)[0]
    assert range_problems({"wind": (0, 1)}, found) == ["wind was not probed"]


# ---------------------------------------------------------------------------- curriculum

GOOD = {
    "mode": "generate",
    "success": {"a": 0.1, "b": 0.5, "c": 0.95},
    "bridges": {"a": "f1", "b": "f1", "c": "f2"},
    "protocol_hash": "p",
    "rollback": {"condition": "success < 0.5", "action": "restore", "checkpoint": "last.pt"},
}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"success": {"a": 0.5, "b": 1.0}}, "only 50%"),
        ({"protocol_hash": "q"}, "not the study's"),
        ({"overlap_hashes": ["h"]}, "equal held-out"),
        ({"bridges": {"a": "f"}}, "case b names no failure"),
        ({"rollback": {"condition": "", "action": "x", "checkpoint": "y"}}, "rollback.condition"),
    ],
)
def test_missing_parts_of_a_curriculum_are_named(change, complaint):
    assert any(complaint in each for each in curriculum_problems({**GOOD, **change}, "p"))
    assert curriculum_problems(GOOD, "p") == []
    assert curriculum_problems(None, "p") == ["the curriculum section is missing"]
