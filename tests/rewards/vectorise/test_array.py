import numpy as np
import pytest
import torch

from telic.rewards.vectorise.array import NotVectorisable, VectorArray, as_array
from telic.rewards.vectorise.functions import floats

ROWS = np.random.default_rng(1).normal(size=(4, 6))
CONSTANT = np.array([1.0, -2.0, 0.5, 3.0, 0.1, 2.0])


def rows_of(function):
    return torch.vmap(lambda x: floats(function(as_array(x))))(torch.from_numpy(ROWS)).numpy()


EXPRESSIONS = {
    "arithmetic": lambda x: (x + 1) * 2 - x / 3.0 + 1.0 / (x + 10.0) - (2 - x),
    "powers": lambda x: x**2 + 2**x + abs(x) ** 0.5,
    "remainders": lambda x: x % 0.7 + 5.0 % (x + 10.0) + x // 0.3 + 7.0 // (x + 10.0),
    "with_arrays": lambda x: CONSTANT * x + (x - CONSTANT) / CONSTANT - CONSTANT,
    "matrices": lambda x: x @ CONSTANT + CONSTANT @ x,
    "comparisons": lambda x: (x > 0) * 1.0 + (x <= CONSTANT) * 2.0 + (x > 0.5) * 4.0 + (x != x[0]),
    "logic": lambda x: ((x > 0) & (x < 1)) | ~(x > -1) ^ (x == 0),
    "signs": lambda x: -x + +x - abs(x),
    "rounding": lambda x: round(x[0], 1) + round(x[1]),
    "indices": lambda x: x[0] + x[-1] + x[1:3].sum() + x[::2][1] + x[np.array([0, 2])].sum(),
    "reversed": lambda x: x[::-1] * np.arange(6),
    "masks": lambda x: x[[True, False, True, False, False, True]],
    "shapes": lambda x: x[None, :].T + x.reshape(2, 3)[1, ::2].sum() + len(x) + x.size + x.ndim,
    "iteration": lambda x: sum(v * i for i, v in enumerate(x)),
    "unpacking": lambda x: (lambda a, b, *rest: a * b + rest[-1])(*x),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_mean_what_they_mean_to_numpy(name):
    expected = np.stack([np.asarray(EXPRESSIONS[name](row), dtype=float) for row in ROWS])
    np.testing.assert_allclose(rows_of(EXPRESSIONS[name]), expected, rtol=1e-12, atol=1e-15)


def test_items_can_be_written():
    def use(make, x):
        out = make(x)
        out[1] = x[0] * 2
        out[2:4] = x[4:]
        out[[0, 5]] = -1.0
        out[0] += 3.0
        return out

    expected = np.stack([use(np.copy, row) for row in ROWS])
    got = rows_of(lambda x: use(lambda y: VectorArray(y.tensor), x))
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "use, what",
    [
        (lambda x: 1.0 if x[0] > 0 else 2.0, "a decision"),
        (lambda x: [1.0, 2.0][x[0]], "a Python number"),
        (lambda x: float(x[0]), "a Python number"),
        (lambda x: x[x > 0], "an index that differs"),
        (lambda x: f"{x[0]:.2f}", "written as text"),
        (lambda x: (x[0] > 0) + (x[1] > 0), "truth values"),
        (lambda x: x.tobytes(), r"the array method \.tobytes"),
        (lambda x: x[0] & 1, "on numbers"),
    ],
)
def test_what_differs_between_environments_cannot_be_known(use, what):
    with pytest.raises(NotVectorisable, match=what):
        rows_of(use)
