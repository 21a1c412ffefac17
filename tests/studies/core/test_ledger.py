"""The ledger of a study is a journal; its errors are those of studies (see tests/storage)."""

import pytest

from telic.studies._ledger import Ledger
from telic.studies.canonical import signing_key
from telic.studies.errors import BrokenIntegrity, StudyError
from tests.studies.core.small import AGENT


def note(study, text="hello"):
    return Ledger(study.folder).append("note.added", None, {"text": text}, AGENT)


def test_damage_blocks_reading_and_writing(study):
    note(study, "aaaa")
    note(study)
    whole = study.folder.ledger.read_bytes()
    torn, short = whole + b'{"entry":{"seq":3', b"".join(whole.splitlines(keepends=True)[:-1])
    for damaged, why in (
        (whole.replace(b"aaaa", b"bbbb"), "Line 2 of"),
        (whole[:-5], "complete before"),
        (short, "3 lines were written, but only 2 are left"),
    ):
        study.folder.ledger.write_bytes(damaged)
        assert not Ledger(study.folder).verify().ok
        with pytest.raises(BrokenIntegrity, match=why) as error:
            note(study)
        assert (error.value.code, error.value.exit_code) == ("E_LEDGER_BROKEN", 5)
        assert study.folder.ledger.read_bytes() == damaged
    study.folder.ledger.write_bytes(torn)
    check = Ledger(study.folder).verify()
    assert (check.ok, check.bad_seq, check.torn) == (False, 4, True)
    note(study, "after")
    assert Ledger(study.folder).verify().ok, "a torn last line is dropped by the next append"
    study.folder.ledger.unlink()
    with pytest.raises(BrokenIntegrity, match="E_LEDGER_GONE"):
        note(study)


def test_a_ledger_continued_elsewhere_is_adopted(study, monkeypatch, tmp_path):
    note(study, "here")
    with monkeypatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "elsewhere"))
        signing_key(study.root)
        with pytest.raises(BrokenIntegrity, match="2 of 2 lines are not signed with your key"):
            note(study, "by somebody else")
        Ledger(study.folder).adopt()
        note(study, "from another machine")
    assert Ledger(study.folder).verify().foreign
    Ledger(study.folder).adopt()
    check = Ledger(study.folder).verify()
    assert check.ok and check.unsigned == 1
    note(study)
    assert Ledger(study.folder).verify().ok


def test_a_study_of_an_earlier_version_is_refused_with_a_clear_message(study):
    study.folder.ledger.write_text('{"actor":{"kind":"agent"},"type":"study.created"}\n')
    with pytest.raises(StudyError, match="earlier version of telic") as error:
        Ledger(study.folder).state()
    assert error.value.code == "E_EARLIER_VERSION"
