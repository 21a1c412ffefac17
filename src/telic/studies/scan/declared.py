"""What a repository declares: documented and installed commands, and settings."""

from __future__ import annotations

import ast
import configparser
import contextlib
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple

from telic.studies.scan.repository import Repository, grouped
from telic.studies.scan.source import (
    VOCABULARY,
    CallSite,
    ModuleFacts,
    RepositoryTree,
    Unknown,
    as_list,
    is_symbol,
    is_table,
)

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


# ---------------------------------------------------------------------------- settings

_CONFIG_FOLDERS = VOCABULARY.words("config_folders")
_CONFIG_CLASS = re.compile(r"Args|Config|Cfg|Params|Options|Settings|Hyper|cfg|config")
_DECLARES = re.compile(r"dataclass|configclass|define$")
_LARGEST_YAML = 200_000
_KEY = re.compile(r"^(\s*)(-\s+)?([\w./+-]+|\"[^\"]+\"|'[^']+')\s*:(?:\s+(.*?))?\s*$")
_NUMBER = re.compile(r"^[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?$")
_YAML_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
    **dict.fromkeys(("null", "~", "none")),
}


class Key(NamedTuple):
    """A key of a YAML file with its full path."""

    path: str
    value: Any
    """None when nothing follows the colon or it says null"""
    line: int

    @property
    def last(self) -> str:
        """The key itself."""
        return self.path.rpartition(".")[2]


def outline(text: str) -> list[Key]:
    """Return every key of a YAML text with its dotted path, plain value and line.

    Read by indentation: quick, and never stopped by odd syntax.
    """
    keys: list[Key] = []
    above: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _KEY.match(line.split(" #")[0]) if not line.lstrip().startswith("#") else None
        if match is None:
            continue
        indent = len(match[1]) + len(match[2] or "")
        while above and above[-1][0] >= indent:
            above.pop()
        name = match[3].strip("\"'")
        keys.append(Key(".".join([*(key for _, key in above), name]), _scalar(match[4]), number))
        above.append((indent, name))
    return keys


def _scalar(text: str | None) -> Any:
    if text is None:
        return None
    text = text.strip()
    if _NUMBER.match(text):
        number = float(text.replace("_", ""))
        return int(number) if number.is_integer() and "." not in text else number
    return _YAML_WORDS.get(text.lower(), text.strip("\"'"))


def bare(name: str) -> str:
    """Return a setting's name without dashes and owners."""
    return name.lstrip("-").rpartition(".")[2].replace("-", "_")


class Setting(NamedTuple):
    """A setting a user may give, with what holds when it is not given."""

    name: str
    default: Any
    """a plain value, or `<name>` of what it is taken from"""
    known: bool
    """whether the text alone gives the default"""
    flag: str | None
    path: str
    line: int

    @property
    def label(self) -> str:
        """How people give it: the flag, or the name where there is none."""
        return self.flag or self.name


class Settings:
    """All settings of a repository, by bare name."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.flags: list[Setting] = []
        self.fields: list[Setting] = []
        for facts in repository.modules.values():
            self.flags += _flags(facts)
            self.fields += _fields(facts)

    @cached_property
    def yaml(self) -> dict[str, list[Key]]:
        """Keys of every YAML file that may hold settings."""
        tree = self.repository.tree
        return {
            path: outline(tree.text(path))
            for path in tree.with_suffix(".yaml", ".yml")
            if not path.startswith(".") and len(tree.text(path)) < _LARGEST_YAML
        }

    @cached_property
    def by_name(self) -> dict[str, list[Setting]]:
        """Settings by bare name: flags before fields before YAML keys."""
        settings = (*self.flags, *self.fields, *self._from_yaml())
        return grouped(settings, lambda setting: bare(setting.name).lower())

    def _from_yaml(self) -> Iterator[Setting]:
        for path, keys in self.yaml.items():
            if not _CONFIG_FOLDERS.isdisjoint(path.split("/")) or "config" in path:
                for key in keys:
                    yield Setting(key.path, key.value, True, None, path, key.line)

    def named(self, name: str, paths: Iterable[str] = ()) -> list[Setting]:
        """Return the settings of a bare name; those in these files come first, tests last."""
        near = frozenset(paths)
        weight = self.repository.tree.weight
        return sorted(
            self.by_name.get(bare(name).lower(), []),
            key=lambda setting: (setting.path not in near, -weight(setting.path)),
        )

    def on_entry(self, path: str) -> list[Setting]:
        """Return the flags declared in one file."""
        return [setting for setting in self.flags if setting.path == path]


def _flags(facts: ModuleFacts) -> Iterator[Setting]:
    for call in facts.calls:
        if call.last == "add_argument" or call.name.endswith("click.option"):
            yield from _argument(call)
        elif call.last.startswith("DEFINE_") and call.args and isinstance(call.args[0], str):
            name, *rest = call.args
            value: Any = rest[0] if rest else call.keywords.get("default")
            yield _setting(name, value, f"--{name}", call.path, call.line)
    for assignment in facts.assignments:
        # simulator helpers take flags as a list of dictionaries
        for item in as_list(assignment.value):
            if is_table(item) and str(item.get("name", "")).startswith("--"):
                default = item.get("default", False if item.get("action") else None)
                name = item["name"]
                yield _setting(name, default, name, facts.path, assignment.line)


def _argument(call: CallSite) -> Iterator[Setting]:
    names = [each for each in call.args if isinstance(each, str)]
    long = next((each for each in names if each.startswith("--")), names[0] if names else None)
    if long is None:
        return
    default = call.keywords.get("default")
    action = str(call.keywords.get("action", ""))
    if "default" not in call.keywords and action in {"store_true", "store_false"}:
        default = action == "store_false"
    name = long.split("/")[0]
    yield _setting(name, default, name, call.path, call.line)


def _fields(facts: ModuleFacts) -> Iterator[Setting]:
    classes = {
        each.full_name
        for each in facts.classes
        if any(map(_DECLARES.search, each.decorators)) or _CONFIG_CLASS.search(each.name)
    }
    for each in facts.assignments:
        outer = each.scope.partition(".")[0]
        if (each.scope in classes or outer in classes) and "." not in each.target:
            flag = f"--{each.target.replace('_', '-')}" if each.annotation else None
            yield _setting(f"{each.scope}.{each.target}", each.value, flag, facts.path, each.line)
    for function in facts.functions:
        for name, value in function.defaults.items():
            yield _setting(f"{function.name}.{name}", value, None, facts.path, function.line)


def _setting(name: str, value: Any, flag: str | None, path: str, line: int) -> Setting:
    known = not (isinstance(value, Unknown) or is_symbol(value))
    return Setting(name, value, known, flag, path, line)
