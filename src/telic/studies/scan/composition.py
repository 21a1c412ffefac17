"""What a configuration comes to once its files are put together, later ones over earlier ones.

Hydra's lists of defaults are followed as Hydra follows them; other YAML files are read in the order
in which the code names them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from telic.studies.scan.settings import outline
from telic.studies.scan.source import RepositoryTree

_DEFAULT = re.compile(
    r"^\s*-\s+(?:(override|optional)\s+)?([\w/@.${}-]+)(?:\s*:\s*(.*?))?\s*(?:\s#.*)?$"
)
_PACKAGE = re.compile(r"^#\s*@package\s+(\S+)", re.M)
_REFERENCE = re.compile(r"\$\{(?:\.*)([\w.]+)\}")
_HOLE = re.compile(r"\{[^}]*\}")
_BASES = ("defaults", "default", "base", "common")
_MOST_DEPTH = 8


class ComposedValue(NamedTuple):
    """A value of a composed configuration, and the line that has the last word on it."""

    value: Any
    path: str
    line: int


class _Entry(NamedTuple):
    """A line of a list of defaults."""

    group: str
    option: str | None
    overrides: bool


class ComposedConfig:
    """A configuration by dotted key, in the order it was put together."""

    def __init__(self, tree: RepositoryTree) -> None:
        self.tree = tree
        self.values: dict[str, ComposedValue] = {}
        self.files: list[str] = []
        self.groups: dict[str, str] = {}
        """the chosen option of each group"""

    def get(self, name: str) -> ComposedValue | None:
        """Return the value of a key, or of the only kind of key that ends in it."""
        if name in self.values:
            return self._followed(self.values[name])
        ending = [key for key in self.values if key.endswith(f".{name}")]
        if not ending:
            return None
        return self._followed(self.values[min(ending, key=lambda key: key.count("."))])

    def _followed(self, found: ComposedValue) -> ComposedValue:
        """`${seed}` stands for another key."""
        if isinstance(found.value, str):
            match = _REFERENCE.fullmatch(found.value)
            if match and match[1] in self.values:
                return self.values[match[1]]
        return found

    def below(self, name: str) -> dict[str, ComposedValue]:
        """Return the values below a key."""
        prefix = f"{name}."
        return {
            key.removeprefix(prefix): value
            for key, value in self.values.items()
            if key.startswith(prefix)
        }

    # ------------------------------------------------------------------ Hydra

    def add_hydra(self, folder: str, name: str, words: Iterable[str]) -> None:
        """Put together a configuration of Hydra, with what a command line says last."""
        given = dict(_overrides(words))
        chosen: dict[str, str] = {}
        self._gather(folder, name, chosen, 0)
        chosen.update({key: value for key, value in given.items() if self._is_group(folder, key)})
        self._compose(folder, name, "", chosen, 0)
        for key, value in given.items():
            if self._is_group(folder, key) and key not in self.groups:
                self._option(folder, key, value, "", chosen, 0)
            elif not self._is_group(folder, key):
                self._put(key, value)

    def override(self, words: Iterable[str]) -> None:
        """Put what a command line says over keys that are there: `a.b=1`, `--a.b=1`, `--a.b 1`."""
        given = list(words)
        for index, word in enumerate(given):
            key, equals, value = word.lstrip("-").partition("=")
            if not equals and word.startswith("--") and index + 1 < len(given):
                value = given[index + 1]
            if key in self.values and value:
                self._put(key, value)

    def _put(self, key: str, text: str) -> None:
        """Set a key from a command line; it stands where it stood, or where the files begin."""
        old = self.values.get(key)
        if old is not None:
            self.values[key] = old._replace(value=_plain(text))
        elif self.files:
            self.values[key] = ComposedValue(_plain(text), self.files[0], 1)

    def _is_group(self, folder: str, key: str) -> bool:
        return f"{folder}/{key}".lstrip("/") in self.tree.folders

    def _file(self, folder: str, name: str) -> str | None:
        for ending in (".yaml", ".yml"):
            path = posixpath.normpath(posixpath.join(folder, name.strip("/") + ending))
            if self.tree.has(path):
                return path
        return None

    def _gather(self, folder: str, name: str, chosen: dict[str, str], depth: int) -> None:
        """Collect what lists say with `override`, wherever in the tree of files they stand."""
        path = self._file(folder, name)
        if path is None or depth > _MOST_DEPTH:
            return
        group = posixpath.dirname(name)
        for entry in _entries(self.tree.text(path)):
            target = _absolute(entry.group, group)
            if entry.overrides and entry.option:
                chosen[target] = entry.option
            elif entry.group != "_self_":
                option = self._reference(chosen.get(target, entry.option or ""))
                inner = f"{target}/{option}" if entry.option is not None else target
                self._gather(folder, inner, chosen, depth + 1)

    def _compose(
        self, folder: str, name: str, package: str, chosen: dict[str, str], depth: int
    ) -> None:
        path = self._file(folder, name)
        if path is None or depth > _MOST_DEPTH:
            return
        text = self.tree.text(path)
        entries = [each for each in _entries(text) if not each.overrides]
        if not any(each.group == "_self_" for each in entries):
            entries.append(_Entry("_self_", None, False))
        group = posixpath.dirname(name)
        for entry in entries:
            target = _absolute(entry.group, group)
            if entry.group == "_self_":
                self._own(path, package)
            elif entry.option is None:
                self._compose(folder, target, package, chosen, depth + 1)
            else:
                self._option(folder, target, entry.option, package, chosen, depth)

    def _option(
        self,
        folder: str,
        group: str,
        option: str,
        package: str,
        chosen: dict[str, str],
        depth: int,
    ) -> None:
        bare, _, at = group.partition("@")
        for each in str(chosen.get(bare, option)).strip("[]").split(","):
            named = self._reference(each.strip(" '\""))
            self.groups[bare] = named
            path = self._file(folder, f"{bare}/{named}")
            stated = _PACKAGE.search(self.tree.text(path)) if path else None
            inner = at or (stated[1] if stated else bare.replace("/", "."))
            inner = "" if inner.startswith("_global_") else inner.replace("_group_", bare)
            self._compose(folder, f"{bare}/{named}", inner, chosen, depth + 1)

    def _reference(self, option: str) -> str:
        """`${task}PPO` names the option chosen for another group."""
        return _REFERENCE.sub(lambda match: self.groups.get(match[1], match[0]), option)

    def _own(self, path: str, package: str) -> None:
        self.files.append(path)
        for key in outline(self.tree.text(path)):
            if key.path != "defaults" and not key.path.startswith("defaults."):
                full = f"{package}.{key.path}".strip(".")
                self.values[full] = ComposedValue(key.value, path, key.line)

    # ------------------------------------------------------------------ other files

    def add_file(self, path: str, words: Iterable[str]) -> None:
        """Put a file over what is there; of one made of named blocks, those that are asked for."""
        keys = outline(self.tree.text(path))
        tops = [key for key in keys if "." not in key.path]
        base = next((key.path for key in tops if key.path in _BASES and key.value is None), None)
        wanted = {word for each in words for word in re.split(r"[=,\s]", each)}
        blocks = [base, *(key.path for key in tops if key.path in wanted)] if base else [""]
        self.files.append(path)
        for block in blocks:
            for key in keys:
                name = key.path
                if block:
                    if not name.startswith(f"{block}."):
                        continue
                    name = name.removeprefix(f"{block}.")
                self.values[name] = ComposedValue(key.value, path, key.line)

    def matching(self, template: str, near: str, words: Iterable[str]) -> list[str]:
        """Return the YAML files that a text such as `configs/{name}.yaml` may mean."""
        pattern = re.escape(_HOLE.sub("\0", template).lstrip("./")).replace("\0", "[^/]+")
        ending = re.compile(f"(^|/){pattern}$")
        found = [path for path in self.tree.with_suffix(".yaml", ".yml") if ending.search(path)]
        if len(found) > 1:
            wanted = {part for word in words for part in re.split(r"[=/.,\s]", word)}
            named = [path for path in found if posixpath.basename(path).split(".")[0] in wanted]
            beside = [path for path in found if path.startswith(f"{near.rpartition('/')[0]}/")]
            found = named or beside or found
        return found[:1] if "{" not in template else found[:2]


def _entries(text: str) -> Iterator[_Entry]:
    """The lines of a file's list of defaults."""
    inside = False
    for line in text.splitlines():
        if re.match(r"^defaults\s*:", line):
            inside = True
        elif inside and line.strip() and not line.lstrip().startswith("#"):
            match = _DEFAULT.match(line)
            if match is None:
                return
            option = match[3].strip(" '\"") if match[3] is not None else None
            yield _Entry(match[2], option, match[1] == "override")


def _absolute(group: str, parent: str) -> str:
    if group.startswith("/"):
        return group[1:]
    return f"{parent}/{group}".strip("/") if parent else group


def _overrides(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        key, equals, value = word.partition("=")
        if equals and not key.startswith("-") and re.match(r"^[+~]*[A-Za-z_]", key):
            yield key.lstrip("+~"), value


def _plain(text: str) -> Any:
    keys = outline(f"value: {text}")
    return keys[0].value if keys else text
