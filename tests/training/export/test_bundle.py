import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch

import telic
from telic.errors import BadFile, Refused, UnknownName, UsageError
from telic.session.hub import upload_bundle
from telic.storage.layout import RunFolder
from telic.training.export.bundle import check_bundle, export_run

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


def test_a_member_and_a_checkpoint_can_be_chosen(run):
    made = export_run(run, member="reward_seed_2", step=256)
    assert (made["member"], made["step"]) == ("reward_seed_2", 256)
    assert telic.load_policy(run.path / "export" / "policy.pt").facts["seed"] == 2


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


def test_unknown_members_and_checkpoints_get_the_closest_names(run):
    with pytest.raises(UnknownName, match=r'No member named "reward_seed_3".*reward_seed_'):
        export_run(run, member="reward_seed_3")
    with pytest.raises(UnknownName, match=r'No checkpoint named "250".*256'):
        export_run(run, step=250)
    assert not (run.path / "export").exists()


def test_a_video_of_the_checkpoint_comes_along_and_goes_with_it(run):
    member = next(each for each in run.members() if each.name == "reward_seed_1")
    member.videos_dir.mkdir()
    member.video(512, "median").write_bytes(b"film")
    export_run(run, member="reward_seed_1", step=512)
    out = run.path / "export"
    assert (out / "replay.mp4").read_bytes() == b"film"
    assert "(replay.mp4)" in (out / "README.md").read_text()
    export_run(run, member="reward_seed_1", step=256)
    assert not (out / "replay.mp4").exists()
    assert "replay.mp4" not in json.loads((out / "bundle.json").read_text())["files"]


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


def test_only_files_of_the_bundle_are_uploaded(bundle, tmp_path, monkeypatch):
    hub, sent = SimpleNamespace(create_repo=lambda *_, **__: "page"), list[str]()
    hub.upload_folder = lambda **given: sent.append(given["folder_path"].name)
    monkeypatch.setattr("telic.session.hub._hub", lambda _: nullcontext((hub, "me/it", None)))
    folder = shutil.copytree(bundle[0], tmp_path / "bundle")
    assert upload_bundle(folder, "hf://me/it") == "page"
    (folder / ".env").write_text("KEY=1")
    with pytest.raises(Refused, match=r"\.env was added"):
        upload_bundle(folder, "hf://me/it")
    assert sent == ["bundle"]


def test_a_file_that_was_added_to_a_signed_bundle_is_a_fault_and_is_not_run(run, tmp_path):
    export_run(run, out=tmp_path / "bundle")
    bundle = tmp_path / "bundle"
    assert check_bundle(bundle)[2] is None
    for name in ("numpy.py", "json.py"):
        (bundle / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    command = [sys.executable, "run_policy.py", "--help"]
    subprocess.run(command, cwd=bundle, capture_output=True, timeout=60, check=False)
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
