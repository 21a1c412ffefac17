"""What is found after a crash, row by row, and what is done about it."""

import json
import os
import signal
import time

import pytest

from telic.studies.candidate_files import read_candidate
from telic.studies.contract import amend
from telic.studies.errors import StudyError
from telic.studies.evidence.reviewing import review_candidate
from telic.studies.launch import isolation, launching, processes, recovery
from telic.studies.launch.isolation import prepare_tree, tree_of
from telic.studies.launch.launching import launch
from telic.studies.launch.local import LocalLauncher
from telic.studies.launch.order import JobReport
from telic.studies.launch.recovery import reconcile
from telic.studies.launch.request import TOKEN, LaunchRequest
from telic.studies.launch.settling import move_candidates, record_start
from telic.studies.launch.stopping import stop_run
from telic.studies.ledger import Ledger
from telic.studies.yaml_files import update_yaml
from tests.studies.launch.test_gates import draft, enter_run
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
    return LaunchRequest(candidate, "smoke", seed, execute=True, confirm=TOKEN)


def crash_at(monkeypatch, module, name):
    def crash(*_, **__):
        raise Crash

    monkeypatch.setattr(module, name, crash)


def crashed_launch(ledger, candidate, monkeypatch, module, name, seed=1):
    with monkeypatch.context() as patch:
        crash_at(patch, module, name)
        with pytest.raises(Crash):
            launch(ledger, request(candidate, seed), AGENT)
    (run,) = ledger.state().active_runs
    return run


def outcomes(ledger, **options):
    return {each.run: each.outcome for each in reconcile(ledger, **options)}


def test_an_announced_launch_that_nobody_started_is_given_up(ledger, candidate, monkeypatch):

    run = crashed_launch(ledger, candidate, monkeypatch, LocalLauncher, "start")
    assert ledger.state().budget.reserved.launches == 1
    assert outcomes(ledger) == {run: "aborted"}
    state = ledger.state()
    assert state.runs[run].status == "aborted" and state.budget.reserved.launches is None
    assert processes.is_given_up(processes.read_pid_record(ledger.folder.run(run)))
    assert state.candidates[candidate].status == "validated"
    again = launch(ledger, request(candidate), AGENT)
    assert again.nonce != state.runs[run].nonce


def test_a_living_run_that_was_not_entered_is_adopted(ledger, candidate, monkeypatch, until_over):
    monkeypatch.setenv("TOY_SLEEP", "1")
    run = crashed_launch(ledger, candidate, monkeypatch, launching, "record_start")
    assert outcomes(ledger) == {run: "adopted"}
    assert outcomes(ledger) == {run: "alive"}
    state = ledger.state()
    assert state.runs[run].status == "running" and state.runs[run].identity["pid"] > 0
    assert state.candidates[candidate].status == "launched"
    assert until_over(ledger).runs[run].status == "finished"
    assert len(starts(ledger)) == 1


def test_a_run_that_ended_meanwhile_is_settled(ledger, candidate, monkeypatch):
    run = crashed_launch(ledger, candidate, monkeypatch, launching, "record_start")
    while processes.read_exit(ledger.folder.run(run)) is None:
        time.sleep(0.01)
    assert outcomes(ledger) == {run: "ended"}
    assert ledger.state().runs[run].status == "finished"
    types = [event.type for event in ledger.events()][-2:]
    assert types == ["launch.started", "run.finished"]


def test_a_run_whose_supervisor_vanished_is_lost_and_tried_again(
    ledger, candidate, monkeypatch, until_over
):
    monkeypatch.setenv("TOY_SLEEP", "30")
    for attempt in range(1, 4):
        done = launch(ledger, request(candidate), AGENT)
        while (beat := processes.read_heartbeat(done.folder)) is None:
            time.sleep(0.01)
        os.kill(done.pid, signal.SIGKILL)
        while processes.is_alive(processes.read_pid_record(done.folder)):
            time.sleep(0.01)
        assert outcomes(ledger) == {done.run: "lost"}
        run = ledger.state().runs[done.run]
        assert run.actual.wall_clock_h == pytest.approx(beat["wall_s"] / 3600, abs=0.01)
        assert (run.retry_of is None) == (attempt == 1)
        with pytest.raises(ProcessLookupError):  # what it left behind was ended
            while True:
                os.kill(beat["child_pid"], 0)
                time.sleep(0.01)
    state = ledger.state()
    assert state.candidates[candidate].status == "debug"
    assert state.candidates[candidate].reason == "seed 1 was lost 3 times"
    assert [e.data["retried_as"] for e in ledger.events() if e.type == "run.retried"]


def test_another_boot_means_lost(ledger, candidate, monkeypatch):
    monkeypatch.setenv("TOY_SLEEP", "30")
    done = launch(ledger, request(candidate), AGENT)
    path = done.folder / "pid.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "boot_id": "an earlier one"}))
    assert outcomes(ledger) == {done.run: "lost"}
    path.write_text(json.dumps(record))


def scheduled(ledger, candidate, monkeypatch, report, age_s=0.0):
    """Crash a launch and pretend that a scheduler has it and says `report`."""

    run = crashed_launch(ledger, candidate, monkeypatch, LocalLauncher, "start")
    path = ledger.folder.run_file(run)
    path.write_text(json.dumps({**json.loads(path.read_text()), "launcher": "slurm"}))
    monkeypatch.setattr(recovery, "_ask", lambda folder, nonce: report)
    monkeypatch.setattr(recovery, "GRACE_S", 120.0 - age_s)
    return run


@pytest.mark.parametrize(
    ("report", "age_s", "outcome"),
    [
        (JobReport("waiting", "job 1 is PENDING"), 0, "adopted"),
        (JobReport("running", "job 1 is RUNNING"), 0, "adopted"),
        (JobReport("unknown", "no job"), 0, "unknown"),
        (JobReport("unknown", "no job"), 120, "aborted"),
        (JobReport("ended", "succeeded", 0), 0, "ended"),
        (JobReport("ended", "cancelled"), 0, "aborted"),
    ],
)
def test_a_scheduler_is_asked_by_name(ledger, candidate, monkeypatch, report, age_s, outcome):
    run = scheduled(ledger, candidate, monkeypatch, report, age_s)
    assert outcomes(ledger) == {run: "unknown"}  # without leave to start programs nobody is asked
    assert outcomes(ledger, processes=True) == {run: outcome}


def test_a_job_that_its_scheduler_forgot_is_lost(ledger, candidate, monkeypatch):
    run = scheduled(ledger, candidate, monkeypatch, JobReport("running", "job 1"))
    assert outcomes(ledger, processes=True) == {run: "adopted"}
    monkeypatch.setattr(recovery, "_ask", lambda folder, nonce: JobReport("unknown", "no job"))
    monkeypatch.setattr(recovery, "GRACE_S", 0.0)
    assert outcomes(ledger, processes=True) == {run: "lost"}
    assert ledger.state().budget.reserved.launches is None


def test_a_projection_that_lags_is_made_again(ledger, candidate, until_over):
    old = ledger.folder.state.read_bytes()
    launch(ledger, request(candidate), AGENT)
    until_over(ledger)
    ledger.folder.state.write_bytes(old)
    fresh = Ledger(ledger.folder)
    fresh.rebuild()
    assert json.loads(ledger.folder.state.read_text()) == fresh.state().as_data()
    assert launch(fresh, request(candidate, 2), AGENT).run in fresh.state().runs


# ---------------------------------------------------------------------------- how runs end


@pytest.mark.parametrize(
    ("train", "status", "why"),
    [
        ("raise SystemExit(3)", "failed", "it ended with code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "failed", "died of SIGSEGV"),
        ("pass", "failed", "silent failure: it left no done"),
    ],
)
def test_an_end_is_judged_by_more_than_its_exit_code(
    ledger, candidate, until_over, train, status, why
):
    """The repository is committed with another program, and validated again by a new baseline."""

    (ledger.folder.root / "train.py").write_text(train)
    git(ledger.folder.root, "commit", "-qam", "another program")
    name = make_baseline(ledger, (4,))
    done = launch(ledger, request(name, 4), AGENT)
    state = until_over(ledger)
    assert state.runs[done.run].status == status and why in state.runs[done.run].why
    assert state.candidates[name].status == "debug"
    assert json.loads((done.folder / "run.json").read_text())["status"] == status


def test_a_stopped_run_keeps_who_stopped_it(ledger, candidate, monkeypatch, until_over):
    monkeypatch.setenv("TOY_SLEEP", "30")
    done = launch(ledger, request(candidate), AGENT)
    stop_run(ledger, done.run, "monitor", "the loss is not a number")
    run = until_over(ledger).runs[done.run]
    assert (run.status, run.killed_by) == ("killed", "monitor")
    assert run.why == "the loss is not a number"
    with pytest.raises(StudyError, match="killed already"):
        stop_run(ledger, done.run, "user", "again")


def test_a_stop_that_nobody_asked_for_is_a_preemption(ledger, candidate, monkeypatch, until_over):
    monkeypatch.setenv("TOY_SLEEP", "30")
    done = launch(ledger, request(candidate), AGENT)
    os.kill(done.pid, signal.SIGTERM)
    run = until_over(ledger).runs[done.run]
    assert (run.status, run.killed_by) == ("killed", "preempted")
    monkeypatch.setenv("TOY_SLEEP", "0")
    again = launch(ledger, request(candidate), AGENT)
    assert ledger.state().runs[again.run].retry_of == done.run
    assert ledger.state().candidates[candidate].status == "launched"


def test_time_that_is_over_ends_a_run(ledger, candidate, monkeypatch, until_over):
    monkeypatch.setenv("TOY_SLEEP", "30")
    monkeypatch.setattr("telic.studies.launch.planning.SMOKE_TIMEOUT_S", 0.3)
    done = launch(ledger, request(candidate), AGENT)
    run = until_over(ledger).runs[done.run]
    assert (run.status, run.killed_by, run.why) == ("killed", "budget", "its time was over")


# ---------------------------------------------------------------------------- trees


def patched(ledger, mode):

    change = {"change": {}, "isolation": {"mode": mode}, "kind": "code"}
    update_yaml(ledger.folder.contract, {"generated_code": {"allowed": True, "sandbox": "process"}})

    amend(ledger.folder, HUMAN, "a test needs it")
    approve(ledger.folder, "generated_code")
    return make_candidate(ledger, patch=PATCH, **draft(ledger, **change))


@pytest.mark.parametrize("mode", ["worktree", "copy"])
def test_a_patched_candidate_runs_in_its_own_tree(ledger, mode, until_over):

    name = patched(ledger, mode)
    made = read_candidate(ledger.folder, name)
    review_candidate(ledger, name, HUMAN, "it does what it says", is_exploit=False)
    done = launch(ledger, LaunchRequest(name, "smoke", 1, True, TOKEN), AGENT)
    assert until_over(ledger).runs[done.run].status == "finished"
    tree = tree_of(ledger.folder, made)
    assert (tree / "reward.py").read_text() == "weight = 2\nbonus = 0\n"
    assert (ledger.folder.root / "reward.py").read_text() == "weight = 1\nbonus = 0\n"
    assert starts(ledger) == [] and "1" in (tree / "starts.txt").read_text()
    facts = json.loads((done.folder / "git.json").read_text())
    assert facts["tree"] == str(tree) and facts["patch_hash"]


def test_a_decided_candidates_worktree_is_removed_unless_it_holds_results(ledger, until_over):

    name = patched(ledger, "worktree")
    tree = prepare_tree(ledger.folder, read_candidate(ledger.folder, name))
    reconcile(ledger, processes=True)
    assert tree.is_dir()
    ledger.append("candidate.withdrawn", name, {"to": "rejected"}, HUMAN)
    (tree / "result.txt").write_text("precious")
    reconcile(ledger, processes=True)
    assert tree.is_dir()
    (tree / "result.txt").unlink()
    reconcile(ledger, processes=True)
    assert not tree.exists()


@pytest.mark.parametrize("mode", ["worktree", "copy"])
def test_a_tree_whose_making_was_cut_short_is_made_again(ledger, monkeypatch, mode):
    made = read_candidate(ledger.folder, patched(ledger, mode))
    with monkeypatch.context() as patch:
        crash_at(patch, isolation, "write_json")
        with pytest.raises(Crash):
            isolation.prepare_tree(ledger.folder, made)
    assert isolation.tree_problems(ledger.folder, made, excepted=False)
    tree = isolation.prepare_tree(ledger.folder, made)
    assert isolation.tree_problems(ledger.folder, made, excepted=False) == []
    assert (tree / "reward.py").read_text() == "weight = 2\nbonus = 0\n"


def test_losses_of_an_earlier_revision_do_not_count(ledger, candidate):
    for _ in range(2):
        name = enter_run(ledger, candidate)
        ledger.append("run.lost", name, {"run": name, "why": "gone"}, HUMAN)
    ledger.append("candidate.revised", candidate, {"revision": 2}, HUMAN)
    name = enter_run(ledger, candidate)
    record_start(ledger, name, "n", {})
    ledger.append("run.lost", name, {"run": name, "why": "gone"}, HUMAN)
    move_candidates(ledger)
    assert ledger.state().candidates[candidate].status == "launched"
