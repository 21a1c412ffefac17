"""No program may own a builtin's name, a decorator or `self`, however it is written."""

import random
from pathlib import Path

import pytest

from telic.envs import make
from telic.errors import RefusedCode, TelicError
from telic.rewards.probe import probe
from telic.rewards.reward import load_reward
from telic.sandbox.host import Worker
from telic.sandbox.limits import MEBIBYTE, Limits
from telic.sandbox.source import check_source
from tests.attacks import names

HERE = Path(__file__).parents[2]
KINDS = (names.imports, names.bindings, names.roles, names.dunders, names.decorators)


def accepted(programs):
    """Yield the programs that the allow-list lets pass."""
    for program in programs:
        try:
            check_source(program, "program.py")
        except RefusedCode:
            continue
        yield program


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_program_binds_what_it_must_not(kind):
    programs = list(kind())
    assert len(programs) > 300
    sample = random.Random(0).sample(programs, min(1500, len(programs)))
    assert next(accepted(sample), None) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_none_of_all_programs_binds_what_it_must_not(kind):
    assert next(accepted(kind()), None) is None


@pytest.mark.parametrize("count", [400, pytest.param(3000, marks=pytest.mark.slow)])
def test_no_program_takes_over_self_or_gets_out(tmp_path, count):
    programs = random.Random(1).sample(list(names.takeovers()), count)
    worker = Worker(
        "tests.attacks.names",
        {"programs": programs},
        writable=[tmp_path],
        python_path=[HERE],
        limits=Limits(memory_bytes=6000 * MEBIBYTE, disk_bytes=10 * MEBIBYTE),
    )
    found = worker.run()
    assert found["escaped"] == []
    counts = found["counts"]
    assert counts["ran"] > 0.02 * count and counts["stopped"] > 0.2 * count, counts


EXPRESSIONS = (
    "Pay(Own(), Part(Part(np.average, '__wrapped__'), '__globals__'), 1.0)",
    "Pay(Own(), 0.0, 1.0)",
    "Cost(Measured('speed'), most=(1.0, [Own()]))",
    "Pay(Measured('speed'), words=Own())",
    "Pay(Part(len, '__self__'))",
    "Pay(Part(Measured('height'), '__class__'))",
    "Pay(np.average)",
    "Own()",
)
LIBRARY = """
import numpy as np
from telic.rewards.composed import ComposedReward
from telic.rewards.signals import Measured, Part
from telic.rewards.terms import Cost, Pay

class Own:
    arguments = ()
    words = latex = name = "own"
    takes_step = True
    def __init__(self):
        self.recipe = self
    def formula(self):
        return "x"
    def function(self, step):
        return self.clamp(step, None)
    def clamp(self, low, high):
        print("called", low)
        return 0.0

class Composed(ComposedReward):
    weights = {{"own": 1}}
    terms = {{"own": {0}}}
"""


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_term_computes_with_data_only(expression, capsys):
    """Internal values of telic are never passed to the reward's code."""
    env = make("HalfCheetah-v5", num_envs=2)
    with pytest.raises(TelicError):
        probe(load_reward(LIBRARY.format(expression)), env)
    assert "called" not in capsys.readouterr().out
