"""Count what makes the tree easy or hard to find one's way in.

    python scripts/shape.py            the table by package, and the totals
    python scripts/shape.py --list     also what is behind every total that should be zero or small
    python scripts/shape.py --json     the same as one JSON document
    python scripts/shape.py --check    say only what must not be, and exit with 1 if there is any

Everything is read from the source text; nothing of the package is imported.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "telic"

# Imports go down this table only. Packages of one number never import each other.
LAYERS = {
    "errors": 0,
    "core": 1,
    "storage": 2,
    "jobs": 2.1,
    "sandbox": 2.2,
    "report": 2.3,
    "loop": 2.4,
    "sim": 3,
    "robots": 3.05,
    "envs": 3.1,
    "quantities": 3.2,
    "rewards": 3.3,
    "rendering": 3.4,
    "llm": 3.5,
    "training": 4,
    "judges": 4.1,
    "composer": 4.2,
    "authors": 4.3,
    "motions": 4.4,
    "session": 5,
    "search": 5,
    "studies": 5,
    "tracking": 5,
    "bench": 5.5,
    "plugin": 5.6,
    "verbs": 6,
    "connections": 6.5,
    "mcp": 7,
    "web": 7,
    "cli": 7.1,
    "testing": 9,
}
TOP = 10
"""the package's own front door, which may name everything"""


LONGEST = 600
"""lines that a module may have"""


class Import(NamedTuple):
    """A module of telic that another one names in an import."""

    importer: str
    line: int
    module: str


def modules() -> dict[str, Path]:
    """Return every module of the package by its dotted name."""
    out: dict[str, Path] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("telic", *path.relative_to(SOURCE).with_suffix("").parts)
        out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every statement at any depth; expressions, most of a tree, hold none."""
    to_visit = [tree]
    while to_visit:
        node = to_visit.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            to_visit += getattr(node, field, ())


def imports(name: str, tree: ast.AST, known: dict[str, Path]) -> Iterator[Import]:
    """Yield what a module imports of telic, inside functions and type blocks too."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("telic"):
                    yield Import(name, node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("telic"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield Import(name, node.lineno, inner if inner in known else str(node.module))


def layer(module: str) -> float:
    """Return how high in the house a module is."""
    parts = module.split(".")
    return LAYERS.get(parts[1], TOP) if len(parts) > 1 else TOP


def is_against_the_layers(found: Import) -> bool:
    """Say whether an import goes up, or sideways between two packages of one layer."""
    here, there = layer(found.importer), layer(found.module)
    if found.importer in ("telic", "telic.__main__") or found.module == "telic":
        return False
    if found.importer == "telic.errors" and found.module.startswith("telic.core"):
        return False  # errors asks core for suggestions at the moment it is raised
    sideways = here == there and found.importer.split(".")[1] != found.module.split(".")[1]
    return there > here or sideways


class Shape(NamedTuple):
    """What was counted."""

    packages: dict[str, tuple[int, int]]
    """modules and lines by package"""
    class_names_twice: dict[str, list[str]]
    skips: list[str]
    against_layers: list[str]
    single_importer: dict[str, str]
    """module: the only module that imports it"""
    single_sibling: dict[str, str]
    """those whose only importer lies in the same folder"""
    fitting: list[str]
    """those of them that would fit into it: each has to be a concept of its own"""
    too_long: dict[str, int]

    def faults(self) -> list[str]:
        """Return a line for everything that must not be."""
        twice = (f"{name}: {', '.join(where)}" for name, where in self.class_names_twice.items())
        return [
            *(f"a class name that exists twice: {each}" for each in twice),
            *(f"the formatter is kept off: {each}" for each in self.skips),
            *(f"against the layers: {each}" for each in self.against_layers),
            *(f"{name} has {lines} lines" for name, lines in self.too_long.items()),
        ]


def measure() -> Shape:
    """Read the tree once and count."""
    known = modules()
    packages: dict[str, tuple[int, int]] = {}
    classes: dict[str, list[str]] = defaultdict(list)
    importers: dict[str, set[str]] = defaultdict(set)
    skips: list[str] = []
    against: list[str] = []
    lengths: dict[str, int] = {}
    for name, path in known.items():
        text = path.read_text()
        lines = text.count("\n")
        parts = path.relative_to(SOURCE).parts
        package = parts[0] if len(parts) > 1 else "(top)"
        count, total = packages.get(package, (0, 0))
        packages[package] = (count + 1, total + lines)
        lengths[name] = lines
        skips += [
            f"{name}:{number}"
            for number, line in enumerate(text.splitlines(), 1)
            if "# fmt:" in line
        ]
        tree = ast.parse(text)
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(name)
        for each in imports(name, tree, known):
            importers[each.module].add(name)
            if is_against_the_layers(each):
                against.append(f"{name}:{each.line} imports {each.module}")
    single = {
        name: next(iter(importers[name]))
        for name, path in known.items()
        if len(importers[name]) == 1 and path.name != "__init__.py"
    }
    siblings = {
        name: importer
        for name, importer in single.items()
        if name.rpartition(".")[0] == importer.rpartition(".")[0]
    }
    fitting = [
        name for name, importer in siblings.items() if lengths[name] + lengths[importer] <= LONGEST
    ]
    twice = {name: where for name, where in sorted(classes.items()) if len(where) > 1}
    too_long = {name: lines for name, lines in lengths.items() if lines > LONGEST}
    return Shape(packages, twice, skips, against, single, siblings, fitting, too_long)


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--list", action="store_true", help="name what was counted")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--check", action="store_true", help="say only what must not be")
    options = parser.parse_args()
    shape = measure()
    if options.check:
        sys.exit("\n".join(shape.faults()) or None)
    if options.json:
        json.dump(shape._asdict(), sys.stdout, indent=2)
        return
    print(f"{'package':<12}{'modules':>8}{'lines':>8}")
    for package, (count, lines) in sorted(shape.packages.items()):
        print(f"{package:<12}{count:>8}{lines:>8}")
    count, lines = (sum(column) for column in zip(*shape.packages.values(), strict=True))
    print(f"{'all':<12}{count:>8}{lines:>8}\n")
    print(f"class names defined more than once  {len(shape.class_names_twice)}")
    print(f"lines with fmt: skip                {len(shape.skips)}")
    print(f"upward or sideways imports          {len(shape.against_layers)}")
    print(f"modules that one sibling imports    {len(shape.single_sibling)}")
    print(f"  that would fit into it            {len(shape.fitting)}")
    print(f"modules with a single importer      {len(shape.single_importer)}")
    print(f"modules over {LONGEST} lines              {len(shape.too_long)}")
    if options.list:
        for name, where in shape.class_names_twice.items():
            print(f"twice: {name}: {', '.join(where)}")
        for each in [*shape.skips, *shape.against_layers]:
            print(f"also: {each}")
        for name in shape.fitting:
            print(f"fits: {name} into {shape.single_sibling[name]}")
        for package, number in Counter(n.split(".")[1] for n in shape.single_importer).items():
            print(f"single importers in {package}: {number}")
        for name, importer in shape.single_importer.items():
            print(f"single: {name} <- {importer}")


if __name__ == "__main__":
    main()
