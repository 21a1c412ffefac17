"""telic study run as people and agents type it."""

import json
import time

import pytest
from typer.testing import CliRunner

from telic.cli.main import app
from tests.studies.launch.toy_study import starts

runner = CliRunner()


@pytest.fixture
def run(study):
    def call(*words):
        return runner.invoke(app, ["study", "run", *words, "--root", str(study.root)])

    return call


def test_runs_are_launched_and_awaited_until_the_phase_is_complete(run, study, candidate):
    words = ("--confirm", "RUN_CANDIDATE", "--wait", "--json")
    for count in (1, 2, 3):
        found = json.loads(run(candidate, *words).output)
        assert found["status"] == "finished"
        assert starts(study)[count - 1] == (found["launched"]["nonce"], count)
    assert study.state.candidates[candidate].status == "completed"


def test_a_run_is_stopped_and_settled(run, study, candidate, monkeypatch):
    monkeypatch.setenv("TOY_SLEEP", "30")
    found = run(candidate, "--confirm", "RUN_CANDIDATE", "--json")
    name = json.loads(found.output)["launched"]["run"]
    assert run("--stop", name, "--because", "enough").exit_code == 0
    deadline = time.monotonic() + 300
    while study.state.active_runs:
        assert time.monotonic() < deadline, "it did not end"
        assert run().exit_code == 0
        time.sleep(0.05)
    assert study.state.runs[name].why == "enough"
    assert run("--stop", name).exit_code == 2


def test_a_dry_run_that_would_be_refused_ends_with_3(run, study, candidate):
    study.folder.stop_file.write_text("")
    found = run(candidate, "--json")
    assert found.exit_code == 3
    shut = [each["id"] for each in json.loads(found.output)["gates"]["gates"] if not each["passed"]]
    assert shut == ["G01", "G15"]
