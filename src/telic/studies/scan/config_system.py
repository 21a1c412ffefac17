"""How a parameter is changed from the command line, and where defaults live."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from telic.studies.documents.adapter import ConfigSystem, OverrideStyle
from telic.studies.scan.context import Scan
from telic.studies.scan.records import SURE_ENOUGH, ConfigFinding, Default
from telic.studies.scan.settings import Setting
from telic.studies.scan.signals import Signals
from telic.studies.scan.syntax import Call

_ORDER: tuple[ConfigSystem, ...] = (
    "hydra",
    "tyro",
    "gin",
    "argparse",
    "custom",
    "yaml",
    "dataclasses",
)
"""what a user would override first, where several are at work"""
_LIBRARY_ORDER: tuple[ConfigSystem, ...] = (
    "hydra",
    "gin",
    "tyro",
    "dataclasses",
    "custom",
    "yaml",
    "argparse",
)
_STYLES: dict[ConfigSystem, OverrideStyle] = {
    "hydra": "k=v",
    "tyro": "--k v",
    "argparse": "--k v",
    "gin": "--k=v",
    "yaml": "file",
    "dataclasses": "source_edit",
    "custom": "source_edit",
}
_YAML_LOADS = re.compile(
    r"(^|\.)(ya?ml\.(safe_)?(full_)?load\w*|YAML|OmegaConf\.load|load_yaml\w*)$"
)
_CONFIG_CLASS = re.compile(r"(Cfg|Config|Args|Params|Options|Settings|Hyperparameters?)$")
_DICTIONARY = re.compile(r"(^|_)(cfg|config)$")
_MATTERING: dict[str, tuple[str, ...]] = {
    "logger": ("logger", "log_backend", "tracker", "report_to", "track", "use_wandb", "wandb_mode"),
    "seed": ("seed", "random_seed"),
    "headless": ("headless", "render", "render_mode", "viewer", "no_render"),
    "device": ("device", "rl_device", "sim_device", "cuda", "gpu", "no_cuda"),
    "steps": (
        "total_timesteps",
        "max_iterations",
        "n_timesteps",
        "num_timesteps",
        "total_steps",
        "train_for_env_steps",
        "num_learning_iterations",
        "total_frames",
        "max_steps",
        "num_env_steps",
        "max_epochs",
        "num_iterations",
        "timesteps",
        "total_env_steps",
    ),
}


def find_config_system(scan: Scan) -> ConfigFinding:
    """Return the primary and secondary configuration systems with their evidence."""
    found = _gather(scan)
    sure = {system: each for system, each in found.items() if each.confidence >= SURE_ENOUGH}
    # a library has no command line: its users build settings in code
    order = _ORDER if scan.train else _LIBRARY_ORDER
    ranked: list[ConfigSystem] = [system for system in order if system in sure]
    if not ranked:
        return ConfigFinding(primary=None, defaults=_defaults(scan))
    primary = ranked[0]
    signals = sure[primary]
    return ConfigFinding(
        primary=primary,
        secondary=tuple(ranked[1:]),
        override_style=_style(primary, signals),
        detail="; ".join(dict.fromkeys(each.note for each in signals.strongest[:3])),
        roots=_roots(scan, ranked),
        confidence=signals.confidence,
        evidence=tuple(each for system in ranked for each in sure[system].strongest[:3]),
        defaults=_defaults(scan),
    )


def _style(primary: ConfigSystem, signals: Signals) -> OverrideStyle:
    if primary == "custom" and any("absl" in each.note for each in signals.evidence):
        return "--k=v"
    return _STYLES[primary]


def _gather(scan: Scan) -> dict[ConfigSystem, Signals]:
    found: dict[ConfigSystem, Signals] = defaultdict(Signals)
    first = set(scan.files(scan.train_reach))
    first |= _imported(scan)
    reached = scan.train_files
    entry_files = {entry.path for entry in scan.train}
    for path, call in scan.source_calls():
        near = path in first
        for system, weight, note in _from_call(call):
            scale = 0.5 if path in reached else 0.15
            if near or (not scan.train and system != "argparse"):
                scale = 1.0
            if len(found[system].weights) < 60:
                found[system].add(weight * scale, path, call.line, note)
    for path in scan.source_files:
        facts = scan.repository.modules[path]
        scale = 1.0 if path in reached or not scan.train else 0.2
        for each in (*facts.functions, *facts.classes):
            for name in each.decorators:
                if name.endswith("hydra.main") or name.endswith("hydra_task_config"):
                    found["hydra"].add(
                        0.7 * (1 if path in entry_files else scale), path, each.line, f"@{name}"
                    )
        _from_classes(scan, path, scale, found)
    if not scan.train:
        _library_dictionaries(scan, found)
    gin = scan.tree.with_suffix(".gin")
    if gin:
        found["gin"].add(0.4, gin[0], 1, f"{len(gin)} gin files")
    return found


def _imported(scan: Scan) -> set[str]:
    """Return the files that the first training command's file imports: settings may live there."""
    found: set[str] = set()
    for entry in scan.train[:1]:
        for origin in scan.repository.modules[entry.path].import_lines:
            path = scan.repository.module(origin) or scan.repository.module(
                origin.rpartition(".")[0]
            )
            found |= {path} if path else set()
    return found


def _from_call(call: Call) -> Iterator[tuple[ConfigSystem, float, str]]:
    name = call.name
    if (
        name in {"hydra.main", "hydra.initialize", "hydra.initialize_config_dir"}
        or call.last == "ConfigStore"
    ):
        yield "hydra", 0.6, f"{name}(…)"
    elif name.startswith("tyro.") and call.last in {"cli", "extras", "overridable_config_cli"}:
        yield "tyro", 0.7, f"{name}(…)"
    elif call.last == "ArgumentParser" or name.endswith("ArgumentParser"):
        yield "argparse", 0.6, f"{name}(…)"
    elif name.startswith("gymutil.parse_arguments") or call.last == "parse_arguments":
        yield "argparse", 0.5, f"{name}(…) wraps argparse"
    elif name.startswith(("click.option", "typer.Option", "fire.Fire", "sacred.Experiment")):
        yield "custom", 0.5, f"{name}(…)"
    elif _YAML_LOADS.search(name):
        yield "yaml", 0.5, f"{name}(…)"
    elif name.startswith("gin.") and call.last.startswith("parse_config"):
        yield "gin", 0.7, f"{name}(…)"
    elif call.last.startswith("DEFINE_") and "flags" in name.lower() + call.last:
        yield "custom", 0.3, f"absl flag {call.args[0] if call.args else ''}"
    elif call.last in {"ConfigDict", "config_dict"} or "ml_collections" in name:
        yield "custom", 0.3, "ml_collections configuration"


def _from_classes(scan: Scan, path: str, scale: float, found: dict[ConfigSystem, Signals]) -> None:
    facts = scan.repository.modules[path]
    nested = 0
    for each in facts.classes:
        if not (
            _CONFIG_CLASS.search(each.name) or _CONFIG_CLASS.search(each.scope.partition(".")[0])
        ):
            continue
        decorated = any(
            "dataclass" in name or "configclass" in name or name.endswith(("define", "frozen"))
            for name in each.decorators
        )
        if decorated:
            if len(found["dataclasses"].weights) < 40:
                found["dataclasses"].add(
                    0.2 * max(scale, 0.75), path, each.line, f"dataclass {each.name}"
                )
        elif each.scope:
            nested += 1
    if nested >= 2:
        found["custom"].add(
            min(0.15 * nested, 0.7), path, 1, f"{nested} nested configuration classes"
        )


def _library_dictionaries(scan: Scan, found: dict[ConfigSystem, Signals]) -> None:
    """A library is configured by what its functions take: dictionaries count as custom."""
    for path in scan.source_files:
        for function in scan.repository.modules[path].functions:
            if any(map(_DICTIONARY.search, function.arguments)):
                found["custom"].add(0.2, path, function.line, "takes a dictionary of settings")


def _roots(scan: Scan, systems: list[ConfigSystem]) -> tuple[str, ...]:
    """Return the folders where configuration files lie."""
    wanted: list[str] = []
    if "gin" in systems:
        wanted += scan.tree.with_suffix(".gin")
    if "hydra" in systems or "yaml" in systems:
        wanted += [path for path in scan.settings.yaml if scan.tree.weight(path) >= 0.5]
    folders = dict.fromkeys(path.rpartition("/")[0] or "." for path in wanted)
    tops = [
        folder
        for folder in folders
        if not any(folder != other and folder.startswith(f"{other}/") for other in folders)
    ]
    return tuple(sorted(tops)[:12])


def _defaults(scan: Scan) -> dict[str, Default]:
    near = scan.files(scan.train_reach)
    found: dict[str, Default] = {}
    for topic, names in _MATTERING.items():
        best = _effective(scan, names, near)
        if best:
            found[topic] = Default(
                value=best.default if isinstance(best.default, str | int | float | bool) else None,
                known=best.known,
                flag=best.flag,
                path=best.path,
                line=best.line,
            )
    return found


def _effective(scan: Scan, names: tuple[str, ...], near: list[str]) -> Setting | None:
    """Return the setting nearest to the training command: flags first, then the given order."""
    order = {path: index for index, path in enumerate(near)}
    candidates = [
        (
            each.path not in order,
            not (each.flag or "").startswith("--"),
            rank,
            order.get(each.path, 0),
            each,
        )
        for rank, name in enumerate(names)
        for each in scan.settings.named(name)
        if scan.tree.weight(each.path) >= 0.5
    ]
    return min(candidates, key=lambda item: item[:4])[4] if candidates else None
