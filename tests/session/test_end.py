"""Whoever edits the files of a finished session proves nothing with them."""

import json
import shutil

import pytest

from telic.errors import TelicError
from telic.session import evidence
from telic.session.evidence import NOT_SIGNED_OFF, SIGNED_ELSEWHERE
from telic.session.labels import add_veto
from telic.session.outcome import PASSES
from telic.session.records import SessionSummary, read_summary, state_of
from telic.storage.files import read_json, read_record, write_json
from telic.storage.journal import read_entries
from telic.storage.keys import SigningKey, user_key
from telic.storage.layout import SessionFolder
from telic.verbs.artifacts import show
from tests.session.sessions import add_iteration, bent, end, leaves, make_session
from tests.session.test_labels import member

NAME = "session_20260102_030405_abcd1234"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = make_session(tmp_path_factory.mktemp("runs"), NAME)
    add_iteration(folder, 1, score=0.9, passed=True, members=(member("reward_seed_1", 0.9),))
    recording = folder.iteration(1).episode("reward_seed_1", 0)
    recording.parent.mkdir(parents=True)
    recording.write_bytes(b"an episode")
    facts = {"session": NAME, "intent": "run forward", "env": "HalfCheetah-v5"}
    summary = SessionSummary(
        **facts,
        outcome="passed",
        iterations=1,
        best_iteration=1,
        best_member="reward_seed_1",
        best_step=256,
        score=0.9,
        low=0.85,
        seconds=1.0,
        not_understood=(),
        doubts=(),
    )
    end(folder, summary)
    return folder


@pytest.fixture
def session(original, tmp_path):
    return SessionFolder(shutil.copytree(original.path, tmp_path / "runs" / NAME))


def listed(folder):
    return sorted(read_entries(folder.journal)[-1]["data"]["files"])


def shown(folder):
    page = show(folder.name, runs_dir=folder.path.parent)
    assert page.state == read_summary(folder).outcome
    return page


def test_an_untouched_pass_is_believed_and_rests_on_policy_and_episodes(session):
    assert state_of(session) == "passed"
    assert shown(session).reasons == ()
    names = listed(session)
    assert {"summary.json", "certificate.json", "judge_fn.py", "iter_1/judgment.json"} <= set(names)
    assert "iter_1/judged/reward_seed_1/episode_00.npz" in names
    assert any(name.endswith("policy_256.pt") for name in names)


def test_changing_any_listed_file_by_a_byte_or_removing_it_ends_the_pass(session):
    for name in listed(session):
        path = session.path / name
        content = path.read_bytes()
        for edited in (content + b" ", content[:-1], bytes([content[0] ^ 1]) + content[1:], None):
            path.unlink() if edited is None else path.write_bytes(edited)
            try:
                page = shown(session)
            except TelicError as error:  # a record that is no record any more is refused by name
                assert NAME in str(error)
            else:
                assert page.state == "unproven", name
                assert name in page.reasons[0]
            path.write_bytes(content)
    assert shown(session).state == "passed"


@pytest.mark.parametrize("name", ["summary.json", "certificate.json", "iter_1/judgment.json"])
def test_no_field_of_a_record_can_be_changed_in_a_pass(session, name):
    value = read_json(session.path / name)
    places = list(leaves(value))
    assert places
    for place in places:
        write_json(session.path / name, bent(value, place))
        try:
            assert state_of(session) not in PASSES, place
        except TelicError as error:
            assert name in str(error)


@pytest.mark.parametrize("outcome", ["not_passed", "unproven", "passed_in_part"])
def test_one_word_does_not_make_a_pass(session, outcome):
    ended = read_record(session.summary, SessionSummary).model_copy(update={"outcome": outcome})
    end(session, ended)
    assert state_of(session) == outcome
    write_json(session.summary, {**read_json(session.summary), "outcome": "passed"})
    assert state_of(session) == "unproven"
    assert shown(session).reasons[0] == "summary.json was changed after the session ended"


def test_a_journal_that_is_gone_cut_or_written_without_the_key_proves_nothing(session):
    whole = session.journal.read_bytes()
    for content in (b"", whole[:-1], whole + b"{", whole.replace(b"sig", b"gis")):
        session.journal.write_bytes(content)
        assert state_of(session) == "unproven"
        assert "cannot be checked" in shown(session).reasons[0]
    session.journal.unlink()
    assert shown(session).reasons[0] == NOT_SIGNED_OFF
    lied = read_record(session.summary, SessionSummary).model_copy(update={"score": 1.0})
    for key in (SigningKey(b"somebody else's"), None):
        forge(session, lied, key)
        if key is None:
            assert state_of(session) == "unproven"
            assert "not signed" in shown(session).reasons[0]
        else:
            assert (shown(session).state, shown(session).limits) == ("passed", (SIGNED_ELSEWHERE,))
    good = user_key(session.path.parent)
    forge(session, lied, SigningKey(b"another"))
    text = session.journal.read_text().replace(SigningKey(b"another").id, good.id)
    session.journal.write_text(text)
    assert state_of(session) == "unproven"
    assert "not signed as it was" in shown(session).reasons[0]


def forge(session, summary, key):
    """End a session with another key, or without one."""
    session.journal.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "_signing_key", lambda folder: key)
        end(session, summary)


def test_a_change_before_the_end_of_the_journal_is_noticed(session):
    lines = session.journal.read_bytes().splitlines(keepends=True)
    end(session, read_record(session.summary, SessionSummary))
    assert shown(session).state == "passed"
    added = session.journal.read_bytes().splitlines(keepends=True)[len(lines) :]
    session.journal.write_bytes(lines[0].replace(b"end", b"dne") + b"".join([*lines[1:], *added]))
    assert shown(session).state == "unproven"


def test_a_manifest_of_an_earlier_version_is_still_checked(session):
    (entry,) = read_entries(session.journal)
    files, key = entry["data"]["files"], user_key(session.path.parent)
    signature = key.sign(json.dumps(files, sort_keys=True).encode())
    session.journal.unlink()
    write_json(session.seal, {"files": files, "signature": signature})
    assert (shown(session).state, shown(session).reasons) == ("passed", ())
    for forged in (f"{key.id}:00", None):
        write_json(session.seal, {"files": files, "signature": forged})
        assert shown(session).state == "unproven"
    write_json(session.seal, {"files": files, "signature": signature})
    add_veto(session, "it slides")
    assert "it slides" in shown(session).reasons[0]


def test_a_veto_is_not_undone_by_the_files_of_before(session):
    before = {path: path.read_bytes() for path in (session.summary, session.journal)}
    add_veto(session, "it slides")
    assert shown(session).state == "unproven"
    assert "it slides" in shown(session).reasons[0]
    for path, content in before.items():
        path.write_bytes(content)
    assert state_of(session) == "unproven"
