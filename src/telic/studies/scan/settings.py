"""Every setting a user may give: command-line flags, configuration fields, YAML keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, cast

from telic.studies.scan.outline import Key, outline
from telic.studies.scan.repository import Repository
from telic.studies.scan.syntax import Call, ModuleFacts, Unknown

_CONFIG_FOLDERS = ("config", "configs", "conf", "cfg", "cfgs", "hyperparams", "presets", "params")
_CLASS_WORDS = ("Args", "Config", "Cfg", "Params", "Options", "Settings", "Hyper", "cfg", "config")
_LARGEST_YAML = 200_000


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


class Settings:
    """All settings of a repository, by bare name."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.flags: list[Setting] = []
        self.fields: list[Setting] = []
        for path, facts in repository.modules.items():
            self.flags += _flags(path, facts)
            self.fields += _fields(path, facts)

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
        found: dict[str, list[Setting]] = defaultdict(list)
        for each in (*self.flags, *self.fields, *self._from_yaml()):
            found[_bare(each.name)].append(each)
        return found

    def _from_yaml(self) -> Iterator[Setting]:
        for path, keys in self.yaml.items():
            if not set(_CONFIG_FOLDERS).isdisjoint(path.split("/")) or "config" in path:
                for key in keys:
                    yield Setting(key.path, key.value, True, None, path, key.line)

    def named(self, name: str, paths: Iterable[str] = ()) -> list[Setting]:
        """Return the settings of a bare name; those in these files come first, tests last."""
        near = frozenset(paths)
        found = self.by_name.get(_bare(name), [])
        weight = self.repository.tree.weight
        return sorted(found, key=lambda each: (each.path not in near, -weight(each.path)))

    def on_entry(self, path: str) -> list[Setting]:
        """Return the flags declared in one file."""
        return [each for each in self.flags if each.path == path]


def _bare(name: str) -> str:
    return name.lstrip("-").rpartition(".")[2].replace("-", "_").lower()


def _flags(path: str, facts: ModuleFacts) -> Iterator[Setting]:
    for call in facts.calls:
        if call.last == "add_argument" or call.name.endswith("click.option"):
            yield from _argument(path, call)
        elif call.last.startswith("DEFINE_") and call.args and isinstance(call.args[0], str):
            name, *rest = call.args
            value = rest[0] if rest else call.keywords.get("default")
            yield _setting(name, value, f"--{name}", path, call.line)
    for each in facts.assignments:
        # simulator helpers take flags as a list of dictionaries
        items = cast("list[Any]", each.value) if isinstance(each.value, list) else []
        for item in items:
            if isinstance(item, dict) and str(item.get("name", "")).startswith("--"):
                default = item.get("default", False if item.get("action") else None)
                yield _setting(item["name"], default, item["name"], path, each.line)


def _argument(path: str, call: Call) -> Iterator[Setting]:
    names = [each for each in call.args if isinstance(each, str)]
    long = next((each for each in names if each.startswith("--")), names[0] if names else None)
    if long is None:
        return
    default = call.keywords.get("default")
    action = str(call.keywords.get("action", ""))
    if "default" not in call.keywords and action in {"store_true", "store_false"}:
        default = action == "store_false"
    yield _setting(long.split("/")[0], default, long.split("/")[0], path, call.line)


def _fields(path: str, facts: ModuleFacts) -> Iterator[Setting]:
    classes = {
        f"{each.scope}.{each.name}".lstrip("."): each
        for each in facts.classes
        if any(
            "dataclass" in name or "configclass" in name or name.endswith("define")
            for name in each.decorators
        )
        or any(word in each.name for word in _CLASS_WORDS)
    }
    for each in facts.assignments:
        outer = each.scope.partition(".")[0]
        if (each.scope in classes or outer in classes) and "." not in each.target:
            flag = f"--{each.target.replace('_', '-')}" if each.annotation else None
            yield _setting(f"{each.scope}.{each.target}", each.value, flag, path, each.line)
    for function in facts.functions:
        for name, value in function.defaults.items():
            yield _setting(f"{function.name}.{name}", value, None, path, function.line)


def _setting(name: str, value: Any, flag: str | None, path: str, line: int) -> Setting:
    known = not (isinstance(value, Unknown) or (isinstance(value, str) and value.startswith("<")))
    return Setting(name, value, known, flag, path, line)
