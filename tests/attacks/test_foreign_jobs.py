"""Everything below runs/jobs is data of unknown origin, unless this user began it.

A colleague's runs folder, or one that was unpacked over the user's own, holds jobs that were made
to be found: the key of a request is predictable. A node that works for a job returns what it likes.
"""

import contextlib
import io
import json
import signal
import socket
import zipfile
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from telic.errors import BadFile, Refused, TelicError
from telic.jobs import _ray_cluster
from telic.jobs._ray_cluster import _returned, _take_in
from telic.jobs.board import JobBoard
from telic.jobs.launcher import LocalJobs, read_place
from telic.jobs.pool import JobPool
from telic.jobs.spec import JobRecord, JobSpec
from telic.storage import keys
from telic.storage.files import read_json, read_record, write_json
from telic.storage.keys import is_own_folder, sign_folder
from telic.storage.layout import SessionFolder
from telic.verbs import elsewhere
from telic.verbs.background import run_job_file
from telic.verbs.elsewhere import RemoteVerbs, _is_answer, verb_job
from telic.verbs.jobs import jobs

VALUES = {"env": "CartPole-v1", "steps": 4000, "evaluations": 1, "videos": "none"}
NAME = "train_20260101_000000_aaaaaaaa"


@pytest.fixture
def home(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setattr(keys, "_granted", set())
    monkeypatch.chdir(home)
    return home


def forge(home, name=NAME, claimed=None, **more):
    """Lay out a job for the request of `VALUES`, as another user would."""
    job = verb_job(("train",), "train:train", VALUES, Path("runs"))
    board = home / "runs" / "jobs"
    (board / "keys").mkdir(parents=True)
    (board / "keys" / job.spec.key).write_text(name)
    folder = board / NAME
    folder.mkdir()
    driver = {"host": socket.gethostname(), "pid": 1, "started": 0.0}
    record = {"name": claimed or NAME, "place": "local", "created": 1.0, "driver": driver}
    write_json(folder / "job.json", {**record, **more})
    return job, folder


def test_request_does_not_resume_the_job_of_another_user(home):
    job, theirs = forge(home)
    secret = home / "authorized_keys"
    secret.write_text("mine")
    (theirs / "attempt_1.log").symlink_to(secret)
    (theirs / ".unfinished-attempt_1.beat.json").symlink_to(secret)
    (theirs / "attempt_1.end.json").write_text('{"code": 0, "seconds": 1.0, "node": "n"}')
    before = {path.name for path in theirs.iterdir()}
    spec, record = JobBoard(Path("runs")).take(job.spec, "local")
    assert spec.name == job.spec.name != NAME and record.attempts == ()
    assert {path.name for path in theirs.iterdir()} == before and secret.read_text() == "mine"


def test_job_of_another_user_is_neither_stopped_nor_retried(home):
    _, theirs = forge(home, state="failed")
    (theirs / "stop").symlink_to(home / "made")
    for asked in ({"stop": True}, {"retry": True}):
        with pytest.raises(Refused, match="started by another user"):
            jobs(NAME, runs_dir=Path("runs"), **asked)
    assert not (home / "made").exists()


@pytest.mark.parametrize("name", ["../../planted", "/tmp/planted", "a/b", "", ".."])
def test_the_name_of_a_job_leads_nowhere(home, name):
    job, _ = forge(home, name, claimed=name)
    board = JobBoard(Path("runs"))
    assert board.take(job.spec, "local")[0].name == job.spec.name
    for bad in ({"name": name}, {"name": "fine", "key": f"x/{name}"}):
        with pytest.raises(TelicError, match=r"not a valid folder name|contains no letters"):
            board.take(JobSpec(argv=("true",), cwd="/", **bad), "local")
    assert {path.name for path in home.iterdir()} == {"runs"}


def test_a_damaged_job_is_one_line_of_the_list(home):
    forge(home)
    board = JobBoard(Path("runs"))
    board.take(JobSpec(name="mine", argv=("true",), cwd="/"), "local")
    for content in ("{bad", '{"schema_version": 1}'):
        (home / "runs" / "jobs" / NAME / "job.json").write_text(content)
        states = {line.job: line.state for line in board.lines()}
        assert states[NAME] == "damaged" and states["mine"] != "damaged"


def test_a_retry_runs_only_what_the_user_asked_for(home, monkeypatch):
    job = verb_job(("train",), "train:train", VALUES, Path("runs"))
    board = JobBoard(Path("runs"))
    keys.permit(job.spec.code, "jobs on local")
    board.take(job.spec, "local")
    file, folder = home / job.spec.argv[4], board.folder(job.spec.name)
    own = read_record(folder.record, JobRecord).model_dump(mode="json")
    write_json(folder.record, {**own, "state": "failed", "place": "ray://theirs:10001"})
    with pytest.raises(Refused, match="not approved: jobs on ray://theirs"):
        jobs(job.spec.name, retry=True, runs_dir=Path("runs"))
    write_json(folder.record, {**own, "state": "failed"})
    write_json(folder.spec, job.spec.model_copy(update={"sends": ("/home/me/.ssh/id",)}))
    with pytest.raises(Refused, match="not approved: the command"):
        jobs(job.spec.name, retry=True, runs_dir=Path("runs"))
    request = read_json(file)
    write_json(file, {**request, "values": {"env": "mjlab:Any", "python": str(home / "evil.sh")}})
    with monkeypatch.context() as patch:
        patch.setattr(signal, "signal", lambda *_: None)
        assert run_job_file(*job.spec.argv[4:]) == Refused.exit_code
    assert "was modified" in read_json(job.state)["error"]


def archive(removed=(), **files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(".removed.json", json.dumps(list(removed)))
    return out.getvalue()


RETURNED = {  # what a node may not return
    "code": {"train.py": "evil"},
    "a hook": {".git/hooks/post-checkout": "evil"},
    "a module": {"runs/.git/config": "evil"},
    "a file of the job": {"runs/jobs/job/job_spec.json": "{}"},
    "a request": {"runs/jobs/train-1.json": "{}"},
    "another's state": {"runs/jobs/train-2.state.json": "{}"},
    "a session from before": {"runs/session_1/begun.json": "{}"},
    "out of the results": {"runs/../train.py": "evil"},
}


@pytest.fixture
def remote(home):
    sent = "runs/jobs/train-1.json"
    spec = JobSpec(name="job", argv=("true",), cwd=str(home), folder="runs", sends=(sent,))
    spec, _ = JobBoard(home / "runs").take(spec, "ray")
    (home / "train.py").write_text("mine")
    (home / "runs" / "session_1").mkdir()
    (home / "runs" / "session_1" / "journal.jsonl").write_text("theirs")
    return spec, JobBoard(home / "runs").folder("job")


@pytest.mark.parametrize("files", RETURNED.values(), ids=RETURNED)
def test_a_node_returns_results_and_nothing_else(home, remote, files):
    before = {path: path.is_file() and path.read_bytes() for path in home.rglob("*")}
    for content in (archive(**files), archive(files)):
        with pytest.raises(BadFile, match=r"did not create|outside its folder"):
            _take_in(remote[1], content, remote[0])
    assert {path: path.is_file() and path.read_bytes() for path in home.rglob("*")} == before


def test_a_node_returns_what_it_made_again_and_again(home, remote):
    spec, folder = remote
    names = ["runs/session_2/begun.json", "runs/jobs/train-1.state.json"]
    for content in ("{}", '{"a": 1}'):
        _take_in(folder, archive(**dict.fromkeys(names, content)), spec)
    assert is_own_folder(home / "runs" / "session_2")
    assert (home / names[1]).read_text() == content and _returned(folder, spec) == {*names}
    _take_in(folder, archive(names[1:]), spec)
    assert not (home / names[1]).exists()
    write_json(folder.returned, ["../secret", "/etc/passwd", "train.py", names[0]])
    assert _returned(folder, spec) == {names[0]}, "files to send to the next node"


def test_archive_does_not_fill_the_memory(home, remote, monkeypatch):
    monkeypatch.setattr(_ray_cluster, "_MAX_BYTES", 1 << 16)
    spec, folder = remote
    bomb = archive(**{"runs/session_2/zeros": bytes(1 << 17)})
    with pytest.raises(BadFile, match="too large"):
        _take_in(folder, bomb, spec)
    assert not (home / "runs" / "session_2").exists()


def test_a_worker_runs_only_what_was_submitted(home):
    """Others can write to the folder of a job while it waits in a queue."""

    class Slow(LocalJobs):
        def start(self, spec, folder, attempt):
            evil = spec.model_copy(update={"argv": ("touch", str(home / "pwned"))})
            write_json(folder.spec, evil)
            return super().start(spec, folder, attempt)

    spec = JobSpec(name="mine", argv=("true",), cwd=str(home))
    with JobPool(read_place("local?attempts=1"), Path("runs"), launcher=Slow()) as pool:
        record = pool.submit(spec).result(30)
    assert record.state == "failed" and "was modified" in record.reason
    assert not (home / "pwned").exists()


@pytest.mark.parametrize("kind", ["ray", "slurm", "forged"])
def test_an_end_is_countersigned_only_if_it_was_copied_from_a_node(home, monkeypatch, kind):
    """A node that names another artifact of the user would have it signed, or deleted as a part."""
    signed, folder = [], home / "runs" / "session_1"
    write_json(folder / "session.json", {"intent": "hop", "env": "Hopper-v5"})
    sign_folder(folder)
    monkeypatch.setattr(elsewhere, "countersign", signed.append)
    monkeypatch.setattr(elsewhere, "artifact_of", lambda *_: folder)
    monkeypatch.setattr("telic.verbs._resume.result_in", lambda path: path)
    place, board = SimpleNamespace(kind=kind.replace("forged", "ray")), JobBoard(Path("runs"))
    name = "session_2" if kind == "forged" else folder.name
    write_json(board.folder("job_1").returned, [f"runs/{name}/summary.json"])
    ended: Future[Any] = Future()
    ended.set_result(SimpleNamespace(name="job_1"))
    pool = SimpleNamespace(place=place, board=board, submit=lambda spec: ended)
    asked = {"intent": "hop", "env": "Hopper-v5"}
    is_refused = pytest.raises(Refused) if kind == "forged" else contextlib.nullcontext()
    with is_refused:
        RemoteVerbs(pool, kind, Path("runs")).do(("run",), "session:run", asked, print)
    assert len(signed) == (kind == "ray")


def test_only_the_session_that_was_asked_for_is_countersigned(home):
    folder = SessionFolder(home / "runs" / "session_1")
    asked = {"intent": "do a backflip", "env": "Hopper-v5"}
    write_json(folder.config, asked)
    assert not _is_answer(folder, asked), "of another user"
    sign_folder(folder.path)
    assert _is_answer(folder, asked)
    assert not _is_answer(folder, {**asked, "intent": "hop"})
    assert not _is_answer(folder, {**asked, "env": "Ant-v5"})
    # The node could also make it easier to pass.
    easier = {"threshold": 0.1, "accept_partial": True, "seeds": [1], "criteria": [CRITERION]}
    for name, value in easier.items():
        write_json(folder.config, {**asked, name: value})
        assert not _is_answer(folder, asked), name
        assert _is_answer(folder, {**asked, name: value})


CRITERION = {"title": "moves", "quantity": "speed", "measure": "mean(speed)", "zero": 0, "goal": 1}


def test_code_named_by_a_suite_is_not_sent_to_a_place_that_would_permit_it(home):
    """The worker runs `telic run --env`, by which users permit code."""
    (home / "evil.py").write_text("class Env: pass\n")
    with JobPool(read_place("local"), home / "runs") as pool:
        remote = RemoteVerbs(pool, "local", home / "runs")
        listening = {"on_event": print, "should_stop": lambda: False}
        with pytest.raises(Refused, match="not approved"):
            remote.run_session("run", env="evil.py:Env", runs_dir=home / "runs", **listening)
    assert not list((home / "runs").rglob("*.json"))
