"""The ledger of a study: located damage, recovery, many writers, crashes between its steps."""

import multiprocessing
import random
import signal
import subprocess
import sys

import pytest

from telic.studies._ledger import Ledger
from telic.studies.canonical import signing_key
from telic.studies.errors import BrokenIntegrity, StudyError
from telic.studies.folder import StudyFolder
from tests.studies.core.small import AGENT


def note(study, text="hello"):
    return Ledger(study.folder).append("note.added", None, {"text": text}, AGENT)


def flipped(content, place, rng):
    """One byte replaced by another one."""
    other = (content[place] + rng.randrange(1, 256)) % 256
    return content[:place] + bytes([other]) + content[place + 1 :]


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_flipped_byte_anywhere_is_found_and_located(study, every):
    for number in range(6):
        note(study, f'{number} "quoted" \u00e9 {number / 3}')
    rng = random.Random(0)
    content = study.folder.ledger.read_bytes()
    ends = [place for place, byte in enumerate(content) if byte == 10]
    for place in range(0, len(content), every):
        study.folder.ledger.write_bytes(flipped(content, place, rng))
        check = Ledger(study.folder).verify()
        line = sum(end < place for end in ends) + 1
        if check.ok:  # the name of the key: the line counts as signed by somebody else
            assert check.unsigned == 1, f"byte {place} of line {line}"
        else:
            assert check.bad_seq == line, f"byte {place} of line {line}"


def test_a_damaged_line_blocks_reading_and_writing(study):
    note(study, "aaaa")
    note(study)
    study.folder.ledger.write_bytes(study.folder.ledger.read_bytes().replace(b"aaaa", b"bbbb"))
    before = study.folder.ledger.read_bytes()
    with pytest.raises(BrokenIntegrity, match="Line 2 of") as error:
        note(study)
    assert (error.value.code, error.value.exit_code) == ("E_LEDGER_BROKEN", 5)
    assert study.folder.ledger.read_bytes() == before


def test_removed_last_lines_are_noticed_and_block_writing(study):
    note(study)
    note(study)
    lines = study.folder.ledger.read_bytes().splitlines(keepends=True)
    study.folder.ledger.write_bytes(b"".join(lines[:-1]))
    check = Ledger(study.folder).verify()
    assert not check.ok and check.foreign
    with pytest.raises(BrokenIntegrity, match="3 lines were written here, 2 are left"):
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


def test_a_torn_last_line_is_dropped_by_the_next_append(study):
    note(study)
    with study.folder.ledger.open("ab") as file:
        file.write(b'{"entry":{"seq":3')
    check = Ledger(study.folder).verify()
    assert (check.ok, check.bad_seq, check.torn) == (False, 3, True)
    note(study, "after")
    assert [each.kind for each in Ledger(study.folder).entries()][-2:] == ["note.added"] * 2
    assert Ledger(study.folder).verify().ok


def test_a_last_line_that_was_complete_once_is_not_dropped_as_torn(study):
    note(study)
    study.folder.ledger.write_bytes(study.folder.ledger.read_bytes()[:-5])
    with pytest.raises(BrokenIntegrity, match="complete once"):
        note(study)


def test_a_study_of_an_earlier_version_is_refused_with_a_clear_message(study):
    study.folder.ledger.write_text('{"actor":{"kind":"agent"},"type":"study.created"}\n')
    with pytest.raises(StudyError, match="earlier version of telic") as error:
        Ledger(study.folder).state()
    assert error.value.code == "E_EARLIER_VERSION"


def _write_notes(root, name, count):
    study = StudyFolder(root, "g1-walk", "speed")
    for number in range(count):
        Ledger(study).append("note.added", None, {"text": f"{name} {number}"}, AGENT)


@pytest.mark.slow
def test_several_processes_append_at_the_same_time(study):
    spawn = multiprocessing.get_context("spawn")
    names = ["a", "b", "c", "d"]
    writers = [spawn.Process(target=_write_notes, args=(study.root, x, 15)) for x in names]
    for each in writers:
        each.start()
    for each in writers:
        each.join(120)
    assert [each.exitcode for each in writers] == [0] * 4
    entries = [each for each in Ledger(study.folder).entries() if each.kind == "note.added"]
    for name in names:
        own = [x.data["text"] for x in entries if x.data["text"].startswith(name)]
        assert own == [f"{name} {number}" for number in range(15)]
    assert Ledger(study.folder).verify().ok


_KILLED = """
import os, signal, sys
from pathlib import Path
from telic.storage import journal
from telic.studies import _ledger as module
from telic.studies.folder import StudyFolder
from telic.studies.canonical import signing_key
from telic.studies.documents.base import SYSTEM
root, step = Path(sys.argv[1]), sys.argv[2]
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
write = os.write
if step == "before the line":
    journal.Journal._write = die
elif step == "half the line":
    def half(handle, line):
        write(handle, line[: len(line) // 2])
        die()
    journal.Journal._write = lambda self, line: half(
        os.open(self.path, os.O_WRONLY | os.O_APPEND), line
    )
elif step == "before the note outside":
    journal.Journal._note = die
else:
    written = journal.Journal._write
    journal.Journal._write = lambda self, line: (written(self, line), die())
study = StudyFolder(root, "g1-walk", "speed")
module.Ledger(study).append("note.added", None, {"text": "killed"}, SYSTEM)
"""


@pytest.mark.parametrize(
    ("step", "kept"),
    [
        ("before the note outside", False),
        ("before the line", False),
        ("half the line", False),
        ("after the line", True),
    ],
)
def test_a_writer_killed_at_any_step_leaves_a_ledger_that_continues(study, step, kept):
    done = subprocess.run([sys.executable, "-c", _KILLED, str(study.root), step], check=False)
    assert done.returncode == -signal.SIGKILL
    note(study, "after")
    texts = [each.data.get("text") for each in Ledger(study.folder).entries()]
    assert ("killed" in texts) == kept
    assert texts[-1] == "after"
    assert Ledger(study.folder).verify().ok
