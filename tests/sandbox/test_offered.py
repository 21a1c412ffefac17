"""Attributes available to untrusted code: listed by type, existing, and enforced by the guard."""

import numpy as np
import pytest
import torch

from telic.envs import make
from telic.errors import RefusedCode
from telic.judges.criteria import CriterionScore, score
from telic.judges.episode import RecordedEpisode
from telic.quantities import QUANTITIES
from telic.sandbox._guard import ask
from telic.sandbox._offered import OFFERED, kind_of, names_of
from telic.sandbox.source import compile_source, namespace, source_lines


@pytest.mark.parametrize(
    ("kind", "cls"),
    [
        ("a tensor", torch.Tensor),
        ("a numpy array", np.ndarray),
        ("a numpy number", np.float64),
        ("a text", str),
        ("a list", list),
        ("a set", set),
        ("a range", range),
        ("an episode", RecordedEpisode),
    ],
)
def test_every_name_on_the_list_exists(kind, cls):
    assert kind_of(cls) == kind
    assert OFFERED[kind] - set(dir(cls)) == set()


def test_records_offer_fields_and_no_method_of_their_library():
    env = make("HalfCheetah-v5", num_envs=1)
    env.close()
    for record in (env.spec, env.spec.robot, env.spec.joints[0], score("x", 1, zero=0, goal=1)):
        given = {name for name in names_of(type(record)) if hasattr(record, name)}
        methods = {name for name in given if callable(getattr(record, name))}
        assert given and methods <= {"slide"}, methods
    assert ask(score("x", 1.0, zero=0.0, goal=1.0), "credit") == 1.0


@pytest.mark.parametrize(
    "name", ["model_copy", "parse_raw", "model_construct", "copy", "_x", "__class__"]
)
def test_what_a_record_has_besides_cannot_be_asked(name):
    with pytest.raises(AttributeError):
        ask(score("x", 1.0, zero=0.0, goal=1.0), name)


def test_a_class_that_names_no_kind_offers_nothing():
    class New:
        field = 1

    assert names_of(New) == frozenset() and kind_of(New) is None
    with pytest.raises(AttributeError, match="is not accessible"):
        ask(New(), "field")


def test_quantities_do_not_hand_out_their_functions():
    for quantity in QUANTITIES.values():
        for name in ("function", "need", "require"):
            with pytest.raises(AttributeError):
                ask(quantity, name)


def run(source: str, **given):
    scope = namespace()
    exec(compile_source(source, "x.py"), scope)
    return scope["f"](**given)


def test_a_file_reads_its_own_objects_and_the_listed_rest():
    source = """
class Counter:
    def __init__(self):
        self._seen = 0
        self.total = 0.0
    def add(self, x):
        self._seen += 1
        self.total += x.sum().item()
        return self
def f(x):
    c = Counter()
    c.add(x).add(x)
    return c.total, x.shape[0], [v.real for v in [1.5]], f"{x.ndim}"
"""
    assert run(source, x=torch.ones(3)) == (6.0, 3, [1.5], "1")


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def m(s):\n        s.model_copy = 1\ndef f(x):\n    return x.model_copy",
        "class A:\n    model_copy = 1\ndef f(x):\n    return getattr(x, 'model_copy')",
        "class A:\n    model_copy = 1\ndef f(x):\n    return [y.model_copy for y in [x]]",
        "class A:\n    model_copy = 1\ndef f(x):\n    return (lambda z: z.model_copy)(x)",
        "class A:\n    model_copy = 1\ndef f(x):\n    return f'{x.model_copy}'",
        "class A:\n    model_copy = 1\ndef f(x):\n    match x:\n        case y:\n"
        "            return y.model_copy",
    ],
)
def test_a_name_of_ones_own_opens_no_door_on_other_objects(source):
    with pytest.raises(AttributeError, match="is not accessible on a score"):
        run(source, x=score("x", 1.0, zero=0.0, goal=1.0))


@pytest.mark.parametrize(
    "source",
    [
        "def g(c):\n    return c\nclass A:\n    m = classmethod(g)\ndef f(x):\n    pass",
        "class A:\n    class B:\n        pass\ndef f(x):\n    return getattr(A(), 'B')",
        "def f(x):\n    p = property\n",
        "def f(x):\n    match x:\n        case x.y:\n            pass",
        "def f(x):\n    return x.to_sparse().coalesce().indices()",
        "def f(x):\n    return x.parse_raw(b'')",
    ],
)
def test_what_no_object_offers_is_refused_before_it_runs(source):
    with pytest.raises(RefusedCode):
        compile_source(source, "x.py")


@pytest.mark.parametrize(
    "end", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
)
def test_lines_are_counted_as_python_counts_them(end):
    text = f"# a comment{end}import os\nx = 1\r\ny = 2\rz = 3"
    assert source_lines(text) == [f"# a comment{end}import os", "x = 1", "y = 2", "z = 3"]


def test_criterion_score_accepts_only_consistent_numbers():
    for wrong in ({"credit": 99.0}, {"weight": float("nan")}, {"weight": -1.0}, {"counted": 2.0}):
        fields = score("x", 1.0, zero=0.0, goal=1.0).model_dump() | wrong
        with pytest.raises(ValueError, match="CriterionScore"):
            CriterionScore.model_validate(fields)
