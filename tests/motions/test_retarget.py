"""A person's motion becomes the robot's: within limits, and feet that stand do not slide."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from telic.errors import BadFile
from telic.motions._retarget import retarget
from telic.motions.checks import measure
from telic.motions.clip import MotionClip, MotionOrigin
from telic.motions.formats._track import SkeletonTrack
from telic.motions.generate import make_clip
from telic.motions.intake import person_track
from telic.motions.robot import motion_robot

HUMANOID = motion_robot("Humanoid-v5")


@pytest.fixture(scope="module")
def walk() -> MotionClip:
    """A walk of the humanoid, with the person who does the same."""
    parameters = {"seconds": 1.2, "speed": 0.8, "rhythm": 1.0, "lift": 0.08}
    return make_clip(HUMANOID, "walk", parameters)


@pytest.mark.parametrize("name", ["Humanoid-v5", "planar-biped"])
def test_a_persons_walk_becomes_the_robots(walk: MotionClip, name: str) -> None:
    robot = motion_robot(name)
    assert walk.human is not None
    track = person_track(walk, walk.human)
    # Somebody who recorded it badly: the whole person drifts, so that standing feet slide.
    drift = np.arange(walk.frames)[:, None] * np.array([0.002, 0, 0])
    shaken = {key: way + drift for key, way in track.points.items()}
    drifting = SkeletonTrack(track.name, track.fps, shaken, track.root_quat)
    clip, slid = retarget(drifting, robot, MotionOrigin())
    assert clip.robot == name and clip.frames == walk.frames
    beyond = np.maximum(robot.low - clip.joint_pos, clip.joint_pos - robot.high)
    assert beyond.max() <= 1e-6
    assert slid is not None and slid > 0.05
    assert measure(robot, clip)["skate_m_s"].value < 0.02
    assert clip.contacts is not None and 0.3 < clip.contacts.mean() < 0.95
    far = clip.root_pos[-1, 0] - clip.root_pos[0, 0]
    assert 0.6 < far < 1.6
    assert "retargeted" in clip.origin.steps[-1]
    speed = np.abs(np.diff(clip.joint_pos, axis=0)).max() * clip.fps
    assert speed < 20.0, "limbs do not flip"


def test_a_recording_that_jumps_is_rejected_with_its_place(walk: MotionClip) -> None:
    assert walk.human is not None
    track = person_track(walk, walk.human)
    track.points["left_hand"][20] += [0.0, 0.6, 0.0]
    with pytest.raises(BadFile, match=r"left_hand jumps by 0\.\d+ m at 0\.40 s"):
        retarget(track, HUMANOID, MotionOrigin())


BVH = Path(os.environ.get("TELIC_CMU_BVH", "/usr/share/assimp/models/BVH/01_01.bvh"))


@pytest.mark.slow
@pytest.mark.skipif(
    not BVH.is_file(),
    reason="the package assimp-testmodels is not here; TELIC_CMU_BVH names a file",
)
def test_a_recorded_person_becomes_a_humanoid() -> None:
    from telic.motions.formats import read_motions

    (track,) = read_motions(BVH)
    clip, slid = retarget(track, HUMANOID, MotionOrigin())
    assert slid is not None
    assert measure(HUMANOID, clip)["skate_m_s"].value < 0.2 * slid
