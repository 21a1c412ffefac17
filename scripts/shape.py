"""Measure the size and complexity of the source tree, and limit them.

    python scripts/shape.py            print the table by package and the totals
    python scripts/shape.py --list     also list the items behind every total
    python scripts/shape.py --check    print only what exceeds a limit, and exit with 1 if any does

A limit is the goal, or the current count if the goal is not reached yet. Limits may only be
lowered. Everything is read from the source text and from docs/reference/cli.md, the generated page
of commands, without importing the package.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "telic"
COMMANDS = ROOT / "docs" / "reference" / "cli.md"

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
    "gym": 6.5,
    "mcp": 7,
    "web": 7,
    "cli": 7.1,
    "testing": 9,
}
TOP = 10
"""top-level module of the package, which may import all others"""
LONGEST = 600
"""maximum number of lines of a module"""


class Limit(NamedTuple):
    """Goal for a count, and its current limit."""

    goal: float
    today: float


LINES: dict[tuple[str, ...], Limit] = {
    ("core", "errors", "loop", "storage"): Limit(4_500, 4_755),
    ("jobs", "sandbox"): Limit(5_000, 5_038),
    ("sim", "envs", "robots", "rendering"): Limit(9_000, 10_815),
    ("quantities", "rewards", "judges"): Limit(8_000, 9_855),
    ("composer", "authors", "llm"): Limit(9_000, 12_873),
    ("training",): Limit(8_500, 9_405),
    ("session", "bench"): Limit(5_000, 6_066),
    ("search",): Limit(4_000, 4_171),
    ("tracking", "motions"): Limit(9_500, 9_542),
    ("studies", "plugin"): Limit(11_000, 11_843),
    ("verbs", "cli", "mcp", "web", "connections", "gym"): Limit(10_000, 10_564),
    ("report",): Limit(1_500, 1_323),
}
"""limits on the lines of groups of packages"""
TOTALS = {
    "lines": Limit(80_000, 96_777),
    "modules": Limit(380, 395),
    "public names per 1,000 lines": Limit(10, 22.7),
    "names defined in two files": Limit(0, 0),
    "import circles": Limit(0, 0),
    "imports inside functions": Limit(80, 78),
    "commands": Limit(55, 54),
    "options": Limit(280, 242),
    "modules reachable from telic run": Limit(120, 183),
}


class Import(NamedTuple):
    """Import of one module of telic by another."""

    importer: str
    line: int
    module: str
    is_deferred: bool = False
    """whether the import is inside a function"""


def modules() -> dict[str, Path]:
    """Return every module of the package by its dotted name."""
    out: dict[str, Path] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("telic", *path.relative_to(SOURCE).with_suffix("").parts)
        out[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return out


def statements(tree: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Yield every statement at any depth, and whether it is inside a function."""
    to_visit = [(tree, False)]
    while to_visit:
        node, is_inside = to_visit.pop()
        yield node, is_inside
        is_inside = is_inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            to_visit += [(child, is_inside) for child in getattr(node, field, ())]


def imports(name: str, tree: ast.AST, known: dict[str, Path]) -> Iterator[Import]:
    """Yield the modules of telic that a module imports, also inside functions and type blocks."""
    for node, is_inside in statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("telic"):
                    yield Import(name, node.lineno, alias.name, is_inside)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("telic"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                module = inner if inner in known else str(node.module)
                yield Import(name, node.lineno, module, is_inside)


def layer(module: str) -> float:
    """Return the index of a module's layer."""
    parts = module.split(".")
    return LAYERS.get(parts[1], TOP) if len(parts) > 1 else TOP


def is_against_the_layers(found: Import) -> bool:
    """Return whether an import leads up, or sideways between two packages of one layer."""
    here, there = layer(found.importer), layer(found.module)
    if found.importer in ("telic", "telic.__main__") or found.module == "telic":
        return False
    if found.importer == "telic.errors" and found.module.startswith("telic.core"):
        return False  # errors asks core for suggestions at the moment it is raised
    sideways = here == there and found.importer.split(".")[1] != found.module.split(".")[1]
    return there > here or sideways


def public_names(tree: ast.Module) -> Iterator[str]:
    """Yield the public classes, functions and type aliases of a module."""
    for node in tree.body:
        name = ""
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name
        elif isinstance(node, ast.Assign) and _is_alias(node.value):
            name = getattr(node.targets[0], "id", "")
        if name and not name.startswith("_"):
            yield name


def _is_alias(value: ast.expr) -> bool:
    """Return whether an assigned value is a type: Literal[...], Callable[...], A | B of names."""
    if isinstance(value, ast.Subscript):
        return ast.unparse(value.value).split(".")[-1] in (
            *("Literal", "Callable", "Union", "Annotated"),
            *("dict", "list", "tuple", "Mapping", "Sequence", "NDArray"),
        )
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.BitOr):
        return False
    return all(
        isinstance(part, ast.Name | ast.Attribute | ast.Constant | ast.BinOp | ast.Subscript)
        for part in (value.left, value.right)
    )


class Shape(NamedTuple):
    """Counts of the source tree."""

    packages: dict[str, tuple[int, int]]
    """number of modules and lines by package"""
    names_twice: dict[str, list[str]]
    circles: list[tuple[str, ...]]
    deferred: list[str]
    """imports of telic inside functions"""
    public: int
    skips: list[str]
    against_layers: list[str]
    too_long: dict[str, int]
    reachable: int
    """number of modules that `telic run` may load"""
    commands: int
    options: int

    def lines(self, group: tuple[str, ...] | None = None) -> int:
        """Return the number of lines of some packages, or of all packages."""
        return sum(
            lines for name, (_, lines) in self.packages.items() if group is None or name in group
        )

    def totals(self) -> dict[str, float]:
        """Return the counts that have a limit, by name."""
        return {
            "lines": self.lines(),
            "modules": sum(count for count, _ in self.packages.values()),
            "public names per 1,000 lines": round(1000 * self.public / self.lines(), 1),
            "names defined in two files": len(self.names_twice),
            "import circles": len(self.circles),
            "imports inside functions": len(self.deferred),
            "commands": self.commands,
            "options": self.options,
            "modules reachable from telic run": self.reachable,
        }

    def faults(self) -> list[str]:
        """Return a message for every count that exceeds its limit."""
        counted = [(" + ".join(group), self.lines(group), LINES[group]) for group in LINES]
        counted += [(name, count, TOTALS[name]) for name, count in self.totals().items()]
        return [
            *(f"the formatter is kept off: {each}" for each in self.skips),
            *(f"against the layers: {each}" for each in self.against_layers),
            *(f"{name} has {lines} lines" for name, lines in self.too_long.items()),
            *(
                f"{name}: {count:,}, more than {max(limit):,}"
                for name, count, limit in counted
                if count > max(limit)
            ),
        ]


def circles_of(graph: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """Return the groups of modules that import one another (strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[tuple[str, ...]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            place = stack.index(name)
            group = tuple(sorted(stack[place:]))
            del stack[place:]
            if len(group) > 1:
                found.append(group)

    sys.setrecursionlimit(10_000)
    for name in graph:
        if name not in index:
            visit(name)
    return found


def reachable_from(start: str, graph: dict[str, set[str]]) -> set[str]:
    """Return the modules that importing one of them may load."""
    seen, to_visit = {start}, [start]
    while to_visit:
        new = graph[to_visit.pop()] - seen
        seen |= new
        to_visit += new
    return seen


def count_commands() -> tuple[int, int]:
    """Return the numbers of commands and options, from the generated page."""
    text = "".join(COMMANDS.read_text().split("\n## ")[3:])  # not the common options
    commands = len(re.findall(r"(?m)^#{3,4} `?telic ", text))
    options = len(re.findall(r"(?m)^- `--", text))
    options += sum(line.count("`--") for line in re.findall(r"(?m)^Common options: .*", text))
    return commands, options


def measure() -> Shape:
    """Read the source tree once, and count."""
    known = modules()
    packages: dict[str, tuple[int, int]] = {}
    names: dict[str, list[str]] = defaultdict(list)
    graph: dict[str, set[str]] = {name: set() for name in known}
    skips: list[str] = []
    against: list[str] = []
    deferred: list[str] = []
    too_long: dict[str, int] = {}
    for name, path in known.items():
        text = path.read_text()
        lines = text.count("\n")
        parts = path.relative_to(SOURCE).parts
        package = parts[0].removesuffix(".py") if len(parts) > 1 else path.stem
        package = package if package in LAYERS else "(top)"
        count, total = packages.get(package, (0, 0))
        packages[package] = (count + 1, total + lines)
        if lines > LONGEST:
            too_long[name] = lines
        skips += [
            f"{name}:{number}"
            for number, line in enumerate(text.splitlines(), 1)
            if "# fmt:" in line
        ]
        tree = ast.parse(text)
        is_private = path.stem.startswith("_") and path.stem != "__init__"
        for public in dict.fromkeys(public_names(tree)) if not is_private else ():
            names[public].append(name)
        for each in imports(name, tree, known):
            if is_against_the_layers(each):
                against.append(f"{name}:{each.line} imports {each.module}")
            if each.is_deferred:
                deferred.append(f"{name}:{each.line} imports {each.module}")
            elif each.module in graph and each.module != name:
                graph[name].add(each.module)
    commands, options = count_commands()
    return Shape(
        packages,
        {name: where for name, where in sorted(names.items()) if len(where) > 1},
        circles_of(graph),
        deferred,
        sum(map(len, names.values())),
        skips,
        against,
        too_long,
        len(reachable_from("telic.session.loop", graph)),
        commands,
        options,
    )


def main() -> None:
    """Print the counts and the limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--list", action="store_true", help="list the counted items")
    parser.add_argument("--check", action="store_true", help="print only what exceeds a limit")
    options = parser.parse_args()
    shape = measure()
    if options.check:
        sys.exit("\n".join(shape.faults()) or None)
    print(f"{'package':<12}{'modules':>8}{'lines':>8}")
    for package, (count, lines) in sorted(shape.packages.items()):
        print(f"{package:<12}{count:>8}{lines:>8}")
    print(f"\n{'':<46}{'now':>8}{'goal':>8}{'limit':>8}")
    for group, limit in LINES.items():
        print(f"{' + '.join(group):<46}{shape.lines(group):>8}{limit.goal:>8}{limit.today:>8}")
    for name, count in shape.totals().items():
        goal, today = TOTALS[name]
        print(f"{name:<46}{count:>8}{goal:>8}{today:>8}")
    if options.list:
        for name, where in shape.names_twice.items():
            print(f"twice: {name}: {', '.join(where)}")
        for group in shape.circles:
            print(f"circle: {' '.join(group)}")
        for each in [*shape.skips, *shape.against_layers, *shape.deferred]:
            print(f"also: {each}")


if __name__ == "__main__":
    main()
