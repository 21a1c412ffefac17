"""From the logs of runs to evidence, audits, alerts and reflections of a real study folder."""

import json
import os
import time

import pytest

from telic.storage.files import read_json, write_json
from telic.studies.administration import set_study_status
from telic.studies.approvals import Consent, grant
from telic.studies.canonical import utc_now
from telic.studies.documents.base import StudyActor, update_yaml
from telic.studies.errors import GateRefused, StudyError
from telic.studies.evidence.audit import audit_result
from telic.studies.evidence.measurement import (
    Measurement,
    analyze_run,
    fatal_alerts,
    look_at_run,
    monitor_run,
    open_alerts,
)
from telic.studies.evidence.review import (
    is_unreviewed,
    may_be_author,
    reflect_run,
    review_candidate,
)
from telic.studies.next import note_next
from telic.studies.rules.results import standing_exploit, standing_stops
from tests.studies.candidates.small_study import AGENT, HUMAN, change_contract, start_run
from tests.studies.evidence.claimed_study import BETTER, GAMED, leave_files, log_rows, promoted

TWIN = StudyActor(kind="agent", name="reviewer", session=AGENT.session)
"""who may be the author by another name"""


def check(audit, code):
    return next(each for each in audit.checks if each.id == code)


def measured(study, title="more weight", final=BETTER, **changes):
    name, runs = promoted(study, title, final, **changes)
    for run in runs:
        analyze_run(study, run, AGENT)
    return name, runs


def test_the_baseline_is_established_and_measures_the_noise(study):
    state = study.state
    assert state.incumbent.candidate == state.baseline or state.incumbent.n == 5
    assert 0.001 < state.noise_floor < 0.05
    assert state.incumbent.ci[0] < state.incumbent.iqm < state.incumbent.ci[1]


def test_a_run_is_measured_once(study):
    _, runs = promoted(study, "more weight", BETTER)
    first = analyze_run(study, runs[0], AGENT)
    found = Measurement.model_validate(first.payload)
    assert found.primary == pytest.approx(BETTER, abs=0.05) and found.steps == 1_000_000
    assert found.guardrails["falls"] == pytest.approx(0.1, abs=0.02) and found.missing == ()
    assert found.hardware == "x86_64; cpu" and len(found.curves["success"]) == 61
    before = study.ledger.head
    assert analyze_run(study, runs[0], AGENT) == first and study.ledger.head == before


def test_a_run_that_still_goes_is_not_measured(study):
    name, _ = promoted(study, "more weight", BETTER)
    study.append("candidate.advanced", name, {"to": "validated", "phase": "promotion"}, AGENT)
    run = start_run(study, name, "promotion", 106)
    with pytest.raises(StudyError, match="E_RUN_LIVE"):
        analyze_run(study, run, AGENT)
    with pytest.raises(StudyError, match="E_NO_RUN"):
        analyze_run(study, "r-nothing", AGENT)


def test_a_log_without_the_metric_is_said_to_lack_it(study):
    _, runs = promoted(study, "more weight", BETTER)
    (study.folder.run(runs[0]) / "artefacts" / "metrics.jsonl").write_text('{"step": 1, "x": 2}\n')
    found = Measurement.model_validate(analyze_run(study, runs[0], AGENT).payload)
    assert found.primary is None and found.missing == ("success", "falls")


def test_an_extractor_may_not_leave_the_run(study):
    _, runs = promoted(study, "more weight", BETTER)
    update_yaml(study.folder.metric_spec, {"extractor": {"path": "../../../secrets.jsonl"}})
    with pytest.raises(StudyError, match="E_EXTRACTOR_PATH"):
        analyze_run(study, runs[0], AGENT)


def test_a_better_candidate_is_a_valid_improvement(study):
    name, runs = measured(study)
    found = audit_result(study, name, AGENT).audit
    assert found.verdict == "valid_improvement", found.reasons
    assert found.arms["x"].runs == tuple(runs) and found.arms["y"].n == 5
    assert found.stats.delta == pytest.approx(0.2, abs=0.03)
    head = study.ledger.head
    assert audit_result(study, name, AGENT).audit == found and study.ledger.head == head
    assert study.audits(name) == (found,)


def test_an_equal_candidate_is_not(study):
    name, _ = measured(study, final=0.60)
    assert audit_result(study, name, AGENT).audit.verdict in ("no_improvement", "inconclusive")


def test_a_seed_that_failed_cannot_be_left_out(study):
    name, _ = measured(study)
    plan = read_json(study.folder.candidate_file(name))["plan"]
    plan["seeds"]["promotion"].append(107)
    held = read_json(study.folder.candidate_file(name))
    write_json(study.folder.candidate_file(name), {**held, "plan": plan})
    found = audit_result(study, name, AGENT).audit
    assert found.verdict == "invalid" and check(found, "A05").value == ["seed 107"]


def test_runs_that_are_not_measured_are_missing(study):
    name, runs = promoted(study, "more weight", BETTER)
    for run in runs[:-1]:
        analyze_run(study, run, AGENT)
    found = audit_result(study, name, AGENT).audit
    assert found.verdict == "invalid" and runs[-1] in check(found, "A05").why


def test_altered_evidence_voids_the_claim(study):
    name, runs = measured(study)
    sheet = next(n for n, e in study.state.evidence.items() if e.run == runs[0])
    path = study.folder.evidence_file(sheet)
    write_json(path, {**read_json(path), "summary": "0.99"})
    assert study.altered([sheet]) == [sheet]
    found = audit_result(study, name, AGENT).audit
    assert found.verdict == "invalid" and "evidence" in check(found, "A01").value


def test_a_changed_evaluator_shows_between_the_arms(study):
    name, runs = promoted(study, "more weight", BETTER, code_hash="1" * 64)
    for run in runs:
        analyze_run(study, run, AGENT)
    found = audit_result(study, name, AGENT).audit
    assert found.verdict == "invalid" and not check(found, "A04").passed


def test_every_try_against_the_same_incumbent_counts(study):
    first, _ = measured(study, "first", 0.61)
    audit_result(study, first, AGENT)
    second, _ = measured(study, "second", change={"overrides": {"mode": {"from": "a", "to": "b"}}})
    stats = audit_result(study, second, AGENT).audit.stats
    assert stats.holm_p == pytest.approx(2 * stats.welch_p)


def test_a_planted_exploit_reaches_high_and_blocks_the_claim(study):
    name, runs = measured(study, "bonus", GAMED, is_gamed=True)
    found = reflect_run(study, runs[0], AGENT)
    assert found.reflection.hacking.level == "high", found.reflection.hacking
    assert study.sheet(found.evidence.id).kind == "reflection"
    audit = audit_result(study, name, AGENT).audit
    assert audit.verdict == "invalid" and not check(audit, "A11").passed
    with pytest.raises(GateRefused, match="E_OWN_REVIEW"):
        review_candidate(study, name, AGENT, "fine", is_exploit=False)
    review_candidate(study, name, HUMAN, "it stands still; no exploit", is_exploit=False)
    assert check(audit_result(study, name, AGENT).audit, "A11").passed
    reflect_run(study, runs[1], AGENT)
    assert check(audit_result(study, name, AGENT).audit, "A11").passed, "reviewed once is enough"
    report = look_at_run(study, runs[0])
    assert "metric_divergence" in {each.id for each in report.signatures}


def test_a_high_risk_stops_reward_work_until_somebody_else_has_looked(study):
    name, runs = measured(study, "bonus", GAMED, is_gamed=True)
    for run in runs[:2]:
        reflect_run(study, run, AGENT)
    assert is_unreviewed(study, name)
    assert [each.rule for each in standing_stops(study)] == ["hacking_high"]
    review_candidate(study, name, HUMAN, "it stands still", is_exploit=True)
    reflect_run(study, runs[2], AGENT)
    assert not is_unreviewed(study, name)
    assert standing_stops(study) == ()


def test_a_breached_guardrail_pauses_the_study_until_a_person_resumes_it(study):
    change_contract(study, {"stop_rules": [{"rule": "guardrail_breach"}]})
    name, runs = promoted(study, "reckless", BETTER)
    for run in runs:
        log = study.folder.artefacts(run) / "metrics.jsonl"
        log.write_text(log.read_text().replace('"falls": 0.', '"falls": 9.'))
        analyze_run(study, run, AGENT)
    assert standing_stops(study) == ()
    audit_result(study, name, AGENT)
    (stop,) = standing_stops(study)
    assert (stop.rule, stop.effect) == ("guardrail_breach", "pause")
    assert stop.why == f"{name} broke falls" and note_next(study).action == "stop"
    assert [each.rule for each in study.state.fired_stops] == ["guardrail_breach"]
    set_study_status(study, "open", HUMAN, "it may fall")
    assert standing_stops(study) == ()


def test_praise_of_its_own_settles_nothing_until_a_person_approves_it_knowingly(study):
    name, runs = measured(study, "bonus", GAMED, is_gamed=True)
    review_candidate(study, name, HUMAN, "fine", is_exploit=False)
    reflect_run(study, runs[0], AGENT)
    assert is_unreviewed(study, name), "it knew nothing of the reflection"
    review_candidate(study, name, TWIN, "fine", is_exploit=False)
    assert is_unreviewed(study, name)
    assert not check(audit_result(study, name, AGENT).audit, "A11").passed
    grant(study, "experiment", Consent(by="ada", method="tty", at=utc_now()), candidate=name)
    assert not is_unreviewed(study, name)
    assert check(audit_result(study, name, AGENT).audit, "A11").passed


def test_the_same_words_about_a_newer_reflection_are_another_review(study):
    name, runs = measured(study, "bonus", GAMED, is_gamed=True)
    review_candidate(study, name, HUMAN, "fine", is_exploit=False)
    reflect_run(study, runs[0], AGENT)
    review_candidate(study, name, HUMAN, "fine", is_exploit=False)
    assert not is_unreviewed(study, name)


def test_an_exploit_counts_whoever_finds_it_and_praise_of_its_own_does_not_take_it_back(study):
    name, runs = measured(study, "bonus", GAMED, is_gamed=True)
    reflect_run(study, runs[0], AGENT)
    review_candidate(study, name, TWIN, "it stands still", is_exploit=True)
    assert not is_unreviewed(study, name) and "it stands still" in standing_exploit(study, name)
    review_candidate(study, name, TWIN, "on second thoughts, fine", is_exploit=False)
    assert "it stands still" in standing_exploit(study, name)
    review_candidate(study, name, HUMAN, "it has to stand still", is_exploit=False)
    assert standing_exploit(study, name) is None


def test_a_log_without_terms_cannot_be_reflected_on(study):
    _, runs = promoted(study, "more weight", BETTER)
    (study.folder.run(runs[0]) / "artefacts" / "metrics.jsonl").write_text('{"step": 1, "x": 2}\n')
    with pytest.raises(StudyError, match="E_NO_TERMS"):
        reflect_run(study, runs[0], AGENT)


# ---------------------------------------------------------------------------- monitoring


def test_a_finished_run_is_well(study):
    _, runs = promoted(study, "more weight", BETTER)
    found = monitor_run(study, runs[0], AGENT)
    assert found.signatures == () and found.recommendation == "continue" and found.progress == 1.0
    assert not open_alerts(study.events, runs[:1])[runs[0]]


def live_run(study, rows):
    name, _ = promoted(study, "more weight", BETTER)
    study.append("candidate.advanced", name, {"to": "validated", "phase": "promotion"}, AGENT)
    run = start_run(study, name, "promotion", 106)
    leave_files(study, run, rows)
    (study.folder.run(run) / "exit.json").unlink()
    return run


def test_trouble_is_entered_once_and_cleared_when_it_is_over(study):
    rows = log_rows(BETTER, 1)
    run = live_run(study, [*rows[:40], {**rows[40], "return": "NaN"}])
    found = monitor_run(study, run, AGENT)
    assert [each.id for each in found.signatures] == ["nan_inf"]
    assert found.recommendation == "kill", "the process counts as alive until it says otherwise"
    head = study.ledger.head
    monitor_run(study, run, AGENT)
    assert study.ledger.head == head, "nothing new"
    assert fatal_alerts(study, [run]) == (f"nan_inf in {run}",)
    log = study.folder.run(run) / "artefacts" / "metrics.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monitor_run(study, run, AGENT)
    assert fatal_alerts(study, [run]) == () and not open_alerts(study.events, [run])[run]


def test_a_silent_process_is_stalled_and_a_gone_one_is_dead(study):
    run = live_run(study, log_rows(BETTER, 1)[:20])
    folder = study.folder.run(run)
    old = time.time() - 500
    for each in [*folder.rglob("*.jsonl"), *folder.glob("*.log")]:
        os.utime(each, (old, old))
    found = look_at_run(study, run)
    assert {each.id: each.severity for each in found.signatures}["stalled"] == "fatal"
    import socket

    gone = {"pid": 2**22 - 1, "start_ticks": 1, "boot_id": "another", "host": socket.gethostname()}
    write_json(folder / "pid.json", gone)
    found = look_at_run(study, run)
    assert [each.id for each in found.signatures] == ["dead"]
    assert found.recommendation == "inspect"


def test_exit_code_zero_without_results_is_a_silent_failure(study):
    update_yaml(
        study.folder.adapter,
        {"outputs": {"checkpoint_glob": "*.pt", "completion": {"marker_file": "done"}}},
    )
    _, runs = promoted(study, "more weight", BETTER)
    found = look_at_run(study, runs[0])
    assert "marker done, checkpoint *.pt" in found.signatures[0].evidence
    for name in ("done", "last.pt"):
        (study.folder.run(runs[0]) / "artefacts" / name).touch()
    assert look_at_run(study, runs[0]).signatures == ()


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
