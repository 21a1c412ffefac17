"""Measurements detect defects added to a clip, and a rejected clip has its reason."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from telic.core.rotations import multiply
from telic.motions.checks import FilterLimits, frame_jump, measure
from telic.motions.clip import MotionClip
from telic.motions.generate import make_clip
from telic.motions.robot import motion_robot

ROBOT = motion_robot("planar-biped")


@pytest.fixture(scope="module")
def good() -> MotionClip:
    """A squat."""
    return make_clip(ROBOT, "squat", {"seconds": 2.0, "hertz": 0.5, "depth": 0.2})


def _sunk(clip: MotionClip) -> MotionClip:
    return clip.replace(root_pos=clip.root_pos - np.array([0, 0, 0.1]))


def _slid(clip: MotionClip) -> MotionClip:
    return clip.replace(
        root_pos=clip.root_pos + np.arange(clip.frames)[:, None] * np.array([0.01, 0, 0])
    )


def _bent(clip: MotionClip) -> MotionClip:
    joints = clip.joint_pos.copy()
    joints[:, 1] = -0.5
    return clip.replace(joint_pos=joints)


def _lifted(clip: MotionClip) -> MotionClip:
    return clip.replace(root_pos=clip.root_pos + np.array([0, 0, 0.5]), contacts=None)


def _fast(clip: MotionClip) -> MotionClip:
    return clip.replace(fps=clip.fps * 40)


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (_sunk, "below the ground"),
        (_slid, "no foot is at rest"),
        (_bent, "left_knee exceeds its limit by 0.5"),
        (_lifted, "nothing touches the ground"),
        (_fast, "lasts"),
    ],
)
def test_what_is_spoiled_is_the_reason(good: MotionClip, spoil, word: str) -> None:
    limits, bad = FilterLimits(), spoil(good).replace(contacts=None)
    assert limits.reasons(good, measure(ROBOT, good)) == []
    assert any(word in reason for reason in limits.reasons(bad, measure(ROBOT, bad)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["spike", "step", "teleport", "snap"])
def test_a_fault_of_one_frame_is_found_with_its_place(
    good: MotionClip, kind: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    every = int(rng.choice([1, 2]))
    fps = good.fps / every
    thinned = {
        name: getattr(good, name)[::every] for name in ("root_pos", "root_quat", "joint_pos")
    }
    clip = good.replace(fps=fps, contacts=None, human=None, **thinned)
    frame, joint = int(rng.integers(2, clip.frames - 2)), int(rng.integers(6))
    size = float(rng.choice([-1.0, 1.0]) * rng.uniform(0.75, 1.5))
    joints, root, quat = clip.joint_pos.copy(), clip.root_pos.copy(), clip.root_quat.copy()
    if kind == "spike":
        joints[frame, joint] += size
    elif kind == "step":
        joints[frame:, joint] += size
    elif kind == "teleport":
        root[frame:, 0] += 0.4 * size
    else:
        half = 0.5 * size
        quat[frame:] = multiply(
            torch.tensor([np.cos(half), 0, np.sin(half), 0]).float().expand(len(quat) - frame, 4),
            torch.tensor(quat[frame:]),
        ).numpy()
    bad = clip.replace(joint_pos=joints, root_pos=root, root_quat=quat, contacts=None)
    measured = measure(ROBOT, bad)
    name = {"teleport": "root_jump_m", "snap": "root_jump_rad"}.get(kind, "joint_jump_rad")
    worst = measured[name]
    assert worst.value > getattr(FilterLimits(), name)
    assert worst.time_s == pytest.approx(frame / fps, abs=2.5 / fps)
    if name == "joint_jump_rad":
        assert worst.part == ROBOT.joint_names[joint]
    reasons = FilterLimits().reasons(bad, measured)
    assert any(f"at {worst.time_s:.2f} s" in reason for reason in reasons)


def test_a_fast_motion_is_not_a_fault() -> None:
    for fps in (30.0, 50.0, 120.0):
        time = np.arange(0, 2, 1 / fps)
        kick = 1.0 * np.sin(2 * np.pi * 3.0 * time)  # 19 rad/s at its fastest
        assert frame_jump(kick[:, None]).max() < 0.1
