from telic.studies.administration import set_study_status
from telic.studies.candidates import revise_candidate, transition
from telic.studies.decide import decide_candidate
from telic.studies.documents.base import RUNNER
from telic.studies.evidence.audit import audit_result
from telic.studies.next import next_step, note_next
from telic.studies.rules.checks import CHECKS, validate_candidate
from telic.studies.rules.results import advance
from tests.studies.candidates.small_study import (
    AGENT,
    HUMAN,
    change_contract,
    complete,
    end_run,
    make,
    measure,
    start_run,
)


def files(study):
    return {p: p.read_bytes() for p in study.folder.path.rglob("*") if p.is_file()}


def test_asking_changes_no_file(claimed):
    before = files(claimed)
    next_step(claimed)
    assert files(claimed) == before


def test_nothing_is_launched_before_its_baseline_has_ended_well(study):
    assert next_step(study).args == {"kind": "baseline"}
    name = make(study)
    validate_candidate(study, name)
    assert next_step(study).args == {"kind": "baseline"}
    (job,) = study.jobs
    assert (job.status, job.reason) == ("waiting", "it waits for an accepted baseline")


def test_a_study_is_led_from_the_idea_to_the_next_phase(based):
    study = based
    name = make(study, plan={"est": {}})
    found = next_step(study)
    assert found.action == "revise" and found.blocking[0] == CHECKS["V14"].fix
    assert "V14 (estimate fits the budget): plan.est.gpu_h is missing" in found.why
    assert found.command == f"telic study propose FILE --revise {name}"
    revise_candidate(study, name, {"plan": {"est": {"gpu_h": 1.0}}}, AGENT)
    assert next_step(study).command == "telic study run"
    validate_candidate(study, name)
    found = next_step(study)
    assert (found.action, found.args["phase"], found.args["seed"]) == ("agree", "smoke", 1)
    assert any("budget" in each for each in found.blocking)
    assert found.command and found.command.startswith("telic study approve task_definition")
    (run,) = complete(study, name)
    assert next_step(study).command == f"telic study audit {run}"
    measure(study, run, 0.3)
    assert next_step(study).args == {"candidate": name, "phase": "short_trial"}
    advance(study)
    assert next_step(study).args["phase"] == "short_trial"


def test_a_claim_is_audited_decided_and_then_checked(claimed):
    name = "c-0002-more-weight"
    assert next_step(claimed).command == f"telic study audit {name}"
    audit_result(claimed, name, AGENT)
    found = next_step(claimed)
    assert (found.action, found.args["verdict"]) == ("decide", "accept")
    assert found.blocking == ("a person accepts (automation.decide: ask)",)
    decide_candidate(claimed, name, "accept", HUMAN, "better")
    assert next_step(claimed).command == "telic study run"


def test_what_cannot_be_mended_any_more_is_given_up(study):
    change_contract(study, {"automation": {"max_debug_attempts": 0}})
    name = make(study)
    validate_candidate(study, name)
    end_run(study, start_run(study, name), "failed", why="it crashed")
    transition(study, name, "debug", RUNNER, "it crashed")
    found = next_step(study)
    assert found.args == {"candidate": name, "verdict": "reject"}
    assert decide_candidate(study, name, "reject", AGENT, "it does not start").recorded


def fail(study, count):
    for place in range(count):
        change = {"overrides": {"ppo.epochs": {"from": 1, "to": place + 2}}}
        name = make(study, f"idea {place}", change=change)
        assert validate_candidate(study, name).ok
        end_run(study, start_run(study, name), "failed", why="it crashed")
        transition(study, name, "debug", RUNNER, "it crashed")


def test_a_stop_that_needs_a_person_is_recorded_and_stands_until_resumed(study):
    change_contract(study, {"stop_rules": [{"rule": "failure_streak", "k": 2}]})
    fail(study, 2)
    assert note_next(study).args["rule"] == "failure_streak"
    note_next(study)
    fired = [each for each in study.events if each.kind == "stop.fired"]
    assert len(fired) == 1 and study.state.fired_stops[0].rule == "failure_streak"
    set_study_status(study, "open", HUMAN, "the disk was full")
    assert note_next(study).action == "revise", "the same failures do not stop it again"


def test_a_stop_file_stops(study):
    study.folder.stop_file.write_text("")
    found = next_step(study)
    assert (found.action, found.args["rule"]) == ("stop", "human_stop")
    study.folder.stop_file.unlink()
    assert next_step(study).action == "propose"
