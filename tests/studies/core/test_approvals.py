"""Approvals hold for the text that was read, are signed, and need a person."""

from __future__ import annotations

import io
import os
import pty
import stat
import threading

import pytest

from telic.core.verb import Question
from telic.storage.files import write_json
from telic.storage.keys import key_file
from telic.studies import approvals, contract
from telic.studies._ledger import Ledger
from telic.studies.approvals import ask_on_terminal, current_actor
from telic.studies.canonical import existing_key, signing_key
from telic.studies.contract import ALWAYS_REQUIRED
from telic.studies.documents.base import update_yaml, write_yaml
from telic.studies.errors import BrokenIntegrity, GateRefused, StudyError
from telic.verbs.catalogue import load_verb
from tests.studies.core.small import (
    AGENT,
    CONSENT,
    HUMAN,
    add_candidate,
    approve_all,
    begin,
    complete,
)


def unmet(study):
    return {each.key: each.status for each in study.missing_approvals}


@pytest.fixture
def approved(kept):
    """A study with every approval."""
    return kept("approved", lambda root: approve_all(complete(begin(root))))


def test_nothing_is_approved_at_first_and_everything_can_be(agreed):
    assert unmet(agreed) == dict.fromkeys(ALWAYS_REQUIRED, "pending")
    approve_all(agreed)
    assert unmet(agreed) == {} and agreed.state.pending_approvals == ()


EDITS = {
    'success_definition: ""': ("success_definition: no fall", "task_definition"),
    "spec: metric_spec.yaml": ("spec: metric_spec.yaml\n  x-note: 1", "metric_and_guardrails"),
    "max_diff_lines: 200": ("max_diff_lines: 201", "tuning_scope"),
    "launches: 60": ("launches: 61", "budget"),
    "k: 5": ("k: 6", "budget"),
    "hosts: [local]": ("hosts: [local, big]", "hardware"),
    "overrides: {}": ("overrides: {lr: 1}", "baseline_command"),
    'promotion: "100-199"': ('promotion: "100-198"', "evaluation_protocol"),
}


def test_an_edit_of_one_line_voids_the_approval_of_its_part(approved):
    text = approved.folder.contract.read_text()
    for line, (replacement, key) in EDITS.items():
        assert text.count(line) == 1
        approved.folder.contract.write_text(text.replace(line, replacement))
        assert unmet(approved) == {key: "void"}, line
    (found,) = approved.missing_approvals
    assert found.why == "the approved content has changed"
    approved.folder.contract.write_text(f"# a remark\n{text}")
    assert unmet(approved) == {}, "a comment changes nothing"


def test_a_void_approval_is_entered_once(approved):
    update_yaml(approved.folder.contract, {"budget": {"launches": 61}})
    events = approvals.void_changed(approved)
    assert [(each.kind, each.data["key"]) for each in events] == [("approval.voided", "budget")]
    assert approved.state.pending_approvals == ("budget",)
    assert approvals.void_changed(approved) == []


def test_files_that_the_contract_stands_for_void_their_approvals(approved):
    folder = approved.folder
    folder.task_card.write_text("another task")
    assert unmet(approved) == {"task_definition": "void"}
    write_yaml(folder.adapter, {"launcher": {"options": {"probe": ["sh", "-c", "anything"]}}})
    assert unmet(approved).keys() == {"task_definition", "hardware"}
    update_yaml(folder.metric_spec, {"primary": {"target": 0.9}})
    # The protocol's hash covers the metric: results under another metric cannot be compared.
    assert unmet(approved).keys() >= {"metric_and_guardrails", "evaluation_protocol"}


def test_a_person_reads_the_files_and_then_what_changed_since(approved):
    shown = approvals.approval_diff(approved, "metric_and_guardrails")
    assert "metric_spec.yaml:" in shown and "key: success" in shown
    assert "episodes: 10" in approvals.approval_diff(approved, "evaluation_protocol")
    update_yaml(approved.folder.contract, {"budget": {"launches": 61}})
    shown = approvals.approval_diff(approved, "budget").splitlines()
    assert "-  launches: 60.0" in shown and "+  launches: 61.0" in shown
    assert not [line for line in shown if "stop_rules" in line and line[0] in "+-"]


def test_forged_approvals_count_for_nothing(agreed):
    now = agreed.approval("budget")
    facts = {"key": "budget", "subject_hash": now.subject_hash, "by": "human:ada", "method": "tty"}
    Ledger(agreed.folder).append("approval.granted", "budget", {**facts, "sig": "abc:def"}, AGENT)
    assert unmet(agreed)["budget"] == "void", "a line without a signature"
    approvals.grant(agreed, "budget", CONSENT)
    held = agreed.state.approvals["budget"]
    assert approvals.is_signed(agreed, held, existing_key(agreed.root))
    moved = held.model_copy(update={"key": "hardware"})
    assert not approvals.is_signed(agreed, moved, existing_key(agreed.root))


def test_only_what_is_agreed_on_and_was_shown_can_be_approved(agreed):
    seen = agreed.approval("budget").subject_hash
    update_yaml(agreed.folder.contract, {"budget": {"launches": 1}})
    with pytest.raises(GateRefused, match="E_NOT_AGREED"):
        approvals.grant(agreed, "hardware", CONSENT)
    contract.amend(agreed, AGENT, "less")
    with pytest.raises(GateRefused, match="E_CHANGED"):
        approvals.grant(agreed, "budget", CONSENT, seen_hash=seen)
    agreed.folder.protocol.unlink()
    with pytest.raises(GateRefused, match=r"eval_protocol\.yaml"):
        approvals.grant(agreed, "evaluation_protocol", CONSENT)


def test_an_experiment_is_approved_as_it_is_written(agreed):
    made = add_candidate(agreed)
    approvals.grant(agreed, "experiment", CONSENT, candidate=made.id)
    assert agreed.approval("experiment", made.id).status == "approved"
    changed = made.model_copy(update={"replicate_of": "c-0000-x"})
    write_json(agreed.folder.candidate_file(made.id), changed.as_data())
    assert agreed.approval("experiment", made.id).status != "approved"
    with pytest.raises(StudyError, match="per candidate"):
        approvals.grant(agreed, "experiment", CONSENT)


# ---------------------------------------------------------------------------- people


def answer(terminal, make):
    """Answer the question that comes out of a terminal."""
    printed = b""
    while b"anything else" not in printed:
        printed += os.read(terminal, 4096)
    code = printed.split(b"Type ")[1].split(b" ")[0].decode()
    os.write(terminal, (make(code) + "\n").encode())


def asked_in_a_terminal(make):
    ours, theirs = pty.openpty()
    person = threading.Thread(target=answer, args=(ours, make))
    person.start()
    try:
        with open(theirs, closefd=False) as read, open(theirs, "w", closefd=False) as write:
            return ask_on_terminal("Approve?", read=read, write=write)
    finally:
        person.join()
        os.close(ours)
        os.close(theirs)


def test_a_person_types_the_code_in_a_terminal(monkeypatch):
    monkeypatch.setattr(approvals, "user_name", lambda: "ada")
    consent = asked_in_a_terminal(lambda code: code)
    assert (consent.by, consent.method) == ("ada", "tty")
    with pytest.raises(GateRefused, match="E_NOT_CONFIRMED"):
        asked_in_a_terminal(lambda code: code[::-1] + "x")
    with pytest.raises(GateRefused, match="E_NO_HUMAN") as error:
        ask_on_terminal("Approve?", read=io.StringIO("yes\n"), write=io.StringIO())
    assert error.value.exit_code == 3


ASKING = ("study:approve_study", "study:contract", "study_candidates:decide")


@pytest.mark.parametrize("path", [*ASKING, "study_runs:run_steps", "study_runs:verify"])
def test_no_character_hides_a_part_of_what_a_person_agrees_to(path, monkeypatch):
    verb = load_verb(path)
    hiding = "-rm -rf ~\x1b[1A\x1b[2K\r\u202eharmless\u2066\u200b\u2028"
    monkeypatch.setattr(verb, "question", lambda request: Question(hiding, ("telic",)))
    text = verb.ask(None).text
    assert text.isprintable() and text.startswith("-rm -rf ~\\x1b[1A")


def test_environment_variable_does_not_make_the_caller_a_person(monkeypatch):
    monkeypatch.setenv("TELIC_ACTOR", "human:ada")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert current_actor().kind == "agent"
    monkeypatch.setenv("TELIC_ACTOR", "runner:me")
    with pytest.raises(StudyError, match="E_ACTOR"):
        current_actor()


def test_the_key_is_the_users_alone_and_outside_the_repository(agreed, monkeypatch):
    approvals.grant(agreed, "budget", CONSENT)
    assert stat.S_IMODE(key_file().stat().st_mode) == 0o600
    secret = key_file().read_bytes()
    for path in agreed.root.rglob("*"):
        assert not path.is_file() or secret not in path.read_bytes()
    key_file().chmod(0o644)
    with pytest.raises(BrokenIntegrity, match="chmod 600"):
        signing_key(agreed.root)
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(agreed.root / "config"))
    with pytest.raises(BrokenIntegrity, match="inside the folder"):
        signing_key(agreed.root)


# ---------------------------------------------------------------------------- amendments


def test_an_amendment_is_a_version_with_a_difference_and_a_reason(approved, monkeypatch):
    update_yaml(approved.folder.contract, {"budget": {"launches": 90}})
    with pytest.raises(GateRefused, match="E_HUMAN_ONLY"):
        contract.amend(approved, AGENT, "more")
    with pytest.raises(StudyError, match="E_REASON"):
        contract.amend(approved, HUMAN, "")
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(Ledger, "append", lambda *_: 1 / 0)  # killed before the entry
        contract.amend(approved, HUMAN, "more")
    assert approved.state.contract_version == 1
    assert {"-  launches: 60", "+  launches: 90"} <= {*contract.contract_diff(approved).split("\n")}
    event = contract.amend(approved, HUMAN, "more")
    assert event.data["version"] == approved.contract.version == 2
    assert event.data["text"] == approved.folder.contract.read_text()
    assert contract.contract_diff(approved) == ""
    assert approved.state.budget.left.launches == 90
    before = approved.folder.contract.read_bytes()
    with pytest.raises(StudyError, match="E_UNCHANGED"):
        contract.amend(approved, HUMAN, "again")
    assert approved.folder.contract.read_bytes() == before


def test_the_check_names_edits_overlaps_and_questions(agreed):
    update_yaml(agreed.folder.contract, {"seeds": {"promotion": "50-150"}})
    found = contract.check_contract(agreed)
    assert not found.ok
    assert any("selection and promotion share 50" in each for each in found.problems)
    assert any("edited after" in each for each in found.problems)
    assert any("task.success_definition" in each for each in found.questions)


def test_a_class_of_candidates_is_approved_by_the_contract(agreed):
    made = add_candidate(agreed)
    rule = {"kind": "config", "phases": ["smoke"]}
    automation = {"launch": "pre_approved", "pre_approved": [rule]}
    update_yaml(agreed.folder.contract, {"automation": automation})
    contract.amend(agreed, AGENT, "classes")
    assert "autonomy" in agreed.state.required_approvals
    found = agreed.experiment_approval(made.id, "smoke")
    assert (found.status, "autonomy" in found.why) == ("pending", True)
    approve_all(agreed)
    assert agreed.experiment_approval(made.id, "smoke").status == "approved"
    assert agreed.experiment_approval(made.id, "promotion").status == "pending"
