"""Read a repository within fixed bounds: file names, commands in its texts, facts of Python files.

Nothing is imported or run. Links, pipes and binary files are never opened, large files are skipped,
and the number of files and bytes is limited, so that reading ends within seconds on any tree.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import stat
import tomllib
import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, cast

_MOST_FILES, _MOST_DEPTH = 20_000, 8
_MOST_BYTES, _MOST_TOTAL = 150_000, 6_000_000
_LONGEST_LINE = 1_000
_MOST_PAGES = 20
_SKIPPED = frozenset(
    {
        *("node_modules", "site-packages", "__pycache__", "third_party", "vendor", "vendored"),
        *("build", "dist", "venv", "env", "wandb", "mlruns"),
    }
)
_CONSOLE = re.compile(r"([\w.-]+)\s*=\s*([\w.]+):\w+")
_PROMPT = re.compile(r"^(?:[$>]\s+)?(?:[A-Z_][A-Z0-9_]*=\S*\s+)*")
_RUNNERS = (("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("pdm", "run"))
_SHOWN = ("rmtree", "cli", "system", "run", "call", "check_call", "Popen")
_PYTHONS = re.compile(r"python[\d.]*|torchrun|accelerate")


class Cited(NamedTuple):
    """A text of the repository and where it is written."""

    text: str
    place: str
    """path:line"""


class Call(NamedTuple):
    """A call in a Python file; only constant arguments are kept."""

    name: str
    """dotted, as written: parser.add_argument"""
    place: str
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    source: str
    """first argument as written, for calls whose argument matters"""


class PythonFile(NamedTuple):
    """What one look at a Python file gives."""

    path: str
    imports: dict[str, str]
    """dotted module name to place; relative imports begin with dots"""
    calls: tuple[Call, ...]
    strings: tuple[Cited, ...]
    fields: dict[str, dict[str, Cited]]
    """annotated fields by class; the text says "required" where a field has no default"""
    main: str | None
    """place of the `__main__` guard"""


class DocumentedCommand(NamedTuple):
    """A command line in a README, a page or a Makefile."""

    words: tuple[str, ...]
    place: str
    target: str | None
    """the Python file that it starts; None if the repository has no such file"""


class SourceTree:
    """The files of a repository; texts are read on demand, within the bounds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = tuple(_listed(root))
        self._left = _MOST_TOTAL
        self._texts: dict[str, str | None] = {}
        self._files: dict[str, PythonFile | None] = {}
        self._names = set(self.paths)

    def text(self, path: str) -> str | None:
        """Return the text of a file; None if it is missing, binary, too large or not a file."""
        if path not in self._texts:
            self._texts[path] = self._read(path) if path in self._names else None
        return self._texts[path]

    def _read(self, path: str) -> str | None:
        try:
            found = (self.root / path).lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_size > min(_MOST_BYTES, self._left):
                return None
            content = (self.root / path).read_bytes()
        except OSError:
            return None
        self._left -= len(content)
        return None if b"\0" in content else content.decode("utf-8", errors="replace")

    def python(self, path: str) -> PythonFile | None:
        """Return the facts of a Python file; None if it cannot be read or parsed."""
        if path not in self._files:
            text = self.text(path)
            self._files[path] = None if text is None else _parsed(path, text)
        return self._files[path]

    def lines(self, path: str) -> Iterator[Cited]:
        """Yield the lines of a file, without those that are too long to be written by hand."""
        for number, line in enumerate((self.text(path) or "").splitlines(), start=1):
            if len(line) <= _LONGEST_LINE:
                yield Cited(line, f"{path}:{number}")

    def reachable(self, path: str, most: int = 60) -> list[PythonFile]:
        """Return a script and the files of the repository that it imports, nearest first."""
        found: list[PythonFile] = []
        waiting, seen = [path], {path}
        while waiting and len(found) < most:
            file = self.python(waiting.pop(0))
            if file is None:
                continue
            found.append(file)
            for name in file.imports:
                near = self.module(name, file.path)
                if near is not None and near not in seen:
                    seen.add(near)
                    waiting.append(near)
        return found

    def module(self, name: str, importer: str = "") -> str | None:
        """Return the file of a module; None if it is not part of the repository."""
        folder = PurePosixPath(importer).parent
        bare = name.lstrip(".")
        for _ in range(len(name) - len(bare) - 1):
            folder = folder.parent
        base = bare.replace(".", "/")
        near = folder / base
        places = (
            (near,) if bare != name else (PurePosixPath(base), PurePosixPath("src", base), near)
        )
        for place in map(str, places):
            for end in (".py", "/__init__.py", "/__main__.py"):
                if place + end in self._names:
                    return place + end
        return None

    # ------------------------------------------------------------------ declared and documented

    @cached_property
    def console_scripts(self) -> dict[str, Cited]:
        """Installed commands: name to module, from pyproject.toml, setup.cfg or setup.py."""
        found: dict[str, Cited] = {}
        for name, target in _project_scripts(self.text("pyproject.toml") or ""):
            place = self._place_of("pyproject.toml", name)
            found[name] = Cited(str(target).partition(":")[0], place)
        for path in ("setup.cfg", "setup.py"):
            if "console_scripts" not in (self.text(path) or ""):
                continue
            for line in self.lines(path):
                for name, target in _CONSOLE.findall(line.text):
                    found.setdefault(name, Cited(target, line.place))
        return found

    def _place_of(self, path: str, word: str) -> str:
        return next((line.place for line in self.lines(path) if word in line.text), path)

    @cached_property
    def pages(self) -> tuple[str, ...]:
        """README, pages of documentation and Makefiles, those at the top first."""
        pages = [
            path
            for path in self.paths
            if re.fullmatch(r"(?:.*/)?(?:readme[^/]*|makefile)", path, re.IGNORECASE)
            or re.fullmatch(r"docs?/[^/]+\.(?:md|rst)", path)
        ]
        return tuple(sorted(pages, key=lambda path: (path.count("/"), path))[:_MOST_PAGES])

    @cached_property
    def documented(self) -> tuple[DocumentedCommand, ...]:
        """Commands in the texts that start Python files of this repository, in their order."""
        return tuple(command for page in self.pages for command in self._commands(page))

    def _commands(self, page: str) -> Iterator[DocumentedCommand]:
        held = ""
        for line in self.lines(page):
            text = held + line.text.strip()
            if text.endswith("\\") and len(text) < _LONGEST_LINE:
                held = text[:-1]
                continue
            held = ""
            quoted = re.findall(r"`([^`]+)`", text)
            for part in (*quoted, *(() if quoted else (text,))):
                if words := self._words(part):
                    yield DocumentedCommand(words, line.place, self.target_of(words))

    def _words(self, text: str) -> tuple[str, ...]:
        """Return the words of a command that starts Python; empty for any other text."""
        try:
            words = shlex.split(_PROMPT.sub("", text.strip()), comments=True)
        except ValueError:
            return ()
        start = next((2 for runner in _RUNNERS if tuple(words[:2]) == runner), 0)
        if len(words) <= start:
            return ()
        program = words[start]
        is_script = program in self.console_scripts and len(words) > start + 1
        starts_python = bool(_PYTHONS.fullmatch(program)) and len(words) > start + 1
        return tuple(words) if is_script or starts_python else ()

    def target_of(self, words: tuple[str, ...]) -> str | None:
        """Return the Python file that a command starts; None if the repository has none."""
        for place, word in enumerate(words):
            if word == "-m" and place + 1 < len(words) and not words[place + 1].startswith("-"):
                return self.module(words[place + 1])
            if word.endswith(".py"):
                path = os.path.normpath(word).replace(os.sep, "/")
                return path if path in self._names else None
            if word in self.console_scripts and place <= 2:
                return self.module(self.console_scripts[word].text)
        return None


def _listed(root: Path) -> Iterator[str]:
    count = 0
    for folder, folders, files in os.walk(root, followlinks=False, onerror=lambda _: None):
        inside = Path(folder).relative_to(root)
        is_deep = len(inside.parts) >= _MOST_DEPTH
        kept = (name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        folders[:] = [] if is_deep else sorted(kept)
        for name in sorted(files):
            count += 1
            if count > _MOST_FILES:
                return
            yield (inside / name).as_posix()


def _project_scripts(text: str) -> list[tuple[str, Any]]:
    try:
        data: Any = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return []
    scripts = (_section(data, "project", "scripts"), _section(data, "tool", "poetry", "scripts"))
    return [item for table in scripts for item in table.items()]


def _section(data: Any, *names: str) -> dict[str, Any]:
    for name in names:
        data = cast("dict[str, Any]", data).get(name) if isinstance(data, dict) else None
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


# ---------------------------------------------------------------------------- Python files


def _parsed(path: str, text: str) -> PythonFile | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes = list(ast.walk(ast.parse(text)))
        return _facts(path, nodes)
    except (SyntaxError, ValueError, RecursionError, MemoryError, SystemError):
        return None


def _facts(path: str, nodes: list[ast.AST]) -> PythonFile:
    imports: dict[str, str] = {}
    calls: list[Call] = []
    strings: list[Cited] = []
    fields: dict[str, dict[str, Cited]] = {}
    main: str | None = None
    for node in nodes:
        place = f"{path}:{getattr(node, 'lineno', 1)}"
        match node:
            case ast.Import(names=names):
                imports |= {name.name: place for name in names}
            case ast.ImportFrom(module=module, names=names, level=level):
                base = "." * level + (module or "")
                joint = "" if base.endswith(".") or not base else "."
                imports |= {base: place} if module else {}
                imports |= {f"{base}{joint}{name.name}": place for name in names}
            case ast.Call():
                calls.append(_call(node, place))
            case ast.Constant(value=str(value)) if len(value) <= _LONGEST_LINE:
                strings.append(Cited(value, place))
            case ast.ClassDef(name=name, body=body):
                fields[name] = dict(_annotated(path, body))
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                main = place
            case _:
                pass
    return PythonFile(path, imports, tuple(calls), tuple(strings), fields, main)


def _call(node: ast.Call, place: str) -> Call:
    name = ast.unparse(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""
    args = tuple(arg.value for arg in node.args if isinstance(arg, ast.Constant))
    keywords = {
        word.arg: word.value.value if isinstance(word.value, ast.Constant) else ...
        for word in node.keywords
        if word.arg is not None
    }
    is_shown = name.rpartition(".")[2] in _SHOWN and bool(node.args)
    source = ast.unparse(node.args[0]) if is_shown else ""
    return Call(name, place, args, keywords, source[:_LONGEST_LINE])


def _annotated(path: str, body: list[ast.stmt]) -> Iterator[tuple[str, Cited]]:
    for each in body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            text = "required" if each.value is None else ""
            yield each.target.id, Cited(text, f"{path}:{each.lineno}")
