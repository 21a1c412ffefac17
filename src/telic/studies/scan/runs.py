"""How a run is configured, what it is given and leaves behind, and how a policy is evaluated."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from telic.studies.documents.adapter import ConfigSystem, OverrideStyle
from telic.studies.scan.declared import Setting, bare
from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.records import (
    SURE_ENOUGH,
    ConfigFinding,
    Default,
    EvaluationFinding,
    OutputFinding,
    SeedFinding,
    Signals,
    SourceLine,
    quote,
)
from telic.studies.scan.repository import Spot
from telic.studies.scan.source import (
    VOCABULARY,
    Assignment,
    ModuleFacts,
    is_symbol,
    is_table,
)

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
_CONFIG_CALLS: tuple[tuple[str | re.Pattern[str], ConfigSystem, float, str], ...] = (
    (r"^hydra\.(main|initialize(_config_dir)?)$|\bConfigStore$", "hydra", 0.6, "{}(…)"),
    (r"^tyro\.(.*\.)?(cli|extras|overridable_config_cli)$", "tyro", 0.7, "{}(…)"),
    (r"ArgumentParser$", "argparse", 0.6, "{}(…)"),
    (r"^gymutil\.parse_arguments|\bparse_arguments$", "argparse", 0.5, "{}(…) wraps argparse"),
    (r"^(click\.option|typer\.Option|fire\.Fire|sacred\.Experiment)", "custom", 0.5, "{}(…)"),
    (VOCABULARY.pattern("yaml_loads"), "yaml", 0.5, "{}(…)"),
    (r"^gin\.(.*\.)?parse_config[^.]*$", "gin", 0.7, "{}(…)"),
    (r"^(?=.*(?i:flags)).*\bDEFINE_[^.]*$", "custom", 0.3, "absl flag {argument}"),
    (r"\b(ConfigDict|config_dict)$|ml_collections", "custom", 0.3, "ml_collections configuration"),
)
"""calls that speak for a system, and how much"""
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
    signals: _Signs = defaultdict(Signals)
    _from_calls(scan, signals)
    entry_files = {entry.path for entry in scan.train}
    for facts in scan.sources():
        path = facts.path
        scale = 1.0 if path in scan.train_files or not scan.train else 0.2
        for each in (*facts.functions, *facts.classes):
            for name in each.decorators:
                if name.endswith(("hydra.main", "hydra_task_config")):
                    weight = 0.7 * (1 if path in entry_files else scale)
                    signals["hydra"].add(weight, path, each.line, f"@{name}")
        _from_classes(facts, scale, signals)
    if not scan.train:  # a library is configured by what its functions take
        for function in scan.source_functions():
            if any(map(_DICTIONARY.search, function.arguments)):
                note = "takes a dictionary of settings"
                signals["custom"].add(0.2, function.path, function.line, note)
    gin = scan.tree.with_suffix(".gin")
    if gin:
        signals["gin"].add(0.4, gin[0], 1, f"{len(gin)} gin files")
    return signals


def _from_calls(scan: RepositoryScan, signals: _Signs) -> None:
    first = {*scan.near, *_imported(scan)}
    for call in scan.source_calls():
        sign = _config_sign(call.name)
        if sign is None or len(signals[sign[0]].weights) >= 60:
            continue
        system, weight, note = sign
        scale = 0.5 if call.path in scan.train_files else 0.15
        if call.path in first or (not scan.train and system != "argparse"):
            scale = 1.0
        note = note.format(call.name, argument=call.args[0] if call.args else "")
        signals[system].add(weight * scale, call.path, call.line, note)


@lru_cache(maxsize=20_000)
def _config_sign(name: str) -> tuple[ConfigSystem, float, str] | None:
    """Return the system that a call of this name speaks for, how much, and the note's form."""
    for pattern, system, weight, note in _CONFIG_CALLS:
        if re.search(pattern, name):
            return system, weight, note
    return None


def _imported(scan: RepositoryScan) -> set[str]:
    """Return the files that the first training command's file imports: settings may live there."""
    module = scan.repository.module
    paths = {
        module(origin) or module(origin.rpartition(".")[0])
        for entry in scan.train[:1]
        for origin in scan.repository.modules[entry.path].import_lines
    }
    return {path for path in paths if path}


def _from_classes(facts: ModuleFacts, scale: float, signals: _Signs) -> None:
    nested = 0
    for each in facts.classes:
        if not any(map(_CONFIG_CLASS.search, (each.name, each.scope.partition(".")[0]))):
            continue
        if any(map(_DECLARES.search, each.decorators)):
            if len(signals["dataclasses"].weights) < 40:
                note = f"dataclass {each.name}"
                signals["dataclasses"].add(0.2 * max(scale, 0.75), facts.path, each.line, note)
        elif each.scope:
            nested += 1
    if nested >= 2:
        note = f"{nested} nested configuration classes"
        signals["custom"].add(min(0.15 * nested, 0.7), facts.path, 1, note)


def _roots(scan: RepositoryScan, systems: list[ConfigSystem]) -> tuple[str, ...]:
    """Return the folders where configuration files lie."""
    wanted: list[str] = []
    if "gin" in systems:
        wanted += scan.tree.with_suffix(".gin")
    if "hydra" in systems or "yaml" in systems:
        wanted += [path for path in scan.settings.yaml if scan.tree.is_own(path)]
    folders = {path.rpartition("/")[0] or "." for path in wanted}
    inner = {each for each in folders for outer in folders if each.startswith(f"{outer}/")}
    return tuple(sorted(folders - inner)[:12])


def _defaults(scan: RepositoryScan) -> dict[str, Default]:
    """Return for each topic the setting nearest to training: flags first, then the given order."""

    def order(candidate: tuple[int, Setting]) -> tuple[bool, bool, int, int]:
        rank, setting = candidate
        is_flag = (setting.flag or "").startswith("--")
        return setting.path not in scan.near, not is_flag, rank, scan.near.get(setting.path, 0)

    defaults: dict[str, Default] = {}
    for topic, names in _MATTERING.items():
        candidates = [
            (rank, setting)
            for rank, name in enumerate(names)
            for setting in scan.settings.named(name)
            if scan.tree.is_own(setting.path)
        ]
        if candidates:
            _, best = min(candidates, key=order)
            defaults[topic] = Default(
                value=_plain(best.default),
                known=best.known,
                flag=best.flag,
                path=best.path,
                line=best.line,
            )
    return defaults


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else None


# ---------------------------------------------------------------------------- runs

_SEED = re.compile(r"^(seed|random_seed|train_seed|rng_seed|env_seed|seeds|torch_seed)$")
_SEEDING = VOCABULARY.pattern("seeding_calls")
_DETERMINISTIC = VOCABULARY.pattern("determinism_words")
_FOLDERS = VOCABULARY.words("run_folders")
_CHECKPOINT = VOCABULARY.pattern("checkpoint_names")
_SAVES = re.compile(r"^(save\w*|dump|export\w*)$")
_CANONICAL = VOCABULARY.patterns("metrics")
_WRITES = VOCABULARY.words("metric_writers")
_YAML = (".yaml", ".yml")


def find_seeds(scan: RepositoryScan) -> SeedFinding:
    """Return the seed flag, its default, and whether anything is seeded with it."""
    settings = [
        setting
        for setting in scan.declared()
        if setting.flag and _SEED.match(bare(setting.name)) and scan.tree.is_own(setting.path)
    ]
    settings += [each for each in scan.settings.named("seed") if each.path.endswith(_YAML)]

    def order(setting: Setting) -> tuple[bool, bool, int, str]:
        path = setting.path
        return path not in scan.near, not setting.flag, scan.near.get(path, 0), path

    best = min(settings, key=order, default=None)
    seeding = next((call for call in scan.training_calls() if _SEEDING.match(call.last)), None)
    evidence = [quote(best, best.label)] if best else []
    if seeding:
        evidence.append(quote(seeding, f"{seeding.name}(…)"))
    return SeedFinding(
        flag=best.label if best else None,
        default=_plain(best.default) if best and best.known else None,
        controllable=best is not None,
        claims_determinism=any(
            _DETERMINISTIC.search(scan.tree.text(path)) for path in scan.near or scan.source_files
        ),
        evidence=tuple(evidence),
    )


def find_outputs(scan: RepositoryScan) -> OutputFinding:
    """Return where a run writes, and what its checkpoints are called."""
    near = list(scan.train_files) or scan.source_files
    evidence: list[SourceLine] = []
    folder = checkpoint = None
    for each in scan.assignments(near):
        name = each.target.rpartition(".")[2].lstrip("_")
        is_template = isinstance(each.value, str) and not is_symbol(each.value)
        if name in _FOLDERS and is_template and ("/" in each.value or "{" in each.value):
            folder = each.value
            evidence.append(quote(each, f'{name} = "{folder}"'))
            break
    for call in (call for path in near for call in scan.repository.modules[path].calls):
        if _SAVES.match(call.last) or "join" in call.last:
            texts = (value for value in call.args if isinstance(value, str))
            saved = next((text for text in texts if _CHECKPOINT.search(text)), None)
            if saved:
                checkpoint = "**/" + re.sub(r"\{[^}]*\}", "*", saved).rpartition("/")[2]
                evidence.append(quote(call, f"{call.name}(…)"))
                break
    return OutputFinding(
        run_dir_template=folder, checkpoint_glob=checkpoint, evidence=tuple(evidence)
    )


def find_metrics(scan: RepositoryScan) -> dict[str, str]:
    """Return the logged key of each canonical metric, from what the code writes."""
    metrics: dict[str, str] = {}
    for path in dict.fromkeys([*scan.train_files, *scan.source_files]):
        facts = scan.repository.modules[path]
        logged = [call.args[0] for call in facts.calls if call.last in _WRITES and call.args]
        keys = [*logged, *(key for value in logged if is_table(value) for key in value)]
        keys += [each.target.split(".", 1)[-1] for each in facts.assignments if "/" in each.target]
        for key in keys:
            if isinstance(key, str) and not is_symbol(key):
                for canonical, pattern in _CANONICAL.items():
                    if pattern.search(key):
                        metrics.setdefault(canonical, key)
    return dict(sorted(metrics.items()))


# ---------------------------------------------------------------------------- evaluation

_EVAL_FLAG = VOCABULARY.pattern("eval_flags")
_MODE_FLAG = re.compile(r"^-{0,2}(mode|command|cmd|phase)$")
_EMBEDDED = VOCABULARY.pattern("embedded_evaluation")
_SCALARS = VOCABULARY.pattern("scalar_writers")
_MEASURES = re.compile(r"reward|return|success|score|episode|metric|length|error", re.I)
_RANDOMISED = VOCABULARY.pattern("randomised_settings")
_DISPLAY = re.compile(r"headless|render|viewer|display|no_render|visualize", re.I)
_EVALUATES = re.compile(r"\b(eval\w*|test|play|enjoy)\b")
_PLAYS = re.compile(r"(play|eval|test)", re.I)
_OFF = (False, None, 0, 0.0, "none", "off")


def find_evaluation(scan: RepositoryScan) -> EvaluationFinding:
    """Return how evaluation happens: by a script, by a flag, inside training, or not at all."""
    if scan.evaluate:
        entry, reach = scan.evaluate[0], scan.eval_reach
        displays = [s for s in scan.settings.on_entry(entry.path) if _DISPLAY.search(s.name)]
        return EvaluationFinding(
            style="script",
            emits_scalars=_emits(scan, reach),
            headless=_is_headless(displays[0]) if displays else None,
            needs_network=_needs_network(scan, reach),
            turned_off=tuple(dict.fromkeys(each.target for each in turned_off(scan)))[:20],
            evidence=entry.evidence[:4],
        )
    flag = eval_flag(scan)
    if flag:
        return EvaluationFinding(
            style="same_entry",
            flag=flag.label,
            evidence=(quote(flag, f"flag {flag.label}"),),
            emits_scalars=_emits(scan, scan.train_reach),
            needs_network=_needs_network(scan, scan.train_reach),
        )
    embedded = tuple(
        quote(call, f"{call.name}(…) while training")
        for call in scan.calls(scan.any_train_reach)
        if _EMBEDDED.match(call.last)
    )
    if embedded:
        return EvaluationFinding(style="embedded", emits_scalars=True, evidence=embedded[:4])
    return EvaluationFinding(style="none")


def _is_headless(setting: Setting) -> bool | None:
    if not setting.known:
        return None
    hides = "headless" in setting.name or "no" in setting.name.lstrip("-").split("_")[0:1]
    return bool(setting.default) if hides else not setting.default


def eval_flag(scan: RepositoryScan) -> Setting | None:
    """Return the flag of the training command that makes it evaluate instead.

    What a documented training command is given, such as `test=True`, comes first.
    """
    files = {entry.path for entry in scan.train[:3]}
    for command in scan.documented:
        for word in command.words if command.resolved in files else ():
            name, equals, value = word.partition("=")
            if _EVAL_FLAG.match(name) and (not equals or value.lower() == "true"):
                return Setting(name, None, False, word, command.path, command.line)
    near = [*scan.near][:12]
    for setting in scan.declared():
        if setting.path not in near or not setting.flag:
            continue
        name = setting.name.rpartition(".")[2]
        line = scan.tree.line(setting.path, setting.line)
        if _EVAL_FLAG.match(name) or (_MODE_FLAG.match(name) and _EVALUATES.search(line)):
            return setting
    return None


def _emits(scan: RepositoryScan, reach: dict[Spot, int]) -> bool:
    """Whether evaluation writes or prints a number that says how well the policy did."""
    lines = (
        scan.tree.line(call.path, call.line)
        for call in scan.calls(reach)
        if _SCALARS.match(call.last)
    )
    return any(_MEASURES.search(line) and re.search(r"[{,%]", line) for line in lines)


def _needs_network(scan: RepositoryScan, reach: dict[Spot, int]) -> bool:
    return any(VOCABULARY.is_download(call.name) for call in scan.calls(reach))


def turned_off(scan: RepositoryScan) -> Iterator[Assignment]:
    """Return assignments in evaluation code that switch training randomisation off."""
    entries = [entry.path for entry in scan.evaluate[:4]]
    # also a configuration for playing that derives from the one for training
    playing = (each for each in scan.assignments(scan.source_files) if _PLAYS.search(each.scope))
    for each in (*scan.assignments(entries), *playing):
        is_plain = isinstance(each.value, bool | int | float | str | None)
        is_off = is_plain and each.value in _OFF
        if "." in each.target and _RANDOMISED.search(each.target) and is_off:
            yield each
