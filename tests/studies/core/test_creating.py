"""Beginning a study, finding it again, and the index of studies."""

import pytest

from telic.errors import UnknownName, UsageError
from telic.studies._ledger import Ledger
from telic.studies.administration import create_study, set_study_status, why_stopped
from telic.studies.candidates import new_candidate
from telic.studies.errors import GateRefused, StudyError
from telic.studies.folder import StudyFolder, read_registry
from telic.studies.next import next_step
from telic.studies.study import Study
from tests.studies.core.small import AGENT, HUMAN, content


def test_a_new_study_is_complete_and_active_and_begun_once(study):
    assert StudyFolder.find(study.root).path == study.folder.path
    assert study.contract.task.statement == "walk"
    assert [each.kind for each in Ledger(study.folder).entries()] == ["study.created"]
    assert read_registry(study.root).tasks == {"g1-walk": ("speed",)}
    before = content(study.root)
    create_study(study.root, "g1-walk", "speed", HUMAN, statement="something else")
    assert content(study.root) == before
    study.folder.contract.unlink()  # as a killed process may have left it
    study.folder.registry.unlink()
    create_study(study.root, "g1-walk", "speed", AGENT, statement="walk")
    assert Study.find(study.root).contract.version == 1
    assert len(Ledger(study.folder).entries()) == 1


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


def test_bad_names_no_study_and_no_folder_are_explained(repository):
    for name in ("G1", "x", "-ab", "a_b", "../up", "a" * 64):
        with pytest.raises(StudyError, match="E_SLUG"):
            create_study(repository, name, "speed", AGENT)
    assert list(repository.iterdir()) == []
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


PLACES = [*(".telic", ".telic/tasks", ".telic/tasks/walk/studies"), ".telic/worktrees/walk"]


@pytest.mark.parametrize("place", [*PLACES, ".telic/worktrees"])
def test_a_study_is_not_kept_behind_a_link(tmp_path, place):
    root, outside = tmp_path / "repository", tmp_path / "outside"
    outside.mkdir()
    (root / place).parent.mkdir(parents=True)
    (root / place).symlink_to(outside)
    with pytest.raises(StudyError, match="is a link"):
        create_study(root, "walk", "speed", HUMAN, statement="walk")
    assert not list(outside.iterdir())


def test_a_closed_study_takes_nothing_more(agreed):
    set_study_status(agreed, "closed", HUMAN, "the question is answered")
    study = agreed
    assert study.state.study_status == "closed"
    assert next_step(study).args == {"rule": "closed"}
    with pytest.raises(GateRefused, match="the study is closed"):
        new_candidate(agreed, "more", {"kind": "baseline"}, HUMAN)
    with pytest.raises(StudyError, match="E_CLOSED"):
        set_study_status(agreed, "open", HUMAN, "one more")


def test_nothing_but_the_note_of_its_last_line_is_written_outside_the_repository(
    repository, tmp_path, own_key
):
    create_study(repository, "g1-walk", "speed", AGENT)
    assert set(tmp_path.iterdir()) == {repository, own_key}
    assert sorted(path.name for path in own_key.iterdir()) == ["heads", "signing.key"]
