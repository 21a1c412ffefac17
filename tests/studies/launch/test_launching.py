"""A launch from the first look to the settled end."""

import json

import pytest

from telic.studies.errors import GateRefused
from telic.studies.launch.attempt import TOKEN, LaunchRequest
from telic.studies.launch.launch import launch, look
from telic.studies.rules.gates import GATES
from tests.studies.launch.toy_study import AGENT, starts


def request(candidate, seed=1, **changes):
    return LaunchRequest(candidate, "smoke", seed, confirm=TOKEN)._replace(**changes)


def types(study):
    return [event.kind for event in study.events]


def test_a_look_shows_everything_and_writes_nothing(study, candidate):
    before = {p: p.read_bytes() for p in study.folder.root.rglob("*") if p.is_file()}
    found = look(study, LaunchRequest(candidate, "smoke", 1))
    assert found.is_open and [each.id for each in found.gates if not each.passed] == ["G01"]
    assert found.start["argv"][1] == "train.py" and found.start["argv"][3] == "1"
    assert found.start["environment"]["WANDB_MODE"] == "disabled"
    after = {p: p.read_bytes() for p in study.folder.root.rglob("*") if p.is_file()}
    assert {p: c for p, c in after.items() if p.suffix != ".lock"} == {
        p: c for p, c in before.items() if p.suffix != ".lock"
    }


def test_a_launch_runs_once_and_is_settled(study, candidate, until_over, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "planted-secret-1")
    monkeypatch.setenv("INNOCENT", "planted-secret-2")
    done = launch(study, request(candidate), AGENT)
    state = study.state
    assert state.candidates[candidate].status == "launched"
    assert state.runs[done.run].status == "running" and state.runs[done.run].nonce == done.nonce
    assert state.budget.reserved.wall_clock_h == pytest.approx(5.06 * 0.02 / 5.06)
    state = until_over(study)
    run = state.runs[done.run]
    assert run.status == "finished" and run.actual.wall_clock_h < 0.01
    assert state.budget.reserved.launches is None and state.budget.spent.launches == 1
    assert starts(study) == [(done.nonce, 1)]
    assert types(study)[-3:] == ["launch.intent", "launch.started", "run.finished"]
    assert study.ledger.verify().ok
    names = ("cmd", "env", "git", "hw", "pid", "exit")
    assert {each.name for each in done.folder.iterdir()} >= {f"{name}.json" for name in names}
    intent = study.events_of("launch.intent")[0].data
    assert intent["argv"] == json.loads((done.folder / "cmd.json").read_text())["argv"]
    assert set(intent["gates"]) == {*GATES} and all(intent["gates"].values())
    assert json.loads((done.folder / "env.json").read_text())["withheld"] == ["MY_API_KEY"]
    written = b"".join(p.read_bytes() for p in study.folder.state_root.rglob("*") if p.is_file())
    assert b"planted-secret" not in written


def test_a_shut_gate_is_recorded_and_starts_nothing(study, candidate):
    (study.folder.stop_file).write_text("")
    with pytest.raises(GateRefused, match=r"G15 .*human_stop"):
        launch(study, request(candidate), AGENT)
    assert types(study)[-1] == "launch.refused"
    assert "human_stop" in study.events[-1].data["shut"]["G15"]
    assert starts(study) == [] and not study.folder.runs.exists()


def test_the_same_seed_is_not_launched_twice(study, candidate, until_over, monkeypatch):
    monkeypatch.setenv("TOY_SLEEP", "5")
    launch(study, request(candidate), AGENT)
    with pytest.raises(GateRefused, match="is the same run"):
        launch(study, request(candidate), AGENT)
    assert len(starts(study)) <= 1
