"""What is found after a crash, row by row, and what is done about it."""

import json
import os
import shutil
import signal
import time

import pytest

from telic.studies.contract import amend
from telic.studies.documents.base import update_yaml
from telic.studies.errors import StudyError
from telic.studies.evidence.review import review_candidate
from telic.studies.launch import _isolation as isolation
from telic.studies.launch import launch as launching
from telic.studies.launch._isolation import prepare_tree, tree_of
from telic.studies.launch.attempt import TOKEN, LaunchRequest
from telic.studies.launch.launch import launch
from telic.studies.launch.process import RunProcess
from telic.studies.launch.recovery import reconcile, record_start, stop_run
from tests.studies.launch.test_gates import draft, enter_run
from tests.studies.launch.test_supervisor import is_running, wait_for
from tests.studies.launch.toy_study import (
    AGENT,
    HUMAN,
    PATCH,
    approve,
    git,
    make_baseline,
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


def crashed_launch(study, candidate, monkeypatch, module, name, seed=1):
    with monkeypatch.context() as patch:
        crash_at(patch, module, name)
        with pytest.raises(Crash):
            launch(study, request(candidate, seed), AGENT)
    (run,) = study.state.active_runs
    return run


def outcomes(study, **options):
    return reconcile(study, **options)


def test_an_announced_launch_that_nobody_started_is_given_up(study, candidate, monkeypatch):

    run = crashed_launch(study, candidate, monkeypatch, launching, "_start")
    assert study.state.budget.reserved.launches == 1
    assert outcomes(study) == {run: "aborted"}
    state = study.state
    assert state.runs[run].status == "aborted" and state.budget.reserved.launches is None
    assert RunProcess(study.folder.run(run)).state == "given_up"
    assert state.candidates[candidate].status == "validated"
    again = launch(study, request(candidate), AGENT)
    assert again.nonce != state.runs[run].nonce


def test_a_living_run_that_was_not_entered_is_adopted(study, candidate, monkeypatch, until_over):
    monkeypatch.setenv("TOY_SLEEP", "1")
    run = crashed_launch(study, candidate, monkeypatch, launching, "record_start")
    assert outcomes(study) == {run: "adopted"}
    assert outcomes(study) == {run: "alive"}
    state = study.state
    assert state.runs[run].status == "running" and state.runs[run].identity["pid"] > 0
    assert state.candidates[candidate].status == "launched"
    assert until_over(study).runs[run].status == "finished"
    assert len(starts(study)) == 1


def test_a_run_that_ended_meanwhile_is_settled(study, candidate, monkeypatch):
    run = crashed_launch(study, candidate, monkeypatch, launching, "record_start")
    while RunProcess(study.folder.run(run)).exit_record is None:
        time.sleep(0.01)
    assert outcomes(study) == {run: "ended"}
    assert study.state.runs[run].status == "finished"
    types = [event.kind for event in study.events][-2:]
    assert types == ["launch.started", "run.finished"]


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
        assert outcomes(study) == {done.run: "lost"}
        run = study.state.runs[done.run]
        assert run.actual.wall_clock_h == pytest.approx(beat["wall_s"] / 3600, abs=0.01)
        assert (run.retry_of is None) == (attempt == 1)
        wait_for(lambda: not is_running(beat["child_pid"]))  # what it left behind was ended
    state = study.state
    assert state.candidates[candidate].status == "debug"
    assert f"seed 1: {done.run} was lost" in state.candidates[candidate].reason


def test_another_boot_means_lost(study, candidate, monkeypatch):
    monkeypatch.setenv("TOY_SLEEP", "30")
    done = launch(study, request(candidate), AGENT)
    path = done.folder / "pid.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "boot_id": "an earlier one"}))
    assert outcomes(study) == {done.run: "lost"}
    path.write_text(json.dumps(record))


# ---------------------------------------------------------------------------- how runs end


@pytest.mark.parametrize(
    ("train", "status", "why"),
    [
        ("raise SystemExit(3)", "failed", "it ended with code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "failed", "died of SIGSEGV"),
        ("pass", "failed", "silent failure: it left no marker done"),
    ],
)
def test_an_end_is_judged_by_more_than_its_exit_code(
    study, candidate, until_over, train, status, why
):
    """The repository is committed with another program, and validated again by a new baseline."""

    (study.folder.root / "train.py").write_text(train)
    git(study.folder.root, "commit", "-qam", "another program")
    name = make_baseline(study, (4,))
    done = launch(study, request(name, 4), AGENT)
    state = until_over(study)
    assert state.runs[done.run].status == status and why in state.runs[done.run].why
    assert state.candidates[name].status == "debug"


def test_a_stopped_run_keeps_who_stopped_it(study, candidate, monkeypatch, until_over):
    monkeypatch.setenv("TOY_SLEEP", "30")
    done = launch(study, request(candidate), AGENT)
    stop_run(study, done.run, "monitor", "the loss is not a number")
    run = until_over(study).runs[done.run]
    assert (run.status, run.killed_by) == ("killed", "monitor")
    assert run.why == "the loss is not a number"
    with pytest.raises(StudyError, match="killed already"):
        stop_run(study, done.run, "user", "again")


def test_a_stop_that_nobody_asked_for_is_a_preemption(study, candidate, monkeypatch, until_over):
    monkeypatch.setenv("TOY_SLEEP", "30")
    done = launch(study, request(candidate), AGENT)
    os.kill(done.pid, signal.SIGTERM)
    run = until_over(study).runs[done.run]
    assert (run.status, run.killed_by) == ("killed", "preempted")
    monkeypatch.setenv("TOY_SLEEP", "0")
    again = launch(study, request(candidate), AGENT)
    assert study.state.runs[again.run].retry_of == done.run
    assert study.state.candidates[candidate].status == "launched"


def test_time_that_is_over_ends_a_run(study, candidate, monkeypatch, until_over):
    monkeypatch.setenv("TOY_SLEEP", "30")
    monkeypatch.setattr("telic.studies.launch.attempt.SMOKE_TIMEOUT_S", 0.3)
    done = launch(study, request(candidate), AGENT)
    run = until_over(study).runs[done.run]
    assert (run.status, run.killed_by, run.why) == ("killed", "budget", "its time was over")


# ---------------------------------------------------------------------------- trees


def patched(study):

    change = {"change": {}, "isolation": {"mode": "worktree"}, "kind": "code"}
    update_yaml(study.folder.contract, {"generated_code": {"allowed": True, "sandbox": "process"}})

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


def test_a_tree_whose_making_was_cut_short_is_made_again(study, monkeypatch):
    made = study.candidate(patched(study))
    with monkeypatch.context() as patch:
        crash_at(patch, isolation, "write_json")
        with pytest.raises(Crash):
            isolation.prepare_tree(study.folder, made)
    assert isolation.tree_problems(study.folder, made, excepted=False)
    tree = isolation.prepare_tree(study.folder, made)
    assert isolation.tree_problems(study.folder, made, excepted=False) == []
    assert (tree / "reward.py").read_text() == "weight = 2\nbonus = 0\n"


def test_losses_of_an_earlier_revision_do_not_count(study, candidate):
    for _ in range(2):
        name = enter_run(study, candidate)
        study.append("run.lost", name, {"run": name, "why": "gone"}, HUMAN)
    first = study.folder.candidate_file(candidate)
    shutil.copytree(first.parent, study.folder.candidate_file(candidate, 2).parent)
    study.append("candidate.revised", candidate, {"revision": 2}, HUMAN)
    name = enter_run(study, candidate)
    record_start(study, name, "n", {})
    study.append("run.lost", name, {"run": name, "why": "gone"}, HUMAN)
    reconcile(study)
    assert study.state.candidates[candidate].status == "launched"
