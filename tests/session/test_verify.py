"""A pass can be verified by anybody: on another machine, without secrets, from what was sent."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from telic.cli.main import app
from telic.session.report import rewrite_report
from telic.storage.files import write_json
from telic.storage.keys import key_file, sign_text, signed_text, user_key
from telic.verbs.labels import veto
from tests.session.test_end import make_pass


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    return make_pass(tmp_path / "runs")


def verify(path):
    done = CliRunner().invoke(app, ["verify", str(path), "--json"])
    assert done.exit_code in (0, 5), done.output
    return json.loads(done.stdout)


def test_a_session_is_passed_here_and_claimed_elsewhere(session, tmp_path, monkeypatch):
    author = user_key().public
    found = verify(session.path)
    assert (found["state"], found["ok"], found["signed_by"]) == ("passed", True, author)
    monkeypatch.chdir(tmp_path)
    assert all(verify(name)["state"] == "passed" for name in ("latest", session.name))
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "elsewhere"))
    found = verify(session.path)
    assert (found["state"], found["ok"], found["signed_by"]) == ("claimed", True, author)
    session.judge.write_text("def judge(episode): return []\n# eased\n")
    assert verify(session.path)["state"] == "unproven"


def test_an_own_key_that_others_may_read_is_named_as_the_reason(session, tmp_path):
    key_file().chmod(0o644)
    found = verify(session.path)
    assert found["state"] == "claimed" and "your signing key cannot be used" in found["reasons"][0]


def test_a_signed_text_is_checked_to_the_last_byte(session, tmp_path, monkeypatch):
    page = tmp_path / "report.html"
    text = sign_text("<p>passed</p>\n", session="s", outcome="passed")
    page.write_text(text)
    assert verify(page)["state"] == "passed"
    for place in range(0, len(text) - 1, 7):
        flipped = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
        claims, signer = signed_text(flipped)
        assert signer is None or claims == {}, place
    for changed in (text + "x", text.replace("passed</p>", "passed it all</p>"), "<p>passed</p>"):
        page.write_text(changed)
        assert verify(page)["state"] == "unproven"
    page.write_text(text)
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "elsewhere"))
    assert verify(page)["state"] == "claimed"


def test_a_report_of_a_pass_that_was_vetoed_since_is_outdated(session, tmp_path, monkeypatch):
    text = sign_text("<p>passed</p>\n", session=session.path.name, outcome="passed")
    inside, outside = session.path / "report.html", tmp_path / "report.html"
    inside.write_text(text)
    outside.write_text(text)
    monkeypatch.chdir(tmp_path)
    assert verify(inside)["state"] == verify(outside)["state"] == "passed"
    session.vetoes.write_text("{}\n")
    for page in (inside, outside):
        found = verify(page)
        assert (found["state"], found["ok"]) == ("unproven", False)
        assert "vetoed" in found["reasons"][0], "as the session itself says"
    monkeypatch.chdir("/")
    assert verify(outside)["state"] == "passed", "what was signed is all that is known here"


def test_a_veto_does_not_sign_pictures_that_were_changed(session):
    session.report_dir.mkdir(exist_ok=True)
    for name in ("median.mp4", "strip_p10.png"):
        (session.report_dir / name).write_bytes(b"a robot that runs")
    rewrite_report(session, redraws=False)
    (session.report_dir / "median.mp4").write_bytes(b"another robot")
    veto(session=session.name, why="it slides", runs_dir=session.path.parent)
    (reason,) = verify(session.page)["reasons"]
    assert "report/median.mp4" in reason


def test_a_bundle_without_a_policy_claims_nothing(session, tmp_path):
    listed = {"files": {}, "outcome": "passed", "session": "elsewhere"}
    signature = user_key().sign(json.dumps(listed, sort_keys=True).encode())
    (tmp_path / "bundle").mkdir()
    write_json(tmp_path / "bundle" / "bundle.json", {**listed, "signature": signature})
    found = verify(tmp_path / "bundle")
    assert (found["state"], found["ok"]) == ("unproven", False)


def test_a_picture_or_video_of_a_report_that_was_changed_is_named(session, tmp_path):
    for name in ("median.mp4", "strip_p10.png"):
        (session.report_dir / name).parent.mkdir(exist_ok=True)
        (session.report_dir / name).write_bytes(b"a robot that runs")
    rewrite_report(session, redraws=False)
    assert (
        verify(session.path)["ok"] and verify(session.page)["ok"] and verify(session.report)["ok"]
    )
    signed = session.page.read_text()
    video = session.report_dir / "median.mp4"
    video.write_bytes(b"another robot")
    for path in (session.path, session.page, session.report):
        found = verify(path)
        assert not found["ok"] and "report/median.mp4 is not a file" in found["reasons"][-1]
    assert verify(session.path)["state"] == "passed", "the verdict does not depend on pictures"
    video.write_bytes(b"a robot that runs")
    assert verify(session.path)["ok"]
    (session.report_dir / "strip_p90.png").write_bytes(b"one more")
    assert not verify(session.path)["ok"]
    (session.report_dir / "strip_p90.png").unlink()
    for page in (signed.replace("telic", "Telic", 1), sign_text("", session="other", files={})):
        session.page.write_text(page)
        assert not verify(session.path)["ok"], "the list itself must be signed for this session"


def test_a_key_that_others_can_read_signs_nothing(session, tmp_path):
    os.chmod(tmp_path / "config" / "signing.key", 0o640)
    assert sign_text("a", outcome="passed") == "a"
    assert verify(session.path)["state"] == "claimed"


def test_the_command_itself_verifies_a_report(tmp_path, monkeypatch):
    """In a process of its own: what it imports while it forbids frameworks counts, too."""
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    user_key()
    page = tmp_path / "report.md"
    page.write_text(sign_text("# Report\n", outcome="passed"))
    command = [sys.executable, "-m", "telic", "verify", str(page), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert json.loads(done.stdout)["ok"], done.stderr
