"""Whether a call happens by default: its conditions, and the defaults of their settings."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, cast

from telic.studies.scan.context import Scan
from telic.studies.scan.syntax import Call, Guard, Unknown

_SWITCH = re.compile(
    r"wandb|track|logger|logging|log_to|tensorboard|\btb\b|use_|enable|disable|report|upload|sync|"
    r"neptune|comet|mlflow|csv|json|record|capture|monitor|no_|debug|video|clear|overwrite|delete|"
    r"resume|push|hub|download|online|offline|backend|writer_type|log_type|mode|save|eval|remove|force|"
    r"clean|verbose",
    re.I,
)
_NOT_A_SWITCH = re.compile(
    r"(dir|path|folder|file|rank|step|iter|epoch|name|freq|interval|count)s?$|^self$"
)
_CONFIG_ENDING = re.compile(r"_?(cfg|config|type|kwargs|args)$", re.I)
_HOLDERS = {"value", "enabled", "enable", "activate", "active"}
"""attributes that stand for the thing they belong to"""
_COMMON_METHODS = {
    "__init__",
    "__call__",
    "__enter__",
    "create",
    "make",
    "build",
    "get",
    "log",
    "write",
    "close",
    "update",
    "reset",
    "step",
    "setup",
    "start",
    "run",
    "call",
    "new",
    "save",
    "load",
    "add",
}
_DEPTH = 4


class Switch(NamedTuple):
    """Whether something happens by default, and the setting that decides it."""

    on: bool
    name: str | None
    certain: bool
    """False when no setting with a known default decides it"""


def by_default(scan: Scan, path: str, call: Call, near: list[str], depth: int = 0) -> Switch:
    """Say whether a call happens when nobody asks for it."""
    named: str | None = None
    for guard in call.guards:
        holds, name = _evaluate(scan, path, guard, near)
        named = name or named
        if holds is False:
            return Switch(False, name, True)
    if not call.scope or depth >= _DEPTH:
        # what another script does when it is run is not what training does
        is_training = not scan.train or path in scan.train_files
        return Switch(is_training, named, named is not None)
    return _from_callers(scan, path, call, near, depth, named)


def _from_callers(
    scan: Scan, path: str, call: Call, near: list[str], depth: int, named: str | None
) -> Switch:
    repository = scan.repository
    parts = call.scope.split(".")
    owners = {each.name for each in repository.modules[path].classes}
    owner = next((part for part in reversed(parts) if part in owners), None)
    # a method runs where its class is made, or where something of that name is called
    sites = _sites(scan, path, call, owner or parts[-1])
    if not sites and owner and parts[-1] not in _COMMON_METHODS:
        sites = _sites(scan, path, call, parts[-1])
    if not sites:
        entries = {(each.path, each.function or "main") for each in scan.train}
        is_run = (path, parts[0]) in entries or any(
            each.name == parts[-1] and each.decorators and path in scan.train_files
            for each in repository.modules[path].functions
        )
        trainer = owner is not None and repository.is_trainer(path, owner)
        return Switch(is_run or trainer, named, False)
    answers = [by_default(scan, where, site, near, depth + 1) for where, site in sites[:12]]
    on = [each for each in answers if each.on]
    best = on[0] if on else answers[0]
    return Switch(bool(on), best.name or named, best.certain or named is not None)


def _sites(scan: Scan, path: str, call: Call, called: str) -> list[tuple[str, Call]]:
    return [
        (where, site)
        for where, site in scan.repository.calls_by_last.get(called, [])
        if scan.tree.weight(where) >= 0.5
        and not (where == path and site.scope == call.scope)
        and not site.name.startswith("super()")
    ]


def _evaluate(
    scan: Scan, path: str, guard: Guard, near: list[str], depth: int = 0
) -> tuple[bool | None, str | None]:
    """Return whether a condition lets the code run by default, and the setting it reads."""
    if guard.names in (("<True>",), ("<False>",)):
        return (guard.names[0] == "<True>") == guard.holds, None
    words = [each.lower() for each in guard.constants if isinstance(each, str) and each]
    for name in guard.names:
        for bare in _candidates(name, compared=bool(words)):
            owner = name.split(".")[-2] if bare in _HOLDERS and "." in name else ""
            found, value = default_of(scan, path, bare, near, symbols=bool(words), owner=owner)
            if not found:
                inner = _condition(scan, path, name) if depth < 2 else ()
                for each in inner:
                    holds, switch = _evaluate(scan, path, each, near, depth + 1)
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
    kept = parts[-1:]
    if compared or parts[-1] in _HOLDERS:
        kept = parts[::-1]
    both = dict.fromkeys(each for part in kept for each in (part, _CONFIG_ENDING.sub("", part)))
    return [each for each in both if _SWITCH.search(each) and not _NOT_A_SWITCH.search(each)]


def _matches(value: Any, words: list[str]) -> bool:
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return any(str(each).strip("<>").rpartition(".")[2].lower() in words for each in values)


def _condition(scan: Scan, path: str, name: str) -> tuple[Guard, ...]:
    """Return what a variable such as `use_it = cfg.kind == "x"` stands for."""
    for each in scan.repository.modules[path].assignments:
        if each.target == name and each.condition and each.condition[0].names != (name,):
            return each.condition
    return ()


def default_of(
    scan: Scan, path: str, name: str, near: list[str], *, symbols: bool = False, owner: str = ""
) -> tuple[bool, Any]:
    """Return whether a setting's default is known, and what it is.

    With an owner, as in `wandb.enable`, only settings of something so named count.
    """
    for setting in scan.settings.named(name, [path, *near]):
        if scan.tree.weight(setting.path) < 0.5 or isinstance(setting.default, Unknown):
            continue
        if owner.lower() not in setting.name.lower():
            continue
        if setting.known or (symbols and "." in setting.default):
            return True, setting.default
    for each in scan.repository.modules[path].assignments:
        is_symbol = isinstance(each.value, str) and each.value.startswith("<")
        is_known = not is_symbol and not isinstance(each.value, Unknown)
        if is_known and each.target.rpartition(".")[2].lstrip("_") == name:
            return True, each.value
    return False, None
