from textwrap import indent

import pytest

from telic.studies import candidates
from telic.studies.approvals import approval_diff
from telic.studies.candidates import (
    new_candidate,
    revise_candidate,
    transition,
    withdraw,
)
from telic.studies.documents.base import RUNNER, SYSTEM, StudyActor
from telic.studies.errors import GateRefused, InvalidDocument
from telic.studies.rules.checks import validate_candidate
from tests.studies.candidates.small_study import (
    AGENT,
    PATCH,
    complete,
    draft,
    end_run,
    make,
    start_run,
)

OTHER_STEP = {"overrides": {"reward.weight": {"from": 1.0, "to": 1.5}}}


def test_what_an_author_leaves_open_is_filled_in(study):
    made = study.candidate(make(study))
    assert made.id == "c-0001-more-weight"
    assert made.plan.seeds["promotion"] == (100, 101, 102, 103, 104)
    assert made.plan.seeds["smoke"] == (1,)
    assert made.isolation.mode == "in_place" and len(made.base_commit or "") == 40
    assert made.content_hash == made.compute_hash()
    assert study.state.candidates[made.id].content_hash == made.content_hash
    made = study.candidate(make(study, plan={"steps": 1000, "est": {"gpu_h": 1.0}}))
    assert made.plan.est.env_steps == 20 + 250 + 5 * 1000, "those of all runs"
    printed = study.candidate(make(study, plan={"steps": 9, "est": {"env_steps": 7}}))
    assert printed.plan.est.env_steps == 7
    made = new_candidate(study, "as it is", {"kind": "baseline"}, AGENT)
    assert made.plan.phases == ("smoke", "incumbent_validation")
    assert made.plan.seeds["incumbent_validation"] == (901, 902, 903, 904, 905)


def test_a_change_of_files_has_its_own_worktree_and_is_read_as_a_diff(study, tmp_path):
    made = study.candidate(make(study, patch=PATCH, change={}))
    assert made.isolation.mode == "worktree"
    assert study.folder.candidate_file(made.id).with_name("patch.diff").read_text() == PATCH
    assert indent(PATCH, "│ ") in approval_diff(study, "experiment", made.id) + "\n"
    (tmp_path / "new.py").write_text("weight = 3\nbonus = 0\nseed = 3\n")
    name = make(study, files={"src/reward.py": tmp_path / "new.py"}, change={})
    seen = approval_diff(study, "experiment", name).splitlines()
    assert "-weight = 1" in seen and "+weight = 3" in seen and " bonus = 0" in seen


def test_an_author_writes_neither_what_the_system_keeps_nor_elsewhere(study, tmp_path):
    for key in ("status", "validation", "id", "content_hash"):
        with pytest.raises(InvalidDocument, match="E_DRAFT"):
            new_candidate(study, "sly", {**draft(study), key: "accepted"}, AGENT)
    with pytest.raises(InvalidDocument, match="outside"):
        make(study, files={"../../../evil.py": tmp_path / "repo" / "evaluate.py"})


def test_mending_uses_up_attempts(study):
    name = make(study)
    for revision in (2, 3):
        validate_candidate(study, name)
        end_run(study, start_run(study, name), "failed", why="it crashed")
        transition(study, name, "debug", RUNNER, "it crashed")
        revise_candidate(study, name, {"plan": {"est": {"gpu_h": revision}}}, AGENT)
    assert study.state.candidates[name].debug_attempts == 2
    assert validate_candidate(study, name).ok
    end_run(study, start_run(study, name), "failed", why="again")
    transition(study, name, "debug", SYSTEM, "again")
    with pytest.raises(GateRefused, match="2 repair attempts"):
        revise_candidate(study, name, {"plan": {}}, AGENT)


def test_an_agent_withdraws_only_its_own_idea(study):
    name = make(study)
    with pytest.raises(GateRefused, match="belongs to"):
        withdraw(study, name, StudyActor(kind="agent", name="somebody"), "not mine")
    with pytest.raises(GateRefused, match="reason"):
        withdraw(study, name, AGENT, "")
    withdraw(study, name, AGENT, "a better one came up")
    assert study.state.candidates[name].status == "rejected"


def test_a_finished_promotion_seed_is_not_used_by_a_later_revision(study):
    name = make(study)
    validate_candidate(study, name)
    complete(study, name)
    transition(study, name, "validated", SYSTEM, "on", {"phase": "promotion"})
    end_run(study, start_run(study, name, "promotion", 100))
    end_run(study, start_run(study, name, "promotion", 101), "failed")
    transition(study, name, "debug", RUNNER, "it crashed")
    revise_candidate(study, name, {"plan": {"est": {"gpu_h": 1}, "seeds": {}}}, AGENT)
    why = {each.id: each.why for each in validate_candidate(study, name).checks}
    assert "plan.seeds has none" in why["V01"]
    seeds = {"smoke": [1], "short_trial": [1], "promotion": [100, 101, 102, 103, 104]}
    revise_candidate(study, name, {"plan": {"est": {"gpu_h": 1}, "seeds": seeds}}, AGENT)
    why = {each.id: each.why for each in validate_candidate(study, name).checks}
    assert "100 were already used" in why["V13"] and "101" not in why["V13"]


def test_a_candidate_is_revised_until_it_is_launched(study):
    name = make(study)
    revise_candidate(study, name, {"change": OTHER_STEP}, AGENT)
    validate_candidate(study, name)
    revise_candidate(study, name, {"change": OTHER_STEP}, AGENT)
    assert study.state.candidates[name].status == "draft"
    assert validate_candidate(study, name).ok
    start_run(study, name)
    with pytest.raises(GateRefused, match="child"):
        revise_candidate(study, name, {"change": OTHER_STEP}, AGENT)


def test_ids_are_never_used_again_not_even_after_a_crash(study, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(candidates, "_hashes", lambda *_: 1 / 0)
        make(study, "lost")
    assert make(study, "next").startswith("c-0002-")
