"""What the scripts that measure speed conclude from numbers."""

import importlib.util
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def script(name):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ([1.0, 1.1, 0.9], [1.01, 1.09, 0.92], "no change beyond noise"),
        ([1.0, 1.1, 0.9], [1.5, 1.66, 1.35], "50% slower"),
        ([2.0, 2.2, 1.8], [1.0, 1.1, 0.91], "50% faster"),
        ([1.0, 1.0, 1.0], [0.5, 2.0, 1.0], "no change beyond noise"),
        ([1.0, 1.0, 1.0], [1.01, 1.01, 1.01], "no change beyond noise"),
        ([1.0], [3.0], "no change beyond noise"),
    ],
)
def test_only_what_exceeds_noise_and_matters_has_changed(before, after, verdict):
    assert script("compare").change(before, after).verdict == verdict
