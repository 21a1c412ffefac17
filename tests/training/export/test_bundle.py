import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch

import telic
from telic.cli._output import show as print_result
from telic.errors import BadFile, Refused, UsageError
from telic.storage.files import write_json
from telic.storage.layout import RunFolder
from telic.training.export.bundle import check_bundle, export_run
from telic.verbs.artifacts import show

FILES = {
    "policy.onnx",
    "policy.npz",
    "policy.pt",
    "run_policy.py",
    "reward_fn.py",
    "reward_spec.json",
    "learning_curve.svg",
    "README.md",
}


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the small run, to write into."""
    path = tmp_path / "small"
    shutil.copytree(trained.path, path)
    return RunFolder(path)


@pytest.fixture(scope="module")
def bundle(trained, tmp_path_factory):
    """The exported bundle of the best member."""
    out = tmp_path_factory.mktemp("bundle") / "new"
    return out, export_run(trained, out=out)


def runner(folder, monkeypatch):
    """The bundle's own script, imported where neither telic, torch nor onnxruntime can be."""
    for name in ("telic", "torch", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)
    spec = importlib.util.spec_from_file_location("run_policy", folder / "run_policy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bundle_holds_exactly_the_listed_files_with_their_hashes(bundle):
    out, made = bundle
    listed = json.loads((out / "bundle.json").read_text())
    assert set(listed["files"]) == FILES
    assert {each.name for each in out.iterdir()} == FILES | {"bundle.json"}
    for name, facts in listed["files"].items():
        content = (out / name).read_bytes()
        assert facts == {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    assert (listed["run"], listed["member"]) == ("small", made["member"])
    assert listed["step"] == made["step"]
    assert max(listed["largest_deviation"].values()) <= 1e-5


def test_the_best_member_and_its_best_checkpoint_are_exported(bundle, trained):
    out, made = bundle
    summary = json.loads(trained.summary.read_text())
    best = json.loads((trained.path / summary["best_member"] / "summary.json").read_text())
    assert (made["member"], made["step"]) == (summary["best_member"], best["best_step"])
    assert telic.load_policy(out / "policy.pt").facts["step"] == best["best_step"]


def test_the_script_runs_the_policy_without_torch_and_telic(bundle, monkeypatch):
    out, _ = bundle
    policy = telic.load_policy(out / "policy.pt")
    obs = np.random.default_rng(1).normal(size=(20, 4))
    expected = policy(obs)
    alone = runner(out, monkeypatch).load(out)
    assert np.abs(alone(obs) - expected).max() <= 1e-5
    assert np.abs(alone(obs[0]) - expected[0]).max() <= 1e-5


def test_the_script_plays_in_gymnasium_as_the_policy_does(bundle, monkeypatch):
    out, _ = bundle
    policy, env = telic.load_policy(out / "policy.pt"), gymnasium.make("InvertedPendulum-v5")
    (obs, _), total, done = env.reset(seed=0), 0.0, False
    while not done:
        obs, reward, terminated, truncated, _ = env.step(policy(obs))
        total, done = total + reward, terminated or truncated
    assert runner(out, monkeypatch).play_in_gym(1) == [pytest.approx(total)]


def test_the_bundle_names_what_was_asked_for_whatever_the_policy_file_says(run):
    for member in run.members():
        for checkpoint in member.checkpoints():
            saved = torch.load(checkpoint.path, weights_only=True)
            saved["facts"] |= {"env": "evil:Env-v0", "env_args": {"xml_file": "/etc/passwd"}}
            torch.save(saved, checkpoint.path)
    export_run(run)
    with np.load(run.path / "export" / "policy.npz") as file:
        reported = json.loads(str(file["facts"]))
    asked = json.loads(run.config.read_text())
    assert (reported["env"], reported["env_args"]) == (asked["env"], asked["env_args"])
    for path in (run.path / "export").glob("*.md"):
        assert "evil" not in path.read_text()


def test_a_folder_with_files_of_the_user_is_left_alone(run, tmp_path):
    mine = tmp_path / "project"
    mine.mkdir()
    (mine / "README.md").write_text("mine")
    with pytest.raises(UsageError, match="neither empty"):
        export_run(run, out=mine)
    assert (mine / "README.md").read_text() == "mine"
    assert len(list(mine.iterdir())) == 1


@pytest.mark.parametrize("link", ["out/.unfinished-export", ".unfinished-export-out", "out/a"])
def test_no_link_leads_out_of_an_export(run, tmp_path, link):
    mine = tmp_path / "mine" / "files" / "mine"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    place = tmp_path / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(tmp_path / "mine")
    if place.parent.name == "out":
        (tmp_path / "out" / "bundle.json").write_text('{"files": {}}')
    with pytest.raises(Refused, match="link"):
        export_run(run, out=tmp_path / "out")
    assert mine.read_text() == "mine"


def test_a_file_that_was_added_to_a_signed_bundle_is_a_fault_and_is_not_run(run, tmp_path):
    export_run(run, out=tmp_path / "bundle")
    bundle = tmp_path / "bundle"
    assert check_bundle(bundle)[2] is None
    for name in ("numpy.py", "json.py"):
        (bundle / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    command = [sys.executable, "run_policy.py", "--help"]
    subprocess.run(command, cwd=bundle, capture_output=True, timeout=300, check=False)
    assert not (tmp_path / "ran").exists()
    assert check_bundle(bundle)[2] == "json.py was added after the export"
    for name in ("numpy.py", "json.py"):
        (bundle / name).unlink()
    (bundle / "policy.npz").unlink()
    (bundle / "policy.npz").symlink_to("policy.onnx")
    assert "policy.npz is missing or was modified" in check_bundle(bundle)[2]
    (bundle / "policy.npz").unlink()
    os.mkfifo(bundle / "policy.npz")
    with pytest.raises(BadFile, match="named pipe"):
        check_bundle(bundle)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("reward_spec.json", {"terms": None}),
        ("reward_spec.json", {"terms": [{}]}),
        ("reward_spec.json", {"terms": [{"name": 1}]}),
        ("reward_spec.json", {"latex": 5}),
        ("summary.json", {"findings": None}),
        ("summary.json", {"findings": [{}]}),
    ],
)
def test_damaged_records_of_a_policy_end_in_a_sentence(run, tmp_path, capsys, file, content):
    """They may have been written by a worker that ran the code of others."""
    member = run.members()[0].path
    known = json.loads((member / file).read_text())
    write_json(member / file, {**known, **content})
    for read in (
        lambda: export_run(run, member=member.name, out=tmp_path / "out"),
        lambda: print_result(show(str(run.path), member=member.name)),
    ):
        try:
            read()
        except BadFile as error:
            assert file in error.message
