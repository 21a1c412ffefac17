"""Settings that a repository declares: keys of YAML files, flags, fields of classes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from telic.studies.scan.facts import CallSite, ModuleFacts, as_list, is_plain, is_table
from telic.studies.scan.repository import Repository, grouped
from telic.studies.scan.source import VOCABULARY

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
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(each) for each in text[1:-1].split(",") if each.strip()]
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

    @cached_property
    def made_by_key(self) -> dict[str, list[str]]:
        """What YAML files say to make for a key: the class or function behind `_target_`."""
        made: dict[str, list[str]] = {}
        for path, keys in self.yaml.items():
            for key in keys:
                if key.last in {"_target_", "class_path"} and isinstance(key.value, str):
                    owner = key.path.rpartition(".")[0].rpartition(".")[2]
                    folder = path.rpartition("/")[0].rpartition("/")[2]
                    for name in (owner,) if owner else (folder, ""):
                        made.setdefault(name, []).append(key.value)
        return made

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


def _setting(name: str, value: Any, flag: str | None, path: str, line: int) -> Setting:
    return Setting(name, value, is_plain(value), flag, path, line)
