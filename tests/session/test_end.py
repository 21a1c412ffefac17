"""Files of a finished session that were edited, replaced or signed by others prove nothing."""

import json
import os
import shutil
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from telic.cli.main import app
from telic.errors import TelicError
from telic.session.evidence import NOT_SIGNED_OFF
from telic.session.labels import add_veto
from telic.session.records import ONE_SEED, PASSES, SessionSummary, session_state, verified
from telic.session.report import policy_proof, rewrite_report
from telic.storage.files import read_json, read_json_lines, read_record, write_json
from telic.storage.journal import Journal
from telic.storage.keys import key_file, sign_text, user_key
from telic.storage.layout import SessionFolder
from telic.verbs.artifacts import list_artifacts, show
from telic.verbs.compare import compare
from telic.verbs.study_runs import verify
from telic.web._place import WebPlace
from tests.session.conftest import asking, home  # noqa: F401
from tests.session.quick import PASSING
from tests.session.sessions import add_iteration, bent, end, leaves, make_session, summary_of
from tests.session.test_labels import member

NAME = "session_20260102_030405_abcd1234"


def make_pass(runs, name=NAME, **config):
    folder = make_session(runs, name, **config)
    add_iteration(folder, 1, score=0.9, passed=True, members=(member("reward_seed_1", 0.9),))
    recording = folder.iteration(1).episode("reward_seed_1", 0)
    recording.parent.mkdir(parents=True)
    recording.write_bytes(b"an episode")
    end(folder, summary_of(folder, best_step=256))
    return folder


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))


@pytest.fixture
def session(config, tmp_path):
    return make_pass(tmp_path / "runs")


def listed(folder):
    return sorted([row["entry"] for row in read_json_lines(folder.journal)][-1]["data"]["files"])


def shown(folder):
    """Return the page of a session, after checking that every other reader agrees with it."""
    page = SimpleNamespace(**show(folder.name, runs_dir=folder.path.parent))
    assert page.state == verified(folder).outcome == session_state(folder)
    lines = list_artifacts(runs_dir=folder.path.parent).data
    assert [line.state for line in lines] == [page.state]
    return page


def test_rewards_that_this_user_did_not_judge_are_shown_without_scores(asking, tmp_path):  # noqa: F811
    """A forged file may also claim the number of another iteration."""
    session, _ = asking.run(PASSING)
    folder = SessionFolder(session.path)
    judged = read_json(folder.iteration(1).judgment)
    write_json(folder.iteration(2).judgment, {**judged, "score": 1.0, "passed": True})
    own, forged = show(folder.name, runs_dir=asking.runs_dir)["rewards_tried"]
    assert own["score"] == judged["score"] and own["reached_threshold"]
    assert forged == {"number": 2, "failure": "not signed by this user"}


def test_every_view_of_a_pass_names_its_qualifications(config, tmp_path, monkeypatch):
    """A pass of one seed, or one that a second reading doubts, must not look like any other."""
    folder = make_pass(tmp_path / "runs")
    end(folder, summary_of(folder, best_step=256, limits=(ONE_SEED,)))
    rewrite_report(folder, redraws=False)
    runs = {"runs_dir": folder.path.parent}
    views = {
        "list": CliRunner().invoke(app, ["list", "--runs-dir", str(folder.path.parent)]).output,
        "show": shown(folder).limits,
        "compare": compare(folder.name, folder.name, **runs).data,
        "the page": folder.page.read_text(),
        "the model card": policy_proof(folder).limits,
        "the dashboard": WebPlace(folder.path.parent, tmp_path).listed()[folder.name].line.limits,
        **{f"verify {path.name}": verify(path) for path in (folder.path, folder.page)},
    }
    for view, content in views.items():
        assert ONE_SEED in " ".join(str(content).split()), view
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "elsewhere"))
    assert verify(folder.page).state == "claimed" and ONE_SEED in verify(folder.page).reasons
    assert user_key()
    foreign = tmp_path / "report.html"
    foreign.write_text(sign_text("<p>passed</p>", session="s", outcome="passed", limits=5))
    assert verify(foreign).state == "passed", "limits that are not a list are ignored"


@pytest.mark.parametrize("listed", ["sparse", "/proc/self/mem", "/dev/zero", "pipe"])
def test_a_journal_cannot_keep_its_readers_busy(session, listed, tmp_path, monkeypatch):
    """Sign it with another key, and list files that cannot be read."""
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "theirs"))
    with (session.path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    os.mkfifo(session.path / "pipe")
    last = [row["entry"] for row in read_json_lines(session.journal)][-1]["data"]
    session.journal.unlink()
    asked = read_json(session.config)
    journal = Journal(session.journal, f"session: {asked['intent']} ({asked['env']})", user_key())
    journal.append("end", {**last, "files": {**last["files"], listed: "0" * 64}})
    assert shown(session).state == "unproven"


def test_an_untouched_pass_is_believed_and_rests_on_policy_and_episodes(session):
    assert (shown(session).state, shown(session).reasons) == ("passed", ())
    names = listed(session)
    assert {"summary.json", "certificate.json", "judge_fn.py", "iter_1/judgment.json"} <= set(names)
    assert {"session.json", "author.json", "iter_1/judged/reward_seed_1/episode_00.npz"} <= set(
        names
    )
    assert any(name.endswith("policy_256.pt") for name in names)


def test_changing_any_listed_file_by_a_byte_or_removing_it_ends_the_pass(session):
    for name in listed(session):
        path = session.path / name
        content = path.read_bytes()
        for edited in (content + b" ", bytes([content[0] ^ 1]) + content[1:], None):
            path.unlink() if edited is None else path.write_bytes(edited)
            try:
                state = session_state(session)
            except TelicError as error:  # a record that cannot be read is refused by name
                assert NAME in str(error)
            else:
                assert state == (
                    "interrupted" if edited is None and path == session.summary else "unproven"
                )
                assert state == "interrupted" or name in verified(session).reasons[0]
            path.write_bytes(content)
    assert shown(session).state == "passed"


def test_the_robot_file_and_its_assets_are_part_of_the_evidence(config, tmp_path):
    mesh = tmp_path / "box.obj"
    corners = [f"v {x} {y} {z}" for x in (0, 1) for y in (0, 1) for z in (0, 1)]
    faces = ["f 1 3 2", "f 1 2 5", "f 1 5 3", "f 8 2 4"]
    mesh.write_text("\n".join(corners + faces))
    robot = tmp_path / "robot.xml"
    asset = '<asset><mesh name="box" file="box.obj"/></asset>'
    robot.write_text(f'<mujoco><option gravity="0 0 -9.81"/>{asset}<worldbody/></mujoco>')
    session = make_pass(tmp_path / "runs", env=str(robot))
    assert shown(session).state == "passed"
    for path in (robot, mesh):
        content = path.read_bytes()
        path.write_bytes(content.replace(b"-9.81", b"+9.81") + b" ")
        assert shown(session).state == "unproven" and path.name in shown(session).reasons[0]
        path.write_bytes(content)
    assert shown(session).state == "passed"
    robot.unlink()
    assert shown(session).state == "unproven"


@pytest.mark.parametrize("outcome", ["not_passed", "unproven", "passed_in_part"])
def test_one_word_does_not_make_a_pass(session, outcome):
    ended = read_record(session.summary, SessionSummary).model_copy(update={"outcome": outcome})
    end(session, ended)
    assert session_state(session) == outcome
    write_json(session.summary, {**read_json(session.summary), "score": 1.0})
    assert verified(session).score is None
    write_json(session.summary, {**read_json(session.summary), "outcome": "passed"})
    assert shown(session).state == "unproven"
    assert shown(session).reasons[0] == "summary.json was modified after the session ended"


def test_a_journal_that_is_gone_or_edited_proves_nothing(session):
    whole = session.journal.read_bytes()
    for content in (b"", whole[:-1], whole + b"{", whole.replace(b"sig", b"gis")):
        session.journal.write_bytes(content)
        assert shown(session).state == "unproven"
    session.journal.unlink()
    assert shown(session).reasons[0] == NOT_SIGNED_OFF


def signatures():
    own = user_key().public
    yield "none", lambda line: {**line, "sig": None}
    yield "an earlier version's", lambda line: {**line, "sig": f"{own[:12]}:{'0' * 64}"}
    yield "not hex", lambda line: {**line, "sig": "ed25519:x:y"}
    yield "zeros", lambda line: {**line, "sig": f"ed25519:{own}:{'0' * 128}"}
    yield "another key named", lambda line: {**line, "sig": line["sig"].replace(own, "11" * 32)}


def test_no_invented_signature_reads_as_passed(session):
    lines = [json.loads(line) for line in session.journal.read_text().splitlines()]
    for name, forge in signatures():
        text = [
            json.dumps(forge(line), separators=(",", ":"), ensure_ascii=False) for line in lines
        ]
        session.journal.write_text("\n".join(text) + "\n")
        assert shown(session).state in ("claimed", "unproven"), name
    # Without a key, or with one that others can read, a pass is a claim.
    session.journal.write_text(
        "".join(json.dumps(x, separators=(",", ":"), ensure_ascii=False) + "\n" for x in lines)
    )
    assert shown(session).state == "passed"
    os.chmod(key_file(), 0o644)
    assert shown(session).state == "claimed"
    os.chmod(key_file(), 0o600)
    shutil.move(key_file(), key_file().with_name("kept"))
    assert shown(session).state == "claimed"
    user_key()  # a new one
    page = shown(session)
    assert page.state == "claimed" and "not your own" in page.reasons[0]


def test_a_pass_signed_by_another_user_is_a_claim(config, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "theirs"))
        session = make_pass(tmp_path / "runs")
    user_key()
    assert shown(session).state == "claimed"
    (session.path / "judge_fn.py").write_text("def judge(episode): return [1]")
    assert shown(session).state == "unproven"


def test_a_pass_does_not_move_to_a_folder_of_another_name(session):
    other = session.path.with_name("session_20260101_000000_00000000")
    shutil.copytree(session.path, other)
    assert session_state(SessionFolder(other)) == "unproven"
    assert NAME in verified(SessionFolder(other)).reasons[0]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_veto_is_not_undone_by_putting_back_all_files_of_before(session, tmp_path, elsewhere):
    before = shutil.copytree(session.path, tmp_path / "kept" / "runs" / NAME)
    add_veto(session, "it slides")
    assert shown(session).state == "unproven" and "it slides" in shown(session).reasons[0]
    if elsewhere:
        session = SessionFolder(before)
    else:
        shutil.rmtree(session.path)
        shutil.copytree(before, session.path)
    assert shown(session).state == "unproven"
    assert "2 lines were written, but only 1 are left" in shown(session).reasons[0]


def test_a_veto_counts_for_a_session_of_another_user(config, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "theirs"))
        session = make_pass(tmp_path / "runs")
    add_veto(session, "it slides")
    assert shown(session).state == "unproven"


@pytest.mark.parametrize("name", ["summary.json", "certificate.json", "iter_1/judgment.json"])
def test_no_field_of_a_record_can_be_changed_in_a_pass(session, name):
    value = read_json(session.path / name)
    places = list(leaves(value))
    assert places
    for place in places:
        write_json(session.path / name, bent(value, place))
        try:
            assert session_state(session) not in PASSES, place
        except TelicError as error:
            assert name in str(error)


def test_a_list_shows_no_score_of_a_session_that_another_key_ended(config, tmp_path, monkeypatch):
    folder = make_session(tmp_path / "runs", NAME)
    add_iteration(folder, 1, score=0.7, members=(member("reward_seed_1", 0.7),))
    end(folder, summary_of(folder, outcome="not_passed", score=0.7))

    def score():
        return list_artifacts(runs_dir=folder.path.parent).data[0].score

    assert score() == 0.7
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "elsewhere"))
    user_key()
    assert score() is None
