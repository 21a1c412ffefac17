"""The hooks as hosts call them: JSON in, JSON out, at once, and never in the way by mistake."""

import json
import resource
import subprocess
import sys

import pytest
from typer.testing import CliRunner


def run_hook(event: dict, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "telic", "plugin", "hook", *words]
    return subprocess.run(
        line, input=json.dumps(event), capture_output=True, text=True, check=False
    )


def test_hooks_answer_in_a_process_of_their_own(repository):
    event = {"cwd": str(repository), "tool_input": {"command": "rm .telic/ledger.jsonl"}}
    done = run_hook(event, "before-shell")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_the_usual_command_is_let_through_at_once(repository):
    event = {"cwd": str(repository), "tool_input": {"command": "git status && ls -la src"}}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run_hook(event, "before-shell")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stdout) == (0, "")
    # processor time: a busy machine may not fail this
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < 0.3


def test_hooks_load_nothing_heavy():
    code = (
        "import sys; from telic.plugin.hooks import written_record\n"
        "assert written_record('ls && make lint') is None\n"
        "print([m for m in ('typer', 'rich', 'pydantic', 'ruamel', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_build_and_validate_say_what_they_found(tmp_path):
    from telic.cli.main import app

    def run(*words):
        return CliRunner().invoke(app, ["plugin", *words, "--root", str(tmp_path), "--json"])

    assert run("--check").exit_code == 4
    assert len(json.loads(run().output)["changed"]) == 17
    assert json.loads(run("--check").output)["stale"] == []
