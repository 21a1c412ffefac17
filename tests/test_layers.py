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


def test_no_module_is_longer_than_a_reader_bears(counted):
    assert counted.too_long == {}


def test_the_formatter_decides_every_line(counted):
    assert counted.skips == []


def test_a_public_class_name_exists_once(counted):
    assert counted.class_names_twice == {}


def test_what_must_not_be_is_named(counted):
    assert counted.faults() == []
    wrong = counted._replace(
        class_names_twice={"Run": ["telic.a", "telic.b"]},
        skips=["telic.a:3"],
        against_layers=["telic.core.a:1 imports telic.cli"],
        too_long={"telic.a": 601},
    )
    assert len(wrong.faults()) == 4 and "telic.a, telic.b" in wrong.faults()[0]


def test_importing_telic_loads_nothing_heavy():
    code = f"import sys, telic; print([m for m in {HEAVY!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_every_folder_of_the_package_has_a_layer():
    folders = {p.name for p in shape.SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= set(shape.LAYERS)


@pytest.mark.parametrize(
    ("importer", "module", "is_wrong"),
    [
        ("telic.core.config", "telic.storage.files", True),
        ("telic.search.loop", "telic.session.loop", True),
        ("telic.session.loop", "telic.training.run", False),
        ("telic.session.loop", "telic.session.records", False),
        ("telic.mcp.server", "telic.cli.main", True),
    ],
)
def test_what_goes_up_or_sideways_is_noticed(importer, module, is_wrong):
    assert shape.is_against_the_layers(shape.Import(importer, 1, module)) is is_wrong
