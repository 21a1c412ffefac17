"""The commands about evidence: what they print, how they end, and that they start nothing."""

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from telic.cli.main import app
from telic.studies.errors import GateRefused
from tests.studies.evidence.claimed_study import BETTER, promoted


@pytest.fixture
def call(study, monkeypatch):
    monkeypatch.setenv("TELIC_ACTOR", "agent:tester")

    def run(*words, code=0):
        result = CliRunner().invoke(app, ["study", *words, "--root", str(study.folder.root)])
        assert result.exit_code == code, result.output
        return result.output

    return run


def test_from_a_finished_run_to_a_report(study, call):
    name, runs = promoted(study, "more weight", BETTER)
    for run in runs:
        found = json.loads(call("audit", run, "--json"))
        assert found["primary"] is not None
    assert found["reflection"]["hacking"]["level"] == "low"
    assert "hacking" in call("audit", runs[0])
    found = json.loads(call("audit", name, "--json"))
    assert found["verdict"] == "valid_improvement"
    assert "same hardware class" in call("audit", name)
    written = json.loads(call("report", "--json"))
    assert "telic study decide" in Path(written["markdown"]).read_text()


def test_no_command_may_start_a_process(study, call, monkeypatch):
    """The guard is on: what a command reaches cannot start anything."""
    from telic.verbs import study_runs

    def tries(*_):
        subprocess.run(["true"], check=True)

    monkeypatch.setattr(study_runs, "write_study_report", tries)
    result = CliRunner().invoke(app, ["study", "report", "--root", str(study.folder.root)])
    assert result.exit_code == GateRefused.exit_code, result.output
