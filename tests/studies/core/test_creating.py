"""Beginning a study, finding it again, and the index of studies."""

import pytest

from telic.errors import UnknownName, UsageError
from telic.studies._ledger import Ledger
from telic.studies.administration import create_study, set_study_status, why_stopped
from telic.studies.errors import GateRefused, StudyError
from telic.studies.folder import StudyFolder, read_registry
from telic.studies.study import Study
from tests.studies.core.small import AGENT, HUMAN, content


def test_a_new_study_is_complete_and_active(study):
    assert StudyFolder.find(study.root).path == study.folder.path
    assert study.contract.task.statement == "walk"
    assert [each.kind for each in Ledger(study.folder).entries()] == ["study.created"]
    assert read_registry(study.root).tasks == {"g1-walk": ("speed",)}


def test_beginning_twice_is_beginning_once(study):
    before = content(study.root)
    create_study(study.root, "g1-walk", "speed", HUMAN, statement="something else")
    assert content(study.root) == before


def test_what_a_killed_process_began_is_finished(study):
    study.folder.contract.unlink()
    study.folder.registry.unlink()
    create_study(study.root, "g1-walk", "speed", AGENT, statement="walk")
    assert Study.find(study.root).contract.version == 1
    assert len(Ledger(study.folder).entries()) == 1


def test_nothing_but_the_note_of_its_last_line_is_written_outside_the_repository(
    repository, tmp_path, own_key
):
    before = {p for p in tmp_path.rglob("*") if repository not in p.parents}
    create_study(repository, "g1-walk", "speed", AGENT)
    assert {p for p in tmp_path.rglob("*") if repository not in p.parents} == before
    assert sorted(path.name for path in own_key.iterdir()) == ["heads", "signing.key"]


def test_statements_with_quotes_are_kept(repository):
    text = 'walk "fast"\\ at: once # now'
    study = create_study(repository, "g1-walk", "speed", AGENT, statement=text)
    assert study.contract.task.statement == text


def test_the_active_study_and_the_named_one(study):
    other = create_study(study.root, "g1-walk", "energy", AGENT).folder
    third = create_study(study.root, "a1-trot", "speed", AGENT).folder
    assert StudyFolder.find(study.root).path == third.path
    assert StudyFolder.find(study.root, "g1-walk", "energy").path == other.path
    create_study(study.root, "g1-walk", "speed", AGENT)
    assert StudyFolder.find(study.root).path == study.folder.path
    assert StudyFolder.find(study.root, task="a1-trot").path == third.path
    with pytest.raises(UnknownName, match="enrgy"):
        StudyFolder.find(study.root, "g1-walk", "enrgy")
    with pytest.raises(UnknownName, match="No task"):
        StudyFolder.find(study.root, "g1-run")


@pytest.mark.parametrize("name", ["G1", "x", "-ab", "a_b", "../up", "a" * 64])
def test_bad_names_are_refused(repository, name):
    with pytest.raises(StudyError, match="E_SLUG"):
        create_study(repository, name, "speed", AGENT)
    assert list(repository.iterdir()) == []


def test_no_study_and_no_folder_are_explained(repository):
    with pytest.raises(StudyError, match="telic study init"):
        StudyFolder.find(repository)
    with pytest.raises(UsageError, match="not a folder"):
        create_study(repository / "none", "g1-walk", "speed", AGENT)


def test_anyone_pauses_and_a_person_resumes(study):
    set_study_status(study, "paused", AGENT, "too hot")
    assert Ledger(study.folder).state().study_status == "paused"
    study.folder.stop_file.write_text("")
    assert "STOP" in why_stopped(study)
    for status in ("open", "closed"):
        with pytest.raises(GateRefused, match="E_NO_HUMAN"):
            set_study_status(study, status, AGENT, "cool again")
    set_study_status(study, "open", HUMAN, "cool again")
    assert Ledger(study.folder).state().study_status == "open"
    assert not study.folder.stop_file.exists()


@pytest.mark.parametrize("place", [".telic", ".telic/tasks", ".telic/tasks/walk/studies"])
def test_a_study_is_not_kept_behind_a_link(tmp_path, place):
    root, outside = tmp_path / "repository", tmp_path / "outside"
    outside.mkdir()
    (root / place).parent.mkdir(parents=True)
    (root / place).symlink_to(outside)
    with pytest.raises(StudyError, match="is a link"):
        create_study(root, "walk", "speed", HUMAN, statement="walk")
    assert not list(outside.iterdir())
