"""A clip is checked when it is made, and is the same motion at any rate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telic.errors import BadFile
from telic.motions.robot import motion_robot
from tests.motions.quick import wavy

ROBOT = motion_robot("planar-biped")
CLIP = wavy(ROBOT)


@pytest.mark.parametrize("column", ["root_pos", "root_quat", "joint_pos"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_a_number_that_is_none_is_named_with_its_frame(column: str, value: float) -> None:
    values = getattr(CLIP, column).astype(float)
    values[7, 1] = value
    with pytest.raises(BadFile, match=r"wavy 0, frame 7: " + column):
        CLIP.replace(**{column: values})


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["root_pos", "root_quat", "joint_pos", "contacts"]),
    st.lists(st.integers(0, 9), max_size=4),
)
def test_any_other_shape_is_refused_in_a_sentence(column: str, shape: list[int]) -> None:
    with pytest.raises(BadFile, match="wavy 0"):
        CLIP.replace(**{column: np.zeros(shape)})


def test_a_quaternion_that_is_no_rotation_is_refused_and_a_rounded_one_is_mended() -> None:
    assert np.allclose(CLIP.replace(root_quat=CLIP.root_quat * 1.01).root_quat, CLIP.root_quat)
    with pytest.raises(BadFile, match="frame 0: root_quat has the length 2"):
        CLIP.replace(root_quat=CLIP.root_quat * 2)


@settings(max_examples=30, deadline=None)
@given(st.floats(20, 400), st.integers(2, 80))
def test_resampling_there_and_back_is_the_same_motion(fps: float, frames: int) -> None:
    clip = wavy(ROBOT, frames=frames)
    other = clip.resampled(fps)
    assert other.duration_s <= clip.duration_s + 2 / fps
    assert np.allclose(other.root_pos[0], clip.root_pos[0])
    steps = np.abs(np.diff(clip.joint_pos, axis=0)).max() if frames > 1 else 0
    wanted = np.stack(
        [
            np.interp(
                np.clip(np.arange(other.frames) / fps, 0, clip.duration_s),
                np.arange(frames) / clip.fps,
                clip.joint_pos[:, joint],
            )
            for joint in range(clip.joint_pos.shape[1])
        ],
        axis=1,
    )
    assert np.abs(other.joint_pos - wanted).max() < 1e-4 * max(1.0, float(steps) * fps)
