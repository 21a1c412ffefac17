"""Installed commands and declared dependencies, from packaging files."""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from telic.studies.scan.tree import RepositoryTree


class Script(NamedTuple):
    """An installed command and the function it runs."""

    name: str
    target: str
    """`package.module:function`"""
    path: str
    line: int


_ENTRY = re.compile(r"^\s*([\w.-]+)\s*=\s*([\w.]+:[\w.]+)\s*(?:\[.*\])?\s*$")
_REQUIREMENT = re.compile(r"^([A-Za-z0-9][\w.-]*)(\[[^\]]*\])?\s*(.*)$")


def installed_scripts(tree: RepositoryTree) -> list[Script]:
    """Return the console scripts that installing the repository would give."""
    found: list[Script] = []
    for path in tree.paths:
        if tree.place(path) not in ("source", "example"):
            continue
        name = path.rpartition("/")[2]
        if name == "pyproject.toml":
            found += _from_toml(tree, path)
        elif name == "setup.cfg":
            found += _from_cfg(tree, path)
        elif name == "setup.py":
            found += _from_setup(tree, path)
        elif name == "entry_points.txt" and not any("=" in each.target for each in found):
            found += _from_ini(tree, path, tree.text(path), "console_scripts")
    unique = {(each.name, each.target): each for each in reversed(found)}
    return list(reversed(unique.values()))


def _from_toml(tree: RepositoryTree, path: str) -> Iterator[Script]:
    project = _toml(tree.text(path))
    poetry = project.get("tool", {}).get("poetry", {})
    for table in (project.get("project", {}).get("scripts", {}), poetry.get("scripts", {})):
        for name, target in table.items():
            if isinstance(target, str) and ":" in target:
                yield Script(name, target, path, _line(tree, path, target))


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:  # a broken packaging file says nothing about commands
        return {}


def _from_cfg(tree: RepositoryTree, path: str) -> Iterator[Script]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(tree.text(path))
    except configparser.Error:
        return
    if parser.has_option("options.entry_points", "console_scripts"):
        block = parser.get("options.entry_points", "console_scripts")
        yield from _entries(tree, path, block.splitlines())


def _from_ini(tree: RepositoryTree, path: str, text: str, section: str) -> Iterator[Script]:
    _, _, after = text.partition(f"[{section}]")
    yield from _entries(tree, path, after.partition("\n[")[0].splitlines())


def _from_setup(tree: RepositoryTree, path: str) -> Iterator[Script]:
    try:
        module = ast.parse(tree.text(path))
    except SyntaxError:
        return
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
            yield from _entries(tree, path, [node.value])


def _entries(tree: RepositoryTree, path: str, lines: list[str]) -> Iterator[Script]:
    for line in lines:
        match = _ENTRY.match(line)
        if match:
            yield Script(match[1], match[2], path, _line(tree, path, match[2]))


def _line(tree: RepositoryTree, path: str, text: str) -> int:
    before, found, _ = tree.text(path).partition(text)
    return before.count("\n") + 1 if found else 1


class Requirement(NamedTuple):
    """A declared dependency."""

    name: str
    bound: str
    """version bound or address as written; empty when there is none"""
    path: str
    line: int


def requirements(tree: RepositoryTree) -> list[Requirement]:
    """Return the dependencies that packaging and requirement files declare."""
    found: list[Requirement] = []
    for path in tree.paths:
        name = path.rpartition("/")[2]
        if name == "pyproject.toml" and "/" not in path:
            project = _toml(tree.text(path)).get("project", {})
            listed = cast("list[Any]", project.get("dependencies", []))
            found += _parsed(tree, path, [each for each in listed if isinstance(each, str)])
        elif name.startswith("requirements") and name.endswith(".txt") and path.count("/") <= 1:
            found += _parsed(tree, path, tree.text(path).splitlines())
        elif name == "setup.py" and "/" not in path:
            quoted = re.findall(
                r"""["']([A-Za-z][\w.-]*(?:\[[\w,]+\])?\s*(?:[<>=~!@].*?)?)["']""",
                _install_requires(tree.text(path)),
            )
            found += _parsed(tree, path, quoted)
    return found


def _install_requires(text: str) -> str:
    match = re.search(r"install_requires\s*=\s*\[(.*?)\]\s*[,)\n]", text, re.S | re.I)
    return match[1] if match else ""


def _parsed(tree: RepositoryTree, path: str, lines: list[str]) -> Iterator[Requirement]:
    for line in lines:
        text = line.split("#")[0].split(";")[0].strip()
        match = _REQUIREMENT.match(text)
        if match:
            name = match[1].lower().replace("_", "-")
            yield Requirement(name, match[3].strip(), path, _line(tree, path, match[1]))
