"""Another person's folder is data: whatever code it names, in whichever field, nothing of it runs.

Every JSON file of a run, a session and a search gets every field that can name code bent to a file
that leaves a mark when it is imported or started. Then every verb that takes a folder is called.
"""

import contextlib
import itertools
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from telic.errors import Refused, TelicError
from telic.jobs.board import JobBoard
from telic.jobs.spec import JobSpec
from telic.llm import connect
from telic.llm.names import servers
from telic.search.config import SearchConfig
from telic.storage import keys
from telic.storage.files import read_record, write_json
from telic.training.job import TrainJob
from telic.training.videos import find_run
from telic.verbs import control
from tests.attacks.files import furnish, unpack
from tests.training.small import small_job, train_here


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Real work of another user: a finished training, a session that ended, killed work."""
    home = tmp_path_factory.mktemp("theirs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(tmp_path_factory.mktemp("config")))
        unpack(home)
        furnish(home)
        train_here(small_job(steps=512), home / "runs", name="run_theirs")
        board = JobBoard(home / "runs")
        spec, record = board.take(
            JobSpec(name="job_theirs", argv=("true",), cwd=str(home)), "local"
        )
        write_json(
            board.folder(spec.name).record, {**record.model_dump(mode="json"), "state": "failed"}
        )
    return home


@pytest.fixture
def theirs(original, tmp_path, monkeypatch):
    """A copy with evil files next to it, met by a user who has named no code."""
    home = shutil.copytree(original, tmp_path / "home", symlinks=True)
    mark = tmp_path / "mark"
    (home / "evil.py").write_text(
        f"from pathlib import Path\nPath({str(mark)!r}).touch()\nclass Env: pass\n"
    )
    program = home / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setattr(keys, "_granted", set())
    monkeypatch.chdir(home)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return home, mark


def names_of_code(home):
    """Yield every way to name code as (label, environment, arguments)."""
    file = f"{home / 'evil.py'}:Env"
    yield "a file", file, {}
    (home / "evil.py:Env").touch()  # a file of that name makes no data of it
    yield "a file below the working folder", "evil.py:Env", {}
    yield "a module", "evil:Env", {}
    yield "a Gymnasium id of a module", "evil:Env-v0", {}
    yield "a class of another Python", f"vector:{file}", {}
    yield "an interpreter", None, {"python": str(home / "evil.sh")}
    yield "a simulator's interpreter", "mjlab:Task", {"python": str(home / "evil.sh")}
    yield "a file and an interpreter", file, {"python": str(home / "evil.sh")}


def bend(value, env, arguments, home):
    """Return JSON in which every field that can name code does."""
    if isinstance(value, list):
        return [bend(each, env, arguments, home) for each in value]
    if not isinstance(value, dict):
        return value
    bent = {name: bend(each, env, arguments, home) for name, each in value.items()}
    for name in ("env", "env_id"):
        if isinstance(bent.get(name), str) and env is not None:
            bent[name] = env
    for name in ("env_args", "env_kwargs"):
        if isinstance(bent.get(name), dict):
            bent[name] |= arguments
    if "trusted" in bent:
        mark = home.parent / "mark"
        bent |= {"trusted": True, "ours": True, "source": f"open({str(mark)!r}, 'w')\n"}
    if "argv" in bent:
        bent["argv"] = [str(home / "evil.sh")]
    return bent


def verbs(home):
    """Yield every verb that takes a folder, over each of theirs, as (name, call)."""
    from telic import web
    from telic.verbs import artifacts, compare, control, jobs, labels, study_runs

    runs = home / "runs"
    yield "retry", lambda: jobs.jobs("job_theirs", retry=True, runs_dir=runs)
    for name in sorted(path.name for path in runs.iterdir() if path.is_dir()):
        here = {"runs_dir": runs}
        yield "list", lambda here=here: artifacts.list_artifacts(**here)
        for verb, more in (
            (artifacts.show, {}),
            (artifacts.report, {}),
            (web.report, {"site": home.parent / f"site_{name}"}),
            (artifacts.export, {}),
            (artifacts.export, {"verify": True}),
            (artifacts.play_artifact, {}),
            (artifacts.play_artifact, {"seed": 3}),
            (artifacts.play_artifact, {"command": "0.5,0,0"}),
            (compare.judge, {"episodes": 1}),
            (control.watch, {}),
            (control.resume, {}),
            (study_runs.verify, {"path": runs / name}),
        ):
            given = dict(more) if "path" in more else {**more, **here}
            words = () if "path" in more else (name,)
            yield f"{verb.__name__} {name} {more}", lambda v=verb, w=words, g=given: v(*w, **g)
        yield f"compare {name}", lambda n=name, h=here: compare.compare(n, n, **h)
        yield f"branch {name}", lambda n=name, h=here: control.branch(n, iteration=1, **h)
        yield f"label {name}", lambda n=name, h=here: labels.label("yes", session=n, **h)


@contextlib.contextmanager
def at_most(seconds):
    def end(number, frame):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


WAYS = [pytest.param(way, marks=[pytest.mark.slow] * (way not in (0, 5))) for way in range(8)]


@pytest.mark.parametrize("way", WAYS)
def test_no_verb_runs_code_that_a_foreign_folder_names(theirs, way):
    home, mark = theirs
    label, env, arguments = next(itertools.islice(names_of_code(home), way, None))
    bent = 0
    for path in home.rglob("*.json"):
        with contextlib.suppress(ValueError, UnicodeDecodeError):
            value = json.loads(path.read_text())
            changed = bend(value, env, arguments, home)
            if changed != value:
                write_json(path, changed)
                bent += 1
    assert bent >= 5
    refused = []
    for name, call in verbs(home):
        try:
            with at_most(60):
                call()
        except (TelicError, TypeError, OSError) as error:
            refused.append(str(error))
        assert not mark.exists(), (label, name)
    # The words of at least one refusal are those about code, so the code was really met.
    assert any("that you have not approved" in each for each in refused), refused


def test_a_server_that_only_a_folder_names_gets_no_key(theirs):
    home, _ = theirs
    server = "openai-compatible:http://127.0.0.1:9/v1#their-model"
    config = SearchConfig(env="CartPole-v1", method="r2po", model=server)
    (home / "runs" / "search_theirs").mkdir()
    write_json(home / "runs" / "search_theirs" / "search.json", config)
    for call in (
        lambda: control.resume(artifact="search_theirs", runs_dir=home / "runs"),
        lambda: connect(server, home),
    ):
        with pytest.raises(Refused, match="that you have not approved"):
            call()
    keys.permit(*servers(server))
    assert connect(server, home).provider.name == server


def test_work_of_another_user_that_is_resumed_does_not_become_ones_own(theirs):
    """Earlier results may be forged, so the same request must not return it."""
    home, _ = theirs
    runs = home / "runs"
    write_json(runs / "run_theirs" / "status.json", {"status": "stopped", "videos": None})
    (runs / "search_theirs").mkdir()
    config = SearchConfig(env="CartPole-v1", method="ars", runs=1, episodes=60)
    write_json(runs / "search_theirs" / "search.json", config)
    for name in ("run_theirs", "search_theirs"):
        done = control.resume(artifact=name, runs_dir=runs)
        assert done.path == runs / name and not keys.is_own_folder(runs / name)
    job = read_record(runs / "run_theirs" / "config.json", TrainJob)
    assert find_run(job.key, runs, None) is None


def test_code_is_used_again_once_this_user_named_it(theirs, tmp_path):
    home, _ = theirs
    code = f"the class {home / 'evil.py'}:Env"
    with pytest.raises(TelicError, match="not approved"):
        keys.require_permitted(code)
    keys.permit(code)
    keys._granted.clear()  # as in a later process
    keys.require_permitted(code)
    lines = (tmp_path / "config" / "permitted.jsonl").read_text()
    for forged in (lines.replace("evil.py", "other.py"), lines.replace("ed25519", "ed25518")):
        (tmp_path / "config" / "permitted.jsonl").write_text(forged)
        for each in (code, code.replace("evil.py", "other.py")):
            with pytest.raises(TelicError):
                keys.require_permitted(each)


def test_only_the_public_door_permits_what_it_is_given():
    """Code of telic itself makes environments by `telic.envs.factory.make`, which checks."""
    source = Path(keys.__file__).parents[1]
    for path in source.rglob("*.py"):
        if "testing" not in path.parts and path.name != "__init__.py":
            assert "from telic.envs import make\n" not in path.read_text(), path


def test_links_in_a_foreign_folder_are_not_followed(theirs, tmp_path):
    from telic.verbs import artifacts

    home, _ = theirs
    name = "session_20260102_030405_ended000"
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("mine")
    for link, target in (
        ("report", outside),
        ("report.md", outside / "kept.txt"),
        ("lock", outside / "kept.txt"),
    ):
        place = home / "runs" / name / link
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        place.symlink_to(target)
        for verb in (artifacts.report, artifacts.show, artifacts.export):
            with pytest.raises(TelicError):
                verb(name, runs_dir=home / "runs")
        place.unlink()
    assert sorted(os.listdir(outside)) == ["kept.txt"]
    assert (outside / "kept.txt").read_text() == "mine"
