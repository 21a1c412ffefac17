"""Indexes that tie names together: attributes, tables, aliases, partials, decorators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from telic.studies.scan.facts import (
    Alternative,
    Assignment,
    CallSite,
    Made,
    is_list,
    is_symbol,
    is_table,
)
from telic.studies.scan.repository import Repository, Spot


class Links:
    """What is assigned, wrapped, decorated and derived where; each index is made once."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository

    @cached_property
    def held(self) -> dict[Spot, dict[str, list[Assignment]]]:
        """For each class, what is assigned to its attributes."""
        held: dict[Spot, dict[str, list[Assignment]]] = {}
        for facts in self.repository.modules.values():
            classes = {each.full_name for each in facts.classes}
            for each in facts.assignments:
                outer = each.scope
                while outer and outer not in classes:
                    outer = outer.rpartition(".")[0]
                if not outer:
                    continue
                name = each.target.removeprefix("self.").removeprefix("cls.")
                if "." not in name and (name != each.target or each.scope == outer):
                    attributes = held.setdefault(Spot(facts.path, outer), {})
                    attributes.setdefault(name, []).append(each)
        return held

    @cached_property
    def filled(self) -> dict[str, dict[str, list[Assignment]]]:
        """For each file, containers of its top level with what functions put into them."""
        filled: dict[str, dict[str, list[Assignment]]] = defaultdict(dict)
        for path, facts in self.repository.modules.items():
            tops = self.repository.assigned[Spot(path, "")]
            empty = {name for name, first in tops.items() if first[0].value in ({}, [], "<dict>")}
            for each in facts.assignments if empty else ():
                if each.target in empty:
                    filled[path].setdefault(each.target, []).append(each)
        return filled

    @cached_property
    def dispatched(self) -> dict[str, list[tuple[CallSite, Any, str | None]]]:
        """What parsers put into their answers, with the sub-command that chooses it."""
        found: dict[str, list[tuple[CallSite, Any, str | None]]] = defaultdict(list)
        for call in self.repository.calls_by_last.get("set_defaults", []):
            word = self.subcommand(call)
            for name, value in call.keywords.items():
                if is_symbol(value):
                    found[name].append((call, value, word))
        return found

    def subcommand(self, call: CallSite) -> str | None:
        """The sub-command whose parser a call is made on."""
        owner = call.name.rpartition(".")[0]
        for each in self.repository.assigned[Spot(call.path, call.scope)].get(owner, ()):
            if isinstance(each.value, Made) and each.value.strip("<>").endswith("add_parser"):
                name = each.value.args[0] if each.value.args else None
                return name if isinstance(name, str) else None
        return None

    @cached_property
    def partials(self) -> dict[str, list[CallSite]]:
        """Calls of functools.partial by the last name of what they wrap."""
        partials: dict[str, list[CallSite]] = {}
        for call in self.repository.all_calls():
            if call.name == "functools.partial" and call.args and is_symbol(call.args[0]):
                wrapped = call.args[0].strip("<>").rpartition(".")[2]
                partials.setdefault(wrapped, []).append(call)
        return partials

    @cached_property
    def derived(self) -> dict[str, set[str]]:
        """Names of classes to the names of classes that derive from them."""
        derived: dict[str, set[str]] = defaultdict(set)
        for name, classes in self.repository.classes.items():
            for each in classes:
                for base in self.repository.lineage(Spot(each.path, each.full_name)):
                    if isinstance(base, Spot):
                        derived[base.scope.rpartition(".")[2]].add(name)
        return derived

    @cached_property
    def aliases(self) -> dict[str, set[str]]:
        """Names to the variables and tables that hold what they name."""
        aliases: dict[str, set[str]] = defaultdict(set)
        for facts in self.repository.modules.values():
            for each in facts.assignments:
                for symbol in _references(each.value):
                    held = symbol.strip("<>").rpartition(".")[2]
                    aliases[held].add(each.target.rpartition(".")[2])
        return aliases

    @cached_property
    def decorations(self) -> dict[str, list[tuple[Spot, str]]]:
        """Functions and classes by the last name of each of their decorators."""
        found: dict[str, list[tuple[Spot, str]]] = {}
        for facts in self.repository.modules.values():
            for each in (*facts.functions, *facts.classes):
                for name in each.decorators:
                    spot = Spot(facts.path, each.full_name)
                    found.setdefault(name.rpartition(".")[2], []).append((spot, name))
        return found


def _references(value: Any) -> Iterator[str]:
    """Names in a value that stand for themselves, not for what calling them gives."""
    if isinstance(value, Alternative):
        yield from _references(value.first)
        yield from _references(value.second)
    elif is_table(value):
        for each in value.values():
            yield from _references(each)
    elif is_list(value):
        for each in value:
            yield from _references(each)
    elif is_symbol(value) and not isinstance(value, Made):
        yield value
