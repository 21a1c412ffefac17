"""Recovery after a crash, case by case."""

import json
import os
import signal
import time

import pytest

from telic.studies.contract import amend
from telic.studies.documents.base import update_yaml
from telic.studies.evidence.review import review_candidate
from telic.studies.launch import launch as launching
from telic.studies.launch._isolation import prepare_tree, tree_of
from telic.studies.launch.attempt import TOKEN, LaunchRequest
from telic.studies.launch.launch import launch
from telic.studies.launch.process import RunProcess
from telic.studies.launch.recovery import _ending, reconcile
from tests.studies.launch.test_gates import draft
from tests.studies.launch.test_supervisor import is_running, wait_for
from tests.studies.launch.toy_study import (
    AGENT,
    HUMAN,
    PATCH,
    approve,
    make_candidate,
    starts,
)


class Crash(BaseException):
    """Stands for SIGKILL: nothing of ours handles it."""


def request(candidate, seed=1):
    return LaunchRequest(candidate, "smoke", seed, confirm=TOKEN)


def crash_at(monkeypatch, module, name):
    def crash(*_, **__):
        raise Crash

    monkeypatch.setattr(module, name, crash)


def crashed_launch(study, candidate, monkeypatch, name):
    with monkeypatch.context() as patch:
        crash_at(patch, launching, name)
        with pytest.raises(Crash):
            launch(study, request(candidate), AGENT)
    (run,) = study.state.active_runs
    return run


def test_announced_launch_that_never_started_is_abandoned(study, candidate, monkeypatch):

    run = crashed_launch(study, candidate, monkeypatch, "_start")
    assert study.state.budget.reserved.launches == 1
    assert reconcile(study) == {run: "aborted"}
    state = study.state
    assert state.runs[run].status == "aborted" and state.budget.reserved.launches is None
    assert RunProcess(study.folder.run(run)).state == "given_up"
    assert state.candidates[candidate].status == "validated"
    again = launch(study, request(candidate), AGENT)
    assert again.nonce != state.runs[run].nonce


def test_an_end_is_judged_by_more_than_its_exit_code(study, candidate):
    folder = study.folder.artifacts("r-1")
    folder.mkdir(parents=True)
    ended = {"code": 0, "evaluations": []}
    for facts, kind, why in (
        ({"code": 3}, "failed", "it exited with code 3"),
        ({"code": None, "signal": "SIGSEGV"}, "failed", "it was killed by SIGSEGV"),
        ({}, "failed", "silent failure: missing marker done"),
        ({"ended_by": "timeout"}, "killed", "it reached its time limit"),
        (
            {"ended_by": "signal"},
            "killed",
            "it was stopped by another process, or its machine was lost",
        ),
    ):
        found = _ending(study, "r-1", {**ended, **facts})
        assert (found[0], found[1]["why"]) == (kind, why)
    (folder / "done").touch()
    assert _ending(study, "r-1", ended) == ("finished", {})


def test_unrequested_stop_is_a_preemption(study, candidate, monkeypatch, until_over):
    monkeypatch.setenv("TOY_SLEEP", "30")
    done = launch(study, request(candidate), AGENT)
    os.kill(done.pid, signal.SIGTERM)
    run = until_over(study).runs[done.run]
    assert (run.status, run.killed_by) == ("killed", "preempted")
    monkeypatch.setenv("TOY_SLEEP", "0")
    again = launch(study, request(candidate), AGENT)
    assert study.state.runs[again.run].retry_of == done.run
    assert study.state.candidates[candidate].status == "launched"


# ---------------------------------------------------------------------------- trees


def patched(study):

    change = {"change": {}, "isolation": {"mode": "worktree"}, "kind": "code"}
    update_yaml(study.folder.contract, {"generated_code": {"allowed": True}})

    amend(study, HUMAN, "a test needs it")
    approve(study, "generated_code")
    return make_candidate(study, patch=PATCH, **draft(study, **change))


def test_a_patched_candidate_runs_in_its_own_tree(study, until_over):

    name = patched(study)
    made = study.candidate(name)
    review_candidate(study, name, HUMAN, "it does what it says", is_exploit=False)
    done = launch(study, LaunchRequest(name, "smoke", 1, TOKEN), AGENT)
    assert until_over(study).runs[done.run].status == "finished"
    tree = tree_of(study.folder, made)
    assert (tree / "reward.py").read_text() == "weight = 2\nbonus = 0\n"
    assert (study.folder.root / "reward.py").read_text() == "weight = 1\nbonus = 0\n"
    assert starts(study) == [] and "1" in (tree / "starts.txt").read_text()
    facts = json.loads((done.folder / "git.json").read_text())
    assert facts["tree"] == str(tree) and facts["patch_hash"]


def test_a_decided_candidates_worktree_is_removed_unless_it_holds_results(study, until_over):

    name = patched(study)
    tree = prepare_tree(study.folder, study.candidate(name))
    reconcile(study, processes=True)
    assert tree.is_dir()
    study.append("candidate.withdrawn", name, {"to": "rejected"}, HUMAN)
    (tree / "result.txt").write_text("precious")
    reconcile(study, processes=True)
    assert tree.is_dir()
    (tree / "result.txt").unlink()
    reconcile(study, processes=True)
    assert not tree.exists()


@pytest.mark.slow
def test_a_run_whose_supervisor_vanished_is_lost_and_tried_again(
    study, candidate, monkeypatch, until_over
):
    monkeypatch.setenv("TOY_SLEEP", "30")
    for attempt in range(1, 4):
        done = launch(study, request(candidate), AGENT)
        while (beat := RunProcess(done.folder).heartbeat) is None:
            time.sleep(0.01)
        os.kill(done.pid, signal.SIGKILL)
        while RunProcess(done.folder).state == "alive":
            time.sleep(0.01)
        assert reconcile(study) == {done.run: "lost"}
        run = study.state.runs[done.run]
        assert run.actual.wall_clock_h == pytest.approx(beat["wall_s"] / 3600, abs=0.01)
        assert (run.retry_of is None) == (attempt == 1)
        wait_for(lambda: not is_running(beat["child"]["pid"]))  # what it left behind was ended
    state = study.state
    assert state.candidates[candidate].status == "debug"
    assert f"seed 1: {done.run} was lost" in state.candidates[candidate].reason
