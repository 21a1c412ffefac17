"""Jobs end exactly once: they are retried with reasons, stopped, counted and resumed."""

import os
from dataclasses import replace

import pytest

from telic.core.events import LogMessage
from telic.errors import Refused, UnknownName, UsageError
from telic.jobs.board import JobBoard
from telic.jobs.launcher import LocalJobs, read_place
from telic.jobs.pool import JobPool
from telic.jobs.process import start_of
from telic.jobs.spec import AttemptEnd, JobRecord, JobSpec
from telic.storage.files import read_record, write_json
from telic.verbs.jobs import jobs
from tests.testing.contracts import LauncherContract


class Scripted:
    """A launcher whose attempts end as a list says, so that no process is needed."""

    room = 2

    def __init__(self, *reports):
        self.reports = list(reports)
        self.started, self.stopped, self.most, self.live = [], [], 0, {}

    def start(self, spec, folder, attempt):
        self.started.append((spec.name, attempt))
        self.live[spec.name] = self.reports.pop(0) if self.reports else done()
        self.most = max(self.most, len(self.live))
        if self.live[spec.name] == "refused":
            raise OSError("no such queue")
        return "handle"

    def find(self, spec, folder, attempt):
        return None

    def look(self, spec, folder, attempt):
        report = self.live[spec.name]
        if report == "asked":
            report = done(was_stopped=True) if spec.name in self.stopped else None
        if report is not None:
            del self.live[spec.name]
        return report

    def stop(self, spec, *, now):
        self.stopped.append(spec.name)

    def close(self):
        self.stopped.append("closed")


def done(code=0, **more):
    return AttemptEnd(code=code, seconds=0.5, node="there", **more)


def spec(name="job", **more):
    return JobSpec(name=name, argv=("true",), cwd="/", **more)


def settled(tmp_path, launcher, *specs, place="local", **more):
    with JobPool(read_place(place), tmp_path, launcher=launcher, **more) as pool:
        return [future.result(120) for future in [pool.submit(each) for each in specs]]


def test_a_lost_node_is_a_reason_to_try_again(tmp_path):
    reported = []
    launcher = Scripted("NodeDiedError: it is gone", done(code=None, signal=9), done(1))
    (record,) = settled(tmp_path, launcher, spec(), on_event=reported.append)
    assert record.state == "done" and record.code == 1  # its own code is a result, not a death
    why = [attempt.ended for attempt in record.attempts]
    assert why == ["NodeDiedError: it is gone", "killed by signal 9 on there", "code 1"]
    assert [type(event) for event in reported] == [LogMessage, LogMessage]
    assert launcher.started == [("job", 1), ("job", 2), ("job", 3)]
    assert read_record(tmp_path / "jobs" / "job" / "job.json", JobRecord) == record


def test_the_last_attempt_ends_it(tmp_path):
    (record,) = settled(tmp_path, Scripted("refused", "gone"), spec(), place="local?attempts=2")
    assert record.state == "failed" and record.reason == "gone (attempt 2 of 2)"
    assert record.attempts[0].ended == "failed to start: no such queue"


def test_no_more_run_at_once_than_asked_for(tmp_path):
    launcher = Scripted()
    records = settled(
        tmp_path, launcher, *(spec(f"job{n}") for n in range(9)), place="local?at_once=3"
    )
    assert {record.state for record in records} == {"done"} and launcher.most <= 3
    assert sorted(launcher.started) == [(f"job{n}", 1) for n in range(9)]


def test_a_spent_budget_starts_nothing_more_and_stops_what_runs(tmp_path):
    launcher = Scripted("asked")
    first, second = settled(
        tmp_path, launcher, spec("a"), spec("b"), place="local?at_once=1&seconds=0.2"
    )
    assert (first.state, second.state) == ("stopped", "stopped")
    assert "budget of 0.2 s" in second.reason and launcher.started == [("a", 1)]


def test_a_silent_attempt_is_given_up(tmp_path):
    class Silent(Scripted):
        def start(self, spec, folder, attempt):
            folder.beat(attempt).write_text("{}")
            return super().start(spec, folder, attempt)

    launcher = Silent(None)
    (record,) = settled(tmp_path, launcher, spec(), place="local?silence_s=0.6")
    assert record.state == "done" and launcher.stopped[0] == "job"
    assert record.attempts[0].ended == "no heartbeat for 0.6 s"


def test_same_job_resumes_under_its_name(tmp_path):
    failed = settled(tmp_path, Scripted("x"), spec("first", key="k"), place="local?attempts=1")
    assert failed[0].state == "failed"
    (record,) = settled(tmp_path, Scripted(), spec("second", key="k"), place="local?attempts=1")
    assert record.name == "first" and [each.number for each in record.attempts] == [1, 2]
    (other,) = settled(tmp_path, Scripted(), spec("third", key="k"))
    assert other.name == "third"  # what is done is done


def test_what_another_process_does_is_not_done_twice(tmp_path):
    settled(tmp_path, Scripted("x"), spec(key="k"), place="local?attempts=1")
    path = tmp_path / "jobs" / "job" / "job.json"
    record = read_record(path, JobRecord)
    parent = replace(record.driver, pid=os.getppid(), started=start_of(os.getppid()))
    write_json(path, record.model_copy(update={"state": "running", "driver": parent}))
    with pytest.raises(Refused, match="is already running in process"):
        settled(tmp_path, Scripted(), spec("other", key="k"))
    write_json(path, record.model_copy(update={"state": "running"}))
    gone_driver = replace(record.driver, started=1.0)
    write_json(path, record.model_copy(update={"state": "running", "driver": gone_driver}))
    assert JobBoard(tmp_path).lines()[0].state == "interrupted"
    attempt = record.attempts[0].model_copy(update={"ended": None})
    left = {"state": "running", "driver": gone_driver, "attempts": (attempt,)}
    write_json(path, record.model_copy(update=left))
    (again,) = settled(tmp_path, Scripted(), spec("other", key="k"))
    assert [each.ended for each in again.attempts] == ["its driver ended", "code 0"]
    write_json(path, record.model_copy(update={"state": "running", "driver": gone_driver}))
    assert JobBoard(tmp_path).stop("job").state == "stopped"


class TestLocalJobs(LauncherContract):
    """Processes of this machine hold what every launcher holds."""

    def make(self):
        return LocalJobs()


def test_a_job_is_found_by_the_start_of_its_name(tmp_path):
    settled(tmp_path, Scripted(), spec("prints"), spec("waits"))
    board = JobBoard(tmp_path)
    assert board.find("pri").path.name == "prints" and board.log("prints") == ""
    assert {line.job for line in board.lines()} == {"prints", "waits"}
    with pytest.raises(UnknownName, match="prints"):
        board.find("print5")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("rey://head", "ray"),
        ("ray://", "Unknown place"),
        ("local://x", "Unknown place"),
        ("ray?partition=gpu", "partition"),
        ("local?at_once=0", "at_once"),
    ],
)
def test_invalid_place_error_lists_valid_ones(text, match):
    with pytest.raises(UsageError, match=match):
        read_place(text)


ENDS_AT_FIRST = "test -e began || { touch began; kill -9 $$; }; echo home >> out.txt"


def test_a_job_that_failed_is_retried_from_what_is_there_and_comes_home_once(tmp_path):
    work, runs = tmp_path / "work", tmp_path / "runs"
    work.mkdir()
    job = JobSpec(name="job", argv=("sh", "-c", ENDS_AT_FIRST), cwd=str(work))
    (failed,) = settled(runs, None, job, place="local?attempts=1")
    assert failed.state == "failed" and "killed by signal 9" in failed.reason
    assert not (work / "out.txt").exists()
    (line,) = jobs(runs_dir=runs).data
    assert line.state == "failed" and line.reason == failed.reason

    done = jobs("job", retry=True, runs_dir=runs)
    assert done.state == "done" and done.code == 0 and done.reason is None
    assert [attempt.number for attempt in done.attempts] == [1, 2]
    assert "killed by signal 9" in done.attempts[0].ended, "why it was tried again is kept"
    assert done.attempts[1].ended == "code 0"
    with pytest.raises(Refused, match="job is done"):
        jobs("job", retry=True, runs_dir=runs)
    assert (work / "out.txt").read_text() == "home\n"
