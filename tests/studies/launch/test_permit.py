"""A permit starts one command once, soon."""

import ast
from pathlib import Path

import pytest

from telic.studies.errors import GateRefused
from telic.studies.launch import order

SOURCE = Path(order.__file__).parent.parent.parent


def test_it_counts_once():
    given = order.mint("n1", "a" * 64)
    given.spend("n1", "a" * 64)
    with pytest.raises(GateRefused, match="counts once"):
        given.spend("n1", "a" * 64)


@pytest.mark.parametrize(("nonce", "argv_hash"), [("n2", "a" * 64), ("n1", "b" * 64)])
def test_it_is_for_one_command_and_a_wrong_use_spends_it(nonce, argv_hash):
    given = order.mint("n1", "a" * 64)
    with pytest.raises(GateRefused, match="another command"):
        given.spend(nonce, argv_hash)
    with pytest.raises(GateRefused, match="counts once"):
        given.spend("n1", "a" * 64)


def test_it_is_gone_after_a_minute(monkeypatch):
    given = order.mint("n1", "a" * 64)
    now = order.time.monotonic()
    monkeypatch.setattr(order.time, "monotonic", lambda: now + 61)
    with pytest.raises(GateRefused, match="older than 60 s"):
        given.spend("n1", "a" * 64)


def test_nobody_makes_one_by_hand():
    with pytest.raises(GateRefused, match="by hand"):
        order.LaunchPermit(object(), "n1", "a" * 64, 1e12)


@pytest.mark.slow
def test_only_the_gates_give_permits():
    callers = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = isinstance(node, ast.ImportFrom) and node.module == order.__name__
            if name and any(each.name == "mint" for each in node.names):
                callers.add(path.name)
    assert callers == {"gates.py"}
