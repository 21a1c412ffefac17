"""Commands that README, docs, CI and build files tell people to run, checked against the tree."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Literal, NamedTuple

from telic.studies.scan.repository import Repository
from telic.studies.scan.tree import RepositoryTree

Source = Literal["readme", "docs", "ci", "build"]


class DocumentedCommand(NamedTuple):
    """A Python command found in a text."""

    words: tuple[str, ...]
    target: str
    """the script or module it names, as written"""
    resolved: str | None
    """the file in the tree; None when there is none"""
    source: Source
    path: str
    line: int


_COMMAND = re.compile(
    r"(?:^|[`$>;&|\s\"'(])((?:[A-Z_]+=\S+\s+)*"
    r"(?:python3?|torchrun|accelerate launch|uv run(?: python3?)?|poetry run python3?"
    r"|xvfb-run\s.*?python3?|\./\w+\.sh -p|isaacgym/python\.sh|mpirun .*?python3?)\s+[^`\n]*)"
)
_MODULE_FLAG = re.compile(r"^-[A-Za-z]{0,3}m$")
_MODULE = re.compile(r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
_PLACEHOLDER = re.compile(r"[<>{}$*\[\]]|\.\.\.|path/to|your_|my_|/path")
_STANDARD = {
    "pip",
    "venv",
    "build",
    "pytest",
    "unittest",
    "http",
    "http.server",
    "twine",
    "json.tool",
    "torch.distributed.launch",
    "torch.distributed.run",
    "cProfile",
    "ipykernel",
    "ensurepip",
    "tensorboard",
    "tensorboard.main",
    "pdb",
    "sphinx",
    "mypy",
    "black",
    "ruff",
    "isort",
    "flake8",
    "pylint",
    "jupyter",
    "site",
    "timeit",
    "zipfile",
    "mpi4py",
    "pre_commit",
    "coverage",
}
_CONTINUED = re.compile(r"\\\s*\n\s*")


def documented_commands(repository: Repository) -> list[DocumentedCommand]:
    """Return every Python command in a repository's texts, with the file it resolves to."""
    tree = repository.tree
    found: list[DocumentedCommand] = []
    for path in tree.paths:
        source = _source(path)
        if source is None:
            continue
        for line, text in _command_lines(tree.text(path)):
            command = _read(repository, path, source, line, text)
            if command:
                found.append(command)
    return found


def _source(path: str) -> Source | None:
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
    line = 1
    for each in text.split("\n"):
        for match in _COMMAND.finditer(each):
            yield line, match[1].replace("\0", "").strip()
        line += 1 + each.count("\0")


def _read(
    repository: Repository, path: str, source: Source, line: int, text: str
) -> DocumentedCommand | None:
    try:
        words = shlex.split(text.split(" #")[0].split("&&")[0].split("|")[0].split(";")[0])
    except ValueError:
        return None
    target = _target(words)
    if target is None or _PLACEHOLDER.search(target):
        return None
    resolved = _resolve(repository, path, target)
    return DocumentedCommand(tuple(words), target, resolved, source, path, line)


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
    tree = repository.tree
    if not target.endswith(".py"):
        module = repository.module(target)
        main = repository.module(f"{target}.__main__")
        return main or module
    clean = target.removeprefix("./").lstrip("/")
    beside = f"{document.rpartition('/')[0]}/{clean}".lstrip("/")
    for path in (clean, beside):
        if tree.has(path):
            return path
    # people run scripts from sub-folders: a unique file with this ending is the one meant
    ending = [path for path in tree.python if path.endswith(f"/{clean}")]
    return ending[0] if ending and ("/" in clean or len(ending) == 1) else None


def missing_commands(
    tree: RepositoryTree, commands: list[DocumentedCommand]
) -> list[DocumentedCommand]:
    """Return documented commands whose file belongs to this repository and does not exist."""
    own = {path.partition("/")[0] for path in tree.paths if "/" in path}
    missing: dict[str, DocumentedCommand] = {}
    for each in commands:
        if each.resolved is None and tree.place(each.path) != "vendored":
            head = each.target.removeprefix("./").replace(".", "/").partition("/")[0]
            if each.target.endswith(".py") or head in own:
                missing.setdefault(each.target, each)
    return list(missing.values())
