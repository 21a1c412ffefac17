"""Hold that studies and the plugin have one way to launch: by what the code imports and calls."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
GATE = "telic.studies.launch.launch"
_USERS = ("cli/study_run.py", "mcp/launching.py")
"""who may pass the gate: the command, and the tool of a server that was allowed to launch"""
_MAY_START = ("studies/launch/", "studies/git_read.py", "mcp/background.py")
"""the gate, read-only git, and sessions of our own on a server that was allowed to launch"""
_LOOKED_AT = ("studies/", "plugin/", "mcp/", "cli/study", "cli/plugin.py", "cli/entry.py")
_STARTERS = frozenset({"subprocess", "multiprocessing", "pty", "concurrent.futures", "asyncio"})
_CALLS = ("system", "popen", "fork", "posix_spawn", "startfile", "exec", "spawn")


def second_paths(package: Path = PACKAGE) -> list[str]:
    """Return every place that could start a process beside the gate; empty when there is one."""
    found: list[str] = []
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if not name.startswith(_LOOKED_AT):
            continue
        tree = ast.parse(path.read_text())
        if not name.startswith(_MAY_START):
            found += [f"{name} can start processes: {each}" for each in sorted(_starters(tree))]
        if not name.startswith(("studies/launch/", *_USERS)) and _passes_gate(tree):
            found.append(f"{name} launches, which only {' and '.join(_USERS)} may")
    return found


def _passes_gate(tree: ast.AST) -> bool:
    """Whether a file has hold of the gate; looking at it without passing is free."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(each.name == GATE for each in node.names):
            return True
        if isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{each.name}" for each in node.names}
            if names & {GATE, f"{GATE}.launch", f"{GATE}.*"}:
                return True
    return False


def _imports(tree: ast.AST) -> set[str]:
    """Return the modules that a file imports, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


def _starters(tree: ast.AST) -> set[str]:
    found = _imports(tree) & _STARTERS
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "os" and node.attr.startswith(_CALLS):
                found.add(f"os.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            found |= {f"os.{x.name}" for x in node.names if x.name.startswith(_CALLS)}
    return found
