import pytest

from telic.storage.files import read_json, write_json
from telic.studies.candidates import new_candidate
from telic.studies.errors import GateRefused
from telic.studies.evidence.robustness import ParameterSummary, ProbeSummary
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
    complete,
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


def test_a_good_override_passes_all_sixteen(study):
    name = make(study)
    outcome = validate_candidate(study, name)
    assert [each.id for each in outcome.checks] == list(CHECKS) and len(CHECKS) == 16
    assert outcome.ok, [each for each in outcome.checks if not each.passed]
    held = study.state.candidates[name]
    assert (held.status, held.phase) == ("validated", "smoke")
    assert study.candidate(name).status == "validated"
    assert len(study.events_of("candidate.validated")[-1].data["checks"]) == 16


def test_a_good_patch_with_a_new_file_and_a_baseline_pass(study, tmp_path):
    added = tmp_path / "terms.py"
    added.write_text("x = 1\n")
    name = make(study, patch=PATCH, files={"src/terms.py": added}, change={})
    assert failures(study, name) == {}
    name = new_candidate(study, "as it is", {"kind": "baseline", "plan": COST}, AGENT).id
    assert failures(study, name) == {}


def moves(path, old, new):
    return {"change": {"overrides": {path: {"from": old, "to": new}}}}


def plans(est=1, **plan):
    return {"plan": {"est": {"gpu_h": est} if est else {}, **plan}}


def reason(**parts):
    hypothesis = {
        "statement": "It helps.",
        "mechanism": "It is outweighed.",
        "expected": {"metric": "success", "direction": "max"},
        "falsifier": "it does not rise",
    }
    return {"hypothesis": {**hypothesis, **parts}}


THREE = {path: {"from": 1, "to": to} for path, to in (("reward.weight", 2.0), ("mode", "b"))}
THREE["ppo.epochs"] = {"from": 1, "to": 3}
REFUSED = [
    ("V01", "evidence_refs", {"evidence_refs": []}),
    ("V01", "smoke", plans(phases=["promotion"])),
    ("V01", "in order", plans(phases=["promotion", "smoke"])),
    ("V04", "algorithm", {"kind": "algorithm", "isolation": WORKTREE}),
    ("V05", "not in scope.params", moves("reward.unknown", 2.0, 3.0)),
    ("V05", "below 0.5", moves("reward.weight", 0.5, 0.4)),
    ("V05", "above 4", moves("reward.weight", 39.0, 40.0)),
    ("V05", "not of type float", moves("reward.weight", "two", "two")),
    ("V05", "not of type int", moves("ppo.epochs", 1, 2.5)),
    ("V05", "not one of a, b", moves("mode", "a", "c")),
    ("V05", "3 parameters", {"change": {"overrides": THREE}}),
    ("V06", "factor of 2.22", moves("reward.weight", 0.9, 2.0)),
    ("V06", "zero", moves("reward.weight", 0, 2.0)),
    ("V06", "ratio", moves("reward.weight", None, 2.0)),
    ("V07", "not in scope", {"patch": PATCH.replace("src/reward.py", "README.md"), "change": {}}),
    ("V07", "denied by", {"patch": PATCH.replace("src/reward.py", "src/eval.py"), "change": {}}),
    ("V09", "no commit", {"base_commit": "1" * 40}),
    ("V09", "apply", {"patch": PATCH.replace("-weight = 1", "-weight = 7"), "change": {}}),
    ("V11", "falsifier is empty", reason(falsifier=" ")),
    ("V11", "sucess", reason(falsifier="sucess < 0.6")),
    ("V11", "mechanism is empty", reason(mechanism="")),
    ("V11", "expected is missing", reason(expected=None)),
    ("V11", "success, falls", reason(expected={"metric": "x", "direction": "max"})),
    ("V13", "not in the selection pool", plans(seeds={"short_trial": [101]})),
    ("V13", "twice", plans(seeds={"smoke": [1, 1]})),
    ("V13", "at least 5", plans(seeds={"promotion": [101, 102]})),
    ("V14", "one candidate is 6", plans(est=7)),
    ("V14", "10 are left", plans(est=11)),
    ("V14", "missing", plans(est=None)),
    ("V16", "seed", moves("seed", 1, 2)),
    ("V16", "seed", moves("env.random_seed", 1, 2)),
    ("V16", "seed", moves("--seed", 1, 2)),
    ("V16", "nothing but seeds", {"patch": SEED_PATCH, "change": {}}),
    ("V16", "chance", moves("reward.weight", 2.0, 2.0)),
]


def test_each_check_refuses_what_it_is_for(study):
    wrong = []
    for code, part, changes in REFUSED:
        found = failures(study, make(study, **changes))
        if part not in found.get(code, ""):
            wrong.append((code, part, found))
    assert wrong == []


def test_v02_names_and_references_are_true_and_the_evidence_is_whole(study):
    sheet = add_evidence(study)
    name = make(study, parents=["c-0099-nobody"], evidence_refs=["e-000000000000", sheet])
    edit(study, name, study_id="other")
    path = study.folder.evidence_file(sheet)
    write_json(path, {**read_json(path), "payload": {"why": "it flew"}})
    why = failures(study, name)["V02"]
    assert all(x in why for x in ("other", "c-0099-nobody", "e-000000000000", f"evidence {sheet}"))
    second = make(study, "child", parents=[name])
    edit(study, name, parents=[second])
    assert "ancestor" in failures(study, name)["V02"]


def test_v06_a_step_starts_where_the_parent_ended(study):
    parent = make(study)
    change = {"overrides": {"reward.weight": {"from": 3.0, "to": 4.0}}}
    why = failures(study, make(study, "child", parents=[parent], change=change))["V06"]
    assert "starts from 2.0" in why


def test_v07_a_rename_touches_the_old_name_too(study):
    patch = (
        "diff --git a/evaluate.py b/src/x.py\nsimilarity index 100%\n"
        "rename from evaluate.py\nrename to src/x.py\n"
    )
    found = failures(study, make(study, patch=patch, change={}))
    assert "evaluate.py is denied" in found["V07"] and "the evaluator" in found["V10"]


def test_v08_and_v09_a_change_is_short_and_the_one_that_was_described(study, tmp_path):
    long = tmp_path / "long.py"
    long.write_text("x = 1\n" * 21)
    assert set(failures(study, make(study, files={"src/long.py": long}, change={}))) == {"V08"}
    name = make(study, patch=PATCH, change={})
    study.folder.candidate_file(name).with_name("patch.diff").write_text(SEED_PATCH)
    assert "differs from the described patch" in failures(study, name)["V09"]


def test_v10_evaluator_and_metric_stay_as_agreed(study):
    name = make(study)
    (study.folder.root / "evaluate.py").write_text("print('cheat')\n")
    assert set(failures(study, name)) == {"V10"}
    text = study.folder.metric_spec.read_text()
    study.folder.metric_spec.write_text(text.replace("direction: max", "direction: min"))
    assert "metric spec" in failures(study, name)["V10"]


def test_v12_reward_engineering_cites_a_reflection(study):
    other, reflection = add_evidence(study), add_evidence(study, "reflection", {"terms": []})
    kind = {"kind": "reward_engineering", "isolation": WORKTREE}
    assert set(failures(study, make(study, **kind))) == {"V12"}
    assert "not of reflection" in failures(study, make(study, reflection_ref=other, **kind))["V12"]
    assert failures(study, make(study, reflection_ref=reflection, **kind)) == {}


def test_v12_randomization_and_curricula_stay_near_what_was_measured(based):
    study, runs = based, tuple(based.state.runs)[:3]
    feasible = {"path": "dr.mass", "nominal": 1.0, "points": (), "feasible": (0.5, 2.0)}
    policy = {"candidate": "c-0001-x", "protocol_hash": "0" * 64, "runs": runs}
    summary = ProbeSummary(**policy, parameters=(ParameterSummary(**feasible),))
    probe = add_evidence(study, "dr_probe", summary.as_data())
    for high, fails in ((2.0, False), (2.5, True)):
        change = {"overrides": {"dr.mass": {"from": [1.0, 1.0], "to": [0.5, high]}}}
        kind = {"kind": "dr_tuning", "change": change}
        assert "V12" in failures(study, make(study, **kind))
        assert ("V12" in failures(study, make(study, dr_probe_ref=probe, **kind))) is fails
    assert set(failures(study, make(study, kind="curriculum"))) == {"V12"}
    plan = {"mode": "reweight", "cases": ["stairs"]}
    found = failures(study, make(study, kind="curriculum", curriculum=plan))
    assert "no run of the incumbent" in found["V12"]


def test_v13_seeds_that_cannot_be_set_prove_nothing(study):
    name = make(study)
    text = study.folder.adapter.read_text()
    study.folder.adapter.write_text(text.replace("controllable: true", "controllable: false"))
    assert "cannot be set" in failures(study, name)["V13"]


def test_v14_what_the_candidate_spent_itself_is_not_counted_twice(study):
    name = make(study, plan={"est": {"gpu_h": 6.0}})
    validate_candidate(study, name)
    start_run(study, name, reservation={"gpu_h": 5.0})
    assert "V14" not in failures(study, name)
    assert "V14" in failures(study, make(study, "other", plan={"est": {"gpu_h": 5.5}}))
    complete(study, name, seeds=())
    assert "completed" in failures(study, name)["V03"]


def test_v15_the_same_change_in_other_words_is_a_duplicate_once_it_was_tried(study):
    again = {
        "overrides": {
            "reward.weight": {"from": 1, "to": 2},
            "ppo.epochs": {"from": 4, "to": 4},
        }
    }
    first, second = make(study), make(study, "again", change=again)
    assert failures(study, second) == {}, "a draft that nobody tried blocks nobody"
    validate_candidate(study, first)
    found = failures(study, second)
    assert set(found) == {"V15"} and first in found["V15"]
    assert failures(study, make(study, "repeat", change=again, replicate_of=first)) == {}
    assert failures(study, first) == {}


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
    text = study.folder.contract.read_text()
    study.folder.contract.write_text(text.replace("max: 4", "max: 400"))
    with pytest.raises(GateRefused, match="E_CONTRACT"):
        validate_candidate(study, name)


def test_v01_invalid_candidate_file_is_the_only_finding(study):
    name = make(study)
    edit(study, name, kind="magic")
    found = failures(study, name)
    assert "kind" in found["V01"] and found["V16"] == "not checked"


def test_v01_a_patch_in_place_is_refused(study):
    name = make(study, patch=PATCH, change={}, isolation={"mode": "in_place"})
    assert "in_place" in failures(study, name)["V01"]
