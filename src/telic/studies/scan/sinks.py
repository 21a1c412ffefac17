"""Where numbers appear while training, and which of it happens by default."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from telic.studies.scan.declared import Setting
from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.records import Sink, SourceLine, combined, quote
from telic.studies.scan.repository import grouped
from telic.studies.scan.source import (
    UNKNOWN,
    VOCABULARY,
    CallSite,
    Guard,
    Unknown,
    as_list,
    is_symbol,
)

_SWITCH = VOCABULARY.pattern("switches")
_NOT_A_SWITCH = VOCABULARY.pattern("not_a_switch")
_CONFIG_ENDING = re.compile(r"_?(cfg|config|type|kwargs|args)$", re.I)
_HOLDERS = {"value", "enabled", "enable", "activate", "active"}
"""attributes that stand for the thing they belong to"""
_COMMON_METHODS = VOCABULARY.words("common_methods")
_DEPTH = 4
_MOST_CALLERS = 12


class Switch(NamedTuple):
    """Whether something happens by default, and the setting that decides it."""

    on: bool
    name: str | None


def by_default(scan: RepositoryScan, call: CallSite, depth: int = 0) -> Switch:
    """Say whether a call happens when nobody asks for it, from its conditions and callers."""
    named: str | None = None
    for guard in call.guards:
        holds, name = _evaluate(scan, call.path, guard)
        named = name or named
        if holds is False:
            return Switch(False, name)
    if not call.scope or depth >= _DEPTH:
        # what another script does when it is run is not what training does
        return Switch(not scan.train or call.path in scan.train_files, named)
    parts = call.scope.split(".")
    owners = {each.name for each in scan.repository.modules[call.path].classes}
    owner = next((part for part in reversed(parts) if part in owners), None)
    # a method runs where its class is made, or where something of that name is called
    sites = _callers(scan, call, owner or parts[-1])
    if not sites and owner and parts[-1] not in _COMMON_METHODS:
        sites = _callers(scan, call, parts[-1])
    if not sites:
        return Switch(_is_run(scan, call, parts, owner), named)
    answers = [by_default(scan, site, depth + 1) for site in sites[:_MOST_CALLERS]]
    best = next((answer for answer in answers if answer.on), answers[0])
    return Switch(best.on, best.name or named)


def _callers(scan: RepositoryScan, call: CallSite, called: str) -> list[CallSite]:
    return [
        site
        for site in scan.repository.calls_by_last.get(called, [])
        if scan.tree.is_own(site.path)
        and not (site.path == call.path and site.scope == call.scope)
        and not site.name.startswith("super()")
    ]


def _is_run(scan: RepositoryScan, call: CallSite, parts: list[str], owner: str | None) -> bool:
    """Whether code that nothing calls is still run: an entry point, or a trainer's method."""
    entries = {(entry.path, entry.function or "main") for entry in scan.train}
    decorated = call.path in scan.train_files and any(
        function.name == parts[-1] and function.decorators
        for function in scan.repository.modules[call.path].functions
    )
    is_trainer = owner is not None and scan.repository.is_trainer(call.path, owner)
    return (call.path, parts[0]) in entries or decorated or is_trainer


def _evaluate(
    scan: RepositoryScan, path: str, guard: Guard, depth: int = 0
) -> tuple[bool | None, str | None]:
    """Return whether a condition lets the code run by default, and the setting it reads."""
    if guard.names in (("<True>",), ("<False>",)):
        return (guard.names[0] == "<True>") == guard.holds, None
    words = [each.lower() for each in guard.constants if isinstance(each, str) and each]
    for name in guard.names:
        for bare in _candidates(name, compared=bool(words)):
            owner = name.split(".")[-2] if bare in _HOLDERS and "." in name else ""
            value = _default_of(scan, path, bare, symbols=bool(words), owner=owner)
            if isinstance(value, Unknown):
                for inner in _condition(scan, path, name) if depth < 2 else ():
                    holds, switch = _evaluate(scan, path, inner, depth + 1)
                    if holds is not None:
                        return holds == guard.holds, switch
                continue
            if words and (value is None or isinstance(value, bool)):
                continue
            truth = _matches(value, words) if words else bool(value)
            return truth == guard.holds, bare
    return None, None


def _candidates(name: str, *, compared: bool) -> list[str]:
    """Return the parts of a name that may be a setting; compared with a word, the owner may be."""
    parts = [part.lstrip("_") for part in name.split(".")]
    kept = parts[::-1] if compared or parts[-1] in _HOLDERS else parts[-1:]
    both = dict.fromkeys(each for part in kept for each in (part, _CONFIG_ENDING.sub("", part)))
    return [each for each in both if _SWITCH.search(each) and not _NOT_A_SWITCH.search(each)]


def _matches(value: Any, words: list[str]) -> bool:
    named = (str(each).strip("<>").rpartition(".")[2].lower() for each in as_list(value))
    return any(name in words for name in named)


def _condition(scan: RepositoryScan, path: str, name: str) -> tuple[Guard, ...]:
    """Return what a variable such as `use_it = cfg.kind == "x"` stands for."""
    for each in scan.repository.modules[path].assignments:
        if each.target == name and each.condition and each.condition[0].names != (name,):
            return each.condition
    return ()


def _default_of(scan: RepositoryScan, path: str, name: str, *, symbols: bool, owner: str) -> Any:
    """Return a setting's default; UNKNOWN where the text does not give it.

    With an owner, as in `wandb.enable`, only settings of something so named count.
    """
    for setting in scan.settings.named(name, [path, *scan.near]):
        if not scan.tree.is_own(setting.path) or isinstance(setting.default, Unknown):
            continue
        if owner.lower() not in setting.name.lower():
            continue
        if setting.known or (symbols and "." in setting.default):
            return setting.default
    for each in scan.repository.modules[path].assignments:
        is_plain = not is_symbol(each.value) and not isinstance(each.value, Unknown)
        if is_plain and each.target.rpartition(".")[2].lstrip("_") == name:
            return each.value
    return UNKNOWN


_METRIC = VOCABULARY.pattern("metric_words")
_PRINTS = VOCABULARY.pattern("print_calls")
_TRACKER_STARTS = VOCABULARY.words("tracker_starts")
_BOARDS = VOCABULARY.words("tensorboard_writers")
_LOGGER_SETTINGS = sorted(VOCABULARY.words("logger_settings"))
_LOCAL = {"tensorboard", "csv", "json", "stdout"}
_TOOLS = ("wandb", "tensorboard", "csv", "json", "neptune", "mlflow", "clearml", "swanlab")
_CHOICES = {**dict(zip(_TOOLS, _TOOLS, strict=True)), "tb": "tensorboard", "comet": "comet_ml"}
"""words of a logger setting to what writes"""


def _sink(name: str, weight: float, evidence: SourceLine, **more: Any) -> Sink:
    """Return a sink as it is seen in one place."""
    kind = name if name == "wandb" or name in _LOCAL else "custom"
    values = {"kind": kind, "name": name, "network": name not in _LOCAL, "confidence": weight}
    return Sink.model_validate({"default": True, **values, "evidence": (evidence,), **more})


def find_sinks(scan: RepositoryScan) -> tuple[Sink, ...]:
    """Return every sink, those that are on by default first."""
    chosen = list(_from_settings(scan))
    seen = [*_from_calls(scan), *chosen, *_from_learners(scan, chosen), *_from_prints(scan)]
    groups = grouped(seen, lambda sink: sink.name)
    # what a logger setting chooses outweighs what calls suggest
    decided = {sink.kind: sink.default for sink in seen if sink.switch == "logger"}
    sinks = [_merged(group, decided.get(group[0].kind)) for group in groups.values()]
    return tuple(sorted(sinks, key=lambda sink: (not sink.default, -sink.confidence, sink.kind)))


def _merged(group: list[Sink], chosen: bool | None) -> Sink:
    best = max(group, key=lambda sink: (sink.default, sink.confidence))
    changes = {
        "default": best.default if chosen is None else chosen,
        "switch": next((sink.switch for sink in group if sink.switch), None),
        "path_template": next((each.path_template for each in group if each.path_template), None),
        "confidence": round(combined(sink.confidence for sink in group), 3),
        "evidence": tuple(line for sink in group[:4] for line in sink.evidence),
    }
    return best.model_copy(update=changes)


def _from_calls(scan: RepositoryScan) -> Iterator[Sink]:
    for call in scan.source_calls():
        name = _target(call)
        if name is None:
            continue
        on, switch = by_default(scan, call)
        if name == "json" and not (on and call.path in scan.near):
            continue
        weight = 0.6 if call.path in scan.train_files else 0.3
        note = f"{call.name}(…)" + (f" when {switch}" if switch else "")
        more = {"default": on, "switch": switch, "path_template": _template(call)}
        yield _sink(name, weight, quote(call, note), **more)


def _target(call: CallSite) -> str | None:
    """Return what a call writes to: the tool, or the kind of file."""
    name, last = call.name, call.last
    tracker = VOCABULARY.package(name, "network_trackers")
    if tracker and last in _TRACKER_STARTS:
        return tracker
    if last in {"WandbLogger", "WandbCallback", "WandbSummaryWriter", "WandbWriter"}:
        return "wandb"
    if last in {"NeptuneLogger", "NeptuneSummaryWriter", "CometLogger", "MLFlowLogger"}:
        return last.removesuffix("Logger").removesuffix("SummaryWriter").lower()
    if last in _BOARDS:
        return "tensorboard"
    if (
        (name.startswith("csv.") and last in {"writer", "DictWriter"})
        or last in {"CSVLogger", "CSVOutputFormat", "CsvOutput", "ResultsWriter"}
        or (last in {"Monitor", "VecMonitor"} and "stable_baselines3" in name)
        or (
            last in {"to_csv", "savetxt"}
            and _METRIC.search(f"{call.path} {call.scope} {call.args}")
        )
    ):
        return "csv"
    is_json = name in {"json.dump", "json.dumps", "jsonlines.open"} and _METRIC.search(call.scope)
    return "json" if is_json else None


def _template(call: CallSite) -> str | None:
    for value in (*call.args[:1], call.keywords.get("log_dir"), call.keywords.get("logdir")):
        if isinstance(value, str) and not is_symbol(value) and "/" in value:
            return value
    return None


def _from_settings(scan: RepositoryScan) -> Iterator[Sink]:
    """A setting such as `logger = "wandb"` decides even when the writer is in a dependency."""
    for name in _LOGGER_SETTINGS:
        for setting in scan.settings.named(name):
            if not scan.tree.is_own(setting.path):
                continue
            weight = 0.6 if setting.path in scan.train_files or setting.flag else 0.5
            for word in _chosen(setting):
                if word in _CHOICES:
                    place = quote(setting, f"{setting.name} = {setting.default}")
                    yield _sink(_CHOICES[word], weight, place, switch="logger")


def _chosen(setting: Setting) -> Iterator[str]:
    """The words that a setting names: one, or a list of them."""
    for value in as_list(setting.default):
        for word in str(value).strip("[] ").split(",") if value else ():
            yield word.strip(" \"'").lower()


def _from_learners(scan: RepositoryScan, chosen: list[Sink]) -> Iterator[Sink]:
    """Learning libraries that write by themselves."""
    tracks = any(sink.name == "wandb" for sink in chosen)
    for path in scan.train_files:
        for origin, line in scan.repository.modules[path].import_lines.items():
            learner = VOCABULARY.learner_sinks(origin)
            if learner is None or scan.repository.module(learner[0]):
                continue
            name, sinks = learner
            place = SourceLine(path=path, line=line, note=f"{name} writes it")
            for sink in sinks:
                if not (sink == "tensorboard" and tracks):
                    yield _sink(_CHOICES.get(sink, "stdout"), 0.5, place, via=name)


def _from_prints(scan: RepositoryScan) -> Iterator[Sink]:
    """The first line that prints while training; of a library, one that prints numbers."""
    if scan.train:
        calls = scan.calls(scan.any_train_reach)
        prints, weight = (call for call in calls if _PRINTS.search(call.name)), 0.6
    else:
        calls = (call for call in scan.source_calls() if call.name == "print")
        prints, weight = (call for call in calls if _METRIC.search(call.scope)), 0.5
    for call in prints:
        yield _sink("stdout", weight, quote(call, f"{call.name}(…)"))
        return
