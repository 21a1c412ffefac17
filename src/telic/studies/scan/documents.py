"""What a repository's texts declare: documented commands, installed commands, dependencies."""

from __future__ import annotations

import ast
import configparser
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, cast

from telic.studies.scan.repository import Repository
from telic.studies.scan.tree import RepositoryTree
from telic.studies.scan.vocabulary import VOCABULARY

DocumentKind = Literal["readme", "docs", "ci", "build"]


class DocumentedCommand(NamedTuple):
    """A Python command found in a text."""

    words: tuple[str, ...]
    target: str
    """the script or module it names, as written"""
    resolved: str | None
    """the file in the tree; None when there is none"""
    source: DocumentKind
    path: str
    line: int


class Script(NamedTuple):
    """An installed command and the function it runs."""

    name: str
    target: str
    """`package.module:function`"""
    path: str
    line: int


class Requirement(NamedTuple):
    """A declared dependency."""

    name: str
    bound: str
    """version bound or address as written; empty when there is none"""
    path: str
    line: int


_COMMAND = VOCABULARY.pattern("documented_command")
_MODULE_FLAG = re.compile(r"^-[A-Za-z]{0,3}m$")
_MODULE = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
_PLACEHOLDER = re.compile(r"[<>{}$*\[\]]|\.\.\.|path/to|your_|my_|/path")
_STANDARD = VOCABULARY.words("standard_modules")
_CONTINUED = re.compile(r"\\\s*\n\s*")
_ENTRY = re.compile(r"^\s*([\w.-]+)\s*=\s*([\w.]+:[\w.]+)\s*(?:\[.*\])?\s*$")
_REQUIREMENT = re.compile(r"^([A-Za-z0-9][\w.-]*)(\[[^\]]*\])?\s*(.*)$")
_QUOTED_REQUIREMENT = re.compile(r"""["']([A-Za-z][\w.-]*(?:\[[\w,]+\])?\s*(?:[<>=~!@].*?)?)["']""")
_INSTALL_REQUIRES = re.compile(r"install_requires\s*=\s*\[(.*?)\]\s*[,)\n]", re.S | re.I)


def documented_commands(repository: Repository) -> list[DocumentedCommand]:
    """Return every Python command in a repository's texts, with the file it resolves to."""
    commands: list[DocumentedCommand] = []
    for path in repository.tree.paths:
        kind = _kind(path)
        if kind is None:
            continue
        for line, text in _command_lines(repository.tree.text(path)):
            words = _words(text)
            target = _target(words)
            if target is not None and not _PLACEHOLDER.search(target):
                resolved = _resolve(repository, path, target)
                commands.append(DocumentedCommand(tuple(words), target, resolved, kind, path, line))
    return commands


def _kind(path: str) -> DocumentKind | None:
    name = path.rpartition("/")[2].lower()
    if name.startswith("readme") or name in {"metadata", "pkg-info"}:
        return "readme"
    if ".github/" in path or name in {".gitlab-ci.yml", "tox.ini", "noxfile.py", ".travis.yml"}:
        return "ci"
    if name in {"makefile", "justfile"} or name.startswith("dockerfile") or name.endswith(".sh"):
        return "build"
    return "docs" if name.endswith((".md", ".rst")) else None


def _command_lines(text: str) -> Iterator[tuple[int, str]]:
    if "\\\n" in text:
        # keep line numbers: a joined command stands on the line it began
        text = _CONTINUED.sub(lambda match: " " + "\0" * match[0].count("\n"), text)
    number = 1
    for line in text.split("\n"):
        for match in _COMMAND.finditer(line):
            yield number, match[1].replace("\0", "").strip()
        number += 1 + line.count("\0")


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text.split(" #")[0].split("&&")[0].split("|")[0].split(";")[0])
    except ValueError:  # quotes that do not close: not a command
        return []


def _target(words: list[str]) -> str | None:
    """Return the script or module that a command runs."""
    following = iter(range(len(words)))
    for index in following:
        word = words[index]
        if _MODULE_FLAG.match(word) and index + 1 < len(words):
            name = words[index + 1]
            if name in _STANDARD or name.partition(".")[0] in _STANDARD:
                if not name.startswith("torch.distributed"):
                    return None
                next(following)
                continue
            return name if _MODULE.match(name) else None
        if word == "-c":
            return None
        if word.endswith(".py") and not word.startswith("-"):
            return word
    return None


def _resolve(repository: Repository, document: str, target: str) -> str | None:
    if not target.endswith(".py"):
        return repository.module(f"{target}.__main__") or repository.module(target)
    clean = target.removeprefix("./").lstrip("/")
    beside = f"{document.rpartition('/')[0]}/{clean}".lstrip("/")
    for path in (clean, beside):
        if repository.tree.has(path):
            return path
    # people run scripts from sub-folders: a unique file with this ending is the one meant
    ending = [path for path in repository.tree.python if path.endswith(f"/{clean}")]
    return ending[0] if ending and ("/" in clean or len(ending) == 1) else None


def missing_commands(
    tree: RepositoryTree, commands: list[DocumentedCommand]
) -> list[DocumentedCommand]:
    """Return documented commands whose file belongs to this repository and does not exist."""
    own = {path.partition("/")[0] for path in tree.paths if "/" in path}
    missing: dict[str, DocumentedCommand] = {}
    for command in commands:
        if command.resolved is None and tree.place(command.path) != "vendored":
            head = command.target.removeprefix("./").replace(".", "/").partition("/")[0]
            if command.target.endswith(".py") or head in own:
                missing.setdefault(command.target, command)
    return list(missing.values())


def installed_scripts(tree: RepositoryTree) -> list[Script]:
    """Return the console scripts that installing the repository would give."""
    scripts: list[Script] = []
    for path in tree.paths:
        if tree.place(path) not in ("source", "example"):
            continue
        name, text = path.rpartition("/")[2], tree.text
        if name == "pyproject.toml":
            scripts += _toml_scripts(tree, path)
        elif name == "setup.cfg":
            scripts += _entries(tree, path, _cfg_scripts(text(path)))
        elif name == "setup.py":
            scripts += _entries(tree, path, _quoted(text(path)))
        elif name == "entry_points.txt" and not any("=" in each.target for each in scripts):
            section = text(path).partition("[console_scripts]")[2].partition("\n[")[0]
            scripts += _entries(tree, path, section.splitlines())
    unique = {(each.name, each.target): each for each in reversed(scripts)}
    return list(reversed(unique.values()))


def _toml_scripts(tree: RepositoryTree, path: str) -> Iterator[Script]:
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


def _cfg_scripts(text: str) -> list[str]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return []
    return parser.get("options.entry_points", "console_scripts", fallback="").splitlines()


def _quoted(text: str) -> Iterator[str]:
    try:
        module = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
            yield node.value


def _entries(tree: RepositoryTree, path: str, lines: Iterable[str]) -> Iterator[Script]:
    for line in lines:
        match = _ENTRY.match(line)
        if match:
            yield Script(match[1], match[2], path, _line(tree, path, match[2]))


def _line(tree: RepositoryTree, path: str, text: str) -> int:
    return tree.line_of(path, max(tree.text(path).find(text), 0))


def requirements(tree: RepositoryTree) -> list[Requirement]:
    """Return the dependencies that packaging and requirement files declare."""
    declared: list[Requirement] = []
    for path in tree.paths:
        name = path.rpartition("/")[2]
        if name == "pyproject.toml" and "/" not in path:
            project = _toml(tree.text(path)).get("project", {})
            listed = cast("list[Any]", project.get("dependencies", []))
            declared += _parsed(tree, path, [each for each in listed if isinstance(each, str)])
        elif name.startswith("requirements") and name.endswith(".txt") and path.count("/") <= 1:
            declared += _parsed(tree, path, tree.text(path).splitlines())
        elif name == "setup.py" and "/" not in path:
            match = _INSTALL_REQUIRES.search(tree.text(path))
            quoted = _QUOTED_REQUIREMENT.findall(match[1]) if match else []
            declared += _parsed(tree, path, quoted)
    return declared


def _parsed(tree: RepositoryTree, path: str, lines: list[str]) -> Iterator[Requirement]:
    for line in lines:
        match = _REQUIREMENT.match(line.split("#")[0].split(";")[0].strip())
        if match:
            name = match[1].lower().replace("_", "-")
            yield Requirement(name, match[3].strip(), path, _line(tree, path, match[1]))
