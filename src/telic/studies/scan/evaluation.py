"""How a trained policy is evaluated: by a script, by a flag, inside training, or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from telic.studies.scan.commands import told_words
from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.facts import Assignment, BranchCondition, CallSite, is_symbol
from telic.studies.scan.records import EvaluationFinding, SourceLine, quote
from telic.studies.scan.repository import Spot
from telic.studies.scan.roles import loads_policy
from telic.studies.scan.settings import Setting
from telic.studies.scan.situation import Situation
from telic.studies.scan.source import VOCABULARY

_EVAL_FLAG = VOCABULARY.pattern("eval_flags")
_EMBEDDED = VOCABULARY.pattern("embedded_evaluation")
_SCALARS = VOCABULARY.pattern("scalar_writers")
_MEASURES = re.compile(r"reward|return|success|score|episode|metric|length|error|\brew", re.I)
_RANDOMISED = VOCABULARY.pattern("randomised_settings")
_DISPLAY = re.compile(r"headless|render|viewer|display|no_render|visualize", re.I)
_PLAYS = re.compile(r"(play|eval|test)", re.I)
_EVALUATES = re.compile(r"^(eval\w*|test|play|enjoy|watch)$")
_OFF = (False, None, 0, 0.0, "none", "off")
_MOST_TRIALS = 12


def find_evaluation(scan: RepositoryScan) -> EvaluationFinding:
    """Return how evaluation happens."""
    if scan.evaluate:
        entry = scan.evaluate[0]
        situation = scan.of(entry)
        displays = [each for each in situation.accepted.flags if _DISPLAY.search(each.name)]
        return EvaluationFinding(
            style="script",
            emits_scalars=_emits(scan, situation.happening),
            headless=_is_headless(displays[0].name, displays[0].default) if displays else None,
            needs_network=_needs_network(situation),
            turned_off=tuple(dict.fromkeys(each.target for each in turned_off(scan)))[:20],
            evidence=entry.evidence[:4],
        )
    flag = eval_flag(scan)
    if flag and scan.main:
        return EvaluationFinding(
            style="same_entry",
            flag=flag.label,
            evidence=(quote(flag, f"flag {flag.label}"),),
            emits_scalars=_emits(scan, scan.calls(scan.train_reach)),
            needs_network=_needs_network(scan.main),
        )
    embedded = tuple(_embedded(scan))
    if embedded:
        return EvaluationFinding(style="embedded", emits_scalars=True, evidence=embedded[:4])
    return EvaluationFinding(style="none")


def _embedded(scan: RepositoryScan) -> Iterator[SourceLine]:
    main = scan.main
    for call in main.happening if main else ():
        if _EMBEDDED.match(call.last) or (main and _tries(main, call)):
            yield quote(call, f"{call.name}(…) while training")


def _tries(main: Situation, call: CallSite) -> bool:
    """Whether a call, made now and then, plays with what is being trained and learns nothing."""
    if not call.guards or not call.scope:
        return False
    for target in main.flow.resolver.targets(call):
        if isinstance(target, Spot) and target in main.active:
            inside = main.flow.reach([target], depth=3)
            if not main.flow.training.keys().isdisjoint(inside):
                continue
            steps = (c for c in main.calls(inside) if c.last == "step" and c.args)
            if next(steps, None) is not None:
                return True
    return False


def _is_headless(name: str, default: object) -> bool | None:
    if not isinstance(default, bool):
        return None
    hides = "headless" in name or name.startswith("no_")
    return default if hides else not default


def eval_flag(scan: RepositoryScan) -> Setting | None:
    """Return what makes the training command evaluate instead of train.

    What documented commands of the same file are given comes first, then settings that training
    hangs on: with another value nothing is learned, and a policy is loaded.
    """
    main = scan.main
    if main is None:
        return None
    entry = scan.train[0]
    for command in scan.documented:
        words = told_words(command) if command.resolved == entry.path else ()
        for word in words:
            name, equals, value = word.partition("=")
            if _EVAL_FLAG.match(name) and (not equals or value.lower() == "true"):
                return Setting(name, None, False, word, command.path, command.line)
            if _EVALUATES.match(word) and word not in entry.argv:
                return Setting(word, None, False, word, command.path, command.line)
    for other in scan.both:
        if other.path == entry.path:
            differing = [word for word in other.given if word not in entry.given]
            label = differing[0] if differing else other.given[0]
            return Setting(label, None, False, label, other.path, 1)
    named = (each for each in main.accepted.flags if _EVAL_FLAG.match(each.name))
    flag = next(named, None)
    if flag is not None:
        return Setting(flag.key, flag.default, flag.known, flag.label, flag.path, flag.line)
    return _deciding(scan, main)


def _deciding(scan: RepositoryScan, main: Situation) -> Setting | None:
    """A setting that keeps training from happening when it is changed."""
    for name, other in list(dict.fromkeys(_hinges(main)))[:_MOST_TRIALS]:
        last = name.rpartition(".")[2]
        flag = next((each for each in main.accepted.flags if each.name == last), None)
        composed = main.composition.get(last)
        if flag is None and composed is None:
            continue
        changed = scan.situation(main.starts, (*main.words, *_changed(flag, last, other)))
        if changed is main or changed.training is not None:
            continue
        if loads_policy(changed) or _EVAL_FLAG.match(last) or _PLAYS.search(str(other)):
            label = flag.label if flag else last
            place = (flag.path, flag.line) if flag else (composed.path, composed.line)  # type: ignore[union-attr]
            return Setting(last, None, True, label, *place)
    return None


def _changed(flag: object, last: str, other: object) -> tuple[str, ...]:
    label = getattr(flag, "label", None)
    if label is None:
        return (f"{last}={other}",)
    kind = getattr(flag, "kind", "option")
    return (label,) if kind == "switch" else (f"{label}={other}",)


def _hinges(main: Situation) -> Iterator[tuple[str, object]]:
    """Names that the way to training asks for, each with a value that would answer otherwise."""
    found = main.flow.training
    ways = [call for spot in main.active for call in (step.call for step in main.flow.steps(spot))]
    for call in [*ways, *(found[spot] for spot in main.active if spot in found)]:
        for guard in call.guards:
            if guard.test is not None:
                yield from _asked(guard.test)


def _asked(test: BranchCondition) -> Iterator[tuple[str, object]]:
    if test.kind == "value" and is_symbol(test.value):
        yield test.value.strip("<>"), True
    if test.kind == "equal":
        names = [each.value for each in test.parts if is_symbol(each.value)]
        words = [each.value for each in test.parts if not is_symbol(each.value)]
        if names and words and isinstance(words[0], str):
            yield names[0].strip("<>"), words[0]
    for part in test.parts if test.kind in ("and", "or", "not") else ():
        yield from _asked(part)


def _emits(scan: RepositoryScan, calls: Iterable[CallSite]) -> bool:
    """Whether evaluation writes or prints a number that says how well the policy did."""
    lines = (scan.tree.line(call.path, call.line) for call in calls if _SCALARS.match(call.last))
    return any(_MEASURES.search(line) and re.search(r"[{,%+]", line) for line in lines)


def _needs_network(situation: Situation) -> bool:
    calls = situation.calls(situation.reach)
    return any(
        VOCABULARY.is_download(name)
        for call in calls
        if call.last in VOCABULARY.fetching
        for name in (call.name, *situation.flow.outside(call))
    )


def turned_off(scan: RepositoryScan) -> Iterator[Assignment]:
    """Return assignments in evaluation code that switch training randomisation off."""
    entries = [entry.path for entry in scan.evaluate[:4]]
    # also a configuration for playing that derives from the one for training
    playing = (each for each in scan.assignments(scan.source_files) if _PLAYS.search(each.scope))
    for each in (*scan.assignments(entries), *playing):
        is_plain = isinstance(each.value, bool | int | float | str | None)
        is_off = is_plain and each.value in _OFF
        if "." in each.target and _RANDOMISED.search(each.target) and is_off:
            yield each
