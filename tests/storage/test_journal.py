"""The journal: what was appended is found again, and nothing else is taken for it."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
from contextlib import nullcontext

import pytest
from pydantic import BaseModel

from telic.errors import BadFile, UsageError
from telic.storage.files import read_json_lines
from telic.storage.journal import Journal, JournalBroken, JournalBusy
from telic.storage.keys import SigningKey, user_key

VALUES = [0, 0.5, 1, 1.5, 2, 2.5]


class Score(BaseModel):
    value: float


@pytest.fixture
def key(tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    return user_key(tmp_path / "work")


def filled(path, key, count=6, *, guarded=False):
    journal = Journal(path, "walk", key, guard="path" if guarded else None)
    for number in range(count):
        journal.append("score", {"value": number / 2, "word": "größer"}, subject=f"c{number}")
    return journal


def test_entries_are_read_back_in_order_by_a_second_reader(tmp_path, key):
    filled(tmp_path / "j.jsonl", key)
    again = Journal(tmp_path / "j.jsonl", "walk", key)
    assert [entry.data["value"] for entry in again.entries()] == VALUES
    assert again.find("score", "c3").data["word"] == "größer"
    assert again.verify().ok and again.verify().unsigned == 0
    rows = [row["entry"] for row in read_json_lines(tmp_path / "j.jsonl")]
    assert [row["subject"] for row in rows][:2] == ["c0", "c1"]


def test_a_finished_step_is_not_taken_again(tmp_path, key):
    calls = []

    def make():
        calls.append(1)
        return Score(value=0.25)

    for _ in range(3):
        journal = Journal(tmp_path / "j.jsonl", "walk", key)
        assert journal.once("judged", Score, make, "iteration 1") == Score(value=0.25)
    assert len(calls) == 1


def test_every_edit_of_a_line_is_noticed(tmp_path, key):
    path = tmp_path / "j.jsonl"
    filled(path, key)
    lines = path.read_bytes().splitlines(keepends=True)
    rng = random.Random(0)
    edits = [
        lambda: lines[:2] + lines[3:],
        lambda: [*lines[:2], lines[3], lines[2], *lines[4:]],
        lambda: [*lines[:3], lines[2], *lines[3:]],
        lambda: [lines[0].replace(b'"value":0', b'"value":1'), *lines[1:]],
        lambda: [line.replace(b'"sig":', b'"sig" :') for line in lines],
    ]
    for _ in range(60):

        def flip():
            row = rng.randrange(len(lines))
            line = bytearray(lines[row])
            place = rng.randrange(len(line) - 1)
            line[place] ^= 1 << rng.randrange(7)
            return [*lines[:row], bytes(line), *lines[row + 1 :]]

        edits.append(flip)
    for edit in edits:
        path.write_bytes(b"".join(edit()))
        journal = Journal(path, "walk", key)
        check = journal.verify()
        # A flipped bit in the signature's key name makes it one of another key: unsigned.
        assert not check.ok or check.unsigned
        if not check.ok and not check.torn:
            # The last signature covers all content: an earlier one that is damaged changes nothing.
            only = "signature" in check.why and check.bad_seq < len(lines)
            with nullcontext() if only else pytest.raises(JournalBroken):
                journal.append("score", {"value": 1})
                assert [entry.data["value"] for entry in journal.entries()[:6]] == VALUES


def test_a_chain_written_again_without_the_key_is_not_accepted(tmp_path, key):
    path = tmp_path / "j.jsonl"
    filled(path, None)
    assert Journal(path, "walk", key).verify().unsigned == 6
    bare = Journal(path, "walk", key, guard="path").verify()
    assert (bare.ok, bare.bad_seq, bare.why) == (False, 1, "its signature is missing or invalid")
    path.unlink()
    filled(path, SigningKey(b"of a forger".ljust(32)))
    for _ in range(2):  # no note of the last line, and after an attempt to append
        journal = Journal(path, "walk", key, guard="path")
        check = journal.verify()
        assert not check.ok and check.foreign and "6 of 6 lines are not signed" in check.why
        with pytest.raises(JournalBroken):
            journal.append("score", {"value": 1})
    journal.adopt()
    assert journal.verify().ok and journal.verify().unsigned == 6


def test_a_torn_last_line_is_dropped_by_the_next_append(tmp_path, key):
    path = tmp_path / "j.jsonl"
    filled(path, key)
    whole = path.read_bytes()
    for cut in (1, 10, 40):
        path.write_bytes(whole[:-cut])
        journal = Journal(path, "walk", key)
        assert len(journal.entries()) == 5 and journal.verify().torn
        journal.append("score", {"value": 9})
        assert [entry.seq for entry in journal.entries()] == [1, 2, 3, 4, 5, 6]
        assert journal.verify().ok


@pytest.mark.parametrize("keep", [0, 1, 5])
def test_a_guarded_journal_that_was_cut_short_is_foreign(tmp_path, key, keep):
    path = tmp_path / "j.jsonl"
    filled(path, key, guarded=True)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:keep]))
    journal = Journal(path, "walk", key, guard="path")
    check = journal.verify()
    assert check.foreign and not check.ok and "6 lines were written, but" in check.why
    with pytest.raises(JournalBroken):
        journal.append("score", {"value": 1})
    journal.adopt()
    assert journal.verify().ok


def test_oversized_or_irregular_journal_is_refused_unread(tmp_path, key):
    path = tmp_path / "j.jsonl"
    filled(path, key)
    os.truncate(path, 40 << 30)
    for _ in range(2):
        with pytest.raises(BadFile, match=r"more than|named pipe"):
            Journal(path, "walk", key).verify()
        path.unlink()
        os.mkfifo(path)
    with pytest.raises((BadFile, UsageError)):
        Journal(path, "walk", key).append("score", {"value": 1})


def test_a_last_line_that_was_whole_once_is_not_taken_for_a_crash(tmp_path, key):
    path = tmp_path / "j.jsonl"
    filled(path, key, guarded=True)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(JournalBroken, match="complete before"):
        Journal(path, "walk", key, guard="path").append("score", {"value": 1})


def test_an_append_after_others_wrote_is_refused(tmp_path, key):
    first, second = (Journal(tmp_path / "j.jsonl", "walk", key) for _ in range(2))
    head = first.head
    second.append("score", {"value": 1})
    with pytest.raises(JournalBusy):
        first.append("score", {"value": 2}, expected=head)
    assert first.append("score", {"value": 2}, expected=first.head).seq == 2


def _write_many(path, config, count):
    os.environ["TELIC_CONFIG_DIR"] = config
    journal = Journal(path, "walk")
    for number in range(count):
        journal.append("score", {"value": number}, subject=str(os.getpid()))


def test_two_writers_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    given = (tmp_path / "j.jsonl", str(tmp_path), 25)
    writers = [context.Process(target=_write_many, args=given) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    journal = Journal(tmp_path / "j.jsonl", "walk")
    assert journal.verify().ok and len(journal.entries()) == 50


def test_a_killed_writer_leaves_whole_entries(tmp_path):
    code = (
        "import sys, pathlib\nfrom telic.storage.journal import Journal\n"
        "journal = Journal(pathlib.Path(sys.argv[1]), 'walk')\n"
        "for number in range(100000):\n"
        "    journal.append('score', {'value': number})\n"
        "    print(number, flush=True)\n"
    )
    path = tmp_path / "j.jsonl"
    for after in (1, 7, 30):
        command = [sys.executable, "-c", code, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            printed = [writer.stdout.readline() for _ in range(after)]
            writer.send_signal(signal.SIGKILL)
        assert all(printed)
        check = Journal(path, "walk").verify()
        assert check.ok or check.torn
        assert check.head.seq >= after


def test_a_journal_that_is_started_again_through_a_link_is_foreign(tmp_path, key):
    folder = tmp_path / "work"
    folder.mkdir()
    filled(folder / "j.jsonl", key, guarded=True)
    (folder / "j.jsonl").unlink()
    (tmp_path / "link").symlink_to(folder)
    journal = Journal(tmp_path / "link" / "j.jsonl", "walk", key, guard="path")
    assert "6 lines were written, but only 0" in journal.verify().why
    with pytest.raises(JournalBroken):
        journal.append("score", {"value": 1})
