"""Search a repository within fixed bounds: file names, imports, options, documented commands.

Nothing is imported or run. Links, pipes and binary files are never opened, large files and long
lines are skipped, and the number of files and bytes is limited, so that reading ends within seconds
on any tree.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

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
_CONSOLE = re.compile(r"([\w.-]+)[\"']?\s*=\s*[\"']?([\w.]+):\w+")
_PROMPT = re.compile(r"^(?:[$>]\s+)?(?:[A-Z_][A-Z0-9_]*=\S*\s+)*")
_RUNNERS = (("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("pdm", "run"))
_PYTHONS = re.compile(r"python[\d.]*|torchrun|accelerate")
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(?:\(([^)]*)\)|([^\n(#]+))"
    r"|import[ \t]+([^\n#]+))",
    re.MULTILINE,
)
MAIN = re.compile(r"^if\s+__name__\s*==", re.MULTILINE)
_ARGUMENT = re.compile(r"(?:add_argument|[.@](?:option|argument)|\bOption)\(([^)]*)")
_NAMES = re.compile(r"\s*((?:[\"'][^\"'\n]*[\"']\s*,?\s*)+)")
_QUOTED = re.compile(r"[\"']([^\"'\n]+)[\"']")
_FLAG = re.compile(r"[\"'](--[A-Za-z][\w.-]*)[\"']")


class DocumentedCommand(NamedTuple):
    """A command line in a README, a page or a Makefile."""

    words: tuple[str, ...]
    place: str
    target: str | None
    """the Python file that it starts; None if the repository has no such file"""


class ScriptOptions(NamedTuple):
    """What a script takes on its command line."""

    flags: dict[str, str]
    """option to place (path:line); positional arguments have no dashes"""
    required: frozenset[str]


class SourceTree:
    """The files of a repository; texts are read on demand, within the bounds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths = tuple(_listed(root))
        self._left = _MOST_TOTAL
        self._texts: dict[str, str] = {}
        self._imports: dict[str, dict[str, str]] = {}
        self._names = set(self.paths)

    def text(self, path: str) -> str:
        """Return the text of a file; empty if it is missing, binary, too large or not a file."""
        if path not in self._texts:
            self._texts[path] = self._read(path) if path in self._names else ""
        return self._texts[path]

    def _read(self, path: str) -> str:
        try:
            found = (self.root / path).lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_size > min(_MOST_BYTES, self._left):
                return ""
            content = (self.root / path).read_bytes()
        except OSError:
            return ""
        self._left -= len(content)
        lines = content.decode("utf-8", errors="replace").split("\n")
        kept = (line if len(line) <= _LONGEST_LINE else "" for line in lines)
        return "" if b"\0" in content else "\n".join(kept)

    def find(
        self, path: str, pattern: str | re.Pattern[str]
    ) -> Iterator[tuple[re.Match[str], str]]:
        """Yield the matches of a pattern in a file, each with its place (path:line)."""
        text = self.text(path)
        for match in re.finditer(pattern, text):
            yield match, f"{path}:{text.count(chr(10), 0, match.start()) + 1}"

    def imports(self, path: str) -> dict[str, str]:
        """Return the modules and names that a file imports, dotted, to their places."""
        if path not in self._imports:
            found: dict[str, str] = {}
            for match, place in self.find(path, _IMPORT):
                base, inside, rest, plain = match.groups()
                names = [x.split()[0] for x in (inside or rest or plain).split(",") if x.split()]
                joint = "" if base is None or base.endswith(".") else "."
                found |= {base: place} if base and base.strip(".") else {}
                found |= {f"{base or ''}{joint}{name}": place for name in names}
            self._imports[path] = found
        return self._imports[path]

    def reachable(self, path: str, most: int = 60) -> list[str]:
        """Return a script and the files of the repository that it imports, nearest first."""
        found = [path]
        for near in found:  # grows meanwhile
            for name in self.imports(near):
                module = self.module(name, near)
                if module is not None and module not in found and len(found) < most:
                    found.append(module)
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

    def options(self, reach: Sequence[str]) -> ScriptOptions:
        """Return the options of a script: argparse, click, absl, tyro fields, keys of hydra."""
        flags, required = dict[str, str](), set[str]()
        for path in (x for x in reach if x == reach[0] or not MAIN.search(self.text(x))):
            for match, place in self.find(path, _ARGUMENT):
                names = _QUOTED.findall(named[1] if (named := _NAMES.match(match[1])) else "")
                flag = next((n for n in names if n.startswith("--")), names[0] if names else None)
                if flag is None:
                    continue
                flags.setdefault(flag, place)
                is_optional = flag.startswith("-") or re.search(r"nargs=[\"'][?*]", match[1])
                if re.search(r"required\s*=\s*True", match[1]) or not is_optional:
                    required.add(flag)
            for match, place in self.find(path, r"\bDEFINE_\w+\(\s*[\"'](\w+)"):
                flags.setdefault(f"--{match[1]}", place)
            for match, _ in self.find(path, r"tyro\.cli\(\s*(\w+)"):
                required |= self._class_fields(reach, match[1], flags)
            for match, _ in self.find(path, r"hydra\.main\(([^)]*)"):
                self._hydra_keys(path, match[1], flags)
            for match, place in self.find(path, _FLAG):  # lists that a helper hands to a parser
                flags.setdefault(match[1], place)
        return ScriptOptions(flags, frozenset(required))

    def _class_fields(self, reach: Sequence[str], name: str, flags: dict[str, str]) -> set[str]:
        """Add the annotated fields of a class; return those without a default."""
        required = set[str]()
        for path in reach:
            for body, _ in self.find(path, rf"(?m)^class {name}\b[^\n]*\n((?:[ \t]+[^\n]*\n|\n)*)"):
                for match, place in self.find(path, r"(?m)^[ \t]+(\w+)[ \t]*:[^=\n]+(=)?"):
                    if body.start() < match.start() < body.end():
                        flag = f"--{match[1].replace('_', '-')}"
                        flags.setdefault(flag, place)
                        required |= set[str]() if match[2] else {flag}
        return required

    def _hydra_keys(self, path: str, arguments: str, flags: dict[str, str]) -> None:
        given = dict(re.findall(r"(config_\w+)\s*=\s*[\"']([^\"']*)", arguments))
        home = PurePosixPath(path).parent / given.get("config_path", "")
        name = given.get("config_name", "").removesuffix(".yaml")
        for match, place in self.find(str(home / f"{name}.yaml"), r"(?m)^(\w+):"):
            flags.setdefault(f"{match[1]}=", place)

    # ------------------------------------------------------------------ declared and documented

    @cached_property
    def console_scripts(self) -> dict[str, tuple[str, str]]:
        """Installed commands: name to module and place."""
        sections = {
            "pyproject.toml": r"(?m)^\[(?:project|tool\.poetry)\.scripts\](?:\n[^\[\n]*)*",
            "setup.cfg": r"console_scripts[^\[]*",
            "setup.py": r"console_scripts[^\]]*",
        }
        found: dict[str, tuple[str, str]] = {}
        for path, pattern in sections.items():
            for section, _ in self.find(path, pattern):
                for match, place in self.find(path, _CONSOLE):
                    if section.start() <= match.start() < section.end():
                        found.setdefault(match[1], (match[2], place))
        return found

    @cached_property
    def documented(self) -> tuple[DocumentedCommand, ...]:
        """Commands of README, pages and Makefiles that start Python files; top folders first."""
        pages = [
            path
            for path in self.paths
            if re.fullmatch(r"(?:.*/)?(?:readme[^/]*|makefile)", path, re.IGNORECASE)
            or re.fullmatch(r"docs?/[^/]+\.(?:md|rst)", path)
        ]
        pages.sort(key=lambda path: (path.count("/"), path))
        return tuple(command for page in pages[:_MOST_PAGES] for command in self._commands(page))

    def _commands(self, page: str) -> Iterator[DocumentedCommand]:
        held = ""
        for number, line in enumerate(self.text(page).split("\n"), start=1):
            text = held + line.strip()
            if text.endswith("\\") and len(text) < _LONGEST_LINE:
                held = text[:-1]
                continue
            held = ""
            for part in re.findall(r"`([^`]+)`", text) or [text]:
                if words := self._words(part):
                    yield DocumentedCommand(words, f"{page}:{number}", self._target_of(words))

    def _words(self, text: str) -> tuple[str, ...]:
        """Return the words of a command that starts Python; empty for any other text."""
        try:
            words = shlex.split(_PROMPT.sub("", text.strip()), comments=True)
        except ValueError:
            return ()
        start = 2 if tuple(words[:2]) in _RUNNERS else 0
        if len(words) <= start + 1:
            return ()
        program = words[start]
        is_command = program in self.console_scripts or bool(_PYTHONS.fullmatch(program))
        return tuple(words) if is_command else ()

    def _target_of(self, words: tuple[str, ...]) -> str | None:
        """Return the Python file that a command starts; None if the repository has none."""
        for place, word in enumerate(words):
            if word == "-m" and place + 1 < len(words) and not words[place + 1].startswith("-"):
                return self.module(words[place + 1])
            if word.endswith(".py"):
                path = os.path.normpath(word).replace(os.sep, "/")
                return path if path in self._names else None
            if word in self.console_scripts and place <= 2:
                return self.module(self.console_scripts[word][0])
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
