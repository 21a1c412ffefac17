"""What is measured of a clip is what was done to it, and a bad one is left out with its reason."""

from __future__ import annotations

import numpy as np
import pytest

from telic.motions.checks import FilterLimits, measure
from telic.motions.clip import MotionClip
from telic.motions.generate import make_clip
from telic.motions.robot import motion_robot

ROBOT = motion_robot("planar-biped")


@pytest.fixture(scope="module")
def good() -> MotionClip:
    """A squat, which is in balance all the time."""
    return make_clip(ROBOT, "squat", {"seconds": 2.0, "hertz": 0.5, "depth": 0.2})


def _sunk(clip: MotionClip) -> MotionClip:
    return clip.replace(root_pos=clip.root_pos - np.array([0, 0, 0.1]))


def _slid(clip: MotionClip) -> MotionClip:
    return clip.replace(
        root_pos=clip.root_pos + np.arange(clip.frames)[:, None] * np.array([0.01, 0, 0])
    )


def _bent(clip: MotionClip) -> MotionClip:
    joints = clip.joint_pos.copy()
    joints[5, 1] = -0.5
    return clip.replace(joint_pos=joints)


def _lifted(clip: MotionClip) -> MotionClip:
    return clip.replace(root_pos=clip.root_pos + np.array([0, 0, 0.5]), contacts=None)


def _fast(clip: MotionClip) -> MotionClip:
    return clip.replace(fps=clip.fps * 40)


def _leaning(clip: MotionClip) -> MotionClip:
    """Lean it about the ankles, with its feet flat where they were."""
    lean, ankle = 0.35, np.array([-0.05, 0.0, 0.07])
    away = clip.root_pos - ankle
    x = away[:, 0] * np.cos(lean) + away[:, 2] * np.sin(lean)
    z = away[:, 2] * np.cos(lean) - away[:, 0] * np.sin(lean)
    pitch = 2 * np.arctan2(clip.root_quat[:, 2], clip.root_quat[:, 0]) + lean
    none = np.zeros_like(pitch)
    return clip.replace(
        root_pos=ankle + np.stack([x, none, z], axis=1),
        root_quat=np.stack([np.cos(pitch / 2), none, np.sin(pitch / 2), none], axis=1),
        joint_pos=clip.joint_pos - lean * np.array([0, 0, 1, 0, 0, 1]),
    )


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (_sunk, "below the ground"),
        (_slid, "slide"),
        (_bent, "beyond its limit"),
        (_lifted, "nothing is near the ground"),
        (_fast, "lasts"),
        (_leaning, "balance"),
    ],
)
def test_what_is_spoiled_is_the_reason(good: MotionClip, spoil, word: str) -> None:
    limits = FilterLimits(balance_m=0.02)
    assert limits.reasons(measure(ROBOT, good)) == []
    assert any(word in reason for reason in limits.reasons(measure(ROBOT, spoil(good))))
