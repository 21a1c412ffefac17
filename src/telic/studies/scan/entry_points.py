"""One reading of a repository, and the commands in it that train or evaluate, ranked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from telic.studies.scan.commands import check, find_seed, offered, preference, told_words, typed
from telic.studies.scan.declared import documented_commands, installed_scripts
from telic.studies.scan.facts import Assignment, CallSite, Class, Function, ModuleFacts
from telic.studies.scan.flow import Flow
from telic.studies.scan.records import SURE_ENOUGH, EntryPoint, Role, Signals
from telic.studies.scan.repository import IMPORTED, Repository, Spot, grouped
from telic.studies.scan.resolver import Resolver
from telic.studies.scan.roles import consults, is_plot, is_search, loads_policy, plays
from telic.studies.scan.settings import Setting, Settings
from telic.studies.scan.situation import Situation
from telic.studies.scan.source import VOCABULARY, RepositoryTree
from telic.studies.scan.starts import Start, find_starts

_EVAL_NAME = VOCABULARY.pattern("eval_names")
_OTHER_NAME = VOCABULARY.pattern("other_names")
_TRAIN_NAME = re.compile(r"(^|[_.-])(train\w*|main|run|learn|__main__|fit)([_.-]|$)|^run_")
_REAL = re.compile(r"(^|[/_.-])(deploy\w*|real|hardware|sim2real|onboard)([/_.-]|$)")
_MOST = 60
_SAFE_ENTRIES = 6
_TOLD = 6


class RepositoryScan:
    """One reading of a repository: its facts, settings and entry points."""

    def __init__(self, tree: RepositoryTree) -> None:
        self.tree = tree
        self.repository = Repository(tree)
        self.settings = Settings(self.repository)
        self.resolver = Resolver(self.repository, self.settings.made_by_key)
        self.flow = Flow(self.repository, self.resolver)
        self.scripts = installed_scripts(tree)
        self.documented = documented_commands(self.repository, self.scripts)
        self._situations: dict[tuple[tuple[Spot, ...], tuple[str, ...]], Situation] = {}
        judge = _Judge(self)
        entries = [entry for start in find_starts(self) for entry in judge.entries(start)]
        self.train = judge.ranked(entries, "train")
        sure = {id(entry) for entry in self.train}
        doubtful = (each for each in entries if each.role == "train" and id(each) not in sure)
        self.unsure = [each for each in doubtful if not each.hazardous]
        """commands that may train but were not believed"""
        ranked = judge.ranked(entries, "eval")
        trained = {(entry.path, entry.function) for entry in self.train}
        self.evaluate = [each for each in ranked if (each.path, each.function) not in trained]
        self.both = [each for each in ranked if (each.path, each.function) in trained]
        """training commands that evaluate when they are given something else"""

    def situation(self, starts: Iterable[Spot], words: tuple[str, ...] = ()) -> Situation:
        """Return what holds for a command; the same command is read once."""
        key = (tuple(starts), words)
        if key not in self._situations:
            self._situations[key] = Situation(self.flow, self.settings, *key)
        return self._situations[key]

    def of(self, entry: EntryPoint) -> Situation:
        """Return what holds for an entry point."""
        if entry.function:
            starts = [Spot(entry.path, entry.function), Spot(entry.path, IMPORTED)]
        else:
            starts = [Spot(entry.path, ""), *self.flow.commands(entry.path)]
        return self.situation(dict.fromkeys(starts), entry.given)

    @cached_property
    def main(self) -> Situation | None:
        """What holds for the first training command."""
        if not self.train:
            return None
        told = self.of(self.train[0])
        plain = self.situation(told.starts, told.essential)
        return plain if plain.training or is_search(plain) else told

    @cached_property
    def train_reach(self) -> dict[Spot, int]:
        """What may run when the first training command runs."""
        return self.main.reach if self.main else {}

    @cached_property
    def eval_reach(self) -> dict[Spot, int]:
        """What may run when the first evaluation command runs."""
        return self.of(self.evaluate[0]).reach if self.evaluate else {}

    @cached_property
    def any_train_reach(self) -> dict[Spot, int]:
        """What may run when any of the most certain training commands runs."""
        reached: dict[Spot, int] = {}
        for entry in self.train[:_SAFE_ENTRIES]:
            for spot, distance in self.of(entry).reach.items():
                reached[spot] = min(distance, reached.get(spot, distance))
        return reached

    @cached_property
    def train_files(self) -> dict[str, None]:
        """Files that any of the most certain training commands runs, nearest first."""
        return dict.fromkeys(self.files(self.any_train_reach))

    @cached_property
    def near(self) -> dict[str, int]:
        """Files that the first training command runs, nearest first, with their rank."""
        return self.main.files if self.main else {}

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
        """Return the calls that training may make; of a library, all its own."""
        return self.calls(self.any_train_reach) if self.train else self.source_calls()

    def happening(self) -> Iterator[CallSite]:
        """Return the calls that the first training command makes by default."""
        return iter(self.main.happening) if self.main else self.source_calls()

    def assignments(self, paths: Iterable[str]) -> Iterator[Assignment]:
        """Return the assignments of some files."""
        return (each for path in paths for each in self.repository.modules[path].assignments)

    @cached_property
    def learners(self) -> set[str]:
        """Files of the repository's own that take gradient steps by hand."""
        steps = {spot.path for spot in self.flow.training}
        return {path for path in steps if self.tree.is_own(path)}

    def declared(self) -> Iterator[Setting]:
        """Return the settings that Python files declare: flags, then fields."""
        yield from self.settings.flags
        yield from self.settings.fields


class _Judge:
    """Tells from what is run, and from documents, what each runnable thing is for."""

    def __init__(self, scan: RepositoryScan) -> None:
        self.scan = scan
        self.told = grouped(scan.documented, lambda command: command.resolved)

    def entries(self, start: Start) -> Iterator[EntryPoint]:
        """Yield what one runnable thing is for: training, evaluation, or both."""
        told = [each for each in self.told.get(start.spot.path, ()) if start.fits(each)]
        told.sort(key=preference)
        lines = [told_words(each) for each in told[:_TOLD]] or [()]
        situations = [self.scan.situation(start.spots, words) for words in dict.fromkeys(lines)]
        train = next((each for each in situations if self._learns(each)), None)
        if train is None and told and self._learns(self.scan.situation(start.spots)):
            train = self.scan.situation(start.spots)
        if train is not None:
            yield self._training(start, train)
        for situation in situations:
            if situation is not train and not self._learns(situation):
                entry = self._evaluation(start, situation)
                if entry is not None:
                    yield entry
                    break

    def _learns(self, situation: Situation) -> bool:
        if situation.training is not None or is_search(situation):
            return True
        path = situation.starts[0].path
        is_meant = path in self.told or _TRAIN_NAME.search(path.rpartition("/")[2])
        return bool(is_meant) and self._named(situation)

    def _named(self, situation: Situation) -> bool:
        """Whether a command that is meant to train says so, though it could not be followed."""
        name = situation.named_training is not None
        return name and not (loads_policy(situation) and plays(situation))

    def _training(self, start: Start, situation: Situation) -> EntryPoint:
        path, stem = start.spot.path, start.stem
        signals = self._common(start, situation, 0.7)
        followed = situation.training or next(iter(consults(situation)), None)
        call = followed or situation.named_training
        assert call is not None
        signals.add(0.5 if followed else 0.3, call.path, call.line, f"runs {call.name}(…)")
        if _TRAIN_NAME.search(stem):
            signals.add(0.3, path, 1, f'named "{stem}"')
        elif not self.told.get(path) and (_OTHER_NAME.search(stem) or _EVAL_NAME.search(stem)):
            signals.add(-0.3, path, 1, f'"{stem}" suggests another purpose')
        if is_plot(situation):
            signals.add(-0.2, path, 1, "draws")
        return self._entry("train", start, situation, signals)

    def _evaluation(self, start: Start, situation: Situation) -> EntryPoint | None:
        path, stem = start.spot.path, start.stem
        loads, steps = loads_policy(situation), plays(situation)
        named = bool(_EVAL_NAME.search(stem)) and not _OTHER_NAME.search(stem)
        if is_plot(situation) and not steps:
            return None
        if not (loads and steps) and not (named and (loads or steps)):
            return None
        signals = self._common(start, situation, 0.4)
        if loads:
            signals.add(0.4, loads.path, loads.line, f"calls {loads.name}(…)")
        if steps:
            signals.add(0.4, steps.path, steps.line, f"calls {steps.name}(…)")
        if named:
            signals.add(0.2, path, 1, f'named "{stem}"')
        return self._entry("eval", start, situation, signals)

    def _common(self, start: Start, situation: Situation, script_weight: float) -> Signals:
        path, script = start.spot.path, start.script
        told = [each for each in self.told.get(path, ()) if start.fits(each)]
        signals = Signals(self.scan.tree.weight(path))
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

    def _entry(
        self, role: Role, start: Start, situation: Situation, signals: Signals
    ) -> EntryPoint:
        path = start.spot.path
        told = [each for each in self.told.get(path, ()) if start.fits(each)]
        line = min(
            (each for each in told if told_words(each) == situation.words),
            key=preference,
            default=None,
        )
        argv = typed(line, path) if line else start.argv
        seed = find_seed(situation) if role == "train" else None
        problems = tuple(check(argv, situation.words, situation.accepted))
        return EntryPoint(
            role=role,
            argv=offered(argv, situation.accepted, seed),
            given=situation.words,
            path=path,
            function=start.spot.scope,
            confidence=signals.confidence,
            evidence=signals.strongest,
            hazardous=self._drives_hardware(situation),
            documented=line is not None,
            problems=problems,
            seed=seed.words if seed else (),
        )

    def _drives_hardware(self, situation: Situation) -> bool:
        """Whether a file within reach imports a hardware interface."""
        return any(
            VOCABULARY.package(origin, "hardware")
            for path in situation.files
            for origin in self.scan.repository.modules[path].import_lines
        )

    def ranked(self, entries: list[EntryPoint], role: Role) -> list[EntryPoint]:
        """Return the commands of a role that drive no hardware, most certain first."""

        def order(entry: EntryPoint) -> tuple[float, int, tuple[int, ...], bool, int, str]:
            name = entry.path.rpartition("/")[2]
            told = self.told.get(entry.path, ())
            first = min((preference(each)[2:] for each in told), default=(9, 9, 9))
            return (
                -round(entry.confidence, 1),
                len(entry.problems),
                first,
                not name.startswith(("train", "play", "eval", "enjoy")),
                entry.path.count("/"),
                entry.path,
            )

        safe = (entry for entry in entries if entry.role == role and not entry.hazardous)
        sure = sorted((entry for entry in safe if entry.confidence >= SURE_ENOUGH), key=order)
        # an installed command and its own file are one command, not two
        unique = {(entry.path, entry.function): entry for entry in reversed(sure)}
        owned = {entry.path for entry in sure if entry.function}
        return [
            entry
            for entry in sure
            if unique[entry.path, entry.function] is entry
            and (entry.function or entry.path not in owned)
        ][:_MOST]
