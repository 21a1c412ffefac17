"""G01 to G23, each open for a sound launch and shut for its own reason."""

import json
import subprocess

from telic.storage.files import read_json, write_json
from telic.studies.documents.base import SYSTEM, update_yaml
from telic.studies.evidence.review import review_candidate
from telic.studies.evidence.store import add_evidence
from telic.studies.launch._isolation import prepare_tree
from telic.studies.launch.attempt import TOKEN, LaunchAttempt, LaunchRequest
from telic.studies.rules.gates import GATES, evaluate, word_problems
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
CODE = {"change": {}, "isolation": {"mode": "worktree"}, "kind": "code"}
CLAIM = {"phase": "incumbent_validation", "seed": 901}


def situation(study, candidate, *, phase="smoke", seed=1, final=True, **changes):
    request = LaunchRequest(candidate, phase, seed, confirm=TOKEN)._replace(**changes)
    first = LaunchAttempt(study, request, processes=True)
    return LaunchAttempt(study, request, processes=True, first=first) if final else first


def gate(study, candidate, code, **changes):
    (found,) = evaluate(situation(study, candidate, **changes), only=[code])
    return found


def draft(study, **changes):
    return {
        "kind": "config",
        "hypothesis": REASON,
        "change": {"overrides": {"reward.weight": {"from": 1.0, "to": 2.0}}},
        "evidence_refs": [add_evidence(study, "metrics", {"why": "it fell"}, AGENT, run="r-1").id],
        "plan": {"est": {"wall_clock_h": 0.5}},
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
    assert [each.id for each in results] == [*GATES] and len(GATES) == 21
    assert [each.why for each in results if not each.passed] == []
    assert len(json.loads(json.dumps([each.as_data() for each in results]))) == 21


def train(*argv, **spec):
    return "adapter", {"commands": {"train": {**({"argv": [*argv]} if argv else {}), **spec}}}


SHUT = [
    ("G04", "differs from the agreed one", ("contract", {"budget": {"launches": 600}}), {}),
    ("G04", "not a valid Contract", ("contract", {"budget": "a lot"}), {}),
    (
        "G05",
        "approval budget is void: the approved content has changed",
        ("contract", {"budget": {"launches": 61}}),
        {},
    ),
    ("G07", "the evaluation protocol has changed", ("protocol", {"episodes": 11}), {}),
    ("G07", "the adapter has changed", ("adapter", {"seeds": {"deterministic": "no"}}), {}),
    ("G10", "it is in phase smoke", None, CLAIM),
    ("G11", "4 is not planned for smoke", None, {"seed": 4}),
    ("G11", "not in the selection pool", None, {"seed": 100}),
    ("G13", "GPU 3 is not in the contract", None, {"gpu": 3}),
    ("G13", "is not one of elsewhere", ("contract", {"hardware": {"hosts": ["elsewhere"]}}), {}),
    ("G17", "of disk space are free", ("contract", {"hardware": {"min_free_disk_gb": 1e9}}), {}),
    ("G17", "GPU", ("contract", {"hardware": {"gpus": [7]}}), {}),
    ("G19", "eval_protocol.yaml differs", ("protocol", {"episodes": 1}), {}),
    ("G19", "metric_spec.yaml differs", ("metric_spec", {"primary": {"key": "easier"}}), {}),
    ("G05", "adapter is void", ("adapter", {"metrics": {"map": {"return": "easier"}}}), {}),
    ("G20", "hide the command in a shell string", train("bash", "-c", "python t.py && rm x"), {}),
    ("G20", "placeholder {checkpoint} has no value", train("python", "{checkpoint}"), {}),
    ("G20", "no training command", ("adapter", {"commands": {"train": None}}), {}),
    ("G21", "would enable the network", train(env={"WANDB_MODE": "online"}), {}),
    ("G23", "deletes existing files", train("python", "train.py", "--overwrite"), {}),
]


def test_each_gate_is_shut_for_its_own_reason(study, candidate):
    for code, why, edit, asked in SHUT:
        path = study.folder.adapter if edit is None else getattr(study.folder, edit[0])
        held = path.read_bytes()
        if edit is not None:
            update_yaml(path, edit[1])
        assert why in gate(study, candidate, code, **asked).why, (code, edit)
        path.write_bytes(held)
    update_yaml(study.folder.contract, {"budget": "a lot"})
    results = {each.id: each for each in evaluate(situation(study, candidate))}
    assert results["G03"].passed and len(results) == 21, "the others are still evaluated"


def test_g01_needs_the_exact_token(study, candidate):
    assert not gate(study, candidate, "G01", confirm="run_candidate").passed
    assert not gate(study, candidate, "G01", confirm=None).passed


def test_g02_g03_and_g15_need_a_sound_open_study(study, candidate):
    study.folder.stop_file.write_text("")
    assert "human_stop" in gate(study, candidate, "G15").why
    study.folder.stop_file.unlink()
    study.append("stop.fired", None, {"rule": "failure_streak", "why": "twice"}, HUMAN)
    assert gate(study, candidate, "G15").why == "failure_streak: twice"
    study.append("study.status", None, {"status": "paused"}, AGENT)
    assert "the study is paused" in gate(study, candidate, "G02").why
    content = bytearray(study.ledger.path.read_bytes())
    content[content.index(b"ada")] ^= 1
    s = situation(study, candidate)
    study.ledger.path.write_bytes(bytes(content))
    (found,) = evaluate(s, only=["G03"])
    assert "line 1 of the ledger is invalid" in found.why


def test_g06_needs_a_person_or_a_class_and_for_an_exploit_an_informed_person(study, candidate):
    name = make_candidate(study, approved=False, **draft(study))
    assert "is pending" in gate(study, name, "G06").why
    rule = {"kind": "config", "phases": ["smoke"]}
    change_contract(study, {"automation": {"launch": "pre_approved", "pre_approved": [rule]}})
    assert gate(study, name, "G06").passed
    assert not gate(study, name, "G06", phase="promotion", seed=100).passed
    review_candidate(study, candidate, HUMAN, "it stands still", is_exploit=True)
    assert "reports an exploit: it stands still" in gate(study, candidate, "G06").why
    approve(study, "experiment", candidate=candidate)
    assert gate(study, candidate, "G06").passed


def test_g07_holds_a_candidate_to_its_validation(study, candidate):
    path = study.folder.candidate_file(candidate)
    held = read_json(path)
    write_json(path, {**held, "evidence_refs": ["e-000000000000"]})
    assert "the candidate has changed since it was validated" in gate(study, candidate, "G07").why
    write_json(path, held)
    change_contract(study, {"budget": {"launches": 61}})
    assert "the contract has changed since it was validated" in gate(study, candidate, "G07").why
    study.append("candidate.demoted", candidate, {"to": "draft"}, HUMAN)
    assert "it is draft, not validated" in gate(study, candidate, "G07").why
    study.append("decision.recorded", candidate, {"to": "accepted", "verdict": "accept"}, SYSTEM)
    assert gate(study, candidate, "G07", **CLAIM).passed, "it may be a control arm"
    assert "does not run in smoke" in gate(study, candidate, "G07").why


def test_g08_runs_the_checks_again(study):
    name = make_candidate(study, **draft(study))
    assert gate(study, name, "G08").passed
    change_contract(study, {"scope": {"params": {"reward.weight": {"max": 1.5}}}})
    assert gate(study, name, "G08").why.startswith("V05")


def test_g10_holds_the_order_of_phases(study, candidate):
    study.append("candidate.advanced", candidate, {"phase": "incumbent_validation"}, HUMAN)
    assert gate(study, candidate, "G10", **CLAIM).why == "no run of smoke has finished"
    enter_run(study, candidate, end="finished")
    assert gate(study, candidate, "G10", **CLAIM).passed


def test_g10_wants_a_review_before_full_runs_of_what_may_be_gamed(study):
    name = make_candidate(study, **draft(study))
    study.append("candidate.advanced", name, {"phase": "promotion"}, HUMAN)
    for phase in ("smoke", "short_trial"):
        enter_run(study, name, phase=phase, end="finished")
    claim = {"phase": "promotion", "seed": 100}
    assert gate(study, name, "G10", **claim).passed
    add_evidence(study, "reflection", {"hacking": {"level": "high"}}, AGENT, candidate=name)
    why = gate(study, name, "G10", **claim).why
    assert why == "it may exploit its reward, and it was not reviewed"
    review_candidate(study, name, HUMAN, "racing is allowed", is_exploit=False)
    assert gate(study, name, "G10", **claim).passed


def test_g11_retries_lost_runs_only(study, candidate):
    enter_run(study, candidate, end="finished")
    assert gate(study, candidate, "G11").passed, "a repeated smoke run shows determinism"
    lost = enter_run(study, candidate, end="lost")
    assert situation(study, candidate).retry_of == lost
    enter_run(study, candidate, seed=2, end="failed")
    assert situation(study, candidate, seed=2).retry_of is None


def test_g14_and_g16_want_a_free_place_gpu_and_budget_and_no_twin(study, candidate):
    enter_run(study, candidate, reservation={"wall_clock_h": 9.99})
    assert "wall_clock_h: 0.02 requested, but 0.01 left" in gate(study, candidate, "G14").why
    assert "is the same run and is active" in gate(study, candidate, "G16").why
    change_contract(study, {"hardware": {"gpus": [0]}})
    assert gate(study, candidate, "G16", seed=2).passed
    enter_run(study, candidate, seed=2, gpu=0)
    why = gate(study, candidate, "G16", seed=3).why
    assert "2 of 2 runs are active" in why and "no GPU of the contract is free" in why
    assert "is using GPU 0" in gate(study, candidate, "G16", seed=3, gpu=0).why


def test_g18_wants_a_clean_tree_at_the_base(study, candidate):
    root = study.folder.root
    (root / "new.py").write_text("")
    assert gate(study, candidate, "G18").why == "new.py is uncommitted or ignored"
    (root / ".git/info/exclude").write_text("*.py\n")
    assert gate(study, candidate, "G18").why == "new.py is uncommitted or ignored"
    subprocess.run(["git", "add", "--force", "new.py"], cwd=root, check=True)
    subprocess.run(["git", "commit", "-qm", "more"], cwd=root, check=True)
    assert gate(study, candidate, "G18").why == "its tree does not exist yet"
    tree = prepare_tree(study.folder, situation(study, candidate).candidate)
    assert tree != root and not (tree / "new.py").exists()
    assert gate(study, candidate, "G18").passed, "it goes on in a worktree of its own commit"


def test_g18_wants_the_worktree_exactly_as_made(study):
    name = make_candidate(study, patch=PATCH, **draft(study, **CODE))
    assert gate(study, name, "G18").why == "its tree does not exist yet"
    assert gate(study, name, "G18", final=False).passed, "it can be made"
    tree = prepare_tree(study.folder, situation(study, name).candidate)
    assert (tree / "reward.py").read_text().startswith("weight = 2")
    assert gate(study, name, "G18").passed
    (tree / "reward.py").write_text("weight = 3\n")
    assert "reward.py has changed since" in gate(study, name, "G18").why


def test_g19_and_g21_want_the_evaluator_and_an_approved_network(study, candidate):
    (study.folder.root / "evaluate.py").write_text("print('better')\n")
    assert "evaluate.py differs from the protocol" in gate(study, candidate, "G19").why
    update_yaml(study.folder.adapter, train(env={"WANDB_MODE": "online"})[1])
    change_contract(study, {"network": {"destinations": ["api.wandb.ai"], "purposes": ["logs"]}})
    assert gate(study, candidate, "G21").passed


def test_g22_wants_generated_code_allowed_and_reviewed(study):
    origin = {"engine": "coder", "model": "some-model"}
    made = draft(study, **CODE, origin=origin)
    name = make_candidate(study, patch=PATCH, approved=False, **made)
    why = gate(study, name, "G22").why
    assert "does not allow generated code" in why and "no person approved it" in why
    change_contract(study, {"generated_code": {"allowed": True}})
    content = situation(study, name).candidate.compute_hash()
    assert gate(study, name, "G22").remedy == "review"
    for facts, is_open in (
        ({"content_hash": "0" * 64, "passed": True}, False),
        ({"content_hash": content, "passed": True}, True),
        ({"content_hash": content, "passed": False}, False),
        ({"content_hash": content, "passed": True, "finding": "mended"}, True),
    ):
        sheet = add_evidence(study, "review", facts, HUMAN, candidate=name)
        assert gate(study, name, "G22").passed == is_open, facts
    path = study.folder.evidence_file(sheet.id)
    path.write_text(path.read_text().replace("mended", "invented"))
    assert gate(study, name, "G22").remedy == "review"
    approve(study, "experiment", candidate=name)
    assert gate(study, name, "G22").passed, "a person saw the change"


def test_g23_refuses_what_deletes_or_installs_and_asks_about_moving_hardware(study, candidate):
    for line, is_harmless in (
        ("rm -rf x", False),
        ("pip install gym", False),
        ("python -m pip install gym", False),
        ("t --clear-logs=true", False),
        ("python train.py --overwrite=false", True),
        ("python x.py", True),
    ):
        assert (not list(word_problems(tuple(line.split())))) is is_harmless, line
    moves = {"hazards": [{"id": "actuates_hardware", "detail": "an arm"}]}
    update_yaml(study.folder.adapter, moves)
    assert "it moves hardware (an arm)" in gate(study, candidate, "G23").why
    approve(study, "physical_actuation", candidate=candidate)
    assert gate(study, candidate, "G23").passed
    deletes = {"hazards": [{"id": "deletes_results", "detail": "old runs"}]}
    update_yaml(study.folder.adapter, deletes)
    assert "it deletes results" in gate(study, candidate, "G23").why
