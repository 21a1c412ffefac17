"""The seal notices what untrusted code replaced."""

import builtins
import json

import numpy as np
import pytest
import torch

from telic import errors
from telic.errors import Refused
from telic.sandbox.tamper import FunctionSnapshot


def fake(*_, **__):
    return 0


@pytest.mark.parametrize(
    ("owner", "name", "place"),
    [
        (torch, "sum", "torch.sum"),
        (torch.Tensor, "sum", "Tensor.sum"),
        (torch.Tensor, "backward", "Tensor.backward"),
        (np, "clip", "numpy.clip"),
        (np.linalg, "norm", "numpy.linalg.norm"),
        (builtins, "sum", "builtins.sum"),
        (json, "dumps", "json.dumps"),
        (errors.UnknownName, "__init__", "UnknownName.__init__"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_replaced_function_is_noticed(owner, name, place, monkeypatch):
    seal = FunctionSnapshot()
    seal.check()
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fake)
        with pytest.raises(Refused, match=place):
            seal.check()
    seal.check()


def test_replaced_code_inside_a_function_is_noticed(monkeypatch):
    seal = FunctionSnapshot()
    monkeypatch.setattr(torch.nn.functional.gumbel_softmax, "__code__", fake.__code__)
    with pytest.raises(Refused, match=r"gumbel_softmax"):
        seal.check()


def test_a_removed_function_is_noticed(monkeypatch):
    seal = FunctionSnapshot()
    monkeypatch.delattr(np, "sum")
    with pytest.raises(Refused, match=r"numpy\.sum"):
        seal.check()


def test_a_changed_setting_is_noticed():
    seal = FunctionSnapshot()
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(Refused, match="get_default_dtype"):
            seal.check()
    finally:
        torch.set_default_dtype(before)


def test_ordinary_use_of_torch_breaks_no_seal():
    seal = FunctionSnapshot()
    layer = torch.nn.Linear(3, 3)
    layer(torch.zeros(2, 3)).sum().backward()
    np.linalg.norm(np.zeros(3))
    seal.check()
