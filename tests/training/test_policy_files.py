"""A policy file may have been written by a sandboxed process: only its numbers are believed."""

import pytest
import torch

from telic.errors import TelicError
from telic.storage.layout import RunFolder
from telic.storage.trajectories import read_trajectory, write_trajectory
from telic.training.folder import environment_of
from telic.training.policy import load_policy, record_episode
from telic.training.videos import render_run
from tests.training.small import small_job, train_here


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunFolder:
    return train_here(small_job(), tmp_path_factory.mktemp("runs"))


def saved(run: RunFolder):
    return torch.load(run.members()[0].checkpoints()[-1].path, weights_only=True)


def changed_shape(name, value):
    return lambda policy: policy["shape"].update({name: value})


LIES = {
    "wide": changed_shape("hidden", [1 << 40]),
    "deep": changed_shape("hidden", [2] * 1000),
    "negative": changed_shape("outputs", -3),
    "other layers": changed_shape("hidden", [16, 17]),
    "no activation": changed_shape("activation", "__import__"),
    "one number a trillion times": lambda policy: policy.update(
        flat=torch.zeros(1).expand(1_000_000_000_000)
    ),
    "a shift of another size": lambda policy: policy.update(shift=torch.zeros(1).expand(10**12)),
    "limits without end": lambda policy: policy.update(action_low=torch.zeros(1).expand(10**12)),
    "no tensor": lambda policy: policy.update(scale=[1.0]),
    "no facts": lambda policy: policy.update(facts={}),
    "a step that is a path": lambda policy: policy["facts"].update(step="../../x"),
    "another format": lambda policy: policy.update(format=99),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_policy_of_impossible_shape_is_refused_in_one_sentence(lie, run, tmp_path):
    policy = saved(run)
    lie(policy)
    torch.save(policy, tmp_path / "policy_1.pt")
    with pytest.raises(TelicError, match="is not a telic policy"):
        load_policy(tmp_path / "policy_1.pt")


def test_a_policy_is_played_where_its_run_was_and_not_where_its_file_says(run, tmp_path):
    member = run.members()[0]
    checkpoint = member.checkpoints()[-1]
    before = checkpoint.path.read_bytes()
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'owned')!r}, 'w')\nclass Env: pass\n")
    policy = saved(run)
    policy["facts"].update(env=f"{evil}:Env", env_args={"xml_file": str(evil)})
    torch.save(policy, checkpoint.path)
    try:
        path = record_episode(member, checkpoint.step, 3, environment_of(run))
    finally:
        checkpoint.path.write_bytes(before)
    assert read_trajectory(path).facts.env_id == "HalfCheetah-v5"
    assert not (tmp_path / "owned").exists()


def test_invalid_archive_is_not_a_policy(tmp_path):
    (tmp_path / "policy_1.pt").write_bytes(b"\x80\x04cos\nsystem\n")
    with pytest.raises(TelicError, match="is not a telic policy"):
        load_policy(tmp_path / "policy_1.pt")


@pytest.mark.slow
def test_videos_show_the_environment_of_the_job_whatever_the_recording_says(run, tmp_path):
    member = run.members()[0]
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'owned')!r}, 'w')\nclass Env: pass\n")
    for artifact in member.trajectories():
        episode = read_trajectory(artifact.path)
        lie = {"env_id": f"{evil}:Env", "model_path": "/etc/passwd.xml"}
        facts = episode.facts.model_copy(update=lie)
        columns = {name: column[:3] for name, column in episode.columns.items()}
        write_trajectory(artifact.path, type(episode)(columns, facts))
    received = []
    videos = render_run(run.path, which="last", on_event=received.append)
    assert len(videos) == 3 and not (tmp_path / "owned").exists()
