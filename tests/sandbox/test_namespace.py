"""The globals of untrusted code: the same list as the check, and nothing that can be changed."""

import importlib
import re
from types import ModuleType

import pytest

from telic.sandbox._allowed import MODULES
from telic.sandbox.source import PRINT_CHARACTERS, FrozenModule, compile_source, namespace

PROVIDED = {"telic": {"RewardFunction": type("RewardFunction", (), {}), "quantities": {"n": len}}}
LISTED = [
    (path, name)
    for path, names in MODULES.items()
    for name in sorted(names)
    if not path.startswith("telic")
]
UNWANTED = re.compile(
    r"(^|_)(load|save|rand|randn|seed|hub|set|file|open|memmap|exec|compile)(_|$)"
)


def run(source: str, provided: dict | None = None) -> dict:
    scope = namespace(provided)
    exec(compile_source(source, "reward.py", extra_modules=provided), scope)
    return scope


def test_every_listed_name_exists_and_is_handed_out():
    scope = namespace()
    importer = scope["__builtins__"]["__import__"]
    for path, name in LISTED:
        assert hasattr(importlib.import_module(path), name), f"{path}.{name}"
        assert hasattr(importer(path, fromlist=(name,)), name), f"{path}.{name}"


def test_the_lists_are_broad_and_hold_no_module_file_access_or_randomness():
    assert len(MODULES["numpy"]) >= 150
    assert len(MODULES["torch"]) >= 150
    for path, name in LISTED:
        assert not isinstance(getattr(importlib.import_module(path), name), ModuleType)
        assert not UNWANTED.search(name), f"{path}.{name}"


def test_a_stand_in_exposes_only_what_is_listed():
    torch = namespace()["torch"]
    assert torch.nn.functional.relu(torch.tensor(-1.0)) == 0
    assert not hasattr(torch.nn, "Linear")
    with pytest.raises(AttributeError, match=r"torch\.load is not available"):
        _ = torch.load


@pytest.mark.parametrize("path", ["np", "math", "torch", "quantities", "telic"])
def test_a_stand_in_cannot_be_changed(path):
    module = namespace(PROVIDED)[path]
    assert isinstance(module, FrozenModule)
    with pytest.raises(AttributeError, match="is read-only"):
        module.sum = len
    with pytest.raises(AttributeError, match="is read-only"):
        del module.sum


def test_tensor_and_array_types_serve_isinstance_alone():
    scope = run(
        "is_tensor = isinstance(torch.zeros(2), torch.Tensor)\n"
        "is_array = isinstance(np.zeros(2), np.ndarray)\n"
        "neither = isinstance(1.0, (torch.Tensor, np.ndarray))\n"
    )
    assert (scope["is_tensor"], scope["is_array"], scope["neither"]) == (True, True, False)
    with pytest.raises(TypeError, match="only supports isinstance"):
        scope["torch"].Tensor(3)
    with pytest.raises(TypeError, match="is read-only"):
        scope["torch"].Tensor.sum = None


def test_every_form_of_import_gives_the_stand_ins():
    scope = run(
        "import numpy\nimport numpy.linalg\nimport numpy.linalg as la\n"
        "from numpy import linalg, clip\nfrom numpy.linalg import norm as size\n"
        "from torch.nn import functional as F\nfrom telic import quantities as q\n"
        "from telic.quantities import n\nfrom telic import RewardFunction\n"
        "a = numpy.linalg.norm([3.0, 4.0]) + la.norm([0.0]) + linalg.norm([0.0]) + size([0.0])\n"
        "b = float(F.relu(torch.tensor(2.0))) + q.n([1]) + n([1, 2]) + clip(9, 0, 1)\n",
        PROVIDED,
    )
    assert (scope["a"], scope["b"]) == (5.0, 6.0)
    assert scope["RewardFunction"] is PROVIDED["telic"]["RewardFunction"]


def test_compiled_libraries_can_import_their_own_parts_from_a_foreign_frame():
    scope = run("x = torch.tensor([[1.0, 2.0]]).tolist()\ny = str(np.float64(1.5))\n")
    assert (scope["x"], scope["y"]) == ([[1.0, 2.0]], "1.5")


def test_an_import_that_is_not_offered_fails_at_run_time_too():
    with pytest.raises(ImportError, match='"os" is not available'):
        exec("import os", namespace())
    with pytest.raises(ImportError, match="not available"):
        exec("from . import x", namespace())


def test_getattr_is_judged_again_while_running():
    scope = namespace()
    with pytest.raises(AttributeError, match="double underscores"):
        eval("getattr(1, '__class__')", scope)
    assert eval("getattr(1, 'nothing', 7)", scope) == 7
    assert eval("hasattr([], 'append'), hasattr([], 'nothing')", scope) == (True, False)


def test_what_a_reward_prints_is_bounded(capsys):
    run("for i in range(1000):\n    print('x' * 1000)")
    out = capsys.readouterr().out
    assert PRINT_CHARACTERS <= len(out) <= PRINT_CHARACTERS + 100
    assert out.endswith("is dropped)\n")


def test_nothing_shows_what_the_memory_held_before():
    made = "np.empty(9), np.empty_like(np.ones(9)), torch.empty(9), torch.empty_like(torch.ones(9))"
    assert not any(each.any() for each in run(f"made = {made}\n")["made"])
    with pytest.raises(Exception, match="new_empty"):
        run("made = torch.ones(9).new_empty(9)\n")
