"""The commands about evidence: what they print, how they end, and that they start nothing."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from telic.cli.main import app
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
