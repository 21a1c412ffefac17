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
        assert json.loads(call("analyze", run, "--json"))["kind"] == "metrics"
    assert "low" in call("reflect", runs[0])
    assert json.loads(call("monitor", runs[0], "--json"))[0]["recommendation"] == "continue"
    found = json.loads(call("audit-result", name, "--json"))
    assert found["verdict"] == "valid_improvement"
    assert "A12 same hardware class" in call("audit-result", name)
    written = json.loads(call("report", "--json"))
    assert "telic study decide" in Path(written["markdown"]).read_text()


def test_a_probe_is_planned_and_summed_up(study, call, tmp_path):
    name = study.state.incumbent.candidate
    policy = tmp_path / "policy.pt"
    policy.write_bytes(b"weights")
    words = ["dr-plan", name, "--checkpoint", str(policy), "--seeds", "901-903"]
    plan = json.loads(call(*words, "--parameter", "mass=10:5..15", "--json"))
    assert plan["evaluations"] == 21 and plan["parameters"][0]["grid"][0] == 5
    scores = [
        {"value": v, "scores": [1 - abs(v - 10) / 10] * 3} for v in plan["parameters"][0]["grid"]
    ]
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"mass": scores}))
    found = json.loads(call("dr-summary", name, str(results), "--json"))
    low, high = found["parameters"][0]["suggested_range"]
    assert (low, high) == pytest.approx((8, 12), abs=0.01)
    results.write_text('["nothing"]')
    assert "E_PROBE_RESULTS" in call("dr-summary", name, str(results), code=4)
    assert "E_PROBE_PARAMETER" in call(*words, "--parameter", "mass=heavy", code=2)
    assert "at least 3" in call(*words[:-1], "901", "--parameter", "mass=10:5..15", code=4)


def test_a_sample_log_is_checked(study, call, tmp_path):
    log = tmp_path / "metrics.jsonl"
    log.write_text('{"step": 1, "success": 0.5, "fall_rate": 0.1}\n')
    told = json.loads(call("metrics", str(log), "--json", code=4))
    assert "falls" in told["missing"] and "fall_rate" in told["logged"]


def test_what_cannot_be_done_says_why(call, study):
    assert "E_NO_RUN" in call("analyze", "r-nothing", code=2)
    assert "E_NO_CANDIDATE" in call("audit-result", "c-9999-nobody", code=2)
    assert "Nothing is running" in call("monitor")


def test_no_command_may_start_a_process(study, call, monkeypatch):
    """The guard is on: what a command reaches cannot start anything."""
    from telic.studies import report

    def tries(*_):
        subprocess.run(["true"], check=True)

    monkeypatch.setattr(report, "write_report", tries)
    result = CliRunner().invoke(app, ["study", "report", "--root", str(study.folder.root)])
    assert result.exit_code == GateRefused.exit_code, result.output
