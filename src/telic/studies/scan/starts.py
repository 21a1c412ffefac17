"""Everything that can be run: installed commands, their sub-commands, and files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from telic.studies.scan.commands import told_words
from telic.studies.scan.declared import DocumentedCommand, Script
from telic.studies.scan.facts import Function
from telic.studies.scan.repository import IMPORTED, Spot

if TYPE_CHECKING:
    from telic.studies.scan.entry_points import RepositoryScan

_NOT_RUN = frozenset({"setup.py", "conftest.py", "__init__.py", "noxfile.py"})
_GROUP = re.compile(r"(^|\.)(command|group)$")
_DISPATCH = re.compile(r"argv|command|cmd|mode|subcommand|verb|action", re.I)


class Start(NamedTuple):
    """Something that can be run: a file, an installed command, or one of its sub-commands."""

    argv: tuple[str, ...]
    spot: Spot
    spots: tuple[Spot, ...]
    script: Script | None = None
    subcommand: str | None = None

    @property
    def stem(self) -> str:
        """The name people know it by."""
        name = self.script.name if self.script else self.spot.path.rpartition("/")[2]
        return (self.subcommand or name).removesuffix(".py").lower()

    def fits(self, command: DocumentedCommand) -> bool:
        """Whether a documented command of the same file is this one."""
        if self.script is not None and command.target != self.script.name:
            return False
        if self.script is None and not self._runs_file(command):
            return False
        return self.subcommand is None or self.subcommand in told_words(command)[:2]

    def _runs_file(self, command: DocumentedCommand) -> bool:
        return command.target.endswith(".py") or "." in command.target or "-m" in command.words


def find_starts(scan: RepositoryScan) -> Iterator[Start]:
    """Yield what can be run: installed commands, then files."""
    for script in scan.scripts:
        spot = scan.repository.find(script.target.replace(":", "."))
        path = spot.path if spot else scan.repository.module(script.target.partition(":")[0])
        if path is None:
            continue
        commands = list(_subcommands(scan, path, script.target.partition(":")[2]))
        for name, inner in commands:
            top = Spot(inner.path, IMPORTED)
            yield Start((script.name, name), inner, (inner, top), script, name)
        if not commands and spot is not None and spot.scope:
            words = list(_dispatched(scan, spot))
            yield Start((script.name, *words[:1]), spot, (spot, Spot(path, IMPORTED)), script)
    for path, facts in scan.repository.modules.items():
        if path.rpartition("/")[2] in _NOT_RUN or not (
            facts.main_guard or Spot(path, "") in scan.flow.training or _is_told(scan, path)
        ):
            continue
        yield from _of_file(scan, path)


def _is_told(scan: RepositoryScan, path: str) -> bool:
    return any(each.resolved == path and each.target.endswith(".py") for each in scan.documented)


def _of_file(scan: RepositoryScan, path: str) -> Iterator[Start]:
    top = Spot(path, "")
    module = next(
        (
            each.target
            for each in scan.documented
            if each.resolved == path and "." in each.target and not each.target.endswith(".py")
        ),
        None,
    )
    argv = ("python", "-m", module) if module else ("python", path)
    groups = [
        name for call in scan.repository.calls(top) for name in _subcommands(scan, path, call.name)
    ]
    for name, inner in groups:
        yield Start((*argv, name), inner, (inner, Spot(path, IMPORTED)), None, name)
    if not groups:
        spots = (top, *(spot for spot in scan.flow.commands(path)))
        yield Start(argv, top, tuple(dict.fromkeys(spots)))


def _subcommands(scan: RepositoryScan, path: str, name: str) -> Iterator[tuple[str, Spot]]:
    """The functions that are commands of an application object or a group of this name."""
    if not re.fullmatch(r"\w+", name):
        return
    group = scan.repository.functions.get(Spot(path, name))
    if group is not None and not any(each.endswith(".group") for each in group.decorators):
        return
    for function in _commands_of(scan, path, name):
        mark = next((m for m in function.marks if _GROUP.search(m.name)), None)
        given = mark.args[0] if mark and mark.args else mark.keywords.get("name") if mark else None
        label = given if isinstance(given, str) else function.name.replace("_", "-")
        yield label, Spot(function.path, function.full_name)


def _commands_of(scan: RepositoryScan, path: str, name: str) -> Iterator[Function]:
    module = scan.repository.modules[path]
    for function in module.functions:
        if f"{name}.command" in function.decorators:
            yield function
    for other, facts in scan.repository.modules.items():
        origins = {local for local, origin in facts.imports.items() if origin.endswith(f".{name}")}
        if other == path or not origins:
            continue
        for function in facts.functions:
            if any(each.endswith(f".{name}.command") for each in function.decorators):
                yield function


def _dispatched(scan: RepositoryScan, spot: Spot) -> Iterator[str]:
    """Words that a command chooses its work by, those that lead to training first."""
    words: dict[str, bool] = {}
    for step in scan.flow.steps(spot):
        for guard in step.call.guards:
            if guard.holds and any(_DISPATCH.search(name) for name in guard.names):
                trains = scan.flow.nearest_training(step.to) is not None
                for word in guard.constants:
                    if isinstance(word, str):
                        words[word] = words.get(word, False) or trains
    yield from sorted(words, key=lambda word: not words[word])
