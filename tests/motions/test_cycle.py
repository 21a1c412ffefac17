"""Clips become cycles: periods are found, waves are exact, limbs are distinguished."""

import math

import numpy as np
import pytest

from telic.authors.request import SessionConfig
from telic.envs import make
from telic.errors import UsageError
from telic.motions.cycle import cycle_of
from telic.motions.library import LibraryWriter, head_for
from telic.motions.robot import motion_robot
from telic.session import motion
from tests.motions.quick import wavy

FPS = 50.0


@pytest.fixture(scope="module")
def biped():
    return motion_robot("planar-biped")


def swinging(biped, hertz, seconds=6.0, **more):
    """Return a clip whose left hip has two waves, going ahead at 0.5 m/s."""
    time = np.arange(round(seconds * FPS)) / FPS
    joints = np.tile(biped.home.joint_pos, (len(time), 1))
    turned = 2.0 * math.pi * hertz * time
    joints[:, 0] = 0.1 + 0.2 * np.cos(turned) - 0.3 * np.sin(turned) + 0.05 * np.cos(2 * turned)
    root = np.tile(biped.home.root_pos, (len(time), 1))
    root[:, 0] = 0.5 * time
    quat = np.tile(biped.home.root_quat, (len(time), 1))
    clip = wavy(biped, frames=len(time), name="swinging")
    return clip.replace(
        root_pos=root, root_quat=quat, joint_pos=joints, contacts=None, human=None, **more
    )


def amplitude(course, k):
    cosine, sine = course.terms[2 * k - 1 : 2 * k + 1]
    return math.hypot(cosine, sine)


def test_a_period_and_its_waves_are_found(biped):
    cycle = cycle_of(biped, swinging(biped, 0.9))
    assert cycle.hertz == pytest.approx(0.9, rel=0.01)
    assert cycle.forward_mps == pytest.approx(0.5, rel=1e-4)
    hip = cycle.limbs["legs"][0]
    assert hip.joint == "left_hip" and hip.terms[0] == pytest.approx(0.1, abs=0.01)
    assert amplitude(hip, 1) == pytest.approx(math.hypot(0.2, 0.3), abs=0.01)
    assert amplitude(hip, 2) == pytest.approx(0.05, abs=0.01)


def test_a_library_of_several_clips_asks_for_one_by_name(biped, tmp_path):
    clips = [swinging(biped, 1.0).replace(name=name) for name in ("squat-1", "walk-slow")]
    with LibraryWriter(tmp_path / "some", head_for(biped, clips)) as writer:
        for clip in clips:
            writer.add(clip)
    env = make("planar-biped", num_envs=1)
    env.close()
    asked = {"intent": "walk forward", "env": "planar-biped"}
    with pytest.raises(UsageError, match=r"2 motions.*FOLDER/CLIP.*walk-slow"):
        motion.chosen(SessionConfig(**asked, motion=str(tmp_path / "some")), env.spec)
    named = SessionConfig(**asked, motion=str(tmp_path / "some" / "walk-slow"))
    assert "walk-slow" in str(motion.chosen(named, env.spec))


def test_a_clip_that_waves_cannot_hold_is_refused(biped):
    clip = swinging(biped, 0.2)
    noise = np.random.default_rng(0).normal(size=clip.joint_pos.shape) * 0.3
    with pytest.raises(UsageError, match="too long or too complex"):
        cycle_of(biped, clip.replace(joint_pos=clip.joint_pos + noise))
