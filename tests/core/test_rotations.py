import math

import mujoco
import numpy as np
import pytest
import torch

from telic.core.rotations import (
    conjugate,
    gravity_direction,
    multiply,
    rotate,
    rotation_vector,
)


@pytest.fixture
def two_rotations():
    random = np.random.default_rng(0).normal(size=(2, 4))
    return random / np.linalg.norm(random, axis=1, keepdims=True)


def test_quaternion_algebra_is_that_of_mujoco(two_rotations):
    a, b = two_rotations
    v, product, turned = np.array([0.3, -2.0, 1.0]), np.zeros(4), np.zeros(3)
    mujoco.mju_mulQuat(product, a, b)
    mujoco.mju_rotVecQuat(turned, v, a)
    a, b, v = map(torch.tensor, (a, b, v))
    assert multiply(a, b).tolist() == pytest.approx(product.tolist())
    assert rotate(a, v).tolist() == pytest.approx(turned.tolist())
    down = rotate(conjugate(a), torch.tensor([0.0, 0.0, -1.0], dtype=a.dtype))
    assert gravity_direction(a).tolist() == pytest.approx(down.tolist())
    assert multiply(a, conjugate(a)).tolist() == pytest.approx([1, 0, 0, 0], abs=1e-12)


def test_rotation_vector_takes_the_shorter_way():
    half = math.radians(170) / 2
    q = torch.tensor([math.cos(half), 0.0, math.sin(half), 0.0])
    assert rotation_vector(q).tolist() == pytest.approx([0, math.radians(170), 0])
    assert rotation_vector(-q).tolist() == pytest.approx([0, math.radians(170), 0])
    half = math.radians(190) / 2
    q = torch.tensor([math.cos(half), 0.0, math.sin(half), 0.0])
    assert rotation_vector(q).tolist() == pytest.approx([0, math.radians(-170), 0])
