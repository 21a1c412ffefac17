"""Steering from another terminal: real commands on real folders, clear refusals."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from telic.cli.main import app
from telic.session.budget import SessionAccount
from telic.session.control import (
    CriteriaProposal,
    Note,
    SessionControl,
    SessionStopped,
)
from telic.storage.files import read_json, write_json
from telic.storage.layout import SessionFolder, list_sessions
from telic.storage.locks import RunLock
from telic.storage.resources import Admission
from tests.session.sessions import (
    CRITERIA,
    add_iteration,
    add_run,
    asked,
    begun,
    make_session,
)

NAME = "session_20260102_030405_abcd1234"


def telic(*args: str, folder: Path, check: int | None = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "telic", *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if check is not None:
        assert done.returncode == check, done.stderr + done.stdout
    return done


def answer(*args: str, folder: Path) -> dict:
    return json.loads(telic(*args, "--json", folder=folder).stdout)


def typed(*args: str, folder: Path, check: int = 0) -> Result:
    """Run a command in this process, because imports in new processes would take minutes."""
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, list(args))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == check, done.output
    return done


@pytest.fixture
def session(tmp_path) -> SessionFolder:
    folder = make_session(tmp_path / "runs", NAME)
    add_iteration(folder, 1)
    return folder


@pytest.fixture
def running(session, tmp_path):
    """A session that runs until it is stopped, in a thread."""

    def work():
        account = SessionAccount(session, asked())
        door = Admission(tmp_path / "runtime", cores=[0])
        with RunLock(session.lock, session.name):
            control = SessionControl(session, lambda event: None, lambda: False, account, door)
            try:
                while True:
                    control.safe_point()
                    time.sleep(0.02)
            except SessionStopped:
                write_json(session.summary, {"outcome": "stopped"})

    thread = threading.Thread(target=work)
    thread.start()
    while not session.lock.exists():
        time.sleep(0.01)
    yield session
    session.stop.touch()
    thread.join(240)


def test_a_session_is_paused_resumed_and_stopped_from_outside(running, tmp_path):
    assert answer("pause", folder=tmp_path) == {"session": NAME, "status": "paused"}
    assert json.loads(typed("list", "--json", folder=tmp_path).stdout)[0]["state"] == "paused"
    assert answer("resume", NAME, folder=tmp_path)["status"] == "running"
    assert not running.pause.exists()
    assert answer("stop", "2026", folder=tmp_path) == {"session": NAME, "status": "stopped"}
    page = typed("list", folder=tmp_path).stdout
    assert "run forward" in page and "stopped" in page


def test_a_note_is_kept_with_its_author(session, tmp_path):
    typed("note", "less bouncing please", folder=tmp_path)
    typed("note", "and faster", "--session", "20260102", folder=tmp_path)
    first, second = Note.read(session.notes)
    assert (first.text, second.text) == ("less bouncing please", "and faster") and first.author


def test_criteria_are_approved_with_a_persons_edit(session, tmp_path):
    write_json(session.config, asked(model="host"))
    proposal = CriteriaProposal(time="now", criteria=CRITERIA)
    begun(session).step(session.criteria, CriteriaProposal, lambda: proposal)
    shown = read_json(session.criteria)
    shown["criteria"][0]["goal"] = 2.5
    (tmp_path / "mine.json").write_text(json.dumps(shown))
    done = json.loads(typed("approve", "--criteria", "mine.json", "--json", folder=tmp_path).stdout)
    assert done["edited"] and done["criteria"][0]["goal"] == 2.5
    assert read_json(session.approval)["criteria"][0]["goal"] == 2.5


def test_branch_is_created_next_to_its_origin(session, tmp_path):
    words = ["branch", "--iteration", "1", "--note", "slower", "--json"]
    made = json.loads(typed(*words, folder=tmp_path).stdout)
    assert made["origin"] == NAME
    branch = next(each for each in list_sessions(tmp_path / "runs") if each.name != NAME)
    assert branch.name == made["session"] and Note.read(branch.notes)[0].text == "slower"
    page = typed("branch", NAME, "--iteration", "1", folder=tmp_path).stdout
    assert "telic resume session_" in page


REFUSALS = [
    (["stop", "session_20260102_030405_abcd1235"], 2, NAME),
    (["stop"], 2, "is not running. Its state is"),
    (["pause"], 2, "is not running. Its state is interrupted"),
    (["pause", "run_1"], 2, 'No session named "run_1"'),
    (["note", " "], 2, "empty"),
    (["approve"], 2, "nothing to approve"),
    (["approve", "--criteria", "none.json"], 2, "none.json"),
    (["branch", "--iteration", "7"], 2, "Available: 1"),
    (["branch"], 2, "--iteration"),
    (["resume", NAME, "--max-hours", "-1"], 2, "max_hours"),
    (["list", "--runs-dir", "nowhere"], 0, ""),
    (["note", "x", "--runs-dir", "nowhere"], 2, "found in"),
]


@pytest.mark.parametrize(("args", "code", "says"), REFUSALS, ids=lambda value: str(value)[:40])
def test_bad_input_gets_one_clear_paragraph(session, tmp_path, args, code, says):
    add_run(tmp_path / "runs" / "run_1", steps=10)
    done = typed(*args, folder=tmp_path, check=code)
    assert says in done.stderr, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert not session.stop.exists() and not session.pause.exists()


@pytest.mark.long
def test_a_running_session_is_not_resumed_and_keeps_its_limits(running, tmp_path):
    assert "is already running" in telic("resume", folder=tmp_path, check=2).stderr
    telic("pause", folder=tmp_path)
    refused = telic("resume", "--max-hours", "2", folder=tmp_path, check=2)
    assert f"telic stop {NAME}" in refused.stderr
