"""One command as it is typed: its parsers, its composed configuration, and what runs by default."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from telic.studies.scan.composition import ComposedConfig, ComposedValue
from telic.studies.scan.defaults import CommandDefaults
from telic.studies.scan.facts import CallSite, is_symbol
from telic.studies.scan.flow import Flow
from telic.studies.scan.interface import Flag, Interface
from telic.studies.scan.parsers import read_interface
from telic.studies.scan.repository import Spot
from telic.studies.scan.settings import Settings, outline

_DASHES = re.compile(r"""["']--""")
_YAML = re.compile(r"\.ya?ml$")
_NAME = re.compile(r"^(?:--config-name|-cn)(?:=(.+))?$")
_MOST_FILES = 12


class Situation:
    """What holds for one command, read once and kept."""

    def __init__(
        self, flow: Flow, settings: Settings, starts: Sequence[Spot], words: tuple[str, ...]
    ) -> None:
        self.flow = flow
        self.settings = settings
        self.starts = tuple(starts)
        self.words = words

    @cached_property
    def reach(self) -> dict[Spot, int]:
        """Everything the command may run, with the number of calls to get there."""
        return self.flow.reach(self.starts)

    @cached_property
    def own(self) -> dict[Spot, int]:
        """The same without the processes it starts."""
        return self.flow.reach(self.starts, processes=False)

    @cached_property
    def files(self) -> dict[str, int]:
        """The files of all that, nearest first, with their rank."""
        ordered = sorted(self.reach, key=lambda spot: self.reach[spot])
        return {path: rank for rank, path in enumerate(dict.fromkeys(s.path for s in ordered))}

    @cached_property
    def tops(self) -> list[Spot]:
        """Top levels that run because files are imported."""
        own = {spot.path for spot in self.starts}
        files = dict.fromkeys(spot.path for spot in self.own)
        return [spot for spot in self.flow.tops(files) if spot.path not in own]

    @cached_property
    def accepted(self) -> Interface:
        """What the command line accepts."""
        found = read_interface(self.flow, [*self.own, *self.tops])
        named = {flag.subcommand for flag in found.flags} & set(self.words)
        if not named:
            return found
        flags = (each for each in found.flags if each.subcommand in (None, *named))
        return Interface(tuple(flags), found.parsers)

    @cached_property
    def subcommands(self) -> frozenset[str]:
        """The sub-commands that the command names."""
        words = {
            word
            for sites in self.flow.resolver.links.dispatched.values()
            for _, _, word in sites
            if word
        }
        return frozenset(words & set(self.words))

    @cached_property
    def interface(self) -> Interface:
        """The same, with what the command gives in place of the defaults."""
        given = dict(_given(self.accepted, self.words))
        flags = (
            each._replace(default=given[each.words]) if each.words in given else each
            for each in self.accepted.flags
        )
        return Interface(tuple(flags), self.accepted.parsers)

    @cached_property
    def composition(self) -> ComposedConfig:
        """The configuration files of the command put together."""
        composed = ComposedConfig(self.flow.repository.tree)
        for mark, path in self._hydra():
            folder, name = self._named(mark, path)
            self._structured(composed, name)
            composed.add_hydra(folder, name, self.words)
        for template, near in self._mentioned() if not composed.files else ():
            wanted = [*self.words, *(str(flag.default) for flag in self.interface.flags)]
            for path in composed.matching(template, near, wanted):
                if path not in composed.files and len(composed.files) < _MOST_FILES:
                    composed.add_file(path, wanted)
        composed.override(self.words)
        return composed

    def _hydra(self) -> Iterator[tuple[CallSite, str]]:
        for spot in self.own:
            function = self.flow.repository.functions.get(spot)
            for mark in function.marks if function else ():
                if mark.name.endswith("hydra.main"):
                    yield mark, spot.path

    def _named(self, mark: CallSite, path: str) -> tuple[str, str]:
        """The folder and the name of a primary configuration."""
        given = mark.keywords.get("config_path", mark.args[0] if mark.args else None)
        name = mark.keywords.get("config_name", mark.args[1] if len(mark.args) > 1 else "config")
        for index, word in enumerate(self.words):
            match = _NAME.match(word)
            if match:
                name = match[1] or next(iter(self.words[index + 1 :]), name)
        folder = given if isinstance(given, str) and not is_symbol(given) else ""
        folder = re.sub(r"\{[^}]*\}/?", "", folder)
        where = posixpath.normpath(posixpath.join(posixpath.dirname(path), folder or "."))
        return where.removeprefix("./").removeprefix("."), str(name).removesuffix(".yaml")

    def _structured(self, composed: ComposedConfig, name: str) -> None:
        """Classes that are stored under the name of a configuration."""
        repository = self.flow.repository
        for call in repository.calls_by_last.get("store", ()):
            node = call.keywords.get("node")
            if call.keywords.get("name") == name and node is not None:
                for thing in self.flow.resolver.things(call.path, call.scope, node):
                    if isinstance(thing, Spot):
                        for key, values in repository.assigned[thing].items():
                            first = values[0]
                            value = ComposedValue(first.value, first.path, first.line)
                            composed.values[key] = value

    def _mentioned(self) -> Iterator[tuple[str, str]]:
        """YAML files that the code or the command line names, in the order of the code."""
        near = self.starts[0].path
        for call in self.calls([*self.own, *self.tops]):
            for value in (*call.args, *call.keywords.values()):
                if isinstance(value, str) and _YAML.search(value):
                    yield value, call.path
        scopes = {*self.own, *(Spot(spot.path, "") for spot in self.tops)}
        for path in dict.fromkeys(spot.path for spot in scopes):
            for scope, text, _ in self.flow.repository.modules[path].texts:
                if Spot(path, scope) in scopes:
                    yield text, path
        for flag in self.interface.flags:
            if isinstance(flag.default, str) and _YAML.search(flag.default):
                yield flag.default, flag.path
        for word in self.words:
            value = word.rpartition("=")[2]
            if _YAML.search(value):
                yield value, near

    @cached_property
    def is_handmade(self) -> bool:
        """Whether the command takes its words apart by itself."""
        text = self.flow.repository.tree.text(self.starts[0].path)
        return not self.accepted.parsers and "sys.argv" in text and bool(_DASHES.search(text))

    @cached_property
    def modules(self) -> list[str]:
        """Modules of settings that the command line names."""
        words = (word.rpartition("=")[2] for word in self.words if "." in word)
        found = (self.flow.repository.module(word) for word in words)
        return [path for path in found if path and path not in self.files]

    @cached_property
    def essential(self) -> tuple[str, ...]:
        """The words without which the command would not be this one: no optional flags."""
        kept: list[str] = []
        skips = False
        for index, word in enumerate(self.words):
            if skips:
                skips = False
                continue
            flag = self.accepted.accepts(word) if word.startswith("-") else None
            value = word.partition("=")[2] or "".join(self.words[index + 1 : index + 2])
            is_file = value.endswith((".yaml", ".yml", ".py", ".gin", ".json"))
            if flag is None or flag.required or flag.default is None or is_file:
                kept.append(word)
            else:
                skips = flag.kind != "switch" and "=" not in word
        return tuple(kept)

    @cached_property
    def defaults(self) -> CommandDefaults:
        """What settings hold and which conditions are met."""
        named = [*self.flow.named_files([*self.own, *self.tops]), *self.modules]
        closure = self.flow.repository.import_closure([*self.files, *named])
        ordered = dict.fromkeys([*self.files, *closure])
        found = CommandDefaults(self.flow, self.settings, self.interface, self.composition, ordered)
        found.subcommands = self.subcommands
        return found

    @cached_property
    def active(self) -> dict[Spot, int]:
        """What the command runs by default."""
        return self.defaults.active([*self.starts, *self.tops])

    def calls(self, spots: Iterable[Spot]) -> Iterator[CallSite]:
        """Return the calls made in some places."""
        for spot in spots:
            yield from self.flow.repository.calls(spot)

    @cached_property
    def happening(self) -> list[CallSite]:
        """The calls that are made by default."""
        allows = self.defaults.allows
        return [call for call in self.calls(self.active) if allows(call)[0]]

    @cached_property
    def training(self) -> CallSite | None:
        """The nearest call that trains by default."""
        found = self.flow.training
        for spot in sorted(self.active, key=lambda spot: self.active[spot]):
            call = found.get(spot)
            if call is not None and self.defaults.allows(call)[0]:
                return call
        return None

    @cached_property
    def named_training(self) -> CallSite | None:
        """A call named after training, where none could be followed to one."""
        named = (call for call in self.happening if self.flow.is_named_training(call))
        return self.training or next(named, None)


def _given(accepted: Interface, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """What a command line sets, by the flags it names."""
    for index, word in enumerate(words):
        flag = accepted.accepts(word) if word.startswith("-") else None
        if flag is None:
            continue
        _, equals, value = word.partition("=")
        following = words[index + 1] if index + 1 < len(words) else ""
        if not equals and flag.kind == "switch":
            yield flag.words, _switched(flag, word)
        else:
            yield flag.words, _plain(value if equals else following)


def _switched(flag: Flag, word: str) -> bool:
    if word.startswith("--no"):
        return False
    return not flag.default if isinstance(flag.default, bool) else True


def _plain(text: str) -> Any:
    keys = outline(f"value: {text}")
    return keys[0].value if keys else text
