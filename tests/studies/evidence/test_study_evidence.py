"""From the logs of runs to evidence, audits, alerts and reflections of a real study folder."""

import pytest

from telic.storage.files import read_json, write_json
from telic.studies.administration import set_study_status
from telic.studies.approvals import Consent, grant
from telic.studies.canonical import utc_now
from telic.studies.documents.base import StudyActor, update_yaml
from telic.studies.errors import GateRefused, StudyError
from telic.studies.evidence.audit import Audit, audit_result
from telic.studies.evidence.measurement import (
    Measurement,
    analyze_run,
)
from telic.studies.evidence.review import (
    is_unreviewed,
    may_be_author,
    reflect_run,
    review_candidate,
)
from telic.studies.next import note_next
from telic.studies.rules.results import active_stops, unresolved_exploit
from tests.studies.candidates.small_study import AGENT, HUMAN, change_contract, start_run
from tests.studies.evidence.claimed_study import BETTER, GAMED, promoted

TWIN = StudyActor(kind="agent", name="reviewer", session=AGENT.session)
"""who may be the author by another name"""


def check(audit, code):
    return next(each for each in audit.checks if each.id == code)


def measured(study, title="more weight", final=BETTER, **changes):
    name, runs = promoted(study, title, final, **changes)
    for run in runs:
        analyze_run(study, run, AGENT)
    return name, runs


def test_a_run_is_measured_once_after_its_end(study):
    name, runs = promoted(study, "more weight", BETTER)
    first = analyze_run(study, runs[0], AGENT)
    found = Measurement.model_validate(first.payload)
    assert found.primary == pytest.approx(BETTER, abs=0.05) and found.steps == 1_000_000
    assert found.guardrails["falls"] == pytest.approx(0.1, abs=0.02) and found.missing == ()
    assert found.hardware == "x86_64; cpu" and len(found.curves["success"]) == 25
    before = study.ledger.head
    assert analyze_run(study, runs[0], AGENT) == first and study.ledger.head == before
    (study.folder.run(runs[1]) / "artifacts" / "metrics.jsonl").write_text('{"step": 1, "x": 2}\n')
    found = Measurement.model_validate(analyze_run(study, runs[1], AGENT).payload)
    assert found.primary is None and found.missing == ("success", "falls")
    with pytest.raises(StudyError, match="E_NO_TERMS"):
        reflect_run(study, runs[1], AGENT)
    study.append("candidate.advanced", name, {"to": "validated", "phase": "promotion"}, AGENT)
    run = start_run(study, name, "promotion", 106)
    with pytest.raises(StudyError, match="E_RUN_LIVE"):
        analyze_run(study, run, AGENT)
    with pytest.raises(StudyError, match="E_NO_RUN"):
        analyze_run(study, "r-nothing", AGENT)
    update_yaml(study.folder.metric_spec, {"extractor": {"path": "../../../secrets.jsonl"}})
    with pytest.raises(StudyError, match="E_EXTRACTOR_PATH"):
        analyze_run(study, runs[2], AGENT)


def test_a_better_candidate_is_a_valid_improvement(study):
    name, runs = measured(study)
    found = Audit.parse(audit_result(study, name, AGENT).payload)
    assert found.verdict == "valid_improvement", found.reasons
    assert found.arms["x"].runs == tuple(runs) and found.arms["y"].n == 5
    assert found.stats.delta == pytest.approx(0.2, abs=0.03)
    head = study.ledger.head
    assert (
        Audit.parse(audit_result(study, name, AGENT).payload) == found and study.ledger.head == head
    )
    assert study.audits(name) == (found,)
    second, _ = measured(study, "second", change={"overrides": {"mode": {"from": "a", "to": "b"}}})
    stats = Audit.parse(audit_result(study, second, AGENT).payload).stats
    assert stats.holm_p == pytest.approx(2 * stats.welch_p), "every try counts"


def test_runs_are_not_left_out_and_evidence_is_not_altered(study):
    name, runs = promoted(study, "more weight", BETTER)
    for run in runs[:-1]:
        analyze_run(study, run, AGENT)
    found = Audit.parse(audit_result(study, name, AGENT).payload)
    assert found.verdict == "invalid" and runs[-1] in check(found, "A05").why
    analyze_run(study, runs[-1], AGENT)
    held = read_json(study.folder.candidate_file(name))
    plan = held["plan"]
    plan["seeds"]["promotion"].append(107)
    write_json(study.folder.candidate_file(name), {**held, "plan": plan})
    found = Audit.parse(audit_result(study, name, AGENT).payload)
    assert found.verdict == "invalid" and check(found, "A05").value == ["seed 107"]
    sheet = next(n for n, e in study.state.evidence.items() if e.run == runs[0])
    path = study.folder.evidence_file(sheet)
    write_json(path, {**read_json(path), "summary": "0.99"})
    assert study.altered([sheet]) == [sheet]
    assert "evidence" in check(Audit.parse(audit_result(study, name, AGENT).payload), "A01").value


def test_a_planted_exploit_is_high_and_blocks_the_claim(study):
    name, runs = measured(study, "bonus", GAMED, is_gamed=True)
    found = reflect_run(study, runs[0], AGENT)
    assert found.payload["hacking"]["level"] == "high", found.payload
    audit = Audit.parse(audit_result(study, name, AGENT).payload)
    assert audit.verdict == "invalid" and not check(audit, "A11").passed
    assert is_unreviewed(study, name)
    with pytest.raises(GateRefused, match="E_OWN_REVIEW"):
        review_candidate(study, name, AGENT, "fine", is_exploit=False)
    review_candidate(study, name, HUMAN, "it stands still; no exploit", is_exploit=False)
    assert check(Audit.parse(audit_result(study, name, AGENT).payload), "A11").passed
    reflect_run(study, runs[2], AGENT)
    assert not is_unreviewed(study, name), "reviewed once is enough"


def test_a_breached_guardrail_pauses_the_study_until_a_person_resumes_it(study):
    change_contract(study, {"stop_rules": [{"rule": "guardrail_breach"}]})
    name, runs = promoted(study, "reckless", BETTER)
    for run in runs:
        log = study.folder.artifacts(run) / "metrics.jsonl"
        log.write_text(log.read_text().replace('"falls": 0.', '"falls": 9.'))
        analyze_run(study, run, AGENT)
    audit_result(study, name, AGENT)
    (stop,) = active_stops(study)
    assert (stop.rule, stop.effect) == ("guardrail_breach", "pause")
    assert stop.why == f"{name} broke falls" and note_next(study).action == "stop"
    assert [each.rule for each in study.state.fired_stops] == ["guardrail_breach"]
    set_study_status(study, "open", HUMAN, "it may fall")


def test_authors_do_not_clear_their_own_work_but_report_exploits_and_people_approve(study):
    name, runs = measured(study, "bonus", GAMED, is_gamed=True)
    review_candidate(study, name, HUMAN, "fine", is_exploit=False)
    reflect_run(study, runs[0], AGENT)
    assert is_unreviewed(study, name), "it knew nothing of the reflection"
    for author in (AGENT, TWIN):
        with pytest.raises(GateRefused, match="E_OWN_REVIEW"):
            review_candidate(study, name, author, "fine", is_exploit=False)
    consent = Consent(by="ada", method="tty", at=utc_now())
    grant(study, "experiment", consent, candidate=name)
    assert not is_unreviewed(study, name)
    review_candidate(study, name, TWIN, "it stands still", is_exploit=True)
    assert "it stands still" in unresolved_exploit(study, name)
    grant(study, "experiment", consent, candidate=name)
    assert unresolved_exploit(study, name) is None
    review_candidate(study, name, TWIN, "it still stands still", is_exploit=True)
    review_candidate(study, name, HUMAN, "it has to stand still", is_exploit=False)
    assert unresolved_exploit(study, name) is None


@pytest.mark.parametrize(
    ("reviewer", "is_self"),
    [
        (("human", "ada", None), False),
        (("agent", "other", "s1"), True),
        (("agent", "other", None), True),
        (("agent", "other", "s2"), False),
    ],
)
def test_a_review_by_what_may_be_the_author_is_called_one(reviewer, is_self):
    author = StudyActor(kind="agent", name="coder", session="s1")
    kind, name, session = reviewer
    assert may_be_author(author, StudyActor(kind=kind, name=name, session=session)) is is_self
