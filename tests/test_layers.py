"""The package's shape: imports go down, modules stay small, importing telic is light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "telic"
LAYERS = {
    "errors": 0,
    "core": 1,
    "storage": 2,
    "sandbox": 2.1,
    "sim": 3,
    "envs": 3.1,
    "quantities": 3.2,
    "rewards": 3.3,
    "rendering": 3.4,
    "llm": 3.5,
    "training": 4,
    "judges": 4.1,
    "composer": 4.2,
    "agents": 4.3,
    "session": 5,
    "search": 5,
    "studies": 5,
    "retelling": 5.3,
    "bench": 5.5,
    "plugin": 5.6,
    "mcp": 6,
    "cli": 6,
    "testing": 9,
}
MODULES = sorted(SOURCE.rglob("*.py"))
HEAVY = ("torch", "mujoco", "gymnasium", "numpy", "pydantic")


def layer(parts: tuple[str, ...]) -> float:
    return LAYERS.get(parts[0].removesuffix(".py"), 10)


def imports(tree: ast.AST) -> list[tuple[int, str]]:
    """Every telic module named by an import anywhere in the file, inside functions too."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("telic."):
            found.append((node.lineno, node.module))
        elif isinstance(node, ast.Import):
            found += [(node.lineno, a.name) for a in node.names if a.name.startswith("telic.")]
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_module_imports_downwards_and_stays_small(path):
    parts = path.relative_to(SOURCE).parts
    text = path.read_text()
    assert text.count("\n") <= 400, "split this module"
    if len(parts) == 1 and parts[0] in ("__init__.py", "__main__.py"):
        return
    for line, name in imports(ast.parse(text)):
        target = name.split(".")[1:]
        # errors asks core for suggestions at the moment it is raised
        if parts[0] == "errors.py" and target[0] == "core":
            continue
        assert layer(tuple(target)) <= layer(parts), (
            f"{path}:{line} imports {name}, which is above it"
        )


def test_importing_telic_loads_nothing_heavy():
    code = f"import sys, telic; print([m for m in {HEAVY!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_every_folder_of_the_package_has_a_layer():
    folders = {p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= set(LAYERS)
