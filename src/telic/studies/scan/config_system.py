"""How a parameter is changed from the command line, and where defaults live."""

from __future__ import annotations

import re
from collections import defaultdict

from telic.studies.documents.adapter import ConfigSystem, OverrideStyle
from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.records import SURE_ENOUGH, ConfigFinding, Default, Signals
from telic.studies.scan.settings import Setting
from telic.studies.scan.syntax import CallSite, ModuleFacts
from telic.studies.scan.vocabulary import VOCABULARY

_STYLES: dict[ConfigSystem, OverrideStyle] = {
    "hydra": "k=v",
    "tyro": "--k v",
    "gin": "--k=v",
    "argparse": "--k v",
    "custom": "source_edit",
    "yaml": "file",
    "dataclasses": "source_edit",
}
"""how each is changed; in the order of what a user would override first, where several work"""
_LIBRARY_ORDER = ("hydra", "gin", "tyro", "dataclasses", "custom", "yaml", "argparse")
"""a library has no command line: its users build settings in code"""
_HYDRA = {"hydra.main", "hydra.initialize", "hydra.initialize_config_dir"}
_YAML_LOADS = VOCABULARY.pattern("yaml_loads")
_CONFIG_CLASS = re.compile(r"(Cfg|Config|Args|Params|Options|Settings|Hyperparameters?)$")
_DECLARES = re.compile(r"dataclass|configclass|(define|frozen)$")
_DICTIONARY = re.compile(r"(^|_)(cfg|config)$")
_MATTERING = VOCABULARY.word_lists("settings")

_Signs = dict[ConfigSystem, Signals]


def find_config_system(scan: RepositoryScan) -> ConfigFinding:
    """Return the primary and secondary configuration systems with their evidence."""
    signals = _gather(scan)
    ranked: list[ConfigSystem] = [
        system for system in _STYLES if signals[system].confidence >= SURE_ENOUGH
    ]
    if not scan.train:
        ranked.sort(key=_LIBRARY_ORDER.index)
    if not ranked:
        return ConfigFinding(primary=None, defaults=_defaults(scan))
    primary = ranked[0]
    best = signals[primary]
    is_absl = primary == "custom" and any("absl" in each.note for each in best.evidence)
    return ConfigFinding(
        primary=primary,
        secondary=tuple(ranked[1:]),
        override_style="--k=v" if is_absl else _STYLES[primary],
        detail="; ".join(dict.fromkeys(each.note for each in best.strongest[:3])),
        roots=_roots(scan, ranked),
        confidence=best.confidence,
        evidence=tuple(each for system in ranked for each in signals[system].strongest[:3]),
        defaults=_defaults(scan),
    )


def _gather(scan: RepositoryScan) -> _Signs:
    found: _Signs = defaultdict(Signals)
    _from_calls(scan, found)
    entry_files = {entry.path for entry in scan.train}
    for facts in scan.sources():
        path = facts.path
        scale = 1.0 if path in scan.train_files or not scan.train else 0.2
        for each in (*facts.functions, *facts.classes):
            for name in each.decorators:
                if name.endswith(("hydra.main", "hydra_task_config")):
                    weight = 0.7 * (1 if path in entry_files else scale)
                    found["hydra"].add(weight, path, each.line, f"@{name}")
        _from_classes(facts, scale, found)
    if not scan.train:  # a library is configured by what its functions take
        for function in (each for facts in scan.sources() for each in facts.functions):
            if any(map(_DICTIONARY.search, function.arguments)):
                note = "takes a dictionary of settings"
                found["custom"].add(0.2, function.path, function.line, note)
    gin = scan.tree.with_suffix(".gin")
    if gin:
        found["gin"].add(0.4, gin[0], 1, f"{len(gin)} gin files")
    return found


def _from_calls(scan: RepositoryScan, found: _Signs) -> None:
    first = {*scan.near, *_imported(scan)}
    for call in scan.source_calls():
        told = _from_call(call)
        if told is None:
            continue
        system, weight, note = told
        scale = 0.5 if call.path in scan.train_files else 0.15
        if call.path in first or (not scan.train and system != "argparse"):
            scale = 1.0
        if len(found[system].weights) < 60:
            found[system].add(weight * scale, call.path, call.line, note)


def _imported(scan: RepositoryScan) -> set[str]:
    """Return the files that the first training command's file imports: settings may live there."""
    module = scan.repository.module
    paths = {
        module(origin) or module(origin.rpartition(".")[0])
        for entry in scan.train[:1]
        for origin in scan.repository.modules[entry.path].import_lines
    }
    return {path for path in paths if path}


def _from_call(call: CallSite) -> tuple[ConfigSystem, float, str] | None:
    name, last = call.name, call.last
    if name in _HYDRA or last == "ConfigStore":
        return "hydra", 0.6, f"{name}(…)"
    if name.startswith("tyro.") and last in {"cli", "extras", "overridable_config_cli"}:
        return "tyro", 0.7, f"{name}(…)"
    if name.endswith("ArgumentParser"):
        return "argparse", 0.6, f"{name}(…)"
    if name.startswith("gymutil.parse_arguments") or last == "parse_arguments":
        return "argparse", 0.5, f"{name}(…) wraps argparse"
    if name.startswith(("click.option", "typer.Option", "fire.Fire", "sacred.Experiment")):
        return "custom", 0.5, f"{name}(…)"
    if _YAML_LOADS.search(name):
        return "yaml", 0.5, f"{name}(…)"
    if name.startswith("gin.") and last.startswith("parse_config"):
        return "gin", 0.7, f"{name}(…)"
    if last.startswith("DEFINE_") and "flags" in name.lower():
        return "custom", 0.3, f"absl flag {call.args[0] if call.args else ''}"
    if last in {"ConfigDict", "config_dict"} or "ml_collections" in name:
        return "custom", 0.3, "ml_collections configuration"
    return None


def _from_classes(facts: ModuleFacts, scale: float, found: _Signs) -> None:
    nested = 0
    for each in facts.classes:
        if not any(map(_CONFIG_CLASS.search, (each.name, each.scope.partition(".")[0]))):
            continue
        if any(map(_DECLARES.search, each.decorators)):
            if len(found["dataclasses"].weights) < 40:
                note = f"dataclass {each.name}"
                found["dataclasses"].add(0.2 * max(scale, 0.75), facts.path, each.line, note)
        elif each.scope:
            nested += 1
    if nested >= 2:
        note = f"{nested} nested configuration classes"
        found["custom"].add(min(0.15 * nested, 0.7), facts.path, 1, note)


def _roots(scan: RepositoryScan, systems: list[ConfigSystem]) -> tuple[str, ...]:
    """Return the folders where configuration files lie."""
    wanted: list[str] = []
    if "gin" in systems:
        wanted += scan.tree.with_suffix(".gin")
    if "hydra" in systems or "yaml" in systems:
        wanted += [path for path in scan.settings.yaml if scan.tree.is_own(path)]
    folders = {path.rpartition("/")[0] or "." for path in wanted}
    tops = [
        folder
        for folder in folders
        if not any(folder != other and folder.startswith(f"{other}/") for other in folders)
    ]
    return tuple(sorted(tops)[:12])


def _defaults(scan: RepositoryScan) -> dict[str, Default]:
    defaults: dict[str, Default] = {}
    for topic, names in _MATTERING.items():
        best = _effective(scan, names)
        if best:
            is_plain = isinstance(best.default, str | int | float | bool)
            defaults[topic] = Default(
                value=best.default if is_plain else None,
                known=best.known,
                flag=best.flag,
                path=best.path,
                line=best.line,
            )
    return defaults


def _effective(scan: RepositoryScan, names: tuple[str, ...]) -> Setting | None:
    """Return the setting nearest to the training command: flags first, then the given order."""
    candidates = [
        (rank, setting)
        for rank, name in enumerate(names)
        for setting in scan.settings.named(name)
        if scan.tree.is_own(setting.path)
    ]

    def order(candidate: tuple[int, Setting]) -> tuple[bool, bool, int, int]:
        rank, setting = candidate
        is_flag = (setting.flag or "").startswith("--")
        return setting.path not in scan.near, not is_flag, rank, scan.near.get(setting.path, 0)

    return min(candidates, key=order)[1] if candidates else None
