"""Where numbers appear while training, and which of it happens by default."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from telic.studies.scan.context import Scan
from telic.studies.scan.records import Evidence, Sink, SinkKind
from telic.studies.scan.settings import Setting
from telic.studies.scan.switches import by_default
from telic.studies.scan.syntax import Call
from telic.studies.scan.vocabulary import VOCABULARY

_METRIC = re.compile(
    r"log|metric|result|score|eval|progress|monitor|stat|record|reward|return|episode|history|scalar",
    re.I,
)
_PRINTS = re.compile(
    r"^(print|tqdm(\.\w+)*|rich\.print)$|\b(log|logger|logging|console)\.(info|print)$"
)
_BOARDS = {
    "SummaryWriter",
    "TensorboardSummaryWriter",
    "create_file_writer",
    "FileWriter",
    "TensorboardLogger",
    "TensorBoardLogger",
    "TBLogger",
    "TensorBoardOutput",
}
_LOGGER_SETTING = {
    "logger",
    "log_backend",
    "tracker",
    "logger_type",
    "loggers",
    "logger_backend",
    "experiment_logger",
    "writer_type",
    "log_with",
}
_CHOICES: dict[str, tuple[SinkKind, str, bool]] = {
    "wandb": ("wandb", "wandb", True),
    "tensorboard": ("tensorboard", "tensorboard", False),
    "tb": ("tensorboard", "tensorboard", False),
    "csv": ("csv", "csv", False),
    "json": ("json", "json", False),
    "neptune": ("custom", "neptune", True),
    "comet": ("custom", "comet_ml", True),
    "mlflow": ("custom", "mlflow", True),
    "clearml": ("custom", "clearml", True),
    "swanlab": ("custom", "swanlab", True),
}


class Found(NamedTuple):
    """A sink seen in the code."""

    kind: SinkKind
    name: str
    network: bool
    on: bool
    switch: str | None
    template: str | None
    via: str | None
    weight: float
    evidence: Evidence


def find_sinks(scan: Scan) -> tuple[Sink, ...]:
    """Return every sink, those that are on by default first."""
    seen = [*_from_calls(scan), *_from_settings(scan), *_from_learners(scan)]
    grouped: dict[tuple[SinkKind, str], list[Found]] = {}
    for each in seen:
        grouped.setdefault((each.kind, each.name), []).append(each)
    decided = {each.kind: each.on for each in seen if each.switch == "logger"}
    sinks = [_merged(group, decided.get(kind)) for (kind, _), group in grouped.items()]
    return tuple(sorted(sinks, key=lambda sink: (not sink.default, -sink.confidence, sink.kind)))


def _merged(group: list[Found], chosen: bool | None) -> Sink:
    """One answer per sink: what a logger setting chooses outweighs what calls suggest."""
    best = max(group, key=lambda each: (each.on, each.weight))
    doubt = 1.0
    for each in group:
        doubt *= 1 - each.weight
    return Sink(
        kind=best.kind,
        name=best.name,
        default=best.on if chosen is None else chosen,
        network=best.network,
        switch=next((each.switch for each in group if each.switch), None),
        path_template=next((each.template for each in group if each.template), None),
        via=best.via,
        confidence=round(1 - doubt, 3),
        evidence=tuple(each.evidence for each in group[:4]),
    )


def _from_calls(scan: Scan) -> Iterator[Found]:
    near = scan.files(scan.train_reach)
    reached = set(scan.files(scan.any_train_reach))
    for path, call in scan.source_calls():
        kind = _kind(call, path)
        if kind is None:
            continue
        sink, name, network = kind
        switch = by_default(scan, path, call, near)
        on = switch.on
        if sink == "json" and not (on and path in near):
            continue
        weight = 0.6 if path in reached else 0.3
        note = f"{call.name}(…)" + (f" when {switch.name}" if switch.name else "")
        yield Found(
            sink,
            name,
            network,
            on,
            switch.name,
            _template(call),
            None,
            weight,
            Evidence(path=path, line=call.line, note=note),
        )


def _kind(call: Call, path: str) -> tuple[SinkKind, str, bool] | None:
    name, last = call.name, call.last
    tracker = VOCABULARY.package(name, "network_trackers")
    if tracker and last in {
        "init",
        "init_run",
        "Run",
        "Experiment",
        "Task",
        "start_run",
        "login",
        "start",
    }:
        return ("wandb" if tracker == "wandb" else "custom", tracker, True)
    if last in {"WandbLogger", "WandbCallback", "WandbSummaryWriter", "WandbWriter"}:
        return ("wandb", "wandb", True)
    if last in {"NeptuneLogger", "NeptuneSummaryWriter", "CometLogger", "MLFlowLogger"}:
        return ("custom", last.removesuffix("Logger").removesuffix("SummaryWriter").lower(), True)
    if last in _BOARDS:
        return ("tensorboard", "tensorboard", False)
    if name.startswith("csv.") and last in {"writer", "DictWriter"}:
        return ("csv", "csv", False)
    if last in {"CSVLogger", "CSVOutputFormat", "CsvOutput", "ResultsWriter"} or (
        last in {"Monitor", "VecMonitor"} and "stable_baselines3" in name
    ):
        return ("csv", "csv", False)
    if last in {"to_csv", "savetxt"} and _METRIC.search(f"{path} {call.scope} {call.args}"):
        return ("csv", "csv", False)
    if name in {"json.dump", "json.dumps", "jsonlines.open"} and _METRIC.search(call.scope):
        return ("json", "json", False)
    return None


def _template(call: Call) -> str | None:
    for value in (*call.args[:1], call.keywords.get("log_dir"), call.keywords.get("logdir")):
        if isinstance(value, str) and not value.startswith("<") and "/" in value:
            return value
    return None


def _from_settings(scan: Scan) -> Iterator[Found]:
    """A setting such as `logger = "wandb"` decides even when the writer is in a dependency."""
    reached = set(scan.files(scan.any_train_reach))
    for name in _LOGGER_SETTING:
        for setting in scan.settings.named(name):
            if scan.tree.weight(setting.path) < 0.5:
                continue
            yield from _chosen(setting, setting.path in reached)


def _chosen(setting: Setting, is_reached: bool) -> Iterator[Found]:
    """The sinks that a setting names: one word, or a list of them."""
    listed = setting.default if isinstance(setting.default, list) else [setting.default]
    words = [str(each).strip("[] ").split(",") for each in listed if each]
    for word in (each.strip(" \"'").lower() for group in words for each in group):
        if word in _CHOICES:
            kind, sink, network = _CHOICES[word]
            note = f"{setting.name} = {setting.default}"
            place = Evidence(path=setting.path, line=setting.line, note=note)
            weight = 0.6 if is_reached or setting.flag else 0.5
            yield Found(kind, sink, network, True, "logger", None, None, weight, place)


def _from_learners(scan: Scan) -> Iterator[Found]:
    """Learning libraries that write by themselves, and printing."""
    reached = scan.files(scan.any_train_reach)
    chosen = {each.kind for each in _from_settings(scan)}
    for path in reached:
        for origin, line in scan.repository.modules[path].import_lines.items():
            learner = VOCABULARY.learner_sinks(origin)
            if learner is None or scan.repository.module(learner[0]):
                continue
            for sink in learner[1]:
                if sink == "tensorboard" and "wandb" in chosen:
                    continue
                kind, name, network = _CHOICES.get(sink, ("stdout", "stdout", False))
                place = Evidence(path=path, line=line, note=f"{learner[0]} writes it")
                yield Found(kind, name, network, True, None, None, learner[0], 0.5, place)
    places = scan.any_train_reach if scan.train else {}
    for path, call in scan.calls(places):
        if _PRINTS.search(call.name):
            place = Evidence(path=path, line=call.line, note=f"{call.name}(…)")
            yield Found("stdout", "stdout", False, True, None, None, None, 0.6, place)
            return
    if not scan.train:
        yield from _library_prints(scan)


def _library_prints(scan: Scan) -> Iterator[Found]:
    for path, call in scan.source_calls():
        if call.name == "print" and _METRIC.search(call.scope):
            place = Evidence(path=path, line=call.line, note="print(…)")
            yield Found("stdout", "stdout", False, True, None, None, None, 0.5, place)
            return
