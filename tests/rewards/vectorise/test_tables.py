"""Every function on vectorised arrays gives what numpy gives row by row."""

import math

import numpy as np
import pytest
import torch

from telic.rewards.vectorise.array import NotVectorisable, as_array
from telic.rewards.vectorise.functions import floats
from telic.rewards.vectorise.tables import BUILTINS, LINALG, MATH, METHODS, NUMPY, Shim

ROWS = np.random.default_rng(0).uniform(0.05, 0.95, (5, 6))
NP, PY = Shim(np, "np", NUMPY), Shim(math, "math", MATH)

# Functions that do not take one array; x is a row of six numbers between 0 and 1.
SPECIAL = {
    "add": lambda m, x: m.add(x, 1.5),
    "append": lambda m, x: m.append(x[:2], x[3]),
    "array": lambda m, x: m.array([x[0], 2.0, x[1] * x[2]]),
    "average": lambda m, x: m.average(x, weights=[1, 2, 3, 4, 5, 6]),
    "clip": lambda m, x: m.clip(x, 0.3, x[0] + 0.5),
    "concat": lambda m, x: m.concat([x[:2], x[4:]]),
    "concatenate": lambda m, x: m.concatenate([x[:2], [1.0, 2.0], x[4:]]),
    "copysign": lambda m, x: m.copysign(x, x - 0.5),
    "cross": lambda m, x: m.cross(x[:3], x[3:]),
    "divide": lambda m, x: m.divide(2.0, x),
    "dot": lambda m, x: m.dot(x[:3], x[3:]),
    "empty": lambda m, x: m.empty(2) * 0.0 + x[0],
    "expand_dims": lambda m, x: m.expand_dims(x, 0),
    "full": lambda m, x: m.full(3, x[1]),
    "full_like": lambda m, x: m.full_like(x, 2.0),
    "heaviside": lambda m, x: m.heaviside(x - 0.5, 0.5),
    "hstack": lambda m, x: m.hstack([x[0], x[2:4]]),
    "logical_not": lambda m, x: m.logical_not(x > 0.5),
    "matmul": lambda m, x: m.matmul(m.reshape(x, (2, 3)), x[:3]),
    "ones": lambda m, x: m.ones((2, 3)) * x[0],
    "reshape": lambda m, x: m.reshape(x, (2, 3)),
    "roll": lambda m, x: m.roll(x, 2),
    "shape": lambda m, x: np.asarray(m.shape(x)) + x[0],
    "size": lambda m, x: m.size(x) + x[0],
    "stack": lambda m, x: m.stack([x[:3], x[3:]], 1),
    "std": lambda m, x: m.std(x) + m.std(x, ddof=1),
    "tile": lambda m, x: m.tile(x, 2),
    "trace": lambda m, x: m.trace(m.reshape(x[:4], (2, 2))),
    "transpose": lambda m, x: m.transpose(m.reshape(x, (2, 3))),
    "vdot": lambda m, x: m.vdot(x, x),
    "vstack": lambda m, x: m.vstack([x[:3], x[3:]]),
    "where": lambda m, x: m.where(x > 0.5, x, -1.0),
    "zeros": lambda m, x: m.zeros(4) + x[0],
    "arccosh": lambda m, x: m.arccosh(x + 1.0),
    "sum": lambda m, x: m.sum(x) + m.sum(m.reshape(x, (2, 3)), axis=0)[1] + m.sum(x > 0.5),
    "max": lambda m, x: m.max(m.reshape(x, (2, 3)), axis=1, keepdims=True),
    "outer": lambda m, x: m.outer(x[:2], x[:2]),
    "inner": lambda m, x: m.inner(x[:3], x[3:]),
}
PAIRS = """
arctan2 atan2 equal float_power floor_divide fmax fmin fmod greater greater_equal hypot isclose less
less_equal logaddexp logical_and logical_or logical_xor maximum minimum mod multiply not_equal pow
power remainder subtract true_divide
"""


def rows_of(function):
    """Compute all rows at once, as vectorising does."""
    return torch.vmap(lambda x: floats(function(as_array(x))))(torch.from_numpy(ROWS)).numpy()


def call(name):
    if name in SPECIAL:
        return SPECIAL[name]
    if name in PAIRS.split():
        return lambda m, x: getattr(m, name)(x[:3], x[3:] - 0.2)
    return lambda m, x: getattr(m, name)(x)


@pytest.mark.parametrize("name", sorted(NUMPY))
def test_numpy_functions(name):
    expected = np.stack([np.asarray(call(name)(np, row), dtype=float) for row in ROWS])
    np.testing.assert_allclose(rows_of(lambda x: call(name)(NP, x)), expected, rtol=1e-12)


@pytest.mark.parametrize("name", sorted(MATH))
def test_math_functions(name):
    def use(module, x):
        if name == "dist":
            return module.dist(x[:3], x[3:])
        two = name in ("atan2", "hypot", "pow", "fmod", "copysign")
        return getattr(module, name)(x[0], x[1]) if two else getattr(module, name)(x[0])

    expected = [float(use(math, row)) for row in ROWS]
    np.testing.assert_allclose(rows_of(lambda x: use(PY, x)), expected, rtol=1e-12)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_array_methods(name):
    arguments = {"astype": (int,), "clip": (0.2, 0.6), "dot": (ROWS[0],), "reshape": (3, 2)}

    def use(x):
        x = x[0] if name == "item" else x * 3.0
        result = getattr(x, name)(*arguments.get(name, ()))
        return NP.array(result) if name == "tolist" else result

    expected = np.stack([np.asarray(use(row), dtype=float) for row in ROWS])
    np.testing.assert_allclose(rows_of(use), expected, rtol=1e-12)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_norms(axis):
    shim = Shim(np.linalg, "np.linalg", LINALG)
    expected = [np.linalg.norm(row.reshape(2, 3), axis=axis) for row in ROWS]
    got = rows_of(lambda x: shim.norm(NP.reshape(x, (2, 3)), axis=axis))
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    with pytest.raises(NotVectorisable, match="ord=nuc"):
        rows_of(lambda x: shim.norm(NP.reshape(x, (2, 3)), ord="nuc"))


@pytest.mark.parametrize(
    "use",
    [
        lambda f, x: f["max"](x[0], 0.5, x[1]),
        lambda f, x: f["max"](x),
        lambda f, x: f["min"]([x[0], x[2]]),
        lambda f, x: f["float"](x[0] > 0.5) + f["int"](x[1] * 10.0) + f["float"]("2"),
        lambda f, x: f["bool"](x[0] > 0.5) * 1.0,
        lambda f, x: f["float"](f["any"](v > 0.9 for v in x)) + f["float"](f["all"]([])),
        lambda f, x: f["float"](f["all"](v > 0.2 for v in x[:3])),
        lambda f, x: x[0] if f["isinstance"](1.5, (f["float"], str)) else 0.0,
    ],
)
def test_python_functions(use):
    import builtins

    plain = {name: getattr(builtins, name) for name in BUILTINS}
    expected = [float(use(plain, row)) for row in ROWS]
    np.testing.assert_allclose(rows_of(lambda x: use(BUILTINS, x)), expected, rtol=1e-12)


def test_functions_that_are_not_known_are_named():
    with pytest.raises(NotVectorisable, match=r"np\.interp"):
        rows_of(lambda x: NP.interp(x, [0, 1], [0, 1]))
    with pytest.raises(NotVectorisable, match="isinstance of a value"):
        rows_of(lambda x: BUILTINS["isinstance"](x, float))


def test_what_is_the_same_for_all_stays_plain_numpy():
    assert isinstance(NP.array([1.0, 2.0], dtype=BUILTINS["float"]), np.ndarray)
    assert NP.pi == np.pi
    assert PY.exp(0.0) == 1.0
