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


def test_what_exceeds_a_limit_is_named(counted):
    modules, lines = counted.packages["search"]
    wrong = counted._replace(
        packages={**counted.packages, "search": (modules + 400, lines + 90_000)},
        skips=["telic.a:3"],
        against_layers=["telic.core.a:1 imports telic.cli"],
        too_long={"telic.a": 601},
        names_twice={str(n): ["telic.a", "telic.b"] for n in range(500)},
        circles=[("telic.a", "telic.b")] * 50,
        deferred=["telic.a:1 imports telic.b"] * 999,
        public=10**6,
        commands=200,
        options=999,
        reachable=999,
    )
    found = "\n".join(wrong.faults())
    for name in ("search", *shape.TOTALS, "telic.a:3", "telic.a has 601 lines"):
        assert name in found, name


def test_modules_that_import_one_another_are_a_circle():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert shape.circles_of(graph) == [("a", "b", "c")]
    assert shape.reachable_from("d", graph) == {"a", "b", "c", "d"}


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
