"""Attributes available to untrusted code: listed by type, existing, and enforced by the guard."""

import numpy as np
import pytest
import torch

from telic.envs import make
from telic.judges.criteria import score
from telic.judges.episode import RecordedEpisode
from telic.sandbox._guard import ask
from telic.sandbox._offered import OFFERED, kind_of, names_of
from telic.sandbox.source import compile_source, namespace


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


def test_a_class_that_names_no_kind_offers_nothing():
    class New:
        field = 1

    assert names_of(New) == frozenset() and kind_of(New) is None
    with pytest.raises(AttributeError, match="is not accessible"):
        ask(New(), "field")


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
