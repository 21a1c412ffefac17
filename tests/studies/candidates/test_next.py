import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from telic.studies.administration import resume_study
from telic.studies.approvals import Consent
from telic.studies.canonical import utc_now
from telic.studies.decide import decide
from telic.studies.documents.base import RUNNER
from telic.studies.documents.candidate import CandidateStatus, Job
from telic.studies.evidence.audit import audit_result
from telic.studies.lifecycle import transition
from telic.studies.next import next_action, next_step, note_next
from telic.studies.outlook import Outlook
from telic.studies.prospects import ClaimVerdict, IncumbentDoubt, Objection
from telic.studies.queue import ReadyJob
from telic.studies.rules.checks import validate_candidate
from telic.studies.rules.phases import PhaseStep
from telic.studies.rules.remedies import Remedy
from telic.studies.rules.stops import Stop
from telic.studies.schedule import advance, plan_candidate
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

QUIET = {"is_closed": False, "is_agreed": True, "has_baseline": True, "has_successor": True}
NOTHING = ("unwritten", "unchecked", "doubted")


def outlook_of(**facts):
    """Return an outlook on a study that waits for nothing but these facts."""
    names = [each for each in dir(Outlook) if not each.startswith("_")]
    quiet = {each: None if each in NOTHING else () for each in names}
    return SimpleNamespace(**{**quiet, **QUIET, **facts})


JOB = Job(job_id="j", candidate="c-0001-x", phase="smoke", seed=1)
# Everything at once: each entry alone must win over all that come after it.
ORDER = [
    ("repair", {"integrity": ("ledger line 3: bad",)}),
    ("reconcile", {"crashed": ("r-1",)}),
    ("stop", {"stops": (Stop(rule="human_stop", effect="pause", why="lunch"),)}),
    ("agree", {"is_agreed": False}),
    ("agree", {"disagreement": ("contract.yaml was edited",)}),
    ("ingest", {"unmeasured": ("r-2",)}),
    ("monitor", {"unwatched": ("r-3",)}),
    ("review", {"unreviewed": ("c-9",)}),
    ("audit", {"unaudited": ("c-1",)}),
    ("decide", {"judged": (ClaimVerdict("c-2", "a-1", "no_improvement", True),)}),
    (
        "advance",
        {
            "passing": (
                PhaseStep(candidate="c", phase="smoke", to="short_trial", verdict="x", why="y"),
            )
        },
    ),
    ("reflect", {"unreflected": ("r-4",)}),
    ("launch", {"ready": (ReadyJob(job=JOB),)}),
    ("plan", {"unplanned": ("c-3",)}),
    ("validate", {"drafts": ("c-4",)}),
    ("mend", {"faulty": (("c-7", "V14: too dear"),)}),
    ("mend", {"broken": ("c-5",)}),
    ("propose", {"open_candidates": (), "live": ()}),
    ("wait", {"open_candidates": ("c-6",), "live": ("r-5",)}),
    ("ask", {"live": ()}),
]


def test_the_first_that_applies_wins():
    outlook = outlook_of(open_candidates=("c-6",))
    for action, facts in reversed(ORDER):
        outlook = outlook_of(**{**vars(outlook), **facts})
        assert next_action(outlook).action == action


def test_ideas_wait_for_the_check_of_what_they_would_start_from():
    assert next_action(outlook_of(live=("r-5",))).action == "wait"


def test_a_launch_is_a_command_to_type_not_a_deed():
    found = next_action(outlook_of(ready=(ReadyJob(job=JOB),)))
    assert found.command == (
        "telic study run c-0001-x --phase smoke --seed 1 --execute --confirm RUN_CANDIDATE"
    )
    assert found.blocking == ()


def test_a_launch_that_would_be_refused_is_not_suggested_but_what_opens_the_gate():
    remedy = Remedy("validate", "G07 it changed", "telic study candidate validate c-0001-x")
    found = next_action(outlook_of(ready=(ReadyJob(job=JOB),), remedy=remedy))
    assert (found.action, found.command) == ("validate", remedy.command)


@pytest.mark.parametrize(
    ("verdict", "decision", "asks"),
    [
        ("valid_improvement", "accept", True),
        ("baseline_established", "accept", True),
        ("no_improvement", "reject", False),
        ("inconclusive", "inconclusive", False),
        ("invalid", "debug", False),
    ],
)
def test_an_audit_suggests_its_decision(verdict, decision, asks):
    found = next_action(outlook_of(judged=(ClaimVerdict("c-2", "a-1", verdict, True),)))
    assert found.args["verdict"] == decision and bool(found.blocking) is asks


@pytest.mark.parametrize(
    ("doubted", "command"),
    [
        (IncumbentDoubt("c-2", False, "?", True), "telic study queue check-incumbent"),
        (IncumbentDoubt("c-2", False, "?"), "telic study decide c-2 keep --because TEXT"),
        (IncumbentDoubt("c-2", True, "lost"), "telic study revert c-2 --because TEXT"),
    ],
)
def test_a_doubted_incumbent_gets_seeds_or_a_person(doubted, command):
    assert next_action(outlook_of(doubted=doubted)).command == command


def test_what_is_called_an_exploit_is_given_up():
    drafted = Objection("c-2", CandidateStatus.VALIDATED, "exploit", "it stands still")
    found = next_action(outlook_of(exploits=(drafted,), ready=(ReadyJob(job=JOB),)))
    assert found.command == "telic study candidate withdraw c-2 --because TEXT"
    assert "approve experiment --candidate c-2" in found.blocking[0]
    trusted = replace(drafted, status=CandidateStatus.ACCEPTED)
    assert next_action(outlook_of(exploits=(trusted,))).args["verdict"] == "revert"


def test_an_open_question_gets_more_seeds_where_they_fit():
    found = next_action(
        outlook_of(judged=(ClaimVerdict("c-2", "a-1", "inconclusive", True, True),))
    )
    assert (found.action, found.args["more_seeds"]) == ("advance", True)


def test_a_new_study_starts_with_a_baseline():
    found = next_action(outlook_of(has_baseline=False))
    assert found.args == {"kind": "baseline"}


# ------------------------------------------------------------------ in a real study


def files(study):
    return {p: p.read_bytes() for p in study.folder.path.rglob("*") if p.is_file()}


def test_asking_changes_no_file(claimed):
    before = files(claimed)
    next_step(claimed)
    assert files(claimed) == before


def test_a_study_is_led_from_the_idea_to_the_launch(study):
    assert next_step(study).args == {"kind": "baseline"}
    name = make(study)
    assert next_step(study).command == f"telic study candidate validate {name}"
    validate_candidate(study, name)
    assert next_step(study).command == f"telic study queue plan {name}"
    plan_candidate(study, name, AGENT)
    found = next_step(study)
    assert (found.action, found.args["phase"], found.args["seed"]) == ("agree", "smoke", 1)
    assert any("budget" in each for each in found.blocking)
    assert found.command and found.command.startswith("telic study approve task_definition")


def test_a_draft_that_fails_its_checks_is_mended_not_checked_again(study):
    name = make(study, plan={"est": {}})
    found = next_step(study)
    assert found.action == "mend" and "V14: plan.est.gpu_h is missing" in found.why
    assert found.command == f"telic study candidate revise {name} --draft FILE"


def test_a_study_is_led_from_the_run_to_the_next_phase(study):
    name = make(study)
    validate_candidate(study, name)
    plan_candidate(study, name, AGENT)
    (run,) = complete(study, name)
    assert next_step(study).command == f"telic study analyze {run}"
    measure(study, run, 0.3)
    assert next_step(study).args == {"candidate": name, "phase": "short_trial"}
    advance(study)
    assert next_step(study).args["phase"] == "short_trial"


def test_a_claim_is_audited_decided_and_then_checked(claimed):
    name = "c-0002-more-weight"
    assert next_step(claimed).command == f"telic study audit-result {name}"
    audit_result(claimed, name, AGENT)
    found = next_step(claimed)
    assert (found.action, found.args["verdict"]) == ("decide", "accept")
    assert found.blocking == ("a person accepts (automation.decide: ask)",)
    decide(claimed, name, "accept", HUMAN, "better")
    assert next_step(claimed).command == "telic study queue check-incumbent"


def test_what_cannot_be_mended_any_more_is_given_up(study):
    change_contract(study, {"automation": {"max_debug_attempts": 0}})
    name = make(study)
    validate_candidate(study, name)
    end_run(study, start_run(study, name), "failed", why="it crashed")
    transition(study, name, "debug", RUNNER, "it crashed")
    found = next_step(study)
    assert found.args == {"candidate": name, "verdict": "reject"}
    assert decide(study, name, "reject", AGENT, "it does not start").recorded


def test_a_run_that_vanished_is_settled_first(study):
    name = make(study)
    validate_candidate(study, name)
    run = start_run(study, name)
    folder = study.folder.run(run)
    folder.mkdir(parents=True)
    (folder / "exit.json").write_text("{}")
    assert next_step(study).args["run"] == run and next_step(study).action == "reconcile"


def test_a_flipped_byte_comes_before_everything(study):
    make(study)
    content = bytearray(study.folder.ledger.read_bytes())
    content[40] ^= 1
    study.folder.ledger.write_bytes(content)
    found = next_step(study)
    assert found.action == "repair" and "line 1" in found.why


def test_an_edited_contract_is_said(study):
    text = study.folder.contract.read_text()
    study.folder.contract.write_text(text.replace("max: 4", "max: 400"))
    assert "not the agreed version" in next_step(study).why


def test_a_stop_file_stops(study):
    study.folder.stop_file.write_text("")
    found = next_step(study)
    assert (found.action, found.args["rule"]) == ("stop", "human_stop")
    study.folder.stop_file.unlink()
    assert next_step(study).action == "propose"


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
    fired = [each for each in study.events if each.type == "stop.fired"]
    assert len(fired) == 1 and study.state.fired_stops[0].rule == "failure_streak"
    consent = Consent(by="ada", method="tty", at=utc_now())
    resume_study(study, consent, "the disk was full")
    assert note_next(study).action == "mend", "the same failures do not stop it again"


def test_a_stop_names_the_way_out():
    hacked = Stop(rule="hacking_high", effect="pause", why="twice")
    found = next_action(outlook_of(stops=(hacked,), unreviewed=("c-9",)))
    assert found.command == "telic study review c-9 --exploit --says TEXT"
    assert "resume" in (next_action(outlook_of(stops=(hacked,))).command or "")
    target = Stop(rule="target_reached", effect="close", why="done")
    assert next_action(outlook_of(stops=(target,))).command == "telic study close --reason TEXT"


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("adapter", "telic study adapter --draft"),
        ("metric_spec", "telic study contract check"),
        ("protocol", "telic study contract check"),
    ],
)
def test_a_file_that_is_missing_is_asked_for(study, name, command):
    path = getattr(study.folder, name)
    path.unlink()
    found = next_step(study)
    assert (found.action, found.command) == ("agree", command) and path.name in found.why


def test_what_comes_next_is_in_the_state_until_something_happens(study):
    said = note_next(study).as_data()
    assert json.loads(study.folder.state.read_bytes())["next_action"] == said
    make(study)
    assert json.loads(study.folder.state.read_bytes())["next_action"] is None


def test_the_outlook_of_a_quiet_study_is_quiet(based):
    outlook = Outlook(based)
    assert outlook.integrity == outlook.stops == outlook.ready == ()
    assert outlook.has_baseline and not outlook.open_candidates
    assert next_action(outlook).args == {"role": "candidate_proposer"}
