"""Commands that train and commands that evaluate, ranked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from telic.studies.scan.documents import DocumentedCommand
from telic.studies.scan.packaging import Script
from telic.studies.scan.records import SURE_ENOUGH, EntryPoint, Role
from telic.studies.scan.repository import Repository, Spot
from telic.studies.scan.signals import Signals
from telic.studies.scan.syntax import Call
from telic.studies.scan.training_calls import loads_policy, takes_gradient_steps, trains
from telic.studies.scan.vocabulary import VOCABULARY

_TRAIN_NAME = re.compile(r"(^|[_.-])(train\w*|main|run|learn|demo|__main__|fit)([_.-]|$)|^run_")
_TRAIN_WORD = re.compile(r"train|learn")
_EVAL_NAME = re.compile(
    r"(^|[_.-])(play|eval\w*|enjoy|test\w*|rollout\w*|visuali[sz]e\w*|inference|infer|replay|watch"
    r"|record_video|view|viewer)([_.-]|$)"
)
_OTHER_NAME = re.compile(
    r"(^|[_.-])(plot\w*|export\w*|convert\w*|benchmark\w*|bench|profile\w*|tune\w*|setup|download\w*"
    r"|upload\w*|deploy\w*|render\w*|list|collect\w*|generate\w*|create\w*|make|doc\w*|demo_\w+"
    r"|check\w*|debug\w*|server|client|migrate|parse\w*|build\w*|push\w*|analy\w*|sweep\w*|nox\w*"
    r"|preview\w*|validate\w*|merge\w*|hub|report\w*|pretrain\w*|verif\w*)([_.-]|$)"
)
_REAL = re.compile(r"(^|[/_.-])(deploy\w*|real|hardware|sim2real|onboard)([/_.-]|$)")
_DISPATCH = re.compile(r"argv|command|cmd|mode|subcommand|verb|action", re.I)
_MOST = 60


class Start(NamedTuple):
    """Something that can be run: a file or an installed command."""

    argv: tuple[str, ...]
    spot: Spot
    script: Script | None


def find_entry_points(
    repository: Repository, scripts: list[Script], documented: list[DocumentedCommand]
) -> tuple[list[EntryPoint], list[EntryPoint]]:
    """Return the commands that train and those that evaluate, most certain first."""
    by_file: dict[str, list[DocumentedCommand]] = {}
    for each in documented:
        if each.resolved:
            by_file.setdefault(each.resolved, []).append(each)
    train: list[EntryPoint] = []
    evaluate: list[EntryPoint] = []
    for start in _starts(repository, scripts):
        told = by_file.get(start.spot.path, [])
        for entry in _judge(repository, start, told):
            (train if entry.role == "train" else evaluate).append(entry)
    return _ranked(train, by_file), _ranked(evaluate, by_file)


def _starts(repository: Repository, scripts: list[Script]) -> Iterator[Start]:
    for script in scripts:
        spot = repository.find(script.target.replace(":", "."))
        if spot is None:  # an application object: its commands are the functions it decorates
            path = repository.module(script.target.partition(":")[0])
            spot = Spot(path, "") if path else None
        if spot:
            yield Start((script.name,), spot, script)
    for path, facts in repository.modules.items():
        name = path.rpartition("/")[2]
        if name in {"setup.py", "conftest.py", "__init__.py"}:
            continue
        if facts.main_guard or _runs_at_top(repository, path):
            yield Start(("python", path), Spot(path, ""), None)


def _runs_at_top(repository: Repository, path: str) -> bool:
    """Whether a file without a main guard still does its work when run."""
    return any(
        trains(call) or takes_gradient_steps(call) for call in repository.calls(Spot(path, ""))
    )


def _judge(
    repository: Repository, start: Start, told: list[DocumentedCommand]
) -> Iterator[EntryPoint]:
    path = start.spot.path
    stem = _stem(start)
    training = repository.nearest_training(start.spot)
    looks_eval = bool(_EVAL_NAME.search(stem)) and not _TRAIN_WORD.search(stem)
    looks_other = bool(_OTHER_NAME.search(stem)) and not _TRAIN_WORD.search(stem)
    hazardous = drives_hardware(repository, start.spot) is not None
    if training and not looks_eval:
        signals = _common(repository, start, told, script_weight=0.7)
        near = training.distance <= 1
        if not start.script:
            signals.add(
                0.5 if near else 0.4,
                training.path,
                training.call.line,
                f"runs {training.call.name}(…)",
            )
        else:
            signals.add(0.2, training.path, training.call.line, f"reaches {training.call.name}(…)")
        if _TRAIN_NAME.search(stem):
            signals.add(0.3, path, 1, f'named "{stem}"')
        if looks_other:
            signals.add(-0.3, path, 1, f'"{stem}" suggests another purpose')
        argv = _argv(start, told, _subcommand(repository, start, "train"))
        yield _entry("train", argv, start, signals, hazardous)
    if looks_eval or (start.script and _subcommand(repository, start, "eval")):
        signals = _common(repository, start, told, script_weight=0.4)
        if looks_eval:
            signals.add(0.4, path, 1, f'named "{stem}"')
        loads = _loading(repository, start.spot)
        if loads:
            signals.add(0.4, path, loads.line, f"calls {loads.name}(…)")
        if start.script and not looks_eval:
            signals.add(0.4, path, 1, "has a sub-command that evaluates")
        argv = _argv(start, told, _subcommand(repository, start, "eval"))
        yield _entry("eval", argv, start, signals, hazardous)


def _stem(start: Start) -> str:
    name = start.script.name if start.script else start.spot.path.rpartition("/")[2]
    return name.removesuffix(".py").lower()


def _loading(repository: Repository, start: Spot) -> Call | None:
    """Return a call that loads or runs a trained policy, near an entry point."""
    for spot in repository.reach([start], depth=2):
        for call in repository.calls(spot):
            if loads_policy(call):
                return call
    return None


def _common(
    repository: Repository, start: Start, told: list[DocumentedCommand], script_weight: float
) -> Signals:
    path = start.spot.path
    signals = Signals(repository.tree.weight(path))
    if start.script:
        signals.add(
            script_weight,
            start.script.path,
            start.script.line,
            f"installed command {start.script.name} = {start.script.target}",
        )
    docs = [each for each in told if each.source in ("readme", "docs", "build")]
    if docs:
        signals.add(0.5, docs[0].path, docs[0].line, f"documented: {' '.join(docs[0].words)[:120]}")
    smoke = [each for each in told if each.source == "ci"]
    if smoke:
        signals.add(0.2, smoke[0].path, smoke[0].line, "run in continuous integration")
    if _REAL.search(path.lower()):
        signals.add(-0.5, path, 1, "its path names real hardware or deployment")
    return signals


def _argv(start: Start, told: list[DocumentedCommand], subcommand: str | None) -> tuple[str, ...]:
    """Return the command as people write it: installed, as a module, or as a file."""
    if start.script:
        return (*start.argv, subcommand) if subcommand else start.argv
    module = next((each.target for each in told if not each.target.endswith(".py")), None)
    return ("python", "-m", module) if module else start.argv


def _subcommand(repository: Repository, start: Start, role: Role) -> str | None:
    """Return the word on the command line that chooses this role, for commands that dispatch."""
    wanted = _TRAIN_WORD if role == "train" else _EVAL_NAME
    if start.script and not start.spot.scope:
        for command in repository.commands(start.spot.path):
            if wanted.search(command.scope):
                return command.scope.replace("_", "-")
    for call in repository.calls(start.spot):
        for guard in call.guards:
            if guard.holds and any(_DISPATCH.search(name) for name in guard.names):
                for word in guard.constants:
                    if isinstance(word, str) and wanted.search(word.lower()):
                        return word
    return None


def drives_hardware(repository: Repository, start: Spot) -> tuple[str, int, str] | None:
    """Return the file, line and package of a hardware interface within reach."""
    for path in dict.fromkeys(spot.path for spot in repository.reach([start])):
        found = hardware_import(repository, path)
        if found:
            return path, *found
    return None


def hardware_import(repository: Repository, path: str) -> tuple[int, str] | None:
    """Return the line and package of a hardware interface that a file imports."""
    for origin, line in repository.modules[path].import_lines.items():
        package = VOCABULARY.package(origin, "hardware")
        if package:
            return line, package
    return None


def _entry(
    role: Role, argv: tuple[str, ...], start: Start, signals: Signals, hazardous: bool
) -> EntryPoint:
    return EntryPoint(
        role=role,
        argv=argv,
        path=start.spot.path,
        function=start.spot.scope,
        confidence=signals.confidence,
        evidence=signals.strongest,
        hazardous=hazardous,
    )


def _ranked(found: list[EntryPoint], told: dict[str, list[DocumentedCommand]]) -> list[EntryPoint]:
    def order(entry: EntryPoint) -> tuple[bool, float, int, bool, int, str]:
        name = entry.path.rpartition("/")[2]
        return (
            entry.hazardous,
            -entry.confidence,
            -len(told.get(entry.path, ())),
            not name.startswith(("train", "play", "eval", "enjoy")),
            entry.path.count("/"),
            entry.path,
        )

    sure = sorted((each for each in found if each.confidence >= SURE_ENOUGH), key=order)
    # an installed command and its own file are one command, not two
    unique = {(entry.path, entry.hazardous): entry for entry in reversed(sure)}
    return [entry for entry in sure if unique[entry.path, entry.hazardous] is entry][:_MOST]
