"""A package that telic does not know, installed for real and used from the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "third_party_package"


def call(*words, cwd, path, codes=(0,)):
    """Run Python with one more folder to import from, and return what it printed."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode in codes, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return the folder that the package was installed into, offline."""
    folder = tmp_path_factory.mktemp("target")
    copy = tmp_path_factory.mktemp("source") / "package"
    subprocess.run(["cp", "-r", PACKAGE, copy], check=True)
    words = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    call(*words, "--disable-pip-version-check", "--target", folder, copy, cwd=folder, path=folder)
    assert (folder / "telic_bounce").is_dir()
    return folder


@pytest.mark.slow
def test_its_parts_keep_the_contracts(installed, tmp_path):
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", PACKAGE / "tests"]
    assert " passed" in call(*words, cwd=tmp_path, path=installed)


@pytest.mark.slow
def test_its_environment_is_described_and_trained_in_the_confined_worker(installed, tmp_path):
    words = ("-m", "telic", "envs", "--json")
    listed = json.loads(call(*words, cwd=tmp_path, path=installed))
    assert "Bounce-v0" in [env["id"] for env in listed]
    assert "Bounce-v0" in call("-m", "telic", "envs", "Bounce-v0", cwd=tmp_path, path=installed)
    reward = "def reward_fn(obs, action, next_obs, info):\n    high = next_obs[:, 0]\n"
    (tmp_path / "high.py").write_text(reward + '    return high, {"high": high}\n')
    train = ["-m", "telic", "train", "Bounce-v0", "--reward", "high.py", "--json"]
    train += ["--steps", 512, "--seeds", 1, "--videos", "none"]
    train += ["num_envs=8", "horizon=16", "minibatch_size=64"]
    summary = json.loads(call(*train, cwd=tmp_path, path=installed))
    assert "Bounce-v0" in json.dumps(summary)


@pytest.mark.slow
def test_its_proposer_searches_and_its_model_is_asked(installed, tmp_path):
    words = ["-m", "telic", "search", "--env", "CartPole-v1", "--episodes", 60, "--json"]
    words += ["--fresh-episodes", 3, "--jobs", 1, "--switch", "rollouts=2"]
    found = json.loads(call(*words, "--method", "halving", cwd=tmp_path, path=installed))
    assert found["label"] == "halving rollouts=2 (no language model used)"
    methods = call("-m", "telic", "envs", "--search", "--presets", cwd=tmp_path, path=installed)
    assert "halving" in methods
    asked = [*words, "--method", "props", "--model", "dice:6"]
    found = json.loads(call(*asked, cwd=tmp_path, path=installed))
    assert found["model"] == "dice:6" and found["runs"][0]["calls"] >= 1


@pytest.mark.long
def test_its_author_writes_and_its_judge_has_a_say(installed, tmp_path):
    words = ["-m", "telic", "run", "balance the pole", "--env", "InvertedPendulum-v5", "--json"]
    words += ["--iterations", 1, "--seeds", 1, "--episodes", 4, "--steps", "1k", "--no-vision"]
    words += ["--model", "gentle", "--judge", "patient"]
    found = json.loads(call(*words, cwd=tmp_path, path=installed, codes=(0, 1)))
    session = tmp_path / found["path"]
    assert '"patient: lasts"' in (session / "iter_1" / "judgment.json").read_text()
    assert "smoothly" in (session / "judge_fn.py").read_text()
