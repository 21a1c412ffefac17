"""The command line as a person meets it: real processes, real runs, clear refusals."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from telic.cli.main import app
from telic.storage.layout import list_runs

SMALL = ("num_envs=8", "horizon=32", "minibatch_size=64", "hidden=16,16", "epochs=2")
REWARD = """
from telic import RewardFunction

class Run(RewardFunction):
    weights = {"speed": 1.0}

    def compute(self, obs, action, next_obs, info):
        terms = {"speed": self.weights["speed"] * info["x_velocity"]}
        return terms["speed"], terms
"""


def telic(*args: str, folder: Path, check: int | None = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "telic", *args],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if check is not None:
        assert done.returncode == check, done.stderr + done.stdout
    return done


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder with one small finished run of two seeds, made by the real command."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "reward.py").write_text(REWARD)
    done = telic(
        "train",
        "HalfCheetah-v5",
        "--reward",
        "reward.py",
        "--seeds",
        "1,2",
        "--steps",
        "1024",
        "--env-arg",
        "max_episode_steps=40",
        "--evaluations",
        "2",
        "--videos",
        "none",
        "--json",
        "--weight",
        "speed=2",
        *SMALL,
        folder=folder,
    )
    summary = json.loads(done.stdout)
    assert summary["status"] == "completed"
    assert summary["members"] == ["reward_seed_1", "reward_seed_2"]
    return folder


@pytest.fixture
def printed(trained, monkeypatch, capsys):
    """Run a command in this process, because imports in new processes would take minutes."""
    monkeypatch.chdir(trained)

    def run(*args, code=0):
        with pytest.raises(SystemExit) as ended:
            app(list(args))
        done = capsys.readouterr()
        assert (ended.value.code or 0) == code, done
        return done

    return run


@pytest.mark.slow
def test_the_doctor_answers_in_json_too(printed):
    assert json.loads(printed("doctor", "--json").out)


def test_json_is_one_document_for_every_command(printed):
    for args in (
        ["list"],
        ["show"],
        ["envs"],
        ["envs", "Hopper-v5"],
        ["envs", "--presets"],
        ["train", "Ant-v5", "--dry-run"],
    ):
        done = printed(*args, "--json")
        json.loads(done.out)
        assert done.err == "", args


def test_export_writes_a_verified_bundle(trained, printed):
    made = json.loads(printed("export", "--json", "--out", "bundle").out)
    assert made
    names = {each.name for each in (trained / "bundle").iterdir()}
    assert {"policy.onnx", "policy.npz", "README.md", "reward_fn.py"} <= names


REFUSALS = [
    (["train", "HalfCheeta-v5"], 2, "HalfCheetah-v5"),
    (["train"], 2, "ENV"),
    (["train", "Ant-v5", "gama=0.9"], 2, "gamma"),
    (["train", "Ant-v5", "--steps", "lots"], 2, "500k"),
    (["train", "Ant-v5", "--reward", "missing.py"], 2, "missing.py"),
    (["train", "Ant-v5", "--reward", "broken.py"], 2, "line"),
    (["train", "Ant-v5", "--reward", "hostile.py"], 3, "import"),
    (["train", "Ant-v5", "num_envs=-1"], 2, "num_envs"),
    (["train", "Ant-v5", "--seeds", "a"], 2, "1,2,3"),
    (["train", "Ant-v5", "--preset", "fast"], 2, "preset"),
    (["train", "robot.xml"], 2, "robot.xml"),
    (["train", "Ant-v5", "--env-arg", "helthy_reward=1"], 2, "healthy_reward"),
    (["train", "Ant-v5", "--device", "cuda"], 2, "cpu"),
    (["train", "Ant-v5", "--runs-dir", "/proc/nowhere"], 3, "runs-dir"),
    (["show", "nothing"], 2, "nothing"),
    (["stop", "latest"], 2, "not running"),
    (["resume", "latest"], 2, "complete"),
    (["play", "--episode", "p50"], 2, "p90"),
    (["export", "--member", "nobody"], 2, "reward_seed_1"),
]


@pytest.mark.parametrize(("args", "code", "says"), REFUSALS, ids=lambda value: str(value)[:40])
def test_bad_input_gets_one_clear_paragraph(trained, printed, args, code, says):
    (trained / "broken.py").write_text("def reward_fn(obs:\n")
    (trained / "hostile.py").write_text("import os\n" + REWARD)
    done = printed(*args, code=code)
    assert says in done.err, done.err
    assert "Traceback" not in done.err + done.out
    assert len(done.err.strip().splitlines()) <= 12
    assert len(list_runs(trained / "runs")) == 1, "a refused request must leave no trace"


def start_long_run(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "telic",
            "train",
            "HalfCheetah-v5",
            "--steps",
            "10M",
            "--name",
            "long",
            "--videos",
            "none",
            *SMALL,
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    scalars = folder / "runs" / "long" / "default_seed_1" / "metrics" / "scalars.jsonl"
    deadline = time.monotonic() + 300
    while not (scalars.exists() and scalars.stat().st_size > 500):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.1)
    return process


def test_plugins_in_the_current_folder_are_not_loaded(tmp_path):
    """`python -m` puts the current folder first on the path."""
    (tmp_path / "evil.py").write_text("open('loaded', 'w')\ndef start(place): ...\n")
    info = tmp_path / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[telic.launchers]\nelsewhere = evil:start\n")
    command = [
        sys.executable,
        "-m",
        "telic",
        "search",
        "--env",
        "FrozenLake-v1",
        "--on",
        "elsewhere",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert 'No place for jobs named "elsewhere"' in done.stderr, done.stderr
    assert not (tmp_path / "loaded").exists()


def test_a_rendering_backend_that_is_missing_is_named(tmp_path):
    package = tmp_path / "OpenGL"
    package.mkdir()
    (package / "__init__.py").write_text("raise AttributeError('no eglQueryString')\n")
    there = {**os.environ, "PYTHONPATH": str(tmp_path), "MUJOCO_GL": "egl"}
    command = [sys.executable, "-m", "telic", "envs", "Ant-v5"]
    done = subprocess.run(command, env=there, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "MUJOCO_GL=egl: no eglQueryString" in done.stderr


@pytest.mark.slow
def test_play_renders_a_recorded_and_a_new_episode(trained, printed):
    for extra in ([], ["--seed", "5"]):
        made = json.loads(printed("play", "--size", "160x120", "--json", *extra).out)
        video = trained / made["video"]
        assert video.read_bytes()[4:8] == b"ftyp"


@pytest.mark.parametrize(
    "words",
    [
        ["study", "report", "--root", "9" * 300],
        ["study", "from", "x" * 300],
        ["orders", "list", "--session", "x" * 300],
        ["plugin", "build", "--root", "reward.py"],
        ["study", "run", "--resume", "--root", "reward.py/below"],
    ],
    ids=lambda words: " ".join(words)[:30],
)
def test_a_place_that_cannot_be_is_refused_in_a_sentence(printed, words):
    done = printed(*words, code=2)
    assert "Traceback" not in done.err and len(done.err.strip().splitlines()) <= 6
