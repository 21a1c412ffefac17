"""A library gives back what was put in, in batches, and loses nothing that was written."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.interpolate import interp1d
from scipy.spatial.transform import Rotation, Slerp

from telic.errors import BadFile, UnknownName
from telic.motions.library import LibraryWriter, MotionLibrary, head_for
from telic.motions.robot import motion_robot
from tests.motions.quick import wavy

ROBOT = motion_robot("planar-biped")
CLIPS = [wavy(ROBOT, seed, frames=20 + 7 * seed, fps=30.0 + 10 * seed) for seed in range(4)]
CLIPS[2] = CLIPS[2].replace(human=None, split="test")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with LibraryWriter(tmp_path / "library", head_for(ROBOT, CLIPS)) as writer:
        for clip in CLIPS:
            writer.add(clip)
    return tmp_path / "library"


def test_clips_come_back_as_they_were(folder: Path) -> None:
    library = MotionLibrary.open(folder)
    assert library.names == [clip.name for clip in CLIPS]
    assert library.chosen("test") == [2]
    for place, clip in enumerate(CLIPS):
        back = library.clip(place)
        assert back.content_hash() == clip.content_hash()
        assert np.array_equal(back.contacts, clip.contacts)
        assert (back.human is None) == (clip.human is None)
        if back.human and clip.human:
            assert np.array_equal(back.human.points, clip.human.points)


def test_frames_between_those_of_a_clip_are_blended_and_its_ends_repeat(folder: Path) -> None:
    library = MotionLibrary.open(folder)
    times = np.random.default_rng(0).uniform(-0.2, 1.4, 30)
    for place, clip in enumerate(CLIPS):
        at = np.arange(clip.frames) / clip.fps
        inside = np.clip(times, 0.0, clip.duration_s)
        frames = library.frames(place, torch.tensor(times, dtype=torch.float32))
        wanted = interp1d(at, clip.joint_pos, axis=0)(inside)
        assert np.allclose(frames.joint_pos, wanted, atol=1e-3)
        assert np.allclose(frames.root_pos, interp1d(at, clip.root_pos, axis=0)(inside), atol=1e-3)
        turn = Slerp(at, Rotation.from_quat(clip.root_quat, scalar_first=True))(inside)
        off = turn.inv() * Rotation.from_quat(frames.root_quat, scalar_first=True)
        assert off.magnitude().max() < 1e-3
        person = library.person(place, torch.tensor(times, dtype=torch.float32))
        assert (person is None) == (clip.human is None)
        if person is not None:
            wanted = interp1d(at, clip.human.points, axis=0)(inside)
            assert np.allclose(person[0], wanted, atol=1e-3)


@pytest.mark.parametrize("name", ["frames.f32", "clips.jsonl", "human.f32"])
def test_what_a_crash_tears_costs_no_clip_that_was_written(folder: Path, name: str) -> None:
    with (folder / name).open("ab") as file:
        file.write(b'{"name":"half' if name == "clips.jsonl" else os.urandom(37))
    with LibraryWriter(folder, head_for(ROBOT, CLIPS)) as writer:
        writer.add(CLIPS[0].replace(name="after"))
    library = MotionLibrary.open(folder)
    assert len(library.clips) == 5
    for clip in CLIPS:
        assert library.clip(clip.name).content_hash() == clip.content_hash()
    assert library.clip("after").content_hash() == CLIPS[0].content_hash()


def test_what_does_not_belong_into_a_library_is_refused(folder: Path, tmp_path: Path) -> None:
    with LibraryWriter(folder, head_for(ROBOT, CLIPS)) as writer:
        with pytest.raises(BadFile, match="already has a clip"):
            writer.add(CLIPS[0])
        humanoid = motion_robot("Humanoid-v5")
        with pytest.raises(BadFile, match="does not have the joints of planar-biped"):
            writer.add(wavy(humanoid).replace(name="of a humanoid"))
    with pytest.raises(BadFile, match="is not a motion library"):
        MotionLibrary.open(tmp_path)
    with pytest.raises(UnknownName, match="wavi"):
        MotionLibrary.open(folder).clip("wavi 1")
