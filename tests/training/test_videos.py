"""Interrupted videos are rendered on resuming, without training again."""

import pytest

from telic.errors import UsageError
from telic.rendering import Rendering
from telic.storage.files import read_json
from telic.storage.layout import RunFolder, list_runs
from telic.training import videos
from telic.training.videos import missing_videos
from telic.verbs.control import resume
from telic.verbs.train import train
from tests.training.small import SETTINGS

SMALL = {
    "steps": 256,
    "settings": SETTINGS,
    "evaluations": 1,
    "eval_episodes": 2,
    "env_args": {"max_episode_steps": 20},
    "confined": False,
}


def drawn(jobs, **_):
    for job in jobs:
        job.output.parent.mkdir(parents=True, exist_ok=True)
        job.output.write_bytes(b"film")
    return [Rendering(output=job.output, backend="rays") for job in jobs]


def killed(jobs, **_):
    drawn(jobs[:1])
    raise KeyboardInterrupt


@pytest.fixture
def interrupted(tmp_path, monkeypatch) -> RunFolder:
    """A complete run whose videos were interrupted."""
    monkeypatch.setattr(videos, "render", killed)
    with pytest.raises(KeyboardInterrupt):
        train("HalfCheetah-v5", runs_dir=tmp_path, **SMALL)
    monkeypatch.setattr(videos, "render", drawn)
    (run,) = list_runs(tmp_path)
    assert read_json(run.status)["status"] == "completed" and missing_videos(run) == "best"
    return run


def test_the_same_command_draws_what_was_interrupted_and_trains_nothing(interrupted, tmp_path):
    before = interrupted.events.read_bytes()
    again = train("HalfCheetah-v5", runs_dir=tmp_path, **SMALL)
    assert again.path == interrupted.path and len(again.videos) == 3
    assert again.status == "completed" and interrupted.events.read_bytes() == before
    assert missing_videos(interrupted) is None
    assert train("HalfCheetah-v5", runs_dir=tmp_path, **SMALL).path != interrupted.path


def test_resume_draws_what_was_interrupted(interrupted, tmp_path):
    again = resume(interrupted.name, runs_dir=tmp_path)
    assert len(again.videos) == 3 and missing_videos(interrupted) is None
    with pytest.raises(UsageError, match="is complete"):
        resume(interrupted.name, runs_dir=tmp_path)
