"""A new session from an iteration of another one."""

import os

import pytest

from telic.authors.candidate import RewardCandidate
from telic.errors import BadFile, Refused, UsageError
from telic.session import branch as branches
from telic.session.branch import branch_session, inherited, origin_of
from telic.session.control import Note, SessionControl
from telic.storage.files import read_json, read_record, write_json
from telic.storage.layout import RunFolder, list_sessions
from tests.session.sessions import add_iteration, begun, make_session


def notes_of(folder, number):
    return SessionControl(folder, lambda event: None, lambda: False, None).notes(number)


@pytest.fixture
def origin(tmp_path):
    folder = make_session(tmp_path)
    add_iteration(folder, 1, score=0.3)
    add_iteration(folder, 2, score=0.7)
    notes_of(folder, 2)
    journal = begun(folder)
    for path in journal.paths():
        journal.adopt(path)
    return folder


def test_a_branch_holds_all_it_starts_from(origin):
    made = branch_session(origin, 2, note="less bouncing")
    assert made in list_sessions(origin.path.parent)
    assert read_json(made.author) == read_json(origin.author)
    assert made.judge.read_text() == origin.judge.read_text()
    (start,) = inherited(made)
    assert start.number == 0 and start.parent is None and start.score == 0.7
    candidate = read_record(made.iteration(0).candidate, RewardCandidate)
    assert candidate.change == f"from iteration 2 of {origin.name}"
    assert candidate.reward == read_record(origin.iteration(2).candidate, RewardCandidate).reward
    (member,) = RunFolder(made.iteration(0).path / "train").members()
    assert member.checkpoints(), "its policy can still be played and exported"
    assert not list(made.path.rglob("state.pt"))
    came_from = origin_of(made)
    assert (came_from.session, came_from.iteration) == (origin.name, 2)
    (note,) = notes_of(made, 1)
    assert note.text == "less bouncing"


def test_the_origin_is_untouched_and_not_needed(origin):
    before = {each: each.read_bytes() for each in origin.path.rglob("*") if each.is_file()}
    made = branch_session(origin, 1)
    after = {each: each.read_bytes() for each in origin.path.rglob("*") if each.is_file()}
    assert before == after and Note.read(made.notes) == []
    assert origin_of(origin) is None and inherited(origin) == []


def test_a_request_that_was_edited_is_not_branched(origin):
    write_json(origin.config, {**read_json(origin.config), "threshold": 0.1})
    with pytest.raises(Refused, match=r"is not the request that started"):
        branch_session(origin, 1)


def test_an_iteration_that_was_not_judged_is_refused(origin):
    origin.iteration(3).path.mkdir()
    with pytest.raises(UsageError, match=r"no judged iteration 3\. Available: 1, 2\."):
        branch_session(origin, 3)
    assert list_sessions(origin.path.parent) == [origin]


def test_interrupted_copy_is_not_a_session(origin, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(branches.shutil, "copytree", full)
    with pytest.raises(OSError, match="No space"):
        branch_session(origin, 1)
    assert list(origin.path.parent.iterdir()) == [origin.path]


@pytest.mark.parametrize("whose", ["own", "foreign"])
def test_a_branch_makes_only_own_records_its_own(origin, monkeypatch, tmp_path_factory, whose):
    if whose == "foreign":
        monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path_factory.mktemp("ours")))
    made = branch_session(origin, 2)
    records = begun(made)
    records.begin()
    doubts = [each for each in records.doubts() if "was not written by this session" in each]
    assert bool(doubts) == (whose == "foreign"), doubts
    (start,) = inherited(made)
    assert start.score == (0.7 if whose == "own" else None)


def test_a_pipe_in_an_iteration_is_not_copied(origin):
    os.mkfifo(origin.iteration(1).path / "pipe")
    with pytest.raises(BadFile, match=r"cannot be copied: .* is a named pipe"):
        branch_session(origin, 1)
    assert list_sessions(origin.path.parent) == [origin]
