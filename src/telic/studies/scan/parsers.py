"""The parsers that a command meets on its way, and the flags that they bring."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from telic.studies.scan.facts import (
    Assignment,
    CallSite,
    Function,
    as_list,
    is_list,
    is_symbol,
    is_table,
)
from telic.studies.scan.flow import Flow
from telic.studies.scan.interface import Flag, FlagKind, Interface, ParserKind
from telic.studies.scan.records import Placed
from telic.studies.scan.repository import IMPORTED, Spot
from telic.studies.scan.source import VOCABULARY

_CLASS_PARSERS: dict[str, ParserKind] = {
    "tyro.cli": "tyro",
    "fire.Fire": "fire",
    "typer.run": "typer",
    "jsonargparse.CLI": "argparse",
    "jsonargparse.auto_cli": "argparse",
    "simple_parsing.parse": "argparse",
    "pyrallis.parse": "dataclasses",
    "draccus.parse": "dataclasses",
    "chz.entrypoint": "omegaconf",
    "transformers.HfArgumentParser": "dataclasses",
    "trl.TrlParser": "dataclasses",
    "alignment.H4ArgumentParser": "dataclasses",
}
"""calls that make a command line of a class or a function"""
_EXTERNAL = VOCABULARY.table("external_settings")
_SWITCHES = frozenset({"store_true", "store_false", "BooleanOptionalAction"})
_DEFINE = re.compile(r"^DEFINE_")
_HYDRA = re.compile(r"(^|\.)hydra(_task_config|\.main)$")
_WRAPS_CLASS = re.compile(r"(pyrallis|draccus|lerobot\.configs\.parser|parser)\.wrap$")
_HELP = 200
_NESTING = 4


def read_interface(flow: Flow, spots: Iterable[Spot]) -> Interface:
    """Return what the command that runs these places accepts."""
    reader = _Parsers(flow)
    for spot in spots:
        for call in flow.repository.calls(spot):
            reader.call(call)
        function = flow.repository.functions.get(spot)
        if function is not None:
            reader.function(function)
        elif spot.scope == IMPORTED or not spot.scope:
            reader.lists(spot.path)
    unique = {(each.words, each.parser): each for each in reversed(reader.flags)}
    flags = tuple(each for each in reader.flags if unique[each.words, each.parser] is each)
    return Interface(flags, tuple(dict.fromkeys(reader.parsers)))


class _Parsers:
    """Gathers parsers and their flags."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.flags: list[Flag] = []
        self.parsers: list[ParserKind] = []

    def _add(
        self,
        words: Iterable[str],
        key: str,
        default: Any,
        parser: ParserKind,
        place: Placed,
        *,
        required: bool = False,
        kind: FlagKind = "option",
        about: str = "",
    ) -> None:
        named = tuple(words)
        is_call = isinstance(place, CallSite)
        word = self.flow.resolver.links.subcommand(place) if is_call else None
        where = (place.path, place.line, word)
        self.flags.append(Flag(named, key, default, required, kind, parser, about, *where))
        self.parsers.append(parser)

    def call(self, call: CallSite) -> None:
        """Look at one call."""
        last = call.last
        if last == "add_argument":
            self._argument(call)
        elif last == "add_arguments":
            self._declared(call, call.args[:1], "argparse")
        elif _DEFINE.match(last):
            self._absl(call)
        elif last == "parse_arguments":
            self._tables(call.keywords.get("custom_parameters"), call)
        elif last == "from_cli":
            self.parsers.append("omegaconf")
        elif last == "LightningCLI":
            default = call.keywords.get("seed_everything_default", True)
            self._add(["--seed_everything"], "seed_everything", default, "lightning", call)
            self._add(["--config"], "config", None, "lightning", call)
            self._add(["--*"], "*", None, "lightning", call)
        elif last in {"run_commandline", "automain"}:
            self.parsers.append("sacred")
        elif last == "Flags":
            self.parsers.append("blocks")
        elif last.startswith("parse_config") and call.name.startswith("gin"):
            self.parsers.append("gin")
        else:
            self._from_class(call)

    def _from_class(self, call: CallSite) -> None:
        for name in self.flow.outside(call):
            parser = _CLASS_PARSERS.get(name)
            if parser:
                self._declared(call, call.args[:1] or (call.keywords.get("component"),), parser)
        if call.last in {"parse_args", "parse_known_args", "setup_cfg"}:
            for thing in self.flow.resolver.denotes(
                call.path, call.scope, call.name.rpartition(".")[0]
            ):
                if isinstance(thing, Spot) and self.flow.repository.class_at(thing):
                    self._fields(thing, "", "argparse", 0)

    def _argument(self, call: CallSite) -> None:
        names = [each for each in call.args if isinstance(each, str) and not is_symbol(each)]
        names = [re.sub(r"\{[^}]*\}", "*", name) for name in names]
        if not names:
            return
        action = str(call.keywords.get("action", ""))
        default = call.keywords.get("default")
        is_switch = action.strip("<>").rpartition(".")[2] in _SWITCHES
        if "default" not in call.keywords and action in {"store_true", "store_false"}:
            default = action == "store_false"
        positional = not names[0].startswith("-")
        long = max(names, key=lambda name: (name.startswith("--"), len(name)))
        key = call.keywords.get("dest") or long.lstrip("-").replace("-", "_")
        optional = call.keywords.get("nargs") in ("?", "*") or "default" in call.keywords
        self._add(
            names,
            str(key),
            default,
            "argparse",
            call,
            required=call.keywords.get("required") is True or (positional and not optional),
            kind="positional" if positional else "switch" if is_switch else "option",
            about=_help(call),
        )

    def _absl(self, call: CallSite) -> None:
        if not call.args or not isinstance(call.args[0], str):
            return
        name, *rest = call.args
        if call.last.startswith("DEFINE_config"):
            self._add([f"--{name}"], name, rest[0] if rest else None, "config_file", call)
            self._add([f"--{name}.*"], f"{name}.*", None, "config_file", call)
            return
        default = rest[0] if rest else call.keywords.get("default")
        kind = "switch" if call.last in {"DEFINE_bool", "DEFINE_boolean"} else "option"
        self._add([f"--{name}"], name, default, "absl", call, kind=kind, about=_help(call))

    def lists(self, path: str) -> None:
        """Simulator helpers take flags as a list of dictionaries, wherever it is written."""
        for each in self.flow.repository.modules[path].assignments:
            if is_list(each.value):
                self._tables(each.value, each)

    def _tables(self, value: Any, place: CallSite | Assignment) -> None:
        if is_symbol(value):
            held = self.flow.repository.assigned[Spot(place.path, place.scope)]
            value = next((each.value for each in held.get(value.strip("<>"), [])), None)
        for item in as_list(value):
            name = item.get("name") if is_table(item) else None
            if isinstance(name, str) and name.startswith("--") and is_table(item):
                default = item.get("default", False if item.get("action") else None)
                kind = "switch" if item.get("action") else "option"
                key = name.lstrip("-").replace("-", "_")
                about = str(item.get("help", ""))
                self._add([name], key, default, "argparse", place, kind=kind, about=about)

    def function(self, function: Function) -> None:
        """Look at how a function is decorated."""
        if any(map(_HYDRA.search, function.decorators)) or self._wraps_hydra(function):
            self.parsers.append("hydra")
        if any(name.endswith((".main", ".automain")) for name in function.decorators):
            made = {
                thing
                for name in function.decorators
                for thing in self.flow.resolver.denotes(function.path, "", name)
                if isinstance(thing, str)
            }
            if any(thing.startswith("sacred.") for thing in made):
                self.parsers.append("sacred")
        for mark in function.marks:
            if mark.name.endswith(("click.option", "click.argument")):
                self._click(mark)
        if any(name.endswith(".command") for name in function.decorators):
            self._typer(function)
        if any(map(_WRAPS_CLASS.search, function.decorators)):
            self.parameters(function, "dataclasses", nested=True)

    def _wraps_hydra(self, function: Function) -> bool:
        """Decorators of the repository that build `hydra.main` inside."""
        for name in function.decorators:
            for thing in self.flow.resolver.denotes(function.path, "", name):
                if isinstance(thing, Spot) and any(
                    map(_HYDRA.search, other.decorators)
                    for other in self.flow.repository.modules[thing.path].functions
                    if any(map(_HYDRA.search, other.decorators))
                ):
                    return True
        return False

    def _click(self, mark: CallSite) -> None:
        names = [name for name in mark.args if isinstance(name, str)]
        if not names:
            return
        positional = mark.last == "argument"
        typed = [part for name in names for part in name.split("/")]
        long = max(typed, key=lambda name: (name.startswith("--"), len(name)))
        key = next((name for name in names if not name.startswith("-")), long.lstrip("-"))
        self._add(
            typed if not positional else names,
            key.replace("-", "_"),
            mark.keywords.get("default"),
            "click",
            mark,
            required=mark.keywords.get("required") is True or positional,
            kind="positional" if positional else "switch" if _is_switch(mark) else "option",
            about=_help(mark),
        )

    def _typer(self, function: Function) -> None:
        decorators = [name.rpartition(".")[0] for name in function.decorators]
        made = [
            t for name in decorators for t in self.flow.resolver.denotes(function.path, "", name)
        ]
        if any(isinstance(thing, str) and thing.startswith("typer") for thing in made):
            self.parameters(function, "typer")

    def parameters(self, function: Function, parser: ParserKind, *, nested: bool = False) -> None:
        """The parameters of a function as a command line of `typer`, `fire` and the like."""
        self.parsers.append(parser)
        for name in function.arguments:
            if name in {"self", "cls"}:
                continue
            annotation = function.annotations.get(name, "")
            if nested:
                spot = self.flow.repository.seen_from(function.path, annotation.strip("\"'"))
                if spot is not None and self.flow.repository.class_at(spot):
                    self._fields(spot, "", parser, 0)
                continue
            default = function.defaults.get(name)
            has_default = name in function.defaults and default is not ...
            dash = name.replace("_", "-") if parser == "typer" else name
            option = has_default or parser != "typer" or "Option(" in annotation
            kind = (
                "positional" if not option else "switch" if isinstance(default, bool) else "option"
            )
            words = [f"--{dash}"] if option else [name]
            required = not has_default
            self._add(words, name, default, parser, function, required=required, kind=kind)

    def _declared(self, call: CallSite, values: Iterable[Any], parser: ParserKind) -> None:
        self.parsers.append(parser)
        flat = [inner for value in values for inner in as_list(value)]
        for value in flat:
            for thing in self.flow.resolver.things(call.path, call.scope, value):
                if isinstance(thing, str):
                    self._outside(thing, parser, call)
                elif self.flow.repository.class_at(thing):
                    self._fields(thing, "", parser, 0)
                elif thing in self.flow.repository.functions:
                    self.parameters(self.flow.repository.functions[thing], parser)

    def _outside(self, name: str, parser: ParserKind, call: CallSite) -> None:
        """Settings of known classes outside of the repository."""
        for start, fields in _EXTERNAL.items():
            if name.startswith(start):
                for key, default in fields.items():
                    self._add([f"--{key}"], key, default, parser, call)

    def _fields(self, spot: Spot, prefix: str, parser: ParserKind, depth: int) -> None:
        """The fields of a class as flags, those of classes inside with a dot."""
        repository = self.flow.repository
        for each in reversed(list(repository.lineage(spot))):
            if not isinstance(each, Spot):
                continue
            for name, values in repository.assigned[each].items():
                field = values[0]
                if "." in name or field.annotation is None or name.startswith("_"):
                    continue
                inner = self._inner(each.path, field.annotation, field.value)
                key = f"{prefix}{name}"
                if inner is not None and inner != each and depth < _NESTING:
                    self._fields(inner, f"{key}.", parser, depth + 1)
                    continue
                typed = key.replace("_", "-") if parser == "tyro" else key
                kind = "switch" if isinstance(field.value, bool) else "option"
                required = field.value is None and "None" not in field.annotation
                self._add(
                    [f"--{typed}"], key, field.value, parser, field, kind=kind, required=required
                )

    def _inner(self, path: str, annotation: str, value: Any) -> Spot | None:
        names = [annotation.strip("\"'")]
        if is_symbol(value):
            names.append(value.strip("<>"))
        for name in names:
            spot = (
                self.flow.repository.seen_from(path, name)
                if re.fullmatch(r"[\w.]+", name)
                else None
            )
            if spot is not None and self.flow.repository.class_at(spot):
                return spot
        return None


def _is_switch(mark: CallSite) -> bool:
    return mark.keywords.get("is_flag") is True or isinstance(mark.keywords.get("default"), bool)


def _help(call: CallSite) -> str:
    text = call.keywords.get("help", call.args[2] if len(call.args) > 2 else "")
    return text[:_HELP] if isinstance(text, str) else ""
