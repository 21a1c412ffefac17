"""A study answers from one snapshot, and never from an old one once something was written."""

import pytest

from telic.errors import UnknownName
from telic.studies.documents.base import SYSTEM
from telic.studies.study import Study, fact


def _note(ledger, text):
    ledger.append("note.added", None, {"text": text}, SYSTEM)


@fact
def _texts(study):
    _texts_asked.append(study.name)
    return tuple(each.data["text"] for each in study.events if each.kind == "note.added")


_texts_asked: list[str] = []


def test_a_question_is_worked_out_once(study):
    study = Study(study.folder)
    _texts_asked.clear()
    assert _texts(study) is _texts(study)
    assert len(_texts_asked) == 1
    assert study.state is study.state
    assert study.contract is study.contract


def test_what_is_written_through_it_is_seen_at_once(study):
    study = Study(study.folder)
    assert _texts(study) == ()
    _note(study, "one")
    assert _texts(study) == ("one",)
    assert study.state.ledger_head == study.events[-1].head


def test_what_others_write_is_seen_after_a_refresh_and_under_the_lock(study):
    folder = study.folder
    study = Study(folder)
    before = study.state
    _note(Study(folder), "from elsewhere")
    assert study.state is before
    assert _texts(study) == ()
    assert _texts(study.refresh()) == ("from elsewhere",)
    _note(Study(folder), "again")
    with study.locked():
        assert _texts(study) == ("from elsewhere", "again")


def test_a_file_that_changed_is_read_anew_after_a_refresh(study):
    folder = study.folder
    study = Study(folder)
    agreed = study.contract_hash
    text = folder.contract.read_text()
    folder.contract.write_text(text.replace("launches: 60", "launches: 61"))
    assert study.contract_hash == agreed
    assert study.refresh().contract_hash != agreed


def test_an_unknown_candidate_is_named(study):
    with pytest.raises(UnknownName, match="c-0001-none"):
        Study(study.folder).candidate_state("c-0001-none")
    with pytest.raises(UnknownName, match="c-0001-none"):
        Study(study.folder).candidate("c-0001-none")
