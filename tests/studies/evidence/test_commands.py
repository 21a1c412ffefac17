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
    assert "reward terms" in call("audit", runs[0])
    found = json.loads(call("audit", name, "--json"))
    assert found["verdict"] == "valid_improvement"
    assert "A12 same hardware class" in call("audit", name)
    written = json.loads(call("report", "--json"))
    assert "telic study decide" in Path(written["markdown"]).read_text()


def test_a_probe_is_summarized(study, call, tmp_path):
    name, results = study.state.incumbent.candidate, tmp_path / "results.json"
    settings = [{"value": v, "scores": [1 - abs(v - 10) / 10] * 3} for v in (5, 9, 10, 11, 15)]
    results.write_text(json.dumps({"mass": {"nominal": 10, "settings": settings}}))
    found = json.loads(call("audit", name, "--results", str(results), "--json"))
    assert found["parameters"][0]["feasible"] == [9, 11]


def test_a_sample_log_is_checked(study, call, tmp_path):
    log = tmp_path / "metrics.jsonl"
    log.write_text('{"step": 1, "success": 0.5, "fall_rate": 0.1}\n')
    found = json.loads(call("contract", "--sample", str(log), "--json", code=4))["sample"]
    assert "falls" in found["missing"] and "fall_rate" in found["logged"]


def test_what_cannot_be_done_says_why(call, study):
    assert "E_NO_RUN" in call("audit", "r-nothing", code=2)
    assert "c-9999-nobody" in call("audit", "c-9999-nobody", code=2)


def test_no_command_may_start_a_process(study, call, monkeypatch):
    """The guard is on: what a command reaches cannot start anything."""
    from telic.verbs import study_runs

    def tries(*_):
        subprocess.run(["true"], check=True)

    monkeypatch.setattr(study_runs, "write_report", tries)
    result = CliRunner().invoke(app, ["study", "report", "--root", str(study.folder.root)])
    assert result.exit_code == GateRefused.exit_code, result.output
