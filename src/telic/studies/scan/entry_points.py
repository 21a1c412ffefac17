"""One reading of a repository, and the commands in it that train or evaluate, ranked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from telic.studies.scan.declared import (
    DocumentedCommand,
    Script,
    Setting,
    Settings,
    documented_commands,
    installed_scripts,
)
from telic.studies.scan.records import SURE_ENOUGH, EntryPoint, Role, Signals
from telic.studies.scan.repository import (
    REACH,
    Repository,
    Spot,
    grouped,
    takes_gradient_steps,
    trains,
)
from telic.studies.scan.source import (
    VOCABULARY,
    Assignment,
    CallSite,
    Class,
    Function,
    ModuleFacts,
    RepositoryTree,
)

_TRAIN_NAME = re.compile(r"(^|[_.-])(train\w*|main|run|learn|demo|__main__|fit)([_.-]|$)|^run_")
_TRAIN_WORD = re.compile(r"train|learn")
_EVAL_NAME = VOCABULARY.pattern("eval_names")
_OTHER_NAME = VOCABULARY.pattern("other_names")
_REAL = re.compile(r"(^|[/_.-])(deploy\w*|real|hardware|sim2real|onboard)([/_.-]|$)")
_DISPATCH = re.compile(r"argv|command|cmd|mode|subcommand|verb|action", re.I)
_LOADS = VOCABULARY.pattern("policy_loads")
_MOST = 60
_SAFE_ENTRIES = 6


class RepositoryScan:
    """One reading of a repository: its facts, settings and entry points."""

    def __init__(self, tree: RepositoryTree) -> None:
        self.tree = tree
        self.repository = Repository(tree)
        self.settings = Settings(self.repository)
        self.documented = documented_commands(self.repository)
        judge = _Judge(self.repository, self.documented)
        starts = judge.starts(installed_scripts(tree))
        entries = [entry for start in starts for entry in judge.entries(start)]
        self.train = judge.ranked(entries, "train")
        self.evaluate = judge.ranked(entries, "eval")

    @cached_property
    def train_reach(self) -> dict[Spot, int]:
        """What runs when the first training command runs."""
        return self.reach(self.train[:1])

    @cached_property
    def eval_reach(self) -> dict[Spot, int]:
        """What runs when the first evaluation command runs."""
        return self.reach(self.evaluate[:1])

    @cached_property
    def any_train_reach(self) -> dict[Spot, int]:
        """What runs when any of the most certain training commands runs."""
        return self.reach(self.train[:_SAFE_ENTRIES])

    @cached_property
    def train_files(self) -> dict[str, None]:
        """Files that any of the most certain training commands runs, nearest first."""
        return dict.fromkeys(self.files(self.any_train_reach))

    @cached_property
    def near(self) -> dict[str, int]:
        """Files that the first training command runs, nearest first, with their rank."""
        return {path: index for index, path in enumerate(self.files(self.train_reach))}

    def reach(self, entries: list[EntryPoint], depth: int = REACH) -> dict[Spot, int]:
        """Return what runs from these commands, with the files' top levels."""
        starts = {Spot(entry.path, entry.function) for entry in entries}
        starts |= {Spot(entry.path, "") for entry in entries}
        return self.repository.reach(sorted(starts), depth)

    def files(self, reach: dict[Spot, int]) -> list[str]:
        """Return the files of some places, nearest first."""
        return list(dict.fromkeys(spot.path for spot in sorted(reach, key=lambda s: reach[s])))

    def calls(self, reach: Iterable[Spot]) -> Iterator[CallSite]:
        """Return the calls made in some places."""
        for spot in reach:
            yield from self.repository.calls(spot)

    def source_functions(self) -> Iterator[Function]:
        """Return every function of files that are the repository's own work."""
        return (function for facts in self.sources() for function in facts.functions)

    def source_classes(self) -> Iterator[Class]:
        """Return every class of files that are the repository's own work."""
        return (each for facts in self.sources() for each in facts.classes)

    @cached_property
    def source_files(self) -> list[str]:
        """Python files that are the repository's own work."""
        return [path for path in self.repository.modules if self.tree.is_own(path)]

    def sources(self) -> Iterator[ModuleFacts]:
        """Return the facts of files that are the repository's own work."""
        return (self.repository.modules[path] for path in self.source_files)

    def source_calls(self) -> Iterator[CallSite]:
        """Return every call of files that are the repository's own work."""
        return (call for facts in self.sources() for call in facts.calls)

    def training_calls(self) -> Iterator[CallSite]:
        """Return the calls that training makes; of a library, all its own."""
        return self.calls(self.any_train_reach) if self.train else self.source_calls()

    def assignments(self, paths: Iterable[str]) -> Iterator[Assignment]:
        """Return the assignments of some files."""
        return (each for path in paths for each in self.repository.modules[path].assignments)

    @cached_property
    def learners(self) -> set[str]:
        """Files of the repository's own that take gradient steps by hand."""
        return {call.path for call in self.source_calls() if takes_gradient_steps(call)}

    def declared(self) -> Iterator[Setting]:
        """Return the settings that Python files declare: flags, then fields."""
        yield from self.settings.flags
        yield from self.settings.fields


class _Start(NamedTuple):
    """Something that can be run: a file or an installed command."""

    argv: tuple[str, ...]
    spot: Spot
    script: Script | None

    @property
    def stem(self) -> str:
        """The name people know it by."""
        name = self.script.name if self.script else self.spot.path.rpartition("/")[2]
        return name.removesuffix(".py").lower()


class _Judge:
    """Tells from names, calls and documents what each runnable thing is for."""

    def __init__(self, repository: Repository, documented: list[DocumentedCommand]) -> None:
        self.repository = repository
        self.told = grouped(documented, lambda command: command.resolved)

    def starts(self, scripts: list[Script]) -> Iterator[_Start]:
        """Yield what can be run: installed commands, then files."""
        for script in scripts:
            spot = self.repository.find(script.target.replace(":", "."))
            if spot is None:  # an application object: its commands are the functions it decorates
                path = self.repository.module(script.target.partition(":")[0])
                spot = Spot(path, "") if path else None
            if spot:
                yield _Start((script.name,), spot, script)
        for path, facts in self.repository.modules.items():
            if path.rpartition("/")[2] in {"setup.py", "conftest.py", "__init__.py"}:
                continue
            top = Spot(path, "")
            # a file without a main guard may still do its work when run
            if facts.main_guard or any(
                trains(call) or takes_gradient_steps(call) for call in self.repository.calls(top)
            ):
                yield _Start(("python", path), top, None)

    def entries(self, start: _Start) -> Iterator[EntryPoint]:
        """Yield what one runnable thing is for: training, evaluation, or both."""
        path, stem = start.spot.path, start.stem
        training = self.repository.nearest_training(start.spot)
        is_learning = bool(_TRAIN_WORD.search(stem))
        looks_eval = bool(_EVAL_NAME.search(stem)) and not is_learning
        if training and not looks_eval:
            signals = self._common(start, script_weight=0.7)
            call, distance = training
            if start.script:
                signals.add(0.2, call.path, call.line, f"reaches {call.name}(…)")
            else:
                weight = 0.5 if distance <= 1 else 0.4
                signals.add(weight, call.path, call.line, f"runs {call.name}(…)")
            if _TRAIN_NAME.search(stem):
                signals.add(0.3, path, 1, f'named "{stem}"')
            if _OTHER_NAME.search(stem) and not is_learning:
                signals.add(-0.3, path, 1, f'"{stem}" suggests another purpose')
            yield self._entry("train", start, signals)
        if looks_eval or (start.script and self._subcommand(start, "eval")):
            signals = self._common(start, script_weight=0.4)
            if looks_eval:
                signals.add(0.4, path, 1, f'named "{stem}"')
            loads = self._loading(start.spot)
            if loads:
                signals.add(0.4, path, loads.line, f"calls {loads.name}(…)")
            if start.script and not looks_eval:
                signals.add(0.4, path, 1, "has a sub-command that evaluates")
            yield self._entry("eval", start, signals)

    def _common(self, start: _Start, script_weight: float) -> Signals:
        path, script = start.spot.path, start.script
        told = self.told.get(path, ())
        signals = Signals(self.repository.tree.weight(path))
        if script:
            note = f"installed command {script.name} = {script.target}"
            signals.add(script_weight, script.path, script.line, note)
        docs = [each for each in told if each.source in ("readme", "docs", "build")]
        if docs:
            note = f"documented: {' '.join(docs[0].words)[:120]}"
            signals.add(0.5, docs[0].path, docs[0].line, note)
        smoke = [each for each in told if each.source == "ci"]
        if smoke:
            signals.add(0.2, smoke[0].path, smoke[0].line, "run in continuous integration")
        if _REAL.search(path.lower()):
            signals.add(-0.5, path, 1, "its path names real hardware or deployment")
        return signals

    def _loading(self, start: Spot) -> CallSite | None:
        """Return a call that loads or runs a trained policy, near an entry point."""
        for spot in self.repository.reach([start], depth=2):
            for call in self.repository.calls(spot):
                if _LOADS.match(call.last) and "." in call.name and "yaml" not in call.name:
                    return call
        return None

    def _entry(self, role: Role, start: _Start, signals: Signals) -> EntryPoint:
        return EntryPoint(
            role=role,
            argv=self._argv(start, role),
            path=start.spot.path,
            function=start.spot.scope,
            confidence=signals.confidence,
            evidence=signals.strongest,
            hazardous=self._drives_hardware(start.spot),
        )

    def _argv(self, start: _Start, role: Role) -> tuple[str, ...]:
        """Return the command as people write it: installed, as a module, or as a file."""
        if start.script:
            subcommand = self._subcommand(start, role)
            return (*start.argv, subcommand) if subcommand else start.argv
        targets = (command.target for command in self.told.get(start.spot.path, ()))
        module = next((target for target in targets if not target.endswith(".py")), None)
        return ("python", "-m", module) if module else start.argv

    def _subcommand(self, start: _Start, role: Role) -> str | None:
        """Return the word that chooses this role, for commands that dispatch."""
        wanted = _TRAIN_WORD if role == "train" else _EVAL_NAME
        if start.script and not start.spot.scope:
            for command in self.repository.commands(start.spot.path):
                if wanted.search(command.scope):
                    return command.scope.replace("_", "-")
        for call in self.repository.calls(start.spot):
            for guard in call.guards:
                if guard.holds and any(_DISPATCH.search(name) for name in guard.names):
                    for word in guard.constants:
                        if isinstance(word, str) and wanted.search(word.lower()):
                            return word
        return None

    def _drives_hardware(self, start: Spot) -> bool:
        """Whether a file within reach imports a hardware interface."""
        return any(
            VOCABULARY.package(origin, "hardware")
            for path in {spot.path for spot in self.repository.reach([start])}
            for origin in self.repository.modules[path].import_lines
        )

    def ranked(self, entries: list[EntryPoint], role: Role) -> list[EntryPoint]:
        """Return the commands of a role that drive no hardware, most certain first."""

        def order(entry: EntryPoint) -> tuple[float, int, bool, int, str]:
            name = entry.path.rpartition("/")[2]
            return (
                -entry.confidence,
                -len(self.told.get(entry.path, ())),
                not name.startswith(("train", "play", "eval", "enjoy")),
                entry.path.count("/"),
                entry.path,
            )

        safe = (entry for entry in entries if entry.role == role and not entry.hazardous)
        sure = sorted((entry for entry in safe if entry.confidence >= SURE_ENOUGH), key=order)
        # an installed command and its own file are one command, not two
        unique = {entry.path: entry for entry in reversed(sure)}
        return [entry for entry in sure if unique[entry.path] is entry][:_MOST]
