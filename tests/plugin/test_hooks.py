"""The hooks as hosts call them: JSON in, JSON out, at once, and never in the way by mistake."""

import json
import resource
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from telic.errors import TelicError
from telic.plugin.hooks import answer, at_stop
from telic.studies.administration import pause_study
from telic.studies.approvals import Consent, reject
from telic.studies.canonical import utc_now
from tests.studies.launch.toy_study import (
    AGENT,
    change_contract,
    make_baseline,
    make_candidate,
    make_study,
)

ALONE = {"automation": {"autoloop": True, "launch": "pre_approved"}}


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    """A study whose loop is approved and whose next job is ready."""
    home = tmp_path_factory.mktemp("loop")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(home / "config"))
        study = make_study(home / "repo")
        change_contract(study, ALONE)
        make_baseline(study)
        yield study


def test_who_stops_while_a_job_is_ready_is_reminded_once(loop):
    event = {"cwd": str(loop.folder.root)}
    reminder = at_stop(event)
    assert reminder["decision"] == "block"
    assert "--confirm RUN_CANDIDATE" in reminder["reason"]
    assert at_stop({**event, "stop_hook_active": True}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"automation": {"autoloop": False}},
        {"approvals": {}},
        {"approvals": {"autonomy": {"status": "void"}}},
        {"study_status": "paused"},
        {"fired_stops": [{"rule": "budget_exhausted"}]},
    ],
    ids=["no loop", "not asked", "void", "paused", "stopped"],
)
def test_nobody_is_reminded_of_what_a_person_did_not_allow(loop, change):
    path = loop.folder.state
    held = path.read_text()
    path.write_text(json.dumps({**json.loads(held), **change}))
    try:
        assert at_stop({"cwd": str(loop.folder.root)}) is None
    finally:
        path.write_text(held)


def test_where_a_person_has_to_act_stopping_is_right(tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    study = make_study(tmp_path / "repo")
    change_contract(study, ALONE)
    event = {"cwd": str(study.folder.root)}
    assert "propose" in at_stop(event)["reason"]
    _unapproved(study)
    assert at_stop(event) is None
    pause_study(study, AGENT, "enough")
    assert at_stop(event) is None


def _unapproved(study):
    plan = {"est": {"wall_clock_h": 1}}
    name = make_candidate(study, kind="baseline", plan=plan, approved=False)
    consent = Consent(by="ada", method="tty", at=utc_now())
    reject(study, "experiment", consent, candidate=name)
    return name


def test_without_a_study_stopping_is_free(tmp_path):
    assert at_stop({"cwd": str(tmp_path)}) is None


def test_an_event_that_is_no_object_is_not_taken_for_a_denial():
    for text in ("", "[]", "no"):
        with pytest.raises(TelicError) as error:
            answer("at-stop", text)
        assert error.value.exit_code == 1


def run_hook(event: dict, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "telic", "plugin", "hook", *words]
    return subprocess.run(
        line, input=json.dumps(event), capture_output=True, text=True, check=False
    )


def test_hooks_answer_in_a_process_of_their_own(repository):
    event = {"cwd": str(repository), "tool_input": {"command": "python scripts/train.py"}}
    done = run_hook(event, "before-shell")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert run_hook({"cwd": str(repository)}, "at-stop").stdout == ""


def test_the_usual_command_is_let_through_at_once(repository):
    event = {"cwd": str(repository), "tool_input": {"command": "git status && ls -la src"}}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run_hook(event, "before-shell")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stdout) == (0, "")
    # processor time: a busy machine may not fail this
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < 0.3


def test_hooks_load_nothing_heavy(repository):
    code = (
        "import sys; from telic.plugin.hooks import refusal; from pathlib import Path\n"
        f"assert refusal('ls && make lint', Path({str(repository)!r})) is None\n"
        "print([m for m in ('typer', 'rich', 'pydantic', 'ruamel', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_full_command_line_knows_the_hooks_too(repository):
    from telic.cli.main import app

    event = {"cwd": str(repository), "tool_input": {"command": "python scripts/train.py"}}
    words = ["plugin", "hook", "before-shell"]
    done = CliRunner().invoke(app, words, input=json.dumps(event))
    assert json.loads(done.output)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert CliRunner().invoke(app, words, input="no").exit_code == 1


@pytest.mark.slow
def test_build_and_validate_say_what_they_found(tmp_path):
    from telic.cli.main import app

    def run(*words):
        return CliRunner().invoke(app, ["plugin", *words, "--root", str(tmp_path), "--json"])

    assert run("build", "--check").exit_code == 4
    assert len(json.loads(run("build").output)["changed"]) == 17
    assert json.loads(run("build", "--check").output)["problems"] == []
