"""telic study run as people and agents type it."""

import json
import time

import pytest
from typer.testing import CliRunner

from telic.cli.main import app
from tests.studies.launch.toy_study import starts

runner = CliRunner()


@pytest.fixture
def study(ledger):
    def call(*words):
        return runner.invoke(app, ["study", "run", *words, "--root", str(ledger.folder.root)])

    return call


def test_a_dry_run_shows_gates_and_command(study, ledger, candidate):
    found = study(candidate)
    assert found.exit_code == 0, found.output
    assert "G24" in found.output and "train.py" in found.output
    assert "nothing was started; every gate is open" in found.output
    assert starts(ledger) == []


def test_a_dry_run_that_would_be_refused_ends_with_3(study, ledger, candidate):
    ledger.folder.stop_file.write_text("")
    found = study(candidate, "--json")
    assert found.exit_code == 3
    shut = [each["id"] for each in json.loads(found.output)["gates"] if not each["passed"]]
    assert shut == ["G01", "G15"]


def test_launch_and_wait(study, ledger, candidate):
    words = ("--execute", "--confirm", "RUN_CANDIDATE", "--wait", "--json")
    found = json.loads(study(candidate, *words).output)
    assert found["status"] == "finished" and starts(ledger) == [(found["nonce"], 1)]
    second = json.loads(study(candidate, *words).output)
    assert second["status"] == "finished" and starts(ledger)[1][1] == 2


@pytest.mark.parametrize(
    "words",
    [("--execute",), ("--confirm", "RUN_CANDIDATE"), ("--execute", "--confirm", "yes")],
)
def test_half_a_confirmation_ends_with_2(study, ledger, candidate, words):
    assert study(candidate, *words).exit_code == 2
    assert starts(ledger) == []


def test_a_shut_gate_ends_with_3_and_its_reason(study, ledger, candidate):
    ledger.folder.stop_file.write_text("")
    found = study(candidate, "--execute", "--confirm", "RUN_CANDIDATE")
    assert found.exit_code == 3 and "G15" in found.output


def test_settle_and_stop(study, ledger, candidate, monkeypatch):
    assert "No run is active" in study("--reconcile").output
    monkeypatch.setenv("TOY_SLEEP", "30")
    words = ("--execute", "--confirm", "RUN_CANDIDATE", "--json")
    run = json.loads(study(candidate, *words).output)["run"]
    assert "alive" in study("--reconcile").output
    assert study("--stop", run, "--because", "enough").exit_code == 0
    while json.loads(study("--reconcile", "--json").output or "[]"):
        time.sleep(0.05)
    assert ledger.state().runs[run].why == "enough"
    assert study("--stop", run).exit_code == 2
    assert "Known" in study("--stop", run, "--stopped-by", "nobody").output


def test_unknown_names_and_missing_seeds_are_explained(study, candidate):
    assert "Closest" in study(candidate[:-1]).output
    assert "No phase named" in study(candidate, "--phase", "smok").output
    assert "Which candidate?" in study().output
