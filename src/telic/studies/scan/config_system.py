"""How a run is configured: the system that a user overrides, and where defaults live."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from telic.studies.documents.adapter import ConfigSystem, OverrideStyle
from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.facts import ModuleFacts
from telic.studies.scan.interface import Flag, ParserKind
from telic.studies.scan.records import ConfigFinding, Default, Placed, SourceLine, quote
from telic.studies.scan.settings import Setting, bare
from telic.studies.scan.situation import Situation
from telic.studies.scan.source import VOCABULARY

_SYSTEMS: dict[ParserKind, tuple[ConfigSystem, OverrideStyle]] = {
    "hydra": ("hydra", "k=v"),
    "gin": ("gin", "--k=v"),
    "tyro": ("tyro", "--k v"),
    "argparse": ("argparse", "--k v"),
    "dataclasses": ("dataclasses", "--k v"),
    "omegaconf": ("yaml", "k=v"),
    "blocks": ("yaml", "--k v"),
    "lightning": ("yaml", "--k v"),
    "absl": ("custom", "--k=v"),
    "config_file": ("custom", "--k=v"),
    "click": ("custom", "--k v"),
    "typer": ("custom", "--k v"),
    "fire": ("custom", "--k=v"),
    "sacred": ("custom", "k=v"),
}
"""what each parser is called in an adapter, and how it takes a setting"""
_LEADING: tuple[ParserKind, ...] = ("hydra", "gin", "sacred", "lightning", "blocks", "omegaconf")
"""parsers that others only hand over to"""
_LOADS_YAML = VOCABULARY.pattern("yaml_loads")
_CONFIG_CLASS = re.compile(r"(Cfg|Config|Args|Params|Options|Settings|Hyperparameters?)(PPO|SAC)?$")
_DECLARES = re.compile(r"dataclass|configclass|(define|frozen)$")
_BESIDE = VOCABULARY.pattern("settings_beside_learning")
_FILE_FLAG = re.compile(r"(^|_)(config|cfg|conf|yaml|yml)(_|$)", re.I)
_OPEN_FLAG = re.compile(r"hyper|overrides?|params|opts|kwargs", re.I)
_MATTERING = VOCABULARY.word_lists("settings")
_CLASSES: tuple[ConfigSystem, ...] = ("dataclasses", "custom")
_FILES_FIRST: tuple[ConfigSystem, ...] = ("yaml", "argparse")
_FEW = 2


def find_config_system(scan: RepositoryScan) -> ConfigFinding:
    """Return the primary and secondary configuration systems with their evidence."""
    main = scan.main
    if main is None:
        return _of_library(scan)
    parsers = list(main.accepted.parsers)
    lines = dict(_evidence(scan, main))
    order = sorted(parsers, key=lambda each: each not in _LEADING)
    systems: list[ConfigSystem] = list(dict.fromkeys(_SYSTEMS[each][0] for each in order))
    style = _SYSTEMS[order[0]][1] if order else None
    if systems[:1] == ["argparse"] and not {"custom", "dataclasses"} & lines.keys():
        lines.update(_declared(scan, scan.source_files))
    has_files = bool(lines.get("yaml"))
    order_of = _CLASSES[::-1] if main.modules else _CLASSES
    classes: list[ConfigSystem] = [system for system in order_of if system in lines]
    if systems[:1] == ["argparse"] and _only_points(main.accepted.flags):
        # the parser names a file or a task; what is learned with stands elsewhere
        if has_files and any(map(_is_file, main.interface.flags)):
            systems, style = list(_FILES_FIRST), "file"
        elif classes:
            systems.insert(0, classes[0])
            style = "source_edit"
    rest: list[ConfigSystem] = list(_FILES_FIRST[:1]) if has_files else []
    systems = list(dict.fromkeys([*systems, *rest, *classes]))
    if main.is_handmade:
        style = "--k v"
    elif not parsers and systems:
        style = "source_edit" if systems[0] != "yaml" else "file"
    evidence = tuple(lines[system] for system in systems if system in lines)
    return ConfigFinding(
        primary=systems[0] if systems else None,
        secondary=tuple(systems[1:]),
        override_style=style,
        detail="; ".join(dict.fromkeys(each.note for each in evidence[:3])),
        roots=_roots(scan, main),
        confidence=0.9 if parsers else 0.6 if systems else 0.0,
        evidence=evidence,
        defaults=_defaults(scan, main),
    )


def _is_file(flag: Flag) -> bool:
    """Whether a flag names a file of settings."""
    given = isinstance(flag.default, str) and flag.default.endswith((".yaml", ".yml"))
    return given or bool(_FILE_FLAG.search(flag.name))


def _only_points(flags: tuple[Flag, ...]) -> bool:
    """Whether a command line takes no setting of learning, only what is to be run and where."""
    own = [flag for flag in flags if flag.parser == "argparse"]
    if any(_OPEN_FLAG.search(flag.name) or "*" in flag.label for flag in own):
        return False
    learning = [
        flag
        for flag in own
        if isinstance(flag.default, int | float)
        and not isinstance(flag.default, bool)
        and not _BESIDE.search(flag.name)
    ]
    return len(learning) < _FEW


def _evidence(scan: RepositoryScan, main: Situation) -> Iterator[tuple[ConfigSystem, SourceLine]]:
    """The first line that speaks for each system, from what the command meets."""
    for flag in reversed(main.accepted.flags):
        yield _SYSTEMS[flag.parser][0], quote(flag, f"{flag.parser}: {flag.label}")
    for call in main.calls([*main.reach, *main.tops]):
        if _LOADS_YAML.search(call.name):
            yield "yaml", quote(call, f"{call.name}(…)")
        elif call.last.startswith("parse_config") and call.name.startswith("gin"):
            yield "gin", quote(call, f"{call.name}(…)")
    for spot in main.reach:
        function = scan.repository.functions.get(spot)
        for mark in function.marks if function else ():
            if mark.name.endswith("hydra.main"):
                yield "hydra", quote(mark, "@hydra.main")
    yield from _declared(scan, main.defaults.paths)
    if main.is_handmade:
        yield "custom", SourceLine(path=main.starts[0].path, line=1, note="reads sys.argv itself")
    for path in main.modules:
        yield "custom", SourceLine(path=path, line=1, note="a module of settings")


def _declared(
    scan: RepositoryScan, paths: Iterable[str]
) -> Iterator[tuple[ConfigSystem, SourceLine]]:
    """Classes of settings; one that a parser reads whole is its command line, not a system."""
    found = [each for path in paths for each in _classes(scan.repository.modules[path])]
    declared = [line for system, line in found if system == "dataclasses"]
    if len(declared) >= _FEW:
        yield "dataclasses", declared[0]
    yield from (each for each in found if each[0] == "custom")


def _classes(facts: ModuleFacts) -> Iterator[tuple[ConfigSystem, SourceLine]]:
    """Classes of settings: declared ones, and those with classes inside that hold values."""
    nested = [each for each in facts.classes if each.scope and _is_settings(each.scope)]
    for each in facts.classes:
        if _CONFIG_CLASS.search(each.name) and any(map(_DECLARES.search, each.decorators)):
            yield "dataclasses", quote(each, f"class {each.name}")
    if len(nested) >= _FEW or any(each.name == "scales" for each in nested):
        yield "custom", quote(nested[0], f"{len(nested)} nested configuration classes")


def _is_settings(scope: str) -> bool:
    return bool(_CONFIG_CLASS.search(scope.partition(".")[0]))


def _of_library(scan: RepositoryScan) -> ConfigFinding:
    """A library has no command line: its users build settings in code."""
    lines: dict[ConfigSystem, SourceLine] = {}
    for facts in scan.sources():
        for system, line in _classes(facts):
            lines.setdefault(system, line)
    for function in scan.source_functions():
        if any(re.search(r"(^|_)(cfg|config)$", name) for name in function.arguments):
            note = "takes a dictionary of settings"
            lines.setdefault("custom", quote(function, note))
    for call in scan.source_calls():
        if _LOADS_YAML.search(call.name):
            lines.setdefault("yaml", quote(call, f"{call.name}(…)"))
    order: tuple[ConfigSystem, ...] = ("dataclasses", "custom", "yaml")
    systems: list[ConfigSystem] = [system for system in order if system in lines]
    return ConfigFinding(
        primary=systems[0] if systems else None,
        secondary=tuple(systems[1:]),
        override_style="source_edit" if systems else None,
        confidence=0.6 if systems else 0.0,
        evidence=tuple(lines[system] for system in systems),
        defaults=_defaults(scan, None),
    )


def _roots(scan: RepositoryScan, main: Situation) -> tuple[str, ...]:
    """Return the folders where configuration files lie."""
    files = [*main.composition.files, *scan.tree.with_suffix(".gin")]
    folders = {path.rpartition("/")[0] or "." for path in files}
    inner = {each for each in folders for outer in folders if each.startswith(f"{outer}/")}
    return tuple(sorted(folders - inner)[:12])


def _defaults(scan: RepositoryScan, main: Situation | None) -> dict[str, Default]:
    """Return for each topic the setting nearest to training, as it is after composition."""
    defaults: dict[str, Default] = {}
    for topic, names in _MATTERING.items():
        found = next((each for name in names for each in _candidates(scan, main, name)), None)
        if found is not None:
            defaults[topic] = found
    return defaults


def _candidates(scan: RepositoryScan, main: Situation | None, name: str) -> Iterator[Default]:
    if main is not None:
        flag = next((each for each in main.accepted.flags if each.name == name), None)
        if flag is not None and flag.default is not None:
            yield _default(flag, flag.default, flag.label, known=flag.known)
        composed = main.composition.get(name)
        if composed is not None and composed.value is not None:
            yield _default(composed, composed.value, name)
    paths = main.defaults.paths if main else dict.fromkeys(scan.source_files, 0)
    fields: list[Setting] = [
        each for each in scan.declared() if bare(each.name) == name and each.path in paths
    ]
    for each in sorted(fields, key=lambda each: paths[each.path]):
        yield _default(each, each.default, each.flag, known=each.known)


def _default(place: Placed, value: Any, flag: str | None, *, known: bool = True) -> Default:
    where = {"path": place.path, "line": place.line}
    return Default.model_validate({"value": _plain(value), "known": known, "flag": flag, **where})


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else None
