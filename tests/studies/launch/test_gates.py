"""G01 to G24, each open for a sound launch and shut for its own reason."""

import json
import subprocess

import pytest

from telic.storage.files import read_json, write_json
from telic.studies.administration import set_study_status
from telic.studies.documents.base import SYSTEM, update_yaml
from telic.studies.errors import (
    BrokenIntegrity,
    EnvironmentBlocked,
    GateRefused,
    InvalidDocument,
    StudyBudgetExceeded,
)
from telic.studies.evidence.review import review_candidate
from telic.studies.evidence.store import add_evidence
from telic.studies.launch._isolation import prepare_tree
from telic.studies.launch.attempt import TOKEN, LaunchAttempt, LaunchRequest
from telic.studies.rules.gates import GATES, evaluate, refusal, word_problems
from tests.studies.launch.toy_study import (
    AGENT,
    HUMAN,
    PATCH,
    approve,
    change_contract,
    make_candidate,
)

REASON = {
    "statement": "More weight helps.",
    "mechanism": "It is outweighed.",
    "expected": {"metric": "success", "direction": "max", "magnitude": 0.1},
    "falsifier": "success does not rise by 0.02",
}
EST = {"wall_clock_h": 0.5}


def situation(study, candidate, *, phase="smoke", seed=1, final=True, **changes):
    request = LaunchRequest(candidate, phase, seed, confirm=TOKEN)
    return LaunchAttempt(
        study,
        request._replace(**changes),
        run_id="r-20260801T090000Z-aaaaaa",
        nonce="abc123",
        processes=True,
        is_final=final,
    )


def gate(study, candidate, code, **changes):
    (found,) = evaluate(situation(study, candidate, **changes), only=[code])
    return found


def adapt(study, changes):
    update_yaml(study.folder.adapter, changes)


def draft(study, **changes):
    return {
        "kind": "config",
        "hypothesis": REASON,
        "change": {"overrides": {"reward.weight": {"from": 1.0, "to": 2.0}}},
        "evidence_refs": [add_evidence(study, "metrics", {"why": "it fell"}, AGENT, run="r-1").id],
        "plan": {"est": EST},
        **changes,
    }


def enter_run(study, candidate, *, phase="smoke", seed=1, end=None, **facts):
    run = f"r-20260801T09000{len(study.state.runs)}Z-bbbbbb"
    intent = {"run": run, "candidate": candidate, "phase": phase, "seed": seed, "nonce": "n"}
    study.append("launch.intent", candidate, {**intent, **facts}, HUMAN)
    if end:
        study.append(f"run.{end}", run, {"run": run}, HUMAN)
    return run


def test_every_gate_is_open_for_a_sound_launch(study, candidate):
    results = evaluate(situation(study, candidate))
    assert [each.id for each in results] == [*GATES] and len(GATES) == 22
    assert [each.why for each in results if not each.passed] == []
    assert len(json.loads(json.dumps([each.as_data() for each in results]))) == 22


def test_g01_needs_the_exact_token(study, candidate):
    assert not gate(study, candidate, "G01", confirm="run_candidate").passed
    assert not gate(study, candidate, "G01", confirm=None).passed


def test_g02_needs_an_open_study(study, candidate):
    set_study_status(study, "paused", AGENT, "wait")
    assert "the study is paused" in gate(study, candidate, "G02").why


def test_g03_finds_a_changed_byte(study, candidate):
    content = bytearray(study.ledger.path.read_bytes())
    place = content.index(b"ada")
    content[place] ^= 1
    s = situation(study, candidate)
    study.ledger.path.write_bytes(bytes(content))
    (found,) = evaluate(s, only=["G03"])
    assert "line 1 of the ledger is bad" in found.why


def test_g04_finds_a_contract_that_nobody_agreed_to(study, candidate):
    update_yaml(study.folder.contract, {"budget": {"launches": 600}})
    assert "is not the agreed one" in gate(study, candidate, "G04").why


def test_g04_is_shut_for_an_invalid_contract_and_others_are_still_evaluated(study, candidate):
    update_yaml(study.folder.contract, {"budget": "a lot"})
    results = {each.id: each for each in evaluate(situation(study, candidate))}
    assert "not a valid Contract" in results["G04"].why
    assert results["G03"].passed and len(results) == 22


def test_g05_names_the_approval_that_an_edit_voids(study, candidate):
    text = study.folder.contract.read_text()
    study.folder.contract.write_text(text.replace("launches: 60", "launches: 61"))
    assert gate(study, candidate, "G05").why == (
        "approval budget is void: what was approved has changed since"
    )


def test_g06_needs_a_person_or_a_class(study):
    name = make_candidate(study, approved=False, **draft(study))
    assert "is pending" in gate(study, name, "G06").why
    rule = {"kind": "config", "phases": ["smoke"]}
    change_contract(study, {"automation": {"launch": "pre_approved", "pre_approved": [rule]}})
    assert gate(study, name, "G06").passed
    assert not gate(study, name, "G06", phase="promotion", seed=100).passed


def test_g06_refuses_an_exploit_until_a_person_approves_it_knowingly(study, candidate):
    review_candidate(study, candidate, HUMAN, "it stands still", is_exploit=True)
    assert "calls it an exploit: it stands still" in gate(study, candidate, "G06").why
    approve(study, "experiment", candidate=candidate)
    assert gate(study, candidate, "G06").passed


@pytest.mark.parametrize("what", ["candidate", "contract", "protocol", "adapter"])
def test_g07_finds_what_changed_since_the_validation(study, candidate, what):
    if what == "candidate":
        path = study.folder.candidate_file(candidate)
        write_json(path, {**read_json(path), "evidence_refs": ["e-000000000000"]})
    elif what == "contract":
        change_contract(study, {"budget": {"launches": 61}})
    elif what == "protocol":
        update_yaml(study.folder.protocol, {"episodes": 11})
    else:
        adapt(study, {"seeds": {"deterministic": "observed"}})
    assert f"{what} has changed since it was validated" in gate(study, candidate, "G07").why


def test_g07_refuses_a_draft(study, candidate):
    study.append("candidate.demoted", candidate, {"to": "draft"}, HUMAN)
    assert "it is draft, not validated" in gate(study, candidate, "G07").why


def test_g07_lets_an_accepted_candidate_be_a_control_arm(study, candidate):
    study.append("decision.recorded", candidate, {"to": "accepted", "verdict": "accept"}, SYSTEM)
    assert gate(study, candidate, "G07", phase="incumbent_validation", seed=901).passed
    assert "does not run in smoke" in gate(study, candidate, "G07").why


def test_g08_runs_the_checks_again(study):
    name = make_candidate(study, **draft(study))
    assert gate(study, name, "G08").passed
    change_contract(study, {"scope": {"params": {"reward.weight": {"max": 1.5}}}})
    assert gate(study, name, "G08").why.startswith("V05")


def test_g10_holds_the_order_of_phases(study, candidate):
    why = gate(study, candidate, "G10", phase="incumbent_validation", seed=901).why
    assert "it is in phase smoke" in why
    study.append("candidate.advanced", candidate, {"phase": "incumbent_validation"}, HUMAN)
    why = gate(study, candidate, "G10", phase="incumbent_validation", seed=901).why
    assert why == "no run of smoke has finished"
    enter_run(study, candidate, end="finished")
    assert gate(study, candidate, "G10", phase="incumbent_validation", seed=901).passed


def test_g10_wants_a_review_before_full_runs_of_what_may_be_gamed(study):
    name = make_candidate(study, **draft(study))
    study.append("candidate.advanced", name, {"phase": "promotion"}, HUMAN)
    for phase in ("smoke", "short_trial"):
        enter_run(study, name, phase=phase, end="finished")
    assert gate(study, name, "G10", phase="promotion", seed=100).passed
    risk = {"hacking": {"level": "high"}}
    add_evidence(study, "reflection", risk, AGENT, candidate=name)
    why = gate(study, name, "G10", phase="promotion", seed=100).why
    assert why == "its reward may be gamed, and it was not reviewed"
    review_candidate(study, name, HUMAN, "racing is allowed", is_exploit=False)
    assert gate(study, name, "G10", phase="promotion", seed=100).passed


def test_g11_wants_planned_seeds_of_the_right_pool_that_are_unused(study, candidate):
    assert "4 is not planned for smoke" in gate(study, candidate, "G11", seed=4).why
    assert "not in the selection pool" in gate(study, candidate, "G11", seed=100).why
    run = enter_run(study, candidate, end="finished")
    assert gate(study, candidate, "G11").passed, "a repeated smoke run shows determinism"
    assert run in study.state.runs


def test_g11_retries_lost_runs_only(study, candidate):
    lost = enter_run(study, candidate, end="lost")
    failed = enter_run(study, candidate, seed=2, end="failed")
    assert gate(study, candidate, "G11", retry_of=lost).passed
    assert "only lost and preempted" in gate(study, candidate, "G11", seed=2, retry_of=failed).why
    assert "is not a run of this" in gate(study, candidate, "G11", seed=2, retry_of=lost).why


def test_g13_holds_host_gpu_and_launcher_to_the_contract(study, candidate):
    assert "GPU 3 is not in the contract" in gate(study, candidate, "G13", gpu=3).why
    adapt(study, {"launcher": {"kind": "slurm"}})
    assert "the contract allows local" in gate(study, candidate, "G13").why
    update_yaml(study.folder.contract, {"hardware": {"hosts": ["elsewhere"]}})
    assert "is not one of elsewhere" in gate(study, candidate, "G13").why


def test_g14_refuses_what_is_not_left(study, candidate):
    enter_run(study, candidate, seed=2, reservation={"wall_clock_h": 9.99})
    assert "wall_clock_h: 0.02 is wanted and 0.01 is left" in gate(study, candidate, "G14").why


def test_g15_obeys_a_stop_file_and_recorded_stops(study, candidate):
    study.folder.stop_file.write_text("")
    assert "human_stop" in gate(study, candidate, "G15").why
    study.folder.stop_file.unlink()
    study.append("stop.fired", None, {"rule": "hacking_high", "why": "twice"}, HUMAN)
    assert gate(study, candidate, "G15").why == "hacking_high: twice"


def test_g16_wants_a_free_place_and_no_twin(study, candidate):
    enter_run(study, candidate)
    assert "is the same run and is live" in gate(study, candidate, "G16").why
    assert gate(study, candidate, "G16", seed=2).passed
    enter_run(study, candidate, seed=2)
    assert "2 of 2 runs are active" in gate(study, candidate, "G16", seed=3).why


def test_g16_wants_a_free_gpu(study, candidate):
    change_contract(study, {"hardware": {"gpus": [0]}})
    assert gate(study, candidate, "G16", seed=2).passed
    enter_run(study, candidate, gpu=0)
    assert "no GPU of the contract is free" in gate(study, candidate, "G16", seed=2).why
    assert "has GPU 0" in gate(study, candidate, "G16", seed=2, gpu=0).why


def test_g17_asks_for_disk_and_gpu(study, candidate):
    update_yaml(study.folder.contract, {"hardware": {"min_free_disk_gb": 1e9}})
    assert "of disk are free" in gate(study, candidate, "G17").why
    update_yaml(study.folder.contract, {"hardware": {"gpus": [7]}})
    assert "GPU" in gate(study, candidate, "G17").why


def test_g18_wants_a_clean_tree_at_the_base(study, candidate):
    root = study.folder.root
    (root / "new.py").write_text("")
    assert gate(study, candidate, "G18").why == "new.py has uncommitted changes"
    subprocess.run(["git", "add", "new.py"], cwd=root, check=True)
    subprocess.run(["git", "commit", "-qm", "more"], cwd=root, check=True)
    assert gate(study, candidate, "G18").why == "its tree has not been made"
    tree = prepare_tree(study.folder, situation(study, candidate).candidate)
    assert tree != root and not (tree / "new.py").exists()
    assert gate(study, candidate, "G18").passed, "it goes on in a worktree of its own commit"


def test_g18_wants_the_worktree_exactly_as_made(study):
    change = {"change": {}, "isolation": {"mode": "worktree"}, "kind": "code"}
    name = make_candidate(study, patch=PATCH, **draft(study, **change))
    assert gate(study, name, "G18").why == "its tree has not been made"
    assert gate(study, name, "G18", final=False).passed, "it can be made"
    tree = prepare_tree(study.folder, situation(study, name).candidate)
    assert (tree / "reward.py").read_text().startswith("weight = 2")
    assert gate(study, name, "G18").passed
    (tree / "reward.py").write_text("weight = 3\n")
    assert "reward.py has changed since" in gate(study, name, "G18").why


@pytest.mark.parametrize("mode", ["file", "protocol", "metric"])
def test_g19_finds_a_changed_measure(study, candidate, mode):
    if mode == "file":
        (study.folder.root / "evaluate.py").write_text("print('better')\n")
    elif mode == "protocol":
        update_yaml(study.folder.protocol, {"episodes": 1})
    else:
        update_yaml(study.folder.metric_spec, {"primary": {"key": "easier"}})
    assert not gate(study, candidate, "G19").passed


def test_g20_wants_a_confirmed_command_without_a_shell(study, candidate):
    adapt(study, {"provenance": {"commands": {"status": "inferred"}}})
    assert "commands are inferred" in gate(study, candidate, "G20").why
    adapt(study, {"provenance": {"commands": {"status": "confirmed"}}})
    adapt(study, {"commands": {"train": {"argv": ["bash", "-c", "python train.py && rm x"]}}})
    assert "hide the command in a shell string" in gate(study, candidate, "G20").why
    adapt(study, {"commands": {"train": {"argv": ["python", "train.py", "{checkpoint}"]}}})
    assert "{checkpoint} of the command has no value" in gate(study, candidate, "G20").why
    adapt(study, {"commands": {"train": None}})
    assert "no command that trains" in gate(study, candidate, "G20").why


def test_g21_refuses_a_command_that_asks_for_the_network(study, candidate):
    adapt(study, {"commands": {"train": {"env": {"WANDB_MODE": "online"}}}})
    assert "would open the network" in gate(study, candidate, "G21").why
    change_contract(study, {"network": {"destinations": ["api.wandb.ai"], "purposes": ["logs"]}})
    assert gate(study, candidate, "G21").passed


def test_g22_wants_generated_code_allowed_confined_and_reviewed(study):
    change = {
        "change": {},
        "isolation": {"mode": "worktree"},
        "kind": "code",
        "origin": {"engine": "coder", "model": "some-model"},
    }
    name = make_candidate(study, patch=PATCH, **draft(study, **change))
    why = gate(study, name, "G22").why
    assert "does not allow generated code" in why and "no passing review" in why
    change_contract(study, {"generated_code": {"allowed": True, "sandbox": "process"}})
    content = situation(study, name).candidate.compute_hash()
    assert gate(study, name, "G22").remedy == "review"
    for facts, is_open in (
        ({"content_hash": "0" * 64, "passed": True}, False),
        ({"content_hash": content, "passed": True}, True),
        ({"content_hash": content, "passed": False}, False),
        ({"content_hash": content, "passed": True, "self_review": True}, False),
        ({"content_hash": content, "passed": True, "finding": "mended"}, True),
    ):
        sheet = add_evidence(study, "review", facts, HUMAN, candidate=name)
        assert gate(study, name, "G22").passed == is_open, facts
    path = study.folder.evidence_file(sheet.id)
    path.write_text(path.read_text().replace("mended", "invented"))
    assert gate(study, name, "G22").remedy == "review"
    path.write_text(path.read_text().replace("invented", "mended"))
    change_contract(study, {"generated_code": {"sandbox": "confined"}})
    assert "requires confinement" in gate(study, name, "G22").why


def test_g23_refuses_commands_that_delete_or_install(study, candidate):
    adapt(study, {"commands": {"train": {"argv": ["python", "train.py", "--overwrite"]}}})
    assert not gate(study, candidate, "G23").passed
    for words in (
        "rm -rf x",
        "pip install gym",
        "python -m pip install gym",
        "t --clear-logs=true",
    ):
        assert list(word_problems(tuple(words.split()))), words
    for words in ("python train.py --overwrite=false", "python x.py"):
        assert not list(word_problems(tuple(words.split()))), words


def test_g23_wants_its_own_approval_for_hardware_that_moves(study, candidate):
    adapt(study, {"hazards": [{"id": "actuates_hardware", "detail": "an arm"}]})
    assert "it moves hardware (an arm)" in gate(study, candidate, "G23").why
    approve(study, "physical_actuation", candidate=candidate)
    assert gate(study, candidate, "G23").passed
    adapt(study, {"hazards": [{"id": "deletes_results", "detail": "old runs"}]})
    assert "it deletes results" in gate(study, candidate, "G23").why


def test_g24_wants_a_launcher_that_starts_one_run(study, candidate):
    adapt(study, {"launcher": {"kind": "slurm", "options": {"sbatch": {"array": "1-100"}}}})
    assert "--array is not a directive" in gate(study, candidate, "G24").why


def test_the_exit_code_follows_from_which_gates_are_shut(study, candidate):
    results = evaluate(situation(study, candidate))
    for codes, kind, exit_code in (
        (["G05"], GateRefused, 3),
        (["G14"], StudyBudgetExceeded, 7),
        (["G17"], EnvironmentBlocked, 8),
        (["G03", "G05"], BrokenIntegrity, 5),
        (["G08"], InvalidDocument, 4),
        (["G14", "G17"], GateRefused, 3),
    ):
        found = [each.model_copy(update={"passed": each.id not in codes}) for each in results]
        error = refusal([each for each in found if not each.passed])
        assert all(GATES[code].mend in str(error.hint) for code in codes)
        assert type(error) is kind and error.exit_code == exit_code
        assert all(code in error.message for code in codes)
