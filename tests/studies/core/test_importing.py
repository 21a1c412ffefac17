"""An older tool's tree is taken over byte by byte, as history, and left alone."""

import json
import os
import shutil
from pathlib import Path

import pytest

from telic.importers.rlxp import import_rlxp
from telic.studies.candidates import new_candidate
from telic.studies.errors import BrokenIntegrity, StudyError
from telic.studies.folder import StudyFolder
from telic.studies.ledger import Ledger
from telic.studies.study import Study
from tests.studies.core.small import AGENT, content

TREES = Path(__file__).parent / "rlxp"


def relative(folder):
    return {str(path.relative_to(folder)): text for path, text in content(folder).items()}


@pytest.fixture
def put(repository):
    def place(layout):
        shutil.copytree(TREES / layout, repository / ".rlxp")
        return repository

    return place


def test_a_scoped_tree_is_kept_whole_and_untouched(put):
    root = put("scoped")
    before = content(root / ".rlxp")
    (found,) = import_rlxp(root, AGENT)
    assert content(root / ".rlxp") == before
    assert (found.study, found.layout, found.ledger_lines) == ("g1-walk/speed", "scoped", 2)
    assert found.candidates["c-0001-smoother"]["status"] == "accepted"
    copy = relative(root / found.folder)
    copy.pop("manifest.json")
    old = relative(TREES / "scoped")
    assert sorted(copy.values()) == sorted(old.values())
    assert copy["study/ledger.jsonl"] == old["tasks/g1_walk/studies/speed/ledger.jsonl"]
    assert copy["task/adapter.yaml"] == old["tasks/g1_walk/adapter.yaml"]
    assert copy["shared/registry.yaml"] == old["registry.yaml"]


def test_a_flat_tree_is_one_study(put):
    root = put("flat")
    (found,) = import_rlxp(root, AGENT)
    assert (found.study, found.layout) == ("default/default", "legacy_flat")
    assert found.candidates["c-7"]["hypothesis"] == "a larger batch helps"
    copy = relative(root / found.folder)
    copy.pop("manifest.json")
    assert copy == {f"study/{name}": text for name, text in relative(TREES / "flat").items()}


def test_what_is_imported_counts_as_nothing_here(put):
    root = put("scoped")
    import_rlxp(root, AGENT)
    state = Ledger(StudyFolder.find(root)).state()
    assert (state.candidates, state.approvals, state.incumbent) == ({}, {}, None)


def test_importing_again_changes_nothing(put):
    root = put("scoped")
    import_rlxp(root, AGENT)
    before = content(root)
    (found,) = import_rlxp(root, AGENT)
    assert not found.is_new
    assert content(root) == before


def test_an_import_that_was_killed_is_finished_by_the_next(put, monkeypatch):
    root = put("scoped")
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            import_rlxp(root, AGENT)
    (found,) = import_rlxp(root, AGENT)
    assert found.is_new
    assert (root / found.folder / "manifest.json").is_file()


def test_a_link_out_of_the_tree_is_refused(put, tmp_path):
    root = put("flat")
    (tmp_path / "secret").write_text("token")
    (root / ".rlxp" / "candidates" / "link.json").symlink_to(tmp_path / "secret")
    with pytest.raises(BrokenIntegrity, match="E_OUTSIDE"):
        import_rlxp(root, AGENT)
    assert not (root / ".telic").exists()


def test_no_tree_is_named(repository):
    with pytest.raises(StudyError, match="E_NO_SOURCE"):
        import_rlxp(repository, AGENT)


def test_an_old_candidate_is_a_draft_that_a_new_one_is_made_from(put):
    root = put("scoped")
    old = {
        "id": "c-0002-faster",
        "kind": "reward_tuning",
        "status": "rejected",
        "hypothesis": {"statement": "faster is better", "falsifier": "success < 0.4", "why": "x"},
        "change": {
            "overrides": {"reward.weight": {"from": 1.0, "to": 2.0}, "lr": 0.1},
            "patch": "p",
        },
        "wandb": "run-7",
    }
    home = root / ".rlxp/tasks/g1_walk/studies/speed/candidates/c-0002-faster"
    home.mkdir(parents=True)
    (home / "candidate.json").write_text(json.dumps(old))
    (found,) = import_rlxp(root, AGENT)
    assert set(found.drafts) == {"c-0001-smoother", "c-0002-faster"}
    # what a draft cannot say is named, and stays in the copy
    assert found.drafts["c-0002-faster"].unmapped == ("change", "hypothesis", "wandb")
    study = Study(StudyFolder.find(root))
    draft = json.loads((root / found.drafts["c-0002-faster"].file).read_text())
    made = new_candidate(study, "faster", draft, AGENT)
    assert made.origin.imported_from == "c-0002-faster" and made.kind == "reward_tuning"
    assert made.change.overrides["reward.weight"].to == 2.0
    assert made.change.overrides["lr"].to == 0.1 and made.hypothesis.falsifier == "success < 0.4"
    assert study.candidate_state(made.id).status == "draft"
