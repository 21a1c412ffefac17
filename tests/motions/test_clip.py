"""A clip is checked when it is made."""

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


def test_invalid_quaternion_is_refused_and_a_rounded_one_is_normalized() -> None:
    assert np.allclose(CLIP.replace(root_quat=CLIP.root_quat * 1.01).root_quat, CLIP.root_quat)
    with pytest.raises(BadFile, match="frame 0: root_quat has norm 2"):
        CLIP.replace(root_quat=CLIP.root_quat * 2)
