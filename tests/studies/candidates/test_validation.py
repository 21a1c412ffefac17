import hashlib

import pytest

from telic.storage.files import read_json, write_json
from telic.studies.candidate import new_candidate
from telic.studies.errors import GateRefused
from telic.studies.evidence.probe_summary import ParameterSummary, ProbeSummary
from telic.studies.evidence.probes import ProbedPolicy
from telic.studies.validation.checks import CHECKS
from telic.studies.validation.validating import (
    check_candidate,
    demote_if_changed,
    validate_candidate,
)
from tests.studies.candidates.small_study import (
    AGENT,
    PATCH,
    SEED_PATCH,
    add_evidence,
    change_contract,
    complete,
    draft,
    make,
    start_run,
)

COST = {"est": {"gpu_h": 1.0}}
WORKTREE = {"mode": "worktree"}


def failures(ledger, candidate):
    return {each.id: each.why for each in check_candidate(ledger, candidate) if not each.passed}


def edit(ledger, candidate, **changes):
    """Edit candidate.json behind the ledger's back."""
    path = ledger.folder.candidate_file(candidate)
    write_json(path, {**read_json(path), **changes})


# ------------------------------------------------------------------ what passes


def test_a_good_override_passes_all_sixteen(ledger):
    name = make(ledger)
    outcome = validate_candidate(ledger, name)
    assert [each.id for each in outcome.checks] == list(CHECKS) and len(CHECKS) == 16
    assert outcome.ok, [each for each in outcome.checks if not each.passed]
    held = ledger.state().candidates[name]
    assert (held.status, held.phase) == ("validated", "smoke")
    assert read_json(ledger.folder.candidate_file(name))["status"] == "validated"
    assert len(read_json(ledger.folder.candidate_file(name))["validation"]["checks"]) == 16


def test_a_good_patch_and_a_new_file_pass(ledger, tmp_path):
    brought = tmp_path / "terms.py"
    brought.write_text("x = 1\n")
    name = make(ledger, patch=PATCH, files={"src/terms.py": brought}, change={})
    assert failures(ledger, name) == {}


def test_a_baseline_needs_no_more_than_its_kind(ledger):
    name = new_candidate(ledger, "as it is", {"kind": "baseline", "plan": COST}, AGENT).id
    assert failures(ledger, name) == {}
    assert ledger.state().candidates[name].kind == "baseline"


# ------------------------------------------------------------------ what fails, one by one


def test_v01_a_file_that_is_no_candidate_is_said_and_nothing_else_is_guessed(ledger):
    name = make(ledger)
    edit(ledger, name, kind="magic")
    found = failures(ledger, name)
    assert "kind" in found["V01"] and found["V16"] == "not looked at"


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"evidence_refs": []}, "evidence_refs"),
        ({"invariants": []}, "invariants"),
        ({"plan": {"phases": ["promotion"], "est": {"gpu_h": 1}}}, "smoke"),
        ({"plan": {"phases": ["promotion", "smoke"], "est": {"gpu_h": 1}}}, "in order"),
    ],
)
def test_v01_what_the_kind_must_say_is_said(ledger, changes, part):
    assert part in failures(ledger, make(ledger, **changes))["V01"]


def test_v01_a_patch_in_place_needs_an_exception(ledger):
    name = make(ledger, patch=PATCH, change={}, isolation={"mode": "in_place"})
    assert "in_place" in failures(ledger, name)["V01"]
    exception = {"rule": "worktree_required", "reason": "one file", "approved_by": "ada"}
    change_contract(ledger, {"exceptions": [exception]})
    assert "V01" not in failures(ledger, name)


def test_v02_names_and_references_must_be_true(ledger):
    name = make(ledger, parents=["c-0099-nobody"], evidence_refs=["e-000000000000"])
    edit(ledger, name, study_id="other")
    why = failures(ledger, name)["V02"]
    assert all(each in why for each in ("other", "c-0099-nobody", "e-000000000000"))


def test_v02_evidence_that_was_altered_supports_nothing(ledger):
    sheet = add_evidence(ledger)
    name = make(ledger, evidence_refs=[sheet])
    path = ledger.folder.evidence_file(sheet)
    write_json(path, {**read_json(path), "payload": {"why": "it flew"}})
    assert f"no intact evidence {sheet}" in failures(ledger, name)["V02"]


def test_v02_nobody_is_their_own_ancestor(ledger):
    first = make(ledger)
    second = make(ledger, "child", parents=[first])
    edit(ledger, first, parents=[second])
    assert "ancestor" in failures(ledger, first)["V02"]


def test_v03_only_a_draft_is_validated(ledger):
    name = make(ledger)
    validate_candidate(ledger, name)
    complete(ledger, name)
    assert "completed" in failures(ledger, name)["V03"]


def test_v03_a_paused_study_validates_nothing(ledger):
    name = make(ledger)
    ledger.append("study.status", None, {"status": "paused", "reason": "lunch"}, AGENT)
    assert "not open" in failures(ledger, name)["V03"]


def test_v04_a_kind_must_be_agreed_on(ledger):
    name = make(ledger, kind="algorithm", isolation=WORKTREE)
    assert set(failures(ledger, name)) == {"V04"}


@pytest.mark.parametrize(
    ("path", "to", "part"),
    [
        ("reward.unknown", 2.0, "not in scope.params"),
        ("reward.weight", 0.4, "below 0.5"),
        ("reward.weight", 40.0, "above 4"),
        ("reward.weight", "two", "not of type float"),
        ("ppo.epochs", 2.5, "not of type int"),
        ("mode", "c", "not one of a, b"),
    ],
)
def test_v05_a_parameter_must_be_known_and_in_range(ledger, path, to, part):
    change = {"overrides": {path: {"from": to, "to": to}, "ppo.epochs": {"from": 1, "to": 2}}}
    if path == "ppo.epochs":
        change = {"overrides": {path: {"from": 1, "to": to}}}
    assert part in failures(ledger, make(ledger, change=change))["V05"]


def test_v05_few_parameters_change_at_once(ledger):
    paths = {"reward.weight": 2.0, "ppo.epochs": 3, "mode": "b"}
    change = {"overrides": {path: {"from": 1, "to": to} for path, to in paths.items()}}
    assert "3 parameters" in failures(ledger, make(ledger, change=change))["V05"]


@pytest.mark.parametrize(("old", "part"), [(0.9, "factor of 2.22"), (0, "zero"), (None, "ratio")])
def test_v06_a_step_is_not_too_large(ledger, old, part):
    change = {"overrides": {"reward.weight": {"from": old, "to": 2.0}}}
    assert part in failures(ledger, make(ledger, change=change))["V06"]


def test_v06_a_step_starts_where_the_parent_ended(ledger):
    parent = make(ledger)
    change = {"overrides": {"reward.weight": {"from": 3.0, "to": 4.0}}}
    why = failures(ledger, make(ledger, "child", parents=[parent], change=change))["V06"]
    assert "starts from 2.0" in why


def test_v07_files_outside_scope_and_denied_ones(ledger):
    outside = PATCH.replace("src/reward.py", "README.md")
    denied = PATCH.replace("src/reward.py", "src/evaluate.py")
    assert "not in scope" in failures(ledger, make(ledger, patch=outside, change={}))["V07"]
    assert "denied by **/eval*.py" in failures(ledger, make(ledger, patch=denied, change={}))["V07"]


def test_v07_a_rename_touches_the_old_name_too(ledger):
    patch = (
        "diff --git a/evaluate.py b/src/x.py\nsimilarity index 100%\n"
        "rename from evaluate.py\nrename to src/x.py\n"
    )
    found = failures(ledger, make(ledger, patch=patch, change={}))
    assert "evaluate.py is denied" in found["V07"] and "the evaluator" in found["V10"]


def test_v08_a_change_is_small_enough_to_read(ledger, tmp_path):
    long = tmp_path / "long.py"
    long.write_text("x = 1\n" * 21)
    name = make(ledger, files={"src/long.py": long}, change={})
    assert set(failures(ledger, name)) == {"V08"}


def test_v09_a_patch_applies_to_its_base(ledger):
    name = make(ledger, patch=PATCH.replace("-weight = 1", "-weight = 7"), change={})
    assert set(failures(ledger, name)) == {"V09"}


def test_v09_a_patch_is_the_one_that_was_described(ledger):
    name = make(ledger, patch=PATCH, change={})
    (ledger.folder.candidate(name) / "patch.diff").write_text(SEED_PATCH)
    assert "not the patch" in failures(ledger, name)["V09"]


def test_v09_the_base_must_be_here(ledger):
    name = make(ledger, base_commit="1" * 40)
    assert "no commit" in failures(ledger, name)["V09"]


def test_v10_the_evaluator_stays_as_agreed(ledger):
    name = make(ledger)
    (ledger.folder.root / "evaluate.py").write_text("print('cheat')\n")
    assert set(failures(ledger, name)) == {"V10"}


def test_v10_the_metric_stays_as_agreed(ledger):
    name = make(ledger)
    text = ledger.folder.metric_spec.read_text()
    ledger.folder.metric_spec.write_text(text.replace("direction: max", "direction: min"))
    assert "metric spec" in failures(ledger, name)["V10"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("falsifier", " "), ("falsifier", "sucess < 0.6"), ("mechanism", ""), ("expected", None)],
)
def test_v11_a_hypothesis_can_be_wrong(ledger, field, value):
    hypothesis = {**draft(ledger)["hypothesis"], field: value}
    assert set(failures(ledger, make(ledger, hypothesis=hypothesis))) == {"V11"}


def test_v11_the_expected_metric_exists(ledger):
    hypothesis = {**draft(ledger)["hypothesis"], "expected": {"metric": "x", "direction": "max"}}
    assert "success, falls" in failures(ledger, make(ledger, hypothesis=hypothesis))["V11"]


def test_v12_reward_engineering_cites_a_reflection(ledger):
    other, reflection = add_evidence(ledger), add_evidence(ledger, "reflection", {"terms": []})
    kind = {"kind": "reward_engineering", "isolation": WORKTREE}
    assert set(failures(ledger, make(ledger, **kind))) == {"V12"}
    assert (
        "not of reflection" in failures(ledger, make(ledger, reflection_ref=other, **kind))["V12"]
    )
    assert failures(ledger, make(ledger, reflection_ref=reflection, **kind)) == {}


def test_v12_reward_tuning_without_reflection_is_only_advised(ledger):
    checks = {each.id: each for each in check_candidate(ledger, make(ledger, kind="reward_tuning"))}
    assert checks["V12"].passed and "advice" in checks["V12"].value


@pytest.mark.parametrize(("high", "fails"), [(2.0, False), (2.5, True)])
def test_v12_randomisation_stays_near_what_was_probed(ledger, high, fails):
    parameter = ParameterSummary(
        path="dr.mass",
        nominal=1.0,
        points=(),
        feasible=(0.5, 2.0),
        suggested_range=(0.5, 2.0),
        cliffs=(),
        sensitivity=None,
        censored=(),
    )
    policy = ProbedPolicy(candidate="c-0001-x", checkpoint_sha="0" * 64)
    summary = ProbeSummary(policy=policy, protocol_hash="0" * 64, worst=0, parameters=(parameter,))
    probe = add_evidence(ledger, "dr_probe", summary.as_data())
    change = {"overrides": {"dr.mass": {"from": [1.0, 1.0], "to": [0.5, high]}}}
    kind = {"kind": "dr_tuning", "change": change}
    assert set(failures(ledger, make(ledger, **kind))) == {"V12"}
    assert ("V12" in failures(ledger, make(ledger, dr_probe_ref=probe, **kind))) is fails


def test_v12_a_curriculum_shows_that_its_cases_can_be_learned(ledger):
    section = {
        "mode": "reweight",
        "learnability": {"case_set": "slopes", "success": {"a": 0.5, "b": 0.99}},
        "heldout_invariant": {"protocol_hash": ledger.state().protocol_hash},
        "rollback": {"condition": "success < 0.1", "action": "restore", "checkpoint": "last"},
    }
    assert set(failures(ledger, make(ledger, kind="curriculum"))) == {"V12"}
    assert "50%" in failures(ledger, make(ledger, kind="curriculum", curriculum=section))["V12"]
    section["learnability"]["success"]["b"] = 0.8
    assert failures(ledger, make(ledger, kind="curriculum", curriculum=section)) == {}


@pytest.mark.parametrize(
    ("seeds", "part"),
    [
        ({"short_trial": [101]}, "not in the selection pool"),
        ({"smoke": [1, 1]}, "twice"),
        ({"promotion": [101, 102]}, "at least 5"),
    ],
)
def test_v13_seeds_come_from_their_pool(ledger, seeds, part):
    plan = {"seeds": seeds, "est": {"gpu_h": 1}}
    assert part in failures(ledger, make(ledger, plan=plan))["V13"]


def test_v13_pools_that_overlap_or_seeds_that_cannot_be_set_prove_nothing(ledger):
    name = make(ledger)
    text = ledger.folder.adapter.read_text()
    ledger.folder.adapter.write_text(text.replace("controllable: true", "controllable: false"))
    assert "cannot be set" in failures(ledger, name)["V13"]


@pytest.mark.parametrize(
    ("est", "part"),
    [({"gpu_h": 7}, "6 is the most"), ({"gpu_h": 11}, "10 are left"), ({}, "missing")],
)
def test_v14_the_estimate_fits(ledger, est, part):
    assert part in failures(ledger, make(ledger, plan={"est": est}))["V14"]


def test_v14_what_the_candidate_spent_itself_is_not_counted_twice(ledger):
    name = make(ledger, plan={"est": {"gpu_h": 6.0}})
    validate_candidate(ledger, name)
    start_run(ledger, name, reservation={"gpu_h": 5.0})
    assert "V14" not in failures(ledger, name)
    assert "V14" in failures(ledger, make(ledger, "other", plan={"est": {"gpu_h": 5.5}}))


def test_v15_the_same_change_in_other_words_is_a_duplicate(ledger):
    first = make(ledger)
    validate_candidate(ledger, first)
    again = {
        "overrides": {
            "reward.weight": {"from": 1, "to": 2},
            "ppo.epochs": {"from": 4, "to": 4},
        }
    }
    found = failures(ledger, make(ledger, "again", change=again))
    assert set(found) == {"V15"} and first in found["V15"]
    assert failures(ledger, make(ledger, "repeat", change=again, replicate_of=first)) == {}
    assert failures(ledger, first) == {}


def test_v15_a_draft_that_nobody_tried_blocks_nobody(ledger):
    make(ledger)
    assert failures(ledger, make(ledger, "the same")) == {}


@pytest.mark.parametrize("path", ["seed", "env.random_seed", "--seed"])
def test_v16_a_seed_is_no_idea(ledger, path):
    change = {"overrides": {path: {"from": 1, "to": 2}}}
    assert "seed" in failures(ledger, make(ledger, change=change))["V16"]


def test_v16_a_patch_that_only_changes_a_seed_is_refused(ledger):
    found = failures(ledger, make(ledger, patch=SEED_PATCH, change={}))
    assert set(found) == {"V16"}


def test_v16_no_change_at_all_is_luck(ledger):
    change = {"overrides": {"reward.weight": {"from": 2.0, "to": 2.0}}}
    assert set(failures(ledger, make(ledger, change=change))) == {"V16"}


# ------------------------------------------------------------------ what validating does


def test_a_failed_validation_changes_no_file(ledger):
    name = make(ledger, evidence_refs=[])
    before = {p: p.read_bytes() for p in ledger.folder.path.rglob("*") if p.is_file()}
    assert not validate_candidate(ledger, name).ok
    assert before == {p: p.read_bytes() for p in ledger.folder.path.rglob("*") if p.is_file()}


def test_a_changed_adapter_sends_a_validated_candidate_back(ledger):
    name = make(ledger)
    validate_candidate(ledger, name)
    assert demote_if_changed(ledger, name) == ()
    ledger.folder.adapter.write_text(ledger.folder.adapter.read_text() + "hazards: []\n")
    assert demote_if_changed(ledger, name) == ("adapter_hash",)
    assert ledger.state().candidates[name].status == "draft"


def test_an_edit_of_the_validated_file_is_noticed(ledger):
    name = make(ledger)
    validate_candidate(ledger, name)
    edit(ledger, name, evidence_refs=[])
    assert demote_if_changed(ledger, name) == ("content_hash",)


def test_nothing_is_validated_against_a_contract_that_nobody_agreed_on(ledger):
    name = make(ledger)
    text = ledger.folder.contract.read_text()
    ledger.folder.contract.write_text(text.replace("max: 4", "max: 400"))
    with pytest.raises(GateRefused, match="E_CONTRACT"):
        validate_candidate(ledger, name)


def test_the_hash_of_a_patch_is_part_of_the_content(ledger):
    name = make(ledger, patch=PATCH, change={})
    said = read_json(ledger.folder.candidate_file(name))["change"]["patch_sha256"]
    assert said == hashlib.sha256(PATCH.encode()).hexdigest()
