"""Slurm jobs survive their driver and their time limit, and a cancelled job stays cancelled."""

import os
import subprocess
import sys

import pytest

from telic.core.events import LogMessage
from telic.errors import ConfigError
from telic.jobs import launcher
from telic.jobs.board import JobBoard
from telic.jobs.launcher import SlurmJobs, read_place
from telic.jobs.pool import JobPool
from telic.jobs.spec import JobRecord, JobSpec
from telic.storage.files import read_record
from tests.jobs.slurm import cluster, pretend, until
from tests.testing.contracts import LauncherContract

__all__ = ["cluster"]


@pytest.fixture
def pretended(tmp_path, monkeypatch):
    home = pretend(tmp_path / "programs")
    monkeypatch.setenv("PATH", f"{home}:{os.environ['PATH']}")
    monkeypatch.setattr(launcher, "_SLURM_ASK_S", 0.05)
    return home


class TestSlurmJobs(LauncherContract):
    """The contract, with programs that act like Slurm."""

    @pytest.fixture(autouse=True)
    def without_a_cluster(self, pretended):
        pass

    def make(self):
        return SlurmJobs()


WAITS = """
import pathlib, time
print("began", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.05)
"""
DRIVES = """
import sys
from pathlib import Path
from telic.jobs.launcher import read_place
from telic.jobs.pool import JobPool
from telic.jobs.spec import JobSpec
folder = Path(sys.argv[1])
spec = JobSpec(name="job", argv=("python", "-c", sys.argv[2]), cwd=str(folder), key="work")
with JobPool(read_place("slurm"), folder / "runs") as pool:
    print(pool.submit(spec).result().state)
"""


def drive(folder):
    words = [sys.executable, "-c", DRIVES, str(folder), WAITS]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def record_of(folder):
    path = folder / "runs" / "jobs" / "job" / "job.json"
    return read_record(path, JobRecord) if path.exists() else None


def has_begun(folder):
    log = folder / "runs" / "jobs" / "job" / "attempt_1.log"
    return log.exists() and "began" in log.read_text()


def outlives_its_driver(folder):
    first = drive(folder)
    until(lambda: has_begun(folder))
    first.kill()
    first.communicate()
    (line,) = JobBoard(folder / "runs").lines()
    assert (line.state, line.reason.partition(" ")[0]) == ("running", "Slurm")
    second = drive(folder)
    until(lambda: record_of(folder).driver.pid == second.pid)
    (folder / "go").touch()
    assert second.communicate(timeout=300)[0] == "done\n"
    (attempt,) = record_of(folder).attempts
    assert attempt.ended == "code 0"
    assert (folder / "runs/jobs/job/attempt_1.log").read_text().count("began") == 1


def test_the_same_command_finds_the_job_of_a_killed_driver(tmp_path, pretended):
    outlives_its_driver(tmp_path)


def test_a_cancelled_job_is_not_submitted_again(tmp_path, pretended):
    driver = drive(tmp_path)
    until(lambda: has_begun(tmp_path))
    subprocess.run(["scancel", "1"], check=True)
    assert driver.communicate(timeout=300)[0] == "stopped\n"
    record = record_of(tmp_path)
    assert record.reason == "job 1 was cancelled" and len(record.attempts) == 1


def test_slurm_is_given_one_job_with_its_directives():
    place = read_place("slurm?partition=gpu&gpus=1&cores=8&minutes=90&exclusive=true")
    asked = {name: getattr(place, name) for name in ("minutes", "asks", "cores", "gpus")}
    spec = JobSpec(name="population", argv=("true",), cwd="/", **asked)
    given = set(launcher._slurm_options(spec, 2))
    assert given >= {"--job-name=population.2", "--time=90", "--requeue", "--signal=B:USR2@90"}
    assert given >= {"--partition=gpu", "--cpus-per-task=8", "--gres=gpu:1", "--exclusive"}


@pytest.mark.parametrize("setting", ["partition=gpu%0A--wrap=x", "cores=2%0Dx", "a%0Ab=1"])
def test_a_place_has_no_line_breaks(setting):
    with pytest.raises(ConfigError, match="line break"):
        read_place(f"slurm?{setting}")


@pytest.mark.slow
def test_a_real_cluster_finds_the_job_of_a_killed_driver(tmp_path, cluster):
    outlives_its_driver(tmp_path)


@pytest.mark.slow
def test_a_real_cluster_requeues_at_the_time_limit_and_stops_when_cancelled(tmp_path, cluster):
    saves = "import pathlib, signal, sys, time; log = pathlib.Path('log')\n"
    saves += "signal.signal(15, lambda *_: (log.open('a').write('saved '), sys.exit(1)))\n"
    saves += "'saved' in (log.read_text() if log.exists() else '') or time.sleep(200)"
    limited = JobSpec(name="limited", argv=("python", "-c", saves), cwd=str(tmp_path))
    stays = JobSpec(name="stays", argv=("sleep", "300"), cwd=str(tmp_path))
    events = []
    listening = {"on_event": events.append}
    with JobPool(read_place("slurm?minutes=1"), tmp_path / "runs", **listening) as pool:
        futures = [pool.submit(each) for each in (limited, stays)]
        board = pool.board
        until(lambda: all(line.state == "running" for line in board.lines()))
        waits = pool.submit(stays.model_copy(update={"name": "waits"}))
        reasons = "pending: Resources", "pending: Priority"
        until(lambda: any(line.reason in reasons for line in board.lines()))
        for name in ("waits.1", "stays.1"):
            subprocess.run(["scancel", "--name", name], check=True)
        for each in (waits, futures[1]):
            assert each.result(300).state == "stopped" and len(each.result().attempts) == 1
            assert each.result().reason.endswith("was cancelled")
        done = futures[0].result(240)
    assert (done.state, done.code, len(done.attempts)) == ("done", 0, 1)
    assert (tmp_path / "log").read_text() == "saved "
    assert not [each for each in events if isinstance(each, LogMessage)]  # nothing was rescheduled
