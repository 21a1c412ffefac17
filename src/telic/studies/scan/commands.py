"""Commands as people are told to type them, checked against the parser that they will meet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from telic.studies.scan.declared import DocumentedCommand
from telic.studies.scan.facts import CallSite, is_plain, is_symbol
from telic.studies.scan.interface import Flag, Interface
from telic.studies.scan.situation import Situation
from telic.studies.scan.source import VOCABULARY

_PLACEHOLDER = re.compile(r"[<>$]|\.\.\.|/path/to|path/to/|YOUR_|<your|your[-_]|\[[a-z_ ]+\]", re.I)
_RUNNERS = re.compile(r"^(uv|poetry|pixi|hatch|pipenv|rye|pdm)$")
_ASSIGNMENT = re.compile(r"^[A-Z_][A-Z0-9_]*=")
_NETWORK = VOCABULARY.pattern("network_flags")
_SEED = re.compile(
    r"^(seed|random_seed|train_seed|rng_seed|torch_seed|seeds|master_seed|base_seed)$"
)
_SEEDY = re.compile(r"(^|[._])seed(s|_everything)?$", re.I)
_SEEDING = VOCABULARY.pattern("seeding_calls")
_HARMS = re.compile(r"^(overwrite|force|clear\w*|clean|delete\w*|remove\w*|wipe|track)$")
_RANK: dict[str, int] = {"readme": 0, "docs": 1, "build": 2, "ci": 3}


class CheckedCommand(NamedTuple):
    """A command, where it is documented, and what the parser would say against it."""

    argv: tuple[str, ...]
    documented: DocumentedCommand | None
    problems: tuple[str, ...]


class SeedSetting(NamedTuple):
    """How the seed of a command is set."""

    words: tuple[str, ...]
    """what is typed, with `{seed}`; empty when only a file says it"""
    label: str
    default: object
    known: bool
    path: str
    line: int
    flag: Flag | None = None
    key: str | None = None


def told_words(command: DocumentedCommand) -> tuple[str, ...]:
    """Return what a documented command gives to its script or module."""
    words = command.words
    for index, word in enumerate(words):
        if word == command.target:
            return words[index + 1 :]
    return ()


def preference(command: DocumentedCommand) -> tuple[bool, bool, int, int, int]:
    """Order documented commands: complete ones that upload nothing, the main page first."""
    text = " ".join(command.words)
    return (
        bool(_PLACEHOLDER.search(text)),
        bool(_NETWORK.search(text)),
        _RANK[command.source],
        command.path.count("/"),
        command.line,
    )


def typed(command: DocumentedCommand, path: str) -> tuple[str, ...]:
    """Return a documented command as it is typed in the repository's root."""
    words = [word for word in command.words if not _ASSIGNMENT.match(word)]
    if len(words) > 2 and _RUNNERS.match(words[0]) and words[1] == "run":
        words = words[2:]
        while words and words[0].startswith("--"):
            words = words[1:]
    if words and command.target.endswith(".py") and words[0] == command.target:
        words = ["python", *words]
    if command.target.endswith(".py"):
        words = [path if word == command.target else word for word in words]
    if words and words[0].startswith("python"):
        words[0] = "python"
    return tuple(words)


def check(argv: tuple[str, ...], given: tuple[str, ...], accepted: Interface) -> Iterator[str]:
    """Say what a parser would refuse in a command, and what it would miss."""
    is_closed = accepted.flags and not {"lightning", "blocks", "gin"} & set(accepted.parsers)
    named: set[tuple[str, ...]] = set()
    for word in given:
        if not word.startswith("-") or re.match(r"^-\d", word):
            continue
        flag = accepted.accepts(word)
        if flag is not None:
            named.add(flag.words)
        elif is_closed and word.startswith("--") and "hydra" not in accepted.parsers:
            yield f"{word.partition('=')[0]} is not accepted"
    loose = sum(not word.startswith("-") for word in given)
    for flag in accepted.flags:
        if flag.required and flag.kind != "positional" and flag.words not in named:
            yield f"{flag.label} is required"
        elif flag.required and flag.kind == "positional" and not loose:
            yield f"{flag.label} has to be given"


def offered(
    argv: tuple[str, ...], accepted: Interface, seed: SeedSetting | None
) -> tuple[str, ...]:
    """Return a command without what sets its seed, uploads, or deletes results."""
    kept: list[str] = []
    skipped = False
    names = (
        {name.replace("_", "-") for name in seed.flag.words} if seed and seed.flag else set[str]()
    )
    for index, word in enumerate(argv):
        if skipped:
            skipped = False
            continue
        name, equals, _ = word.partition("=")
        is_seed = name.replace("_", "-") in names
        if seed is not None and seed.key and equals:
            is_seed = is_seed or name.lstrip("+-") == seed.key
        flag = accepted.accepts(word) if word.startswith("-") else None
        value = " ".join(argv[index : index + 2])
        is_harmful = flag is not None and not flag.required and bool(_HARMS.search(flag.name))
        if is_harmful or (flag is not None and _NETWORK.search(value) and not flag.required):
            is_seed = True
        if is_seed:
            takes = flag is None or flag.kind != "switch"
            skipped = takes and not equals and index + 1 < len(argv)
            continue
        kept.append(word)
    return tuple(kept)


def find_seed(situation: Situation) -> SeedSetting | None:
    """Return the setting that seeds a command, if its command line or its files have one."""
    flag = _flag(situation)
    parsers = situation.accepted.parsers
    if flag is not None:
        return SeedSetting(
            _style(flag, parsers), flag.label, flag.default, flag.known, flag.path, flag.line, flag
        )
    composed = situation.composition
    keys = [key for key in composed.values if _SEED.match(key.rpartition(".")[2])]
    key = min(keys, key=lambda key: (key.count("."), len(key)), default=None)
    if "sacred" in parsers:
        return _sacred(situation, key)
    if key is not None:
        value = composed.values[key]
        words: tuple[str, ...] = ()
        dynamic = situation.accepted.accepts(f"--{key}")
        if {"hydra", "omegaconf"} & set(parsers):
            words = (f"{key}={{seed}}",)
        elif "blocks" in parsers or (dynamic is not None and "*" in dynamic.label):
            words = (f"--{key}", "{seed}")
        label = f"--{key}" if words and words[0].startswith("--") else key
        return SeedSetting(words, label, value.value, True, value.path, value.line, key=key)
    if "config_file" in parsers:
        return _config_file(situation)
    if situation.is_handmade:
        return _handmade(situation)
    return _gin(situation) if "gin" in parsers else None


def _handmade(situation: Situation) -> SeedSetting | None:
    """A command that hands its words on by name: a parameter for the seed takes one."""
    for spot in situation.own:
        function = situation.flow.repository.functions.get(spot)
        if function is None:
            continue
        for name, default in function.defaults.items():
            if _SEED.match(name):
                flag = f"--{name}"
                words, known = (flag, "{seed}"), is_plain(default)
                return SeedSetting(words, flag, default, known, spot.path, function.line)
    return None


def _config_file(situation: Situation) -> SeedSetting | None:
    """A Python file of settings: what it puts under `seed` is set below the flag's name."""
    repository = situation.flow.repository
    for flag in situation.accepted.flags:
        if flag.parser != "config_file" or "*" in flag.label:
            continue
        named = [str(flag.default), *situation.words]
        for path in repository.modules:
            if not any(
                word.partition("=")[2].startswith(path) or word.startswith(path) for word in named
            ):
                continue
            for each in repository.modules[path].assignments:
                _, dot, last = each.target.rpartition(".")
                if dot and _SEED.match(last):
                    words = (f"{flag.label}.{last}={{seed}}",)
                    label = f"{flag.label}.{last}"
                    known = is_plain(each.value)
                    return SeedSetting(words, label, each.value, known, path, each.line)
    return None


def _flag(situation: Situation) -> Flag | None:
    """The flag of the seed: by what seeds generators, by its name, by its help."""
    flags = [each for each in situation.accepted.flags if each.kind != "switch"]
    exact = [each for each in flags if _SEED.match(each.name)]
    if exact:
        return min(exact, key=lambda each: each.key.count("."))
    seeding = dict.fromkeys(_seeded_with(situation))
    for name in seeding:
        for each in flags:
            if each.name == name:
                return each
    named = [each for each in flags if _SEEDY.search(each.key)]
    helped = [each for each in flags if "random seed" in each.help.lower()]
    return next(iter([*named, *helped]), None)


def _seeded_with(situation: Situation) -> Iterator[str]:
    """The last names of what generators are seeded with."""
    for call in situation.calls(situation.reach):
        if _SEEDING.match(call.last):
            for value in (*call.args[:1], call.keywords.get("seed")):
                if is_symbol(value):
                    yield from _origins(situation, call, value.strip("<>"), 0)


def _origins(situation: Situation, call: CallSite, name: str, depth: int) -> Iterator[str]:
    """What a name is handed over from: parameters lead to the settings that callers give."""
    last = name.rpartition(".")[2]
    yield last
    functions = situation.flow.repository.functions
    for spot in situation.reach:
        function = functions.get(spot)
        if (
            depth < 3
            and function is not None
            and (spot.path, spot.scope) == (call.path, call.scope)
            and name in function.arguments
        ):
            for value, caller in situation.flow.resolver.handed(spot, function, name):
                if is_symbol(value):
                    yield from _origins(situation, caller, value.strip("<>"), depth + 1)


def _style(flag: Flag, parsers: Iterable[str]) -> tuple[str, ...]:
    if flag.kind == "positional":
        return ()
    if flag.parser in {"absl", "fire", "config_file"}:
        return (f"{flag.label}={{seed}}",)
    if flag.parser == "omegaconf":
        return (f"{flag.key}={{seed}}",)
    return (flag.label, "{seed}")


def _sacred(situation: Situation, key: str | None) -> SeedSetting:
    """Sacred has a seed of its own, drawn anew unless given."""
    words = ("seed={seed}",) if "with" in situation.words else ("with", "seed={seed}")
    start = situation.starts[0]
    value = situation.composition.values.get(key or "seed") if key in (None, "seed") else None
    default = value.value if value else None
    return SeedSetting(words, "seed", default, True, start.path, 1, key="seed")


def _gin(situation: Situation) -> SeedSetting | None:
    """A configurable with a parameter for the seed is set by a binding."""
    functions = situation.flow.repository.functions
    flag = next((f for f in situation.accepted.flags if "binding" in f.name), None)
    for spot in situation.reach:
        function = functions.get(spot)
        if function is None or flag is None:
            continue
        name = next((each for each in function.arguments if _SEED.match(each)), None)
        owner = function.scope if function.name == "__init__" else function.name
        marks = function.decorators
        if function.name == "__init__":
            owned = situation.flow.repository.class_at(type(spot)(spot.path, function.scope))
            marks = owned.decorators if owned else ()
        if name and any(mark.startswith("gin.") for mark in marks):
            words = (f"{flag.label}={owner}.{name}={{seed}}",)
            default = function.defaults.get(name)
            label = f"{owner}.{name}"
            return SeedSetting(words, label, default, True, function.path, function.line)
    return None
