"""Commands that a repository declares: those its texts show, and those that it installs."""

from __future__ import annotations

import ast
import configparser
import contextlib
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

from telic.studies.scan.repository import Repository
from telic.studies.scan.source import VOCABULARY, RepositoryTree

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


_COMMAND = VOCABULARY.pattern("documented_command")
_MODULE_FLAG = re.compile(r"^-[A-Za-z]{0,3}m$")
_MODULE = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
_PLACEHOLDER = re.compile(r"[<>{}$*\[\]]|\.\.\.|path/to|your_|my_|/path")
_STANDARD = VOCABULARY.words("standard_modules")
_CONTINUED = re.compile(r"\\\s*\n\s*")
_PACKAGING = frozenset({"pyproject.toml", "setup.cfg", "setup.py", "entry_points.txt"})
_ENTRY = re.compile(r"^\s*([\w.-]+)\s*=\s*([\w.]+:[\w.]+)\s*(?:\[.*\])?\s*$")


def documented_commands(
    repository: Repository, scripts: Iterable[Script] = ()
) -> list[DocumentedCommand]:
    """Return every command in a repository's texts that runs something of it, with the file."""
    installed = {script.name: script for script in scripts}
    named = _script_pattern(installed)
    commands: list[DocumentedCommand] = []
    for path in repository.tree.paths:
        kind = _kind(path)
        if kind is None:
            continue
        text = repository.tree.text(path)
        for line, found in _command_lines(text):
            words = _words(found)
            target = _target(words)
            if target is not None and not _PLACEHOLDER.search(target):
                resolved = _resolve(repository, path, target)
                commands.append(DocumentedCommand(tuple(words), target, resolved, kind, path, line))
        for line, found in _named_lines(text, named) if named else ():
            words = _words(found)
            name = next((word for word in words if word in installed), None)
            if name is not None:
                module = installed[name].target.partition(":")[0]
                resolved = repository.module(module)
                commands.append(DocumentedCommand(tuple(words), name, resolved, kind, path, line))
    return commands


def _script_pattern(installed: dict[str, Script]) -> re.Pattern[str] | None:
    """Lines that begin with an installed command."""
    if not installed:
        return None
    names = "|".join(re.escape(name) for name in sorted(installed, key=len, reverse=True))
    runner = r"(?:(?:uv|poetry|pixi|hatch|pipenv|rye|pdm) run (?:--\S+ )*)?"
    before = r"(?:[A-Z_][A-Z0-9_]*=\S+\s+)*"
    return re.compile(rf"^\s*(?:\$\s*|>\s*)?({before}{runner}(?:{names})(?:\s+[^`]*)?)$")


def _named_lines(text: str, named: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Lines of code in a text, and pieces of code in its sentences, that match."""
    joined = _CONTINUED.sub(lambda match: " " + "\0" * match[0].count("\n"), text)
    fenced = False
    number = 1
    for line in joined.split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif fenced or line.startswith(("    ", "\t")):
            match = named.match(line.replace("\0", ""))
            if match:
                yield number, match[1]
        else:
            for span in re.findall(r"`([^`]+)`", line):
                match = named.match(span.replace("\0", ""))
                if match:
                    yield number, match[1]
        number += 1 + line.count("\0")


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
            return None if word == "setup.py" else word
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


def installed_scripts(tree: RepositoryTree) -> list[Script]:
    """Return the console scripts that installing the repository would give."""
    scripts: dict[tuple[str, str], Script] = {}
    for path in tree.paths:
        name = path.rpartition("/")[2]
        if name in _PACKAGING and tree.place(path) in ("source", "example"):
            for match in filter(None, map(_ENTRY.match, _script_lines(name, tree.text(path)))):
                script = Script(match[1], match[2], path, tree.line_with(path, match[2]))
                scripts.setdefault(script[:2], script)
    return list(scripts.values())


def _script_lines(name: str, text: str) -> Iterable[str]:
    """Return the lines of a packaging file that may say `name = package.module:function`."""
    match name:
        case "pyproject.toml":
            data = read_toml(text)
            tables = (data.get("project", {}), data.get("tool", {}).get("poetry", {}))
            scripts = (each for table in tables for each in table.get("scripts", {}).items())
            return [f"{script} = {target}" for script, target in scripts]
        case "setup.cfg":
            parser = configparser.RawConfigParser(strict=False)
            with contextlib.suppress(configparser.Error):
                parser.read_string(text)
                listed = parser.get("options.entry_points", "console_scripts", fallback="")
                return listed.splitlines()
        case "setup.py":
            with contextlib.suppress(SyntaxError):
                nodes = ast.walk(ast.parse(text))
                constants = (node.value for node in nodes if isinstance(node, ast.Constant))
                return [value for value in constants if isinstance(value, str)]
        case _:
            section = text.partition("[console_scripts]")[2].partition("\n[")[0]
            return section.splitlines()
    return ()


def read_toml(text: str) -> dict[str, Any]:
    """Return what a TOML text holds; nothing when it is broken."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):  # numbers of thousands of digits, brackets without end
        return {}
