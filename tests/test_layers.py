"""The package's shape: imports go down, modules stay small, importing telic is light."""

import subprocess
import sys

import pytest
from scripts import shape

HEAVY = ("torch", "mujoco", "gymnasium", "numpy", "pydantic")


@pytest.fixture(scope="module")
def counted() -> shape.Shape:
    return shape.measure()


def test_imports_go_down_and_never_sideways_between_packages(counted):
    assert counted.against_layers == []


def test_no_module_is_longer_than_the_limit(counted):
    assert counted.too_long == {}


def test_the_formatter_decides_every_line(counted):
    assert counted.skips == []


def test_the_tree_stays_within_its_budget(counted):
    assert counted.faults() == []


def test_importing_telic_loads_nothing_heavy():
    code = f"import sys, telic; print([m for m in {HEAVY!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_every_folder_of_the_package_has_a_layer():
    folders = {p.name for p in shape.SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= set(shape.LAYERS)
