"""Remote verbs give local results: transferred files, and recovery after a node failure."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from telic.errors import Refused, TelicError, UsageError
from telic.jobs import _ray_cluster as ray_cluster
from telic.jobs import process
from telic.jobs.board import JobBoard
from telic.jobs.launcher import read_place
from telic.jobs.pool import JobPool
from telic.jobs.process import ProcessId, start_of
from telic.jobs.spec import JobSpec
from telic.storage.files import read_json, write_json
from telic.verbs import background, jobs
from telic.verbs.background import STARTED, JobFile, JobProgress
from telic.verbs.elsewhere import artifact_of, verb_job
from telic.verbs.search import search
from telic.verbs.session import run
from tests.jobs.slurm import pretend
from tests.testing.contracts import LauncherContract


def test_an_error_elsewhere_is_the_error_here(tmp_path):
    job = verb_job(("search",), "search:search", {"env": "CartPole-v9"}, tmp_path / "runs")
    future = Future()
    record = JobBoard(tmp_path / "runs").take(job.spec, "ray")[1]
    future.set_result(record.model_copy(update={"state": "failed", "reason": "no room"}))
    with pytest.raises(Refused, match=r"failed on ray: no room.*telic jobs search_.* --logs"):
        artifact_of(job, future, print)  # it never began
    events = {"error": "No task named CartPole-v9.", "hint": "Closest: CartPole-v1."}
    progress = JobProgress(pid=1, started=0.0, state="failed", exit_code=2, **events)
    write_json(job.state, progress)
    with pytest.raises(TelicError, match="No task named CartPole-v9") as raised:
        artifact_of(job, future, print)
    assert (raised.value.exit_code, raised.value.hint) == (2, "Closest: CartPole-v1.")


def test_unanswerable_request_is_not_awaited(tmp_path):
    with pytest.raises(UsageError, match="cannot be answered on Ray"):
        run("walk", runs_dir=tmp_path, model="host", on="ray://head:10001")


def test_files_that_a_request_names_go_along(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("reward.py").write_text("")
    values = {"env": "Ant-v5", "rewards": ["reward.py", "../other.py"], "seeds": [1]}
    job = verb_job(("train",), "train:train", values, Path("runs"))
    assert job.spec.cwd == str(tmp_path) and job.spec.folder == "runs"
    assert job.spec.sends == (job.spec.argv[-2], "reward.py")
    assert json.loads(Path(job.spec.argv[-2]).read_text())["values"] == values
    again = verb_job(("train",), "train:train", values, Path("runs"))
    assert again.spec.key == job.spec.key and again.spec.name != job.spec.name


class ActorInThread:
    """An actor, called at once."""

    def __init__(self, actor):
        self._actor = actor

    def __getattr__(self, name):
        return SimpleNamespace(remote=lambda *args: [getattr(self._actor, name)(*args)])


class ThreadsForRay:
    """As much of Ray as a launcher needs, in threads of this process."""

    class RayError(Exception):
        """Error that Ray raises for a task on a failed node."""

    def __init__(self):
        self.exceptions = SimpleNamespace(RayError=self.RayError)
        self.pool, self.lock = ThreadPoolExecutor(4), threading.Lock()
        self.asked, self.die_after = [], []

    is_there = True

    def is_initialized(self):
        return self.is_there

    def cluster_resources(self):
        return {"CPU": 2.0}

    def get_runtime_context(self):
        return SimpleNamespace(get_node_id=lambda: "node" * 4)

    def remote(self, work):
        made = SimpleNamespace(remote=lambda *args: self._call(work, args))
        made.options = lambda **options: self.asked.append(options) or made
        return made

    def _call(self, work, args):
        if isinstance(work, type):
            return ActorInThread(work(*args))
        return self.pool.submit(work, *args)

    def get(self, ref):
        if isinstance(ref, list):
            return ref[0]
        done = ref.result()
        if self.die_after and self.die_after.pop(0):
            raise self.RayError("NodeDiedError: the node is gone")
        return done

    def wait(self, refs, num_returns, timeout):
        return [ref for ref in refs if ref.done()], []

    def cancel(self, ref, force):
        pass

    def kill(self, actor):
        self.pool.shutdown()


@pytest.fixture
def threads(monkeypatch):
    ray = ThreadsForRay()
    monkeypatch.setattr(ray_cluster, "_ray", lambda: ray)
    monkeypatch.setattr(ray_cluster, "_MAIL_S", 0.02)
    monkeypatch.setattr(process, "HEARTBEAT_S", 0.1)
    return ray


class TestRayJobs(LauncherContract):
    """Files are transferred as the launcher contract requires."""

    @pytest.fixture(autouse=True)
    def without_a_cluster(self, threads):
        pass

    def make(self):
        return ray_cluster.RayJobs()


GROWS = """
import pathlib, sys, time
print("from", pathlib.Path("given").read_text(), flush=True)
lines = pathlib.Path("out/lines")
lines.parent.mkdir(exist_ok=True)
before = lines.read_text() if lines.exists() else ""
lines.write_text(before + "x")
pathlib.Path("out/passing").touch() if not before else pathlib.Path("out/passing").unlink()
time.sleep(1.2)
"""


def test_what_came_home_goes_along_to_the_next_node(tmp_path, threads):
    (tmp_path / "given").write_text("home")
    threads.die_after = [True, False]  # its files came home with its heartbeats, its end did not
    spec = JobSpec(
        name="grows",
        argv=("python", "-c", GROWS),
        cwd=str(tmp_path),
        folder="out",
        sends=("given",),
    )
    with JobPool(read_place("ray?cores=2"), tmp_path / "runs") as pool:
        record = pool.submit(spec).result(120)
        log = pool.board.log("grows")
    assert record.state == "done" and record.attempts[0].ended.startswith("RayError: NodeDied")
    assert (tmp_path / "out" / "lines").read_text() == "xx" and log == "from home\n"
    assert not (tmp_path / "out" / "passing").exists()  # what is removed there is removed here
    assert threads.asked[-1]["num_cpus"] == 2 and threads.asked[-1]["max_retries"] == 0
    assert not pool.board.folder("grows").archive.exists()


def test_lost_cluster_is_reported_and_nothing_is_started_instead(tmp_path, threads):
    (tmp_path / "given").write_text("home")
    spec = JobSpec(name="lost", argv=("python", "-c", GROWS), cwd=str(tmp_path), sends=("given",))
    with JobPool(read_place("ray"), tmp_path / "runs") as pool:
        future = pool.submit(spec)
        while not threads.asked:
            time.sleep(0.01)
        threads.is_there = False
        with pytest.raises(Refused, match="connection to the Ray cluster was lost"):
            future.result(120)
        with pytest.raises(Refused, match="was lost"):
            pool.submit(spec)
    threads.pool.shutdown()


@pytest.mark.slow
def test_slurm_runs_a_population(tmp_path):
    path = f"{pretend(tmp_path / 'programs')}:{os.environ['PATH']}"
    words = [
        "train",
        "InvertedPendulum-v5",
        "--seeds",
        "1,2",
        "--steps",
        "4000",
        "--videos",
        "none",
    ]
    results = {}
    for where in ([], ["--on", "slurm"]):
        place = ["--runs-dir", str(tmp_path / f"runs{len(where)}"), "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "telic", *words, *where, *place],
            capture_output=True,
            check=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PATH": path},
        )
        results[len(where)] = json.loads(done.stdout)
    assert results[2]["best_return"] == results[0]["best_return"]
    assert Path(results[2]["path"]).parent == tmp_path / "runs2"


def test_what_the_dashboard_started_is_listed_apart_from_jobs_elsewhere(tmp_path):
    folder = tmp_path / STARTED
    words = ("-c", "import time; time.sleep(60)", "telic.verbs.background", "runs/run_2.json")
    job = subprocess.Popen([sys.executable, *words])
    now = ProcessId("here", job.pid, start_of(job.pid))
    for name, ended in (("run_1", {"state": "done", "exit_code": 0}), ("run_2", {})):
        command = f"telic run {name}"
        asked = JobFile(job=name, verb="session:run", values={}, command=command)
        write_json(folder / f"{name}.json", asked)
        progress = JobProgress(
            pid=now.pid, started=now.started, artifact=f"session_of_{name}", **ended
        )
        write_json(folder / f"{name}.state.json", progress)
        (folder / f"{name}.log").write_text(f"{name} says")
    JobBoard(tmp_path).take(JobSpec(name="far", argv=("true",), cwd=str(tmp_path)), "slurm")
    elsewhere = {line.job: line.place for line in jobs.jobs(runs_dir=str(tmp_path)).data}
    assert elsewhere == {"far": "slurm"}
    assert jobs.jobs("far", logs=True, runs_dir=str(tmp_path)).log == ""
    started = {each.job: (each.state, each.target) for each in background.list_jobs(tmp_path)}
    assert started == {
        "run_1": ("done", "session_of_run_1"),
        "run_2": ("running", "session_of_run_2"),
    }
    assert background.starting(tmp_path) == {"session_of_run_2"}
    assert background.read_log(tmp_path, "run_1") == "run_1 says"
    (folder / "bad.json").write_text("{bad")
    os.mkfifo(folder / "pipe.json")
    for name in ("bad", "pipe"):
        os.utime(folder / f"{name}.json", (4e9, 4e9))
    assert {each.job for each in background.list_jobs(tmp_path)} == {"run_1", "run_2"}
    assert background.starting(tmp_path) == {"session_of_run_2"}
    with pytest.raises(Refused, match="run_1 is done, so it cannot be stopped"):
        background.stop_job(tmp_path, "run_1")
    me, state = ProcessId.own(), folder / "run_2.state.json"
    write_json(state, {**read_json(state), "pid": me.pid, "started": me.started})
    with pytest.raises(Refused, match="run_2 is interrupted"):  # another process of the user
        background.stop_job(tmp_path, "run_2")
    write_json(state, {**read_json(state), "pid": now.pid, "started": now.started})
    background.stop_job(tmp_path, "run_2")
    assert job.wait() == -signal.SIGTERM
    for asked in ({"stop": True}, {"retry": True}):
        with pytest.raises(TelicError, match="run_2"):
            jobs.jobs("run_2", **asked, runs_dir=str(tmp_path))


SMALL = {"env": "CartPole-v1", "method": "random", "episodes": 100, "fresh_episodes": 10}


@pytest.mark.slow
def test_a_search_elsewhere_has_the_numbers_of_one_here(tmp_path):
    here = search(**SMALL, runs_dir=tmp_path / "here", jobs=1)
    events = []
    there = search(**SMALL, runs_dir=tmp_path / "there", jobs=1, on="local", on_event=events.append)
    assert there.path.parent == tmp_path / "there"
    assert [each.best for each in there.summary.runs] == [each.best for each in here.summary.runs]
    assert there.best.fresh == here.best.fresh
    assert "SearchStart" in {type(event).__name__ for event in events}


@pytest.mark.long
def test_a_killed_node_of_a_real_cluster_loses_nothing():
    pytest.importorskip("ray", reason="ray is not installed")
    path = Path(__file__).parents[2] / "benchmarks" / "jobs.py"
    done = subprocess.run(
        [sys.executable, str(path), "--count", "40"],
        capture_output=True,
        check=True,
        text=True,
        timeout=300,
    )
    events = json.loads(done.stdout[done.stdout.index('{\n  "jobs"') :])
    assert events["done"] == 40 and events["lost"] == events["settled_twice"] == 0
    assert events["wrong_at_home"] == 0
