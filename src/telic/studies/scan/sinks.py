"""Where numbers appear while training, and which of it happens by default."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from telic.studies.scan.composition import ComposedConfig
from telic.studies.scan.defaults import CommandDefaults
from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.facts import CallSite, as_list, is_list, is_symbol
from telic.studies.scan.interface import Interface
from telic.studies.scan.records import Sink, SourceLine, combined, quote
from telic.studies.scan.repository import Spot, grouped
from telic.studies.scan.settings import Setting, bare
from telic.studies.scan.situation import Situation
from telic.studies.scan.source import VOCABULARY

_METRIC = VOCABULARY.pattern("metric_words")
_PRINTS = VOCABULARY.pattern("print_calls")
_TRACKER_STARTS = VOCABULARY.words("tracker_starts")
_BOARDS = VOCABULARY.words("tensorboard_writers")
_LOGGER_SETTINGS = sorted(VOCABULARY.words("logger_settings"))
_LOCAL = {"tensorboard", "csv", "json", "stdout"}
_TOOLS = ("wandb", "tensorboard", "csv", "json", "neptune", "mlflow", "clearml", "swanlab")
_CHOICES = {**dict(zip(_TOOLS, _TOOLS, strict=True)), "tb": "tensorboard", "comet": "comet_ml"}
"""words of a logger setting to what writes"""
_NAMED = VOCABULARY.word_lists("writers")
_SETTINGS_NOT_NUMBERS = re.compile(
    r"(^|[._<])(vars|asdict|args|cfg|config|to_dict|opt|options|params)\b"
)


def _sink(name: str, weight: float, evidence: SourceLine, **more: Any) -> Sink:
    """Return a sink as it is seen in one place."""
    kind = name if name == "wandb" or name in _LOCAL else "custom"
    values = {"kind": kind, "name": name, "network": name not in _LOCAL, "confidence": weight}
    return Sink.model_validate({"default": True, **values, "evidence": (evidence,), **more})


def find_sinks(scan: RepositoryScan) -> tuple[Sink, ...]:
    """Return every sink of the training command, those that are on by default first."""
    chosen = list(_from_settings(scan))
    calls = [*_from_calls(scan), *_from_keywords(scan)]
    seen = [*calls, *chosen, *_from_learners(scan, chosen), *_from_prints(scan)]
    groups = grouped(seen, lambda sink: sink.name)
    sinks = [_merged(group) for group in groups.values()]
    return tuple(sorted(sinks, key=lambda sink: (not sink.default, -sink.confidence, sink.kind)))


def _merged(group: list[Sink]) -> Sink:
    best = max(group, key=lambda sink: (sink.default, sink.confidence))
    changes = {
        "switch": next((sink.switch for sink in group if sink.switch), None),
        "path_template": next((each.path_template for each in group if each.path_template), None),
        "confidence": round(combined(sink.confidence for sink in group), 3),
        "evidence": tuple(line for sink in group[:4] for line in sink.evidence),
    }
    return best.model_copy(update=changes)


def _from_calls(scan: RepositoryScan) -> Iterator[Sink]:
    main = scan.main
    if main is None:
        yield from _of_library(scan)
        return
    for spot in {**main.reach, **dict.fromkeys(main.tops, 0)}:
        for call in scan.repository.calls(spot):
            name = _target(scan, call)
            if name is None:
                continue
            allowed, switch = main.defaults.allows(call)
            on = allowed and spot in main.active
            if not on and switch is None:
                switch = _switch(main, spot)
            if name in ("json", "csv") and not on:
                continue
            note = f"{call.name}(…)" + (f" when {switch}" if switch else "")
            more = {"default": on, "switch": switch, "path_template": _template(call)}
            yield _sink(name, 0.6, quote(call, note), **more)


def _from_keywords(scan: RepositoryScan) -> Iterator[Sink]:
    """`Accelerator(log_with="wandb")`: what is handed over chooses the writer."""
    for call in scan.main.happening if scan.main else ():
        for name in _LOGGER_SETTINGS:
            for word in as_list(call.keywords.get(name)):
                if isinstance(word, str) and word.lower() in _CHOICES:
                    place = quote(call, f"{call.name}({name}={word})")
                    yield _sink(_CHOICES[word.lower()], 0.6, place)


def _switch(main: Situation, spot: Spot) -> str | None:
    """The setting that keeps a place from being reached."""
    for start in main.active:
        for step in main.flow.steps(start):
            if step.to == spot:
                allowed, name = main.defaults.allows(step.call)
                if not allowed:
                    return name
    return None


def _of_library(scan: RepositoryScan) -> Iterator[Sink]:
    """Of a library, what its classes and functions write unless their arguments say otherwise."""
    empty = Interface((), ())
    around = CommandDefaults(
        scan.flow,
        scan.settings,
        empty,
        ComposedConfig(scan.tree),
        scan.source_files,
        is_library=True,
    )
    for call in scan.source_calls():
        name = _target(scan, call)
        if name is not None and name != "json":
            on, switch = around.allows(call)
            yield _sink(name, 0.3, quote(call, f"{call.name}(…)"), default=on, switch=switch)


def _target(scan: RepositoryScan, call: CallSite) -> str | None:
    """Return what a call writes to: the tool, or the kind of file."""
    last = call.last
    if last not in _INTERESTING and not last.startswith(("Wandb", "init", "start")):
        return None
    for name in scan.flow.outside(call) or [call.name]:
        tracker = VOCABULARY.package(name, "network_trackers")
        if tracker and last in _TRACKER_STARTS:
            return tracker
        owner = name.rpartition(".")[0].rpartition(".")[2]
        for sink, lasts in _NAMED.items():
            if last in lasts or (last == "create" and owner in lasts):
                return sink
        if name.startswith("csv.") and last in {"writer", "DictWriter"}:
            return "csv"
        if last in {"Monitor", "VecMonitor"} and "stable_baselines3" in name:
            return "csv"
        if last in {"make_vec_env"} and call.keywords.get("monitor_dir") is not None:
            return "csv"
        if last in {"to_csv", "savetxt"}:
            return "csv"
        if name in {"json.dump", "json.dumps", "jsonlines.open"} and _are_numbers(call):
            return "json"
    return None


_INTERESTING = (
    _TRACKER_STARTS
    | {word for words in _NAMED.values() for word in words}
    | {"writer", "DictWriter", "Monitor", "VecMonitor", "make_vec_env", "to_csv", "savetxt"}
    | {"dump", "dumps", "open", "create"}
)


def _are_numbers(call: CallSite) -> bool:
    """Whether what is written is not merely the settings of the run."""
    first = call.args[0] if call.args else None
    return not (is_symbol(first) and _SETTINGS_NOT_NUMBERS.search(first))


def _template(call: CallSite) -> str | None:
    for value in (*call.args[:1], call.keywords.get("log_dir"), call.keywords.get("logdir")):
        if isinstance(value, str) and not is_symbol(value) and "/" in value:
            return value
    return None


def _from_settings(scan: RepositoryScan) -> Iterator[Sink]:
    """A setting such as `logger = "wandb"` decides even when the writer is in a dependency."""
    for name in _LOGGER_SETTINGS:
        setting = _effective(scan, name)
        for word in _chosen(setting) if setting else ():
            if word in _CHOICES and setting is not None:
                place = quote(setting, f"{setting.name} = {setting.default}")
                yield _sink(_CHOICES[word], 0.6, place, switch="logger")


def _effective(scan: RepositoryScan, name: str) -> Setting | None:
    """The setting of a name as it is for the training command; of a library, any."""
    main = scan.main
    if main is not None:
        composed = main.composition.get(name)
        if composed is not None and (isinstance(composed.value, str) or is_list(composed.value)):
            return Setting(name, composed.value, True, None, composed.path, composed.line)
        flag = next((each for each in main.interface.flags if each.name == name), None)
        if flag is not None and flag.default is not None:
            return Setting(flag.key, flag.default, flag.known, flag.label, flag.path, flag.line)
    paths = main.defaults.paths if main else dict.fromkeys(scan.source_files, 0)
    found = [
        each
        for each in (*scan.settings.fields, *(() if main else scan.settings.flags))
        if bare(each.name) == name and each.path in paths and each.default is not None
    ]
    return min(found, key=lambda each: paths[each.path], default=None)


def _chosen(setting: Setting) -> Iterator[str]:
    """The words that a setting names: one, or a list of them."""
    for value in as_list(setting.default):
        for word in str(value).strip("[] ").split(",") if value else ():
            yield word.strip(" \"'<>").rpartition(".")[2].lower()


def _from_learners(scan: RepositoryScan, chosen: list[Sink]) -> Iterator[Sink]:
    """Learning libraries that write by themselves, where the command hands over to them."""
    main = scan.main
    tracks = any(sink.name == "wandb" for sink in chosen)
    for call in main.happening if main else ():
        for outside in scan.flow.outside(call):
            learner = VOCABULARY.learner_sinks(outside)
            if learner is None:
                continue
            name, sinks = learner
            place = quote(call, f"{name} writes it")
            if scan.flow.trains(call):
                for sink in sinks:
                    if not (sink == "tensorboard" and tracks):
                        yield _sink(_CHOICES.get(sink, "stdout"), 0.5, place, via=name)
            yield from _asked_of(scan, call, name)


def _asked_of(scan: RepositoryScan, call: CallSite, learner: str) -> Iterator[Sink]:
    """What a learner writes because its arguments ask for it."""
    board = call.keywords.get("tensorboard_log")
    main = scan.main
    if board is not None and main is not None:
        value = main.defaults.written(call.path, call.scope, board)
        if value not in (None, ""):
            yield _sink("tensorboard", 0.6, quote(call, f"tensorboard_log={board}"), via=learner)
    if call.last == "configure":
        formats = call.args[1] if len(call.args) > 1 else call.keywords.get("format_strings")
        for word in as_list(formats):
            if word in {"csv", "json", "tensorboard", "stdout"}:
                yield _sink(word, 0.6, quote(call, f"{call.name}({word})"), via=learner)


def _from_prints(scan: RepositoryScan) -> Iterator[Sink]:
    """The first line that prints while training; of a library, one that prints numbers."""
    if scan.main is not None:
        prints = (call for call in scan.main.happening if _PRINTS.search(call.name))
        weight = 0.6
    else:
        calls = (call for call in scan.source_calls() if call.name == "print")
        prints, weight = (c for c in calls if _METRIC.search(f"{c.scope} {c.args}")), 0.5
    for call in prints:
        yield _sink("stdout", weight, quote(call, f"{call.name}(…)"))
        return
