import hashlib

import pytest

from telic.storage.files import read_json, write_json
from telic.studies.candidates import new_candidate
from telic.studies.errors import GateRefused
from telic.studies.evidence.probes import ParameterSummary, ProbeSummary
from telic.studies.rules.checks import (
    CHECKS,
    changed_since,
    check_candidate,
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


def failures(study, candidate):
    return {each.id: each.why for each in check_candidate(study, candidate) if not each.passed}


def edit(study, candidate, **changes):
    """Edit candidate.json behind the ledger's back."""
    path = study.folder.candidate_file(candidate)
    write_json(path, {**read_json(path), **changes})


# ------------------------------------------------------------------ what passes


def test_a_good_override_passes_all_sixteen(study):
    name = make(study)
    outcome = validate_candidate(study, name)
    assert [each.id for each in outcome.checks] == list(CHECKS) and len(CHECKS) == 16
    assert outcome.ok, [each for each in outcome.checks if not each.passed]
    held = study.state.candidates[name]
    assert (held.status, held.phase) == ("validated", "smoke")
    assert study.candidate(name).status == "validated"
    assert len(study.events_of("candidate.validated")[-1].data["checks"]) == 16


def test_a_good_patch_and_a_new_file_pass(study, tmp_path):
    brought = tmp_path / "terms.py"
    brought.write_text("x = 1\n")
    name = make(study, patch=PATCH, files={"src/terms.py": brought}, change={})
    assert failures(study, name) == {}


def test_a_baseline_needs_no_more_than_its_kind(study):
    name = new_candidate(study, "as it is", {"kind": "baseline", "plan": COST}, AGENT).id
    assert failures(study, name) == {}
    assert study.state.candidates[name].kind == "baseline"


# ------------------------------------------------------------------ what fails, one by one


def test_v01_a_file_that_is_no_candidate_is_said_and_nothing_else_is_guessed(study):
    name = make(study)
    edit(study, name, kind="magic")
    found = failures(study, name)
    assert "kind" in found["V01"] and found["V16"] == "not checked"


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"evidence_refs": []}, "evidence_refs"),
        ({"invariants": []}, "invariants"),
        ({"plan": {"phases": ["promotion"], "est": {"gpu_h": 1}}}, "smoke"),
        ({"plan": {"phases": ["promotion", "smoke"], "est": {"gpu_h": 1}}}, "in order"),
    ],
)
def test_v01_what_the_kind_must_say_is_said(study, changes, part):
    assert part in failures(study, make(study, **changes))["V01"]


def test_v01_a_patch_in_place_needs_an_exception(study):
    name = make(study, patch=PATCH, change={}, isolation={"mode": "in_place"})
    assert "in_place" in failures(study, name)["V01"]
    exception = {"rule": "worktree_required", "reason": "one file", "approved_by": "ada"}
    change_contract(study, {"exceptions": [exception]})
    assert "V01" not in failures(study, name)


def test_v02_names_and_references_must_be_true(study):
    name = make(study, parents=["c-0099-nobody"], evidence_refs=["e-000000000000"])
    edit(study, name, study_id="other")
    why = failures(study, name)["V02"]
    assert all(each in why for each in ("other", "c-0099-nobody", "e-000000000000"))


def test_v02_evidence_that_was_altered_supports_nothing(study):
    sheet = add_evidence(study)
    name = make(study, evidence_refs=[sheet])
    path = study.folder.evidence_file(sheet)
    write_json(path, {**read_json(path), "payload": {"why": "it flew"}})
    assert f"no intact evidence {sheet}" in failures(study, name)["V02"]


def test_v02_nobody_is_their_own_ancestor(study):
    first = make(study)
    second = make(study, "child", parents=[first])
    edit(study, first, parents=[second])
    assert "ancestor" in failures(study, first)["V02"]


def test_v03_only_a_draft_is_validated(study):
    name = make(study)
    validate_candidate(study, name)
    complete(study, name)
    assert "completed" in failures(study, name)["V03"]


def test_v03_a_paused_study_validates_nothing(study):
    name = make(study)
    study.append("study.status", None, {"status": "paused", "reason": "lunch"}, AGENT)
    assert "not open" in failures(study, name)["V03"]


def test_v04_a_kind_must_be_agreed_on(study):
    name = make(study, kind="algorithm", isolation=WORKTREE)
    assert set(failures(study, name)) == {"V04"}


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
def test_v05_a_parameter_must_be_known_and_in_range(study, path, to, part):
    change = {"overrides": {path: {"from": to, "to": to}, "ppo.epochs": {"from": 1, "to": 2}}}
    if path == "ppo.epochs":
        change = {"overrides": {path: {"from": 1, "to": to}}}
    assert part in failures(study, make(study, change=change))["V05"]


def test_v05_few_parameters_change_at_once(study):
    paths = {"reward.weight": 2.0, "ppo.epochs": 3, "mode": "b"}
    change = {"overrides": {path: {"from": 1, "to": to} for path, to in paths.items()}}
    assert "3 parameters" in failures(study, make(study, change=change))["V05"]


@pytest.mark.parametrize(("old", "part"), [(0.9, "factor of 2.22"), (0, "zero"), (None, "ratio")])
def test_v06_a_step_is_not_too_large(study, old, part):
    change = {"overrides": {"reward.weight": {"from": old, "to": 2.0}}}
    assert part in failures(study, make(study, change=change))["V06"]


def test_v06_a_step_starts_where_the_parent_ended(study):
    parent = make(study)
    change = {"overrides": {"reward.weight": {"from": 3.0, "to": 4.0}}}
    why = failures(study, make(study, "child", parents=[parent], change=change))["V06"]
    assert "starts from 2.0" in why


def test_v07_files_outside_scope_and_denied_ones(study):
    outside = PATCH.replace("src/reward.py", "README.md")
    denied = PATCH.replace("src/reward.py", "src/evaluate.py")
    assert "not in scope" in failures(study, make(study, patch=outside, change={}))["V07"]
    assert "denied by **/eval*.py" in failures(study, make(study, patch=denied, change={}))["V07"]


def test_v07_a_rename_touches_the_old_name_too(study):
    patch = (
        "diff --git a/evaluate.py b/src/x.py\nsimilarity index 100%\n"
        "rename from evaluate.py\nrename to src/x.py\n"
    )
    found = failures(study, make(study, patch=patch, change={}))
    assert "evaluate.py is denied" in found["V07"] and "the evaluator" in found["V10"]


def test_v08_a_change_is_small_enough_to_read(study, tmp_path):
    long = tmp_path / "long.py"
    long.write_text("x = 1\n" * 21)
    name = make(study, files={"src/long.py": long}, change={})
    assert set(failures(study, name)) == {"V08"}


def test_v09_a_patch_applies_to_its_base(study):
    name = make(study, patch=PATCH.replace("-weight = 1", "-weight = 7"), change={})
    assert set(failures(study, name)) == {"V09"}


def test_v09_a_patch_is_the_one_that_was_described(study):
    name = make(study, patch=PATCH, change={})
    study.folder.candidate_file(name).with_name("patch.diff").write_text(SEED_PATCH)
    assert "not the patch" in failures(study, name)["V09"]


def test_v09_the_base_must_be_here(study):
    name = make(study, base_commit="1" * 40)
    assert "no commit" in failures(study, name)["V09"]


def test_v10_the_evaluator_stays_as_agreed(study):
    name = make(study)
    (study.folder.root / "evaluate.py").write_text("print('cheat')\n")
    assert set(failures(study, name)) == {"V10"}


def test_v10_the_metric_stays_as_agreed(study):
    name = make(study)
    text = study.folder.metric_spec.read_text()
    study.folder.metric_spec.write_text(text.replace("direction: max", "direction: min"))
    assert "metric spec" in failures(study, name)["V10"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("falsifier", " "), ("falsifier", "sucess < 0.6"), ("mechanism", ""), ("expected", None)],
)
def test_v11_a_hypothesis_can_be_wrong(study, field, value):
    hypothesis = {**draft(study)["hypothesis"], field: value}
    assert set(failures(study, make(study, hypothesis=hypothesis))) == {"V11"}


def test_v11_the_expected_metric_exists(study):
    hypothesis = {**draft(study)["hypothesis"], "expected": {"metric": "x", "direction": "max"}}
    assert "success, falls" in failures(study, make(study, hypothesis=hypothesis))["V11"]


def test_v12_reward_engineering_cites_a_reflection(study):
    other, reflection = add_evidence(study), add_evidence(study, "reflection", {"terms": []})
    kind = {"kind": "reward_engineering", "isolation": WORKTREE}
    assert set(failures(study, make(study, **kind))) == {"V12"}
    assert "not of reflection" in failures(study, make(study, reflection_ref=other, **kind))["V12"]
    assert failures(study, make(study, reflection_ref=reflection, **kind)) == {}


def test_v12_reward_tuning_may_do_without_a_reflection(study):
    assert "V12" not in failures(study, make(study, kind="reward_tuning"))


@pytest.mark.parametrize(("high", "fails"), [(2.0, False), (2.5, True)])
def test_v12_randomisation_stays_near_what_was_probed(study, high, fails):
    parameter = ParameterSummary(
        path="dr.mass",
        nominal=1.0,
        points=(),
        feasible=(0.5, 2.0),
        suggested_range=(0.5, 2.0),
        sensitivity=None,
        censored=(),
    )
    policy = {"candidate": "c-0001-x", "checkpoint_sha": "0" * 64, "protocol_hash": "0" * 64}
    summary = ProbeSummary(**policy, worst=0, parameters=(parameter,))
    probe = add_evidence(study, "dr_probe", summary.as_data())
    change = {"overrides": {"dr.mass": {"from": [1.0, 1.0], "to": [0.5, high]}}}
    kind = {"kind": "dr_tuning", "change": change}
    assert set(failures(study, make(study, **kind))) == {"V12"}
    assert ("V12" in failures(study, make(study, dr_probe_ref=probe, **kind))) is fails


def test_v12_a_curriculum_shows_that_its_cases_can_be_learned(study):
    section = {
        "mode": "reweight",
        "success": {"a": 0.5, "b": 0.99},
        "protocol_hash": study.state.protocol_hash,
        "rollback": {"condition": "success < 0.1", "action": "restore", "checkpoint": "last"},
    }
    assert set(failures(study, make(study, kind="curriculum"))) == {"V12"}
    assert "50%" in failures(study, make(study, kind="curriculum", curriculum=section))["V12"]
    section["success"]["b"] = 0.8
    assert failures(study, make(study, kind="curriculum", curriculum=section)) == {}


@pytest.mark.parametrize(
    ("seeds", "part"),
    [
        ({"short_trial": [101]}, "not in the selection pool"),
        ({"smoke": [1, 1]}, "twice"),
        ({"promotion": [101, 102]}, "at least 5"),
    ],
)
def test_v13_seeds_come_from_their_pool(study, seeds, part):
    plan = {"seeds": seeds, "est": {"gpu_h": 1}}
    assert part in failures(study, make(study, plan=plan))["V13"]


def test_v13_pools_that_overlap_or_seeds_that_cannot_be_set_prove_nothing(study):
    name = make(study)
    text = study.folder.adapter.read_text()
    study.folder.adapter.write_text(text.replace("controllable: true", "controllable: false"))
    assert "cannot be set" in failures(study, name)["V13"]


@pytest.mark.parametrize(
    ("est", "part"),
    [({"gpu_h": 7}, "6 is the most"), ({"gpu_h": 11}, "10 are left"), ({}, "missing")],
)
def test_v14_the_estimate_fits(study, est, part):
    assert part in failures(study, make(study, plan={"est": est}))["V14"]


def test_v14_what_the_candidate_spent_itself_is_not_counted_twice(study):
    name = make(study, plan={"est": {"gpu_h": 6.0}})
    validate_candidate(study, name)
    start_run(study, name, reservation={"gpu_h": 5.0})
    assert "V14" not in failures(study, name)
    assert "V14" in failures(study, make(study, "other", plan={"est": {"gpu_h": 5.5}}))


def test_v15_the_same_change_in_other_words_is_a_duplicate(study):
    first = make(study)
    validate_candidate(study, first)
    again = {
        "overrides": {
            "reward.weight": {"from": 1, "to": 2},
            "ppo.epochs": {"from": 4, "to": 4},
        }
    }
    found = failures(study, make(study, "again", change=again))
    assert set(found) == {"V15"} and first in found["V15"]
    assert failures(study, make(study, "repeat", change=again, replicate_of=first)) == {}
    assert failures(study, first) == {}


def test_v15_a_draft_that_nobody_tried_blocks_nobody(study):
    make(study)
    assert failures(study, make(study, "the same")) == {}


@pytest.mark.parametrize("path", ["seed", "env.random_seed", "--seed"])
def test_v16_a_seed_is_no_idea(study, path):
    change = {"overrides": {path: {"from": 1, "to": 2}}}
    assert "seed" in failures(study, make(study, change=change))["V16"]


def test_v16_a_patch_that_only_changes_a_seed_is_refused(study):
    found = failures(study, make(study, patch=SEED_PATCH, change={}))
    assert set(found) == {"V16"}


def test_v16_no_change_at_all_is_luck(study):
    change = {"overrides": {"reward.weight": {"from": 2.0, "to": 2.0}}}
    assert set(failures(study, make(study, change=change))) == {"V16"}


# ------------------------------------------------------------------ what validating does


def test_a_failed_validation_changes_no_file(study):
    name = make(study, evidence_refs=[])
    before = {p: p.read_bytes() for p in study.folder.path.rglob("*") if p.is_file()}
    assert not validate_candidate(study, name).ok
    assert before == {p: p.read_bytes() for p in study.folder.path.rglob("*") if p.is_file()}


def test_what_changed_since_the_validation_is_noticed(study):
    name = make(study)
    validate_candidate(study, name)
    assert changed_since(study, name) == ()
    study.folder.adapter.write_text(study.folder.adapter.read_text() + "hazards: []\n")
    assert changed_since(study, name) == ("adapter_hash",)
    edit(study, name, evidence_refs=[])
    assert validate_candidate(study, name).status == "draft"
    (demoted,) = study.events_of("candidate.demoted")
    assert demoted.data["changed"] == ["content_hash", "adapter_hash", "V01"]


def test_nothing_is_validated_against_a_contract_that_nobody_agreed_on(study):
    name = make(study)
    text = study.folder.contract.read_text()
    study.folder.contract.write_text(text.replace("max: 4", "max: 400"))
    with pytest.raises(GateRefused, match="E_CONTRACT"):
        validate_candidate(study, name)


def test_the_hash_of_a_patch_is_part_of_the_content(study):
    name = make(study, patch=PATCH, change={})
    said = read_json(study.folder.candidate_file(name))["change"]["patch_sha256"]
    assert said == hashlib.sha256(PATCH.encode()).hexdigest()
