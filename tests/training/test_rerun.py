"""Recordings of episodes for the Rerun viewer, read back by its own command."""

import subprocess
import sys

import pytest

from telic.training.videos import write_rerun
from tests.training.small import small_job, train_here


def test_a_recording_holds_the_columns_of_the_episode(tmp_path):
    pytest.importorskip("rerun")
    run = train_here(small_job(steps=256, evaluations=1), tmp_path)
    [episode] = [x.path for x in run.members()[0].trajectories() if x.label == "median"]
    video = tmp_path / "episode.mp4"
    video.write_bytes(b"not decoded when it is written")
    made = write_rerun(episode, video, tmp_path / "episode.rrd")
    command = [sys.executable, "-m", "rerun", "rrd", "stats", str(made)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for entity in ("/video", "/bodies", "/action/bthigh", "/reward/0", "/qpos/8"):
        assert f"{entity}: " in shown, entity
