"""A launch from the first look to the settled end."""

import json

import pytest

from telic.studies.errors import GateRefused, StudyError
from telic.studies.launch.launching import launch, look
from telic.studies.launch.request import TOKEN, LaunchRequest
from tests.studies.launch.toy_study import AGENT, starts


def request(candidate, seed=1, **changes):
    return LaunchRequest(candidate, "smoke", seed, execute=True, confirm=TOKEN)._replace(**changes)


def types(ledger):
    return [event.type for event in ledger.events()]


def test_a_look_shows_everything_and_writes_nothing(ledger, candidate):
    before = {p: p.read_bytes() for p in ledger.folder.root.rglob("*") if p.is_file()}
    found = look(ledger, LaunchRequest(candidate, "smoke", 1))
    assert found.is_open and [each.id for each in found.gates if not each.passed] == ["G01"]
    assert found.start.argv[1:2] == ("train.py",) and found.start.argv[3] == "1"
    assert found.start.environment["WANDB_MODE"] == "disabled"
    after = {p: p.read_bytes() for p in ledger.folder.root.rglob("*") if p.is_file()}
    assert {p: c for p, c in after.items() if p.suffix != ".lock"} == {
        p: c for p, c in before.items() if p.suffix != ".lock"
    }


def test_a_launch_runs_once_and_is_settled(ledger, candidate, until_over):
    done = launch(ledger, request(candidate), AGENT)
    state = ledger.state()
    assert state.candidates[candidate].status == "launched"
    assert state.runs[done.run].status == "running" and state.runs[done.run].nonce == done.nonce
    assert state.budget.reserved.wall_clock_h == pytest.approx(5.06 * 0.02 / 5.06)
    state = until_over(ledger)
    run = state.runs[done.run]
    assert run.status == "finished" and run.actual.wall_clock_h < 0.01
    assert state.budget.reserved.launches is None and state.budget.spent.launches == 1
    assert starts(ledger) == [(done.nonce, 1)]
    assert types(ledger)[-5:] == [
        "gate.evaluated",
        "gate.evaluated",
        "launch.intent",
        "launch.started",
        "run.finished",
    ]
    assert ledger.verify().ok


def test_what_is_recorded(ledger, candidate, until_over, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "planted-secret-1")
    monkeypatch.setenv("INNOCENT", "x q7Rk2LpZx9TfW4bN8sVd3HyJ")
    done = launch(ledger, request(candidate), AGENT)
    until_over(ledger)
    names = {each.name for each in done.folder.iterdir()}
    assert names >= {
        "run.json",
        "cmd.json",
        "env.json",
        "git.json",
        "hw.json",
        "stdout.log",
        "stderr.log",
        "heartbeat",
        "pid.json",
        "exit.json",
        "artefacts",
    }
    intent = next(e for e in ledger.events() if e.type == "launch.intent").data
    assert intent["argv"] == json.loads((done.folder / "cmd.json").read_text())["argv"]
    assert set(intent["gates"]) == {f"G{n:02d}" for n in range(1, 25)}
    assert all(intent["gates"].values()) and intent["base_commit"] and intent["tool_version"]
    assert json.loads((done.folder / "run.json").read_text())["status"] == "finished"
    assert json.loads((done.folder / "env.json").read_text())["withheld"] == ["MY_API_KEY"]
    written = b"".join(p.read_bytes() for p in ledger.folder.state_root.rglob("*") if p.is_file())
    assert b"planted-secret-1" not in written and b"q7Rk2LpZx9TfW4bN8sVd3HyJ" not in written


def test_the_last_seed_completes_the_phase(ledger, candidate, until_over):
    for seed in (1, 2, 3):
        launch(ledger, request(candidate, seed), AGENT)
        state = until_over(ledger)
    assert state.candidates[candidate].status == "completed"
    assert sorted(seed for _, seed in starts(ledger)) == [1, 2, 3]


def test_a_shut_gate_is_recorded_and_starts_nothing(ledger, candidate):
    (ledger.folder.stop_file).write_text("")
    with pytest.raises(GateRefused, match="G15 human_stop"):
        launch(ledger, request(candidate), AGENT)
    assert types(ledger)[-2:] == ["gate.evaluated", "launch.refused"]
    assert starts(ledger) == [] and list(ledger.folder.runs.iterdir()) == []


def test_a_stale_expectation_starts_nothing(ledger, candidate):
    with pytest.raises(GateRefused, match="does not start with 0000"):
        launch(ledger, request(candidate, expect="0000"), AGENT)
    assert starts(ledger) == []


@pytest.mark.parametrize(
    ("execute", "confirm"), [(True, None), (True, "YES"), (False, TOKEN), (True, TOKEN.lower())]
)
def test_half_a_confirmation_is_a_mistake_of_usage(ledger, candidate, execute, confirm):
    events = len(ledger.events())
    with pytest.raises(StudyError) as caught:
        launch(ledger, request(candidate, execute=execute, confirm=confirm), AGENT)
    assert caught.value.code == "E_CONFIRM" and caught.value.exit_code == 2
    assert len(ledger.events()) == events


def test_the_same_seed_is_not_launched_twice(ledger, candidate, until_over, monkeypatch):
    monkeypatch.setenv("TOY_SLEEP", "5")
    launch(ledger, request(candidate), AGENT)
    with pytest.raises(GateRefused, match="is this very run"):
        launch(ledger, request(candidate), AGENT)
    assert len(starts(ledger)) <= 1
