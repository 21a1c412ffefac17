"""The ledger: chained, located damage, recovery, many writers, crashes between its steps."""

import json
import multiprocessing
import random
import signal
import subprocess
import sys

import pytest

from telic.storage.keys import key_file
from telic.studies import ledger as ledger_module
from telic.studies.canonical import NO_HASH
from telic.studies.chain import line_hash
from telic.studies.documents.base import SYSTEM
from telic.studies.errors import BrokenIntegrity, LockTimeout, StudyError
from telic.studies.folder import StudyFolder
from telic.studies.ledger import Ledger, NewEvent
from telic.studies.projector import Projector
from telic.studies.state import StudyState
from tests.studies.core.small import AGENT, add_candidate


def replay(events):
    """Return the state that a list of events comes to."""
    projector = Projector("")
    for event in events:
        projector.apply(event)
    return projector.state()


def note(study, text="hello"):
    return Ledger(study.folder).append("note.added", None, {"text": text}, AGENT)


def flipped(content, place, rng):
    """One byte replaced by another one."""
    other = (content[place] + rng.randrange(1, 256)) % 256
    return content[:place] + bytes([other]) + content[place + 1 :]


def test_lines_follow_from_each_other(study):
    note(study)
    events = Ledger(study.folder).events()
    assert [each.seq for each in events] == [1, 2]
    assert events[0].prev == NO_HASH
    assert events[1].prev == events[0].hash
    raw = [json.loads(line) for line in study.folder.ledger.read_text().splitlines()]
    assert [line_hash(each) for each in raw] == [each["hash"] for each in raw]
    assert Ledger(study.folder).verify().ok


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
        assert not check.ok
        assert check.bad_seq == line, f"byte {place} of line {line}"


def test_a_damaged_line_blocks_reading_and_writing(study):
    note(study, "aaaa")
    note(study)
    study.folder.ledger.write_bytes(study.folder.ledger.read_bytes().replace(b"aaaa", b"bbbb"))
    before = study.folder.ledger.read_bytes()
    with pytest.raises(BrokenIntegrity, match="line 2 is bad") as error:
        note(study)
    assert (error.value.code, error.value.exit_code) == ("E_LEDGER_BROKEN", 5)
    assert study.folder.ledger.read_bytes() == before


def test_lines_taken_from_the_end_are_missed(study):
    note(study)
    note(study)
    lines = study.folder.ledger.read_bytes().splitlines(keepends=True)
    study.folder.ledger.write_bytes(b"".join(lines[:-1]))
    check = Ledger(study.folder).verify()
    assert (check.ok, check.bad_seq) == (False, 3)


def test_a_rewritten_chain_is_exposed_by_its_anchor(study):
    for number in range(ledger_module.ANCHOR_EVERY):
        note(study, f"number {number}")
    assert Ledger(study.folder).verify().anchors_proven == 1
    study.folder.state.unlink()
    lines = [json.loads(x) for x in study.folder.ledger.read_text().splitlines()]
    lines[3]["data"]["text"] = "never happened"
    prev = NO_HASH
    for line in lines:
        line["prev"] = prev
        if line["type"] == "ledger.anchor":
            line["data"]["head"]["hash"] = prev
        prev = line["hash"] = line_hash(line)
    from telic.studies.canonical import canonical

    study.folder.ledger.write_bytes(b"".join(canonical(line) + b"\n" for line in lines))
    check = Ledger(study.folder).verify()
    assert not check.ok
    assert "signature" in check.why
    assert check.bad_seq == ledger_module.ANCHOR_EVERY + 1


def test_an_anchor_of_another_key_is_counted_and_not_believed(study):
    Ledger(study.folder).append("decision.recorded", "c-0001-x", {"verdict": "accept"}, SYSTEM)
    key_file().unlink()
    check = Ledger(study.folder).verify()
    assert (check.ok, check.anchors_proven, check.anchors_of_other_keys) == (True, 0, 1)


@pytest.mark.parametrize("tail", [b'{"actor":{"ki', b'{"seq": 3,\n', b"\x00\x00\n"])
def test_a_torn_last_line_is_moved_aside_and_told(study, tail):
    note(study)
    with study.folder.ledger.open("ab") as file:
        file.write(tail)
    check = Ledger(study.folder).verify()
    assert (check.ok, check.bad_seq) == (False, 3)
    note(study, "after")
    events = Ledger(study.folder).events()
    assert [each.type for each in events[-2:]] == ["ledger.recovered", "note.added"]
    assert (study.folder.path / "ledger.torn-3").read_bytes() == tail
    assert Ledger(study.folder).verify().ok


def test_a_last_line_that_was_whole_once_is_not_recovered_as_torn(study):
    note(study)
    study.folder.ledger.write_bytes(study.folder.ledger.read_bytes()[:-5])
    with pytest.raises(BrokenIntegrity, match="whole once"):
        note(study)


def test_a_crash_between_append_and_projection_is_made_good(study, monkeypatch):
    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ledger_module, "save", die)
        with pytest.raises(KeyboardInterrupt):
            add_candidate(study)
    assert "c-0001-try" not in json.loads(study.folder.state.read_text())["candidates"]
    assert "c-0001-try" in Ledger(study.folder).state().candidates
    note(study)
    saved = StudyState.parse(json.loads(study.folder.state.read_text()))
    assert saved == replay(Ledger(study.folder).events())
    assert saved.candidates["c-0001-try"].status == "draft"


def test_the_projection_can_be_deleted_and_made_again(study):
    add_candidate(study)
    before = study.folder.state.read_bytes()
    study.folder.state.unlink()
    Ledger(study.folder).rebuild()
    assert study.folder.state.read_bytes() == before


def _write_notes(root, name, count):
    study = StudyFolder(root, "g1-walk", "speed")
    for number in range(count):
        Ledger(study, patience_s=60).append("note.added", None, {"text": f"{name} {number}"}, AGENT)


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
    events = [each for each in Ledger(study.folder).events() if each.type == "note.added"]
    for name in names:
        own = [x.data["text"] for x in events if x.data["text"].startswith(name)]
        assert own == [f"{name} {number}" for number in range(15)]
    assert Ledger(study.folder).verify().ok
    assert (
        json.loads(study.folder.state.read_text())["ledger_head"]["seq"]
        == Ledger(study.folder).head.seq
    )


_KILLED = """
import os, signal, sys
from pathlib import Path
from telic.studies import ledger as module, ledger_file
from telic.studies.folder import StudyFolder
from telic.studies.documents.base import SYSTEM
root, step = Path(sys.argv[1]), sys.argv[2]
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
if step == "before the line":
    ledger_file.os.write = die
elif step == "half the line":
    write = os.write
    def half(handle, line):
        write(handle, line[: len(line) // 2])
        die()
    ledger_file.os.write = half
elif step == "before the note outside":
    module.note_coming = die
elif step == "before the sync":
    write = os.write
    def written(handle, line):
        done = write(handle, line)
        ledger_file.os.fsync = die
        return done
    ledger_file.os.write = written
else:
    module.save = die
study = StudyFolder(root, "g1-walk", "speed")
module.Ledger(study).append("note.added", None, {"text": "killed"}, SYSTEM)
"""


@pytest.mark.parametrize(
    ("step", "kept"),
    [
        ("before the note outside", False),
        ("before the line", False),
        ("half the line", False),
        ("before the sync", True),
        ("before the projection", True),
    ],
)
def test_a_writer_killed_at_any_step_leaves_a_ledger_that_goes_on(study, step, kept):
    done = subprocess.run([sys.executable, "-c", _KILLED, str(study.root), step], check=False)
    assert done.returncode == -signal.SIGKILL
    note(study, "after")
    texts = [each.data.get("text") for each in Ledger(study.folder).events()]
    assert ("killed" in texts) == kept
    assert texts[-1] == "after"
    assert Ledger(study.folder).verify().ok
    assert (
        json.loads(study.folder.state.read_text())
        == replay(Ledger(study.folder).events()).as_data()
    )


def test_a_head_that_moved_is_refused_and_a_retry_succeeds(study):
    head = Ledger(study.folder).head.hash
    note(study)
    with pytest.raises(LockTimeout, match="E_HEAD") as error:
        Ledger(study.folder).append("note.added", None, {}, AGENT, expect_head=head)
    assert error.value.exit_code == 6
    asked = []

    def make(state):
        asked.append(state.ledger_head.seq)
        if len(asked) == 1:
            note(study, "in between")
        return NewEvent("note.added", None, {"text": "mine"}, AGENT)

    assert Ledger(study.folder).append_from(make).data == {"text": "mine"}
    assert len(asked) == 2


def test_a_retry_gives_up_after_five_times(study):
    def make(state):
        note(study, "always somebody")
        return NewEvent("note.added", None, {}, AGENT)

    with pytest.raises(LockTimeout, match="E_HEAD"):
        Ledger(study.folder).append_from(make)


def test_unknown_types_and_huge_lines_are_refused(study):
    before = study.folder.ledger.read_bytes()
    with pytest.raises(StudyError, match="E_EVENT"):
        Ledger(study.folder).append("note.removed", None, {}, AGENT)
    with pytest.raises(StudyError, match="evidence file"):
        Ledger(study.folder).append("note.added", None, {"text": "x" * 70_000}, AGENT)
    assert study.folder.ledger.read_bytes() == before


def test_a_decision_is_anchored_at_once(study):
    Ledger(study.folder).append("decision.recorded", "c-0001-x", {"verdict": "accept"}, SYSTEM)
    assert Ledger(study.folder).events()[-1].type == "ledger.anchor"


def test_numbers_of_every_size_survive(study):
    data = {"small": 5e-324, "large": 1.5e300, "whole": 2**53 - 1, "round": 1e20, "minus": -0.0}
    Ledger(study.folder).append("note.added", None, data, SYSTEM)
    assert Ledger(study.folder).verify().ok
    assert Ledger(study.folder).events()[-1].data == data


def test_a_clock_that_went_back_is_noted(study, monkeypatch):
    monkeypatch.setattr(ledger_module, "utc_now", lambda: "2001-01-01T00:00:00.000Z")
    assert "clock_behind" in note(study).data
