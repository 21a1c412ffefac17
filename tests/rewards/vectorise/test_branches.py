"""Rewritten code on vectorised arrays gives what the plain code gives on each row."""

import ast

import numpy as np
import pytest
import torch

from telic.rewards.vectorise.array import NotVectorisable, as_array
from telic.rewards.vectorise.branches import HELPERS, rewrite
from telic.rewards.vectorise.functions import floats
from telic.rewards.vectorise.tables import BUILTINS

ROWS = np.random.default_rng(2).normal(size=(24, 3))


def one_by_one(text):
    scope = {}
    exec(compile(text, "plain", "exec"), scope)
    return [float(scope["f"](row)) for row in ROWS]


def at_once(text):
    scope = {**HELPERS, **BUILTINS}
    exec(compile(rewrite(ast.parse(text)), "vectorised", "exec"), scope)
    return torch.vmap(lambda x: floats(scope["f"](as_array(x))))(torch.from_numpy(ROWS)).numpy()


CASES = {
    "if_else": "if x[0] > 0:\n y = x[1]\nelse:\n y = -x[1]\nreturn y",
    "elif": "if x[0] > 1:\n y = 3.0\nelif x[0] > 0:\n y = x[1]\nelse:\n y = 0\nreturn y",
    "plain_numbers": "return 0.1 if x[0] > 0 else 0.3",
    "no_else": "y = 1.0\nif x[0] > 0:\n y += x[2]\nreturn y",
    "nested": "y = 0.0\nif x[0] > 0:\n if x[1] > 0:\n  y = 1.0\n else:\n  y = 2.0\nreturn y",
    "and_or_not": "return 1.0 if (x[0] > 0 and not x[1] > 0) or x[2] > 1 else 0.0",
    "values_of_or": "return (x[0] > 0 and x[1]) + (0.0 or x[2])",
    "chain": "return 2.0 if -0.5 < x[0] < 0.5 <= 1 else x[0]",
    "early_return": "if x[0] > 1:\n return 9.0\nif x[0] < -1:\n return -9.0\nreturn x[0]",
    "half_return": "y = 1.0\nif x[0] > 0:\n y = 2.0\n if x[1] > 0:\n  return 7.0\nreturn y + x[2]",
    "loop_inside": "y = 0.0\nif x[0] > 0:\n for i in range(3):\n  y = y + x[i]\nreturn y",
    "if_in_loop": "y = 0.0\nfor v in x:\n if v > 0:\n  y += v\n else:\n  y -= 1.0\nreturn y",
    "dictionary": "d = {'a': 1.0}\nif x[0] > 0:\n d['a'] = x[1]\n d['b'] = 2.0\n"
    "return d['a'] + d.get('b', 0.0)",
    "tuples": "if x[0] > 0:\n a, b = x[1], 1.0\nelse:\n a, b = 0.0, x[2]\nreturn a * b",
    "only_when_set": "if x[0] > 0:\n y = x[1]\nz = 0.0\nif x[0] > 0:\n z = y\nreturn z",
    "static_condition": "n = 3\nif n > 2:\n y = x[0]\nelse:\n y = undefined\nreturn y",
    "static_list": "parts = []\nif len(x) == 3:\n parts.append(x[0])\nreturn sum(parts)",
    "lambda": "g = lambda v: v if v > 0 else 0.0\nreturn g(x[0]) + g(x[1])",
    "comprehension": "return sum(v if v > 0 else -2 * v for v in x)",
    "closure": "def g(v):\n if v > 0:\n  return v\n return 0.0\nreturn g(x[0]) - g(x[1])",
    "unsafe_side": "return x[1] / x[0] if abs(x[0]) > 0.1 else 0.0",
    "walrus_outside": "y = (z := x[0]) + 1.0\nreturn y + z",
    "annotated": "y: float = 0.0\nif x[0] > 0:\n y: float = x[1]\nreturn y",
    "return_in_loop": "for v in range(3):\n if v == 1:\n  return x[v]\nreturn 0.0",
}


@pytest.mark.parametrize("name", CASES)
def test_branches_are_merged(name):
    body = "\n".join(f"    {line}" for line in CASES[name].splitlines())
    text = f"def f(x):\n{body}\n"
    np.testing.assert_allclose(at_once(text), one_by_one(text), rtol=1e-12)


@pytest.mark.parametrize(
    "body",
    [
        "parts = []\n    if x[0] > 0:\n        parts.append(1.0)\n    return sum(parts)",
        "y = None if x[0] > 0 else 1.0\n    return 0.0 if y is None else y",
        "while x[0] > 0:\n        x = x - 1\n    return x[0]",
        "for v in x:\n        if v > 0:\n            break\n    return v",
        "assert x[0] > 0\n    return x[0]",
    ],
)
def test_decisions_that_cannot_be_merged_are_refused(body):
    with pytest.raises(NotVectorisable):
        at_once(f"def f(x):\n    {body}\n")


def test_imports_are_redirected():
    text = (
        "import numpy as np\nfrom numpy.linalg import norm\nimport math, ast\nfrom math import pi\n"
    )
    code = ast.unparse(rewrite(ast.parse(text)))
    assert code.splitlines() == [
        "np = __vector_numpy__",
        "norm = __vector_numpy__.linalg.norm",
        "math = __vector_math__",
        "import ast",
        "pi = __vector_math__.pi",
    ]


def test_code_that_grows_without_end_is_left_alone():
    ifs = "".join(
        f"    if x[0] > {i}:\n        if x[1] > 0:\n            return {i}\n" for i in range(40)
    )
    tree = ast.parse(f"def f(x):\n{ifs}    return 0\n")
    assert len(list(ast.walk(rewrite(tree)))) < 50 * len(list(ast.walk(tree)))
