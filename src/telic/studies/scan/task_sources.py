"""Where reward, termination, curriculum and randomisation are written, and what surrounds them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from telic.studies.scan.entry_points import RepositoryScan
from telic.studies.scan.facts import Assignment, Class, Function, ModuleFacts, is_symbol, is_table
from telic.studies.scan.records import (
    SURE_ENOUGH,
    RewardTerm,
    Signals,
    SourceFinding,
    SourceLine,
    TaskSources,
    combined,
    quote,
)
from telic.studies.scan.reward_sources import RewardCode
from telic.studies.scan.source import VOCABULARY

_FUNCTIONS = VOCABULARY.patterns("task_functions")
_FILES = VOCABULARY.patterns("task_files")
_VARIABLES = VOCABULARY.patterns("task_variables")
"""variables computed in an environment's step"""
_TERM_CALLS = VOCABULARY.patterns("task_terms")
_YAML_KEYS = VOCABULARY.patterns("task_yaml_keys")
_LEARNER_NAMES = VOCABULARY.pattern("learner_names")
_ENVIRONMENT = re.compile(r"(Env|Environment|Task|World|Game)")
_STEPS = {"step", "_step", "step_env", "post_physics_step", "c_step", "_step_async"}
_REWARD_WRAPPER = VOCABULARY.pattern("reward_wrappers")
_POLICY = re.compile(r"(Actor|Policy|Critic|Agent|QNetwork|ActorCritic|Network)", re.I)
_EVALUATOR = re.compile(r"^(evaluate|eval)(_policy|_agent|_model|_episodes?|_loop)?$")
_WEIGHTS = VOCABULARY.pattern("weight_tables")
_REWARD_SCOPE = re.compile(r"rew", re.I)
_METHOD = re.compile(r"^_?reward_(\w+)$|^_?rew_(\w+)$")
_MOST_FILES = 60
_MOST_TERMS = 200
_FEW = 3


def find_task_sources(scan: RepositoryScan) -> TaskSources:
    """Return the files of each part of the task, with the reward's terms."""
    parts = _Parts(scan)
    rewards = RewardCode(scan)
    for sign in rewards.signs():
        parts.add("reward", *sign)
    for facts in scan.sources():
        classes = {each.full_name: each for each in facts.classes}
        for part in _FUNCTIONS:
            for weight, line, note in _signals(scan, facts, classes, part):
                parts.add(part, weight, facts.path, line, note)
    _from_yaml(scan, parts)
    terms = find_terms(scan)
    for term in terms:
        for place, note in ((term.code, "code"), (term.weight, "weight")):
            path, _, line = (place or "").rpartition(":")
            if path and term.weight and term.code:
                parts.add("reward", 0.4, path, int(line), f"{note} of the term {term.name}")
    if not parts.files["reward"]:
        for sign in rewards.objectives():
            parts.add("reward", *sign)
    reward = parts.finding("reward")
    return TaskSources(
        reward=reward,
        termination=parts.finding("termination"),
        curriculum=parts.finding("curriculum"),
        randomization=parts.finding("randomization"),
        wrappers=_wrappers(scan),
        policy=_policy(scan),
        evaluator=_evaluator(scan),
        terms=() if reward.external else terms,
    )


def _from_yaml(scan: RepositoryScan, parts: _Parts) -> None:
    for path, keys in scan.settings.yaml.items():
        for part, pattern in _YAML_KEYS.items() if scan.tree.is_own(path) else ():
            key = next((each for each in keys if pattern.search(each.path.lower())), None)
            if key or re.search(rf"(^|/){part}s?/", path):
                parts.add(part, 0.4, path, key.line if key else 1, f"{part} settings")


class _Parts:
    """The signals of each part of the task, by file."""

    def __init__(self, scan: RepositoryScan) -> None:
        self.scan = scan
        self.files: dict[str, dict[str, Signals]] = {part: {} for part in _FUNCTIONS}

    def add(self, part: str, weight: float, path: str, line: int, note: str) -> None:
        """Count a signal for a file."""
        files = self.files[part]
        if path not in files:
            files[path] = Signals(self.scan.tree.weight(path))
        files[path].add(weight, path, line, note)

    def finding(self, part: str) -> SourceFinding:
        """Return where one part of the task is written."""
        files, reached = self.files[part], self.scan.train_files
        sure = {path: signals.confidence for path, signals in files.items()}
        ranked = sorted(files, key=lambda path: (path not in reached, -sure[path], path))
        kept = [path for path in ranked if sure[path] >= 0.35]
        confidence = round(combined(sure[path] for path in kept), 3)
        configured = any(
            _TERM_CALLS[part].search(each.note.removesuffix("(…)"))
            for path in kept
            for each in files[path].evidence
        )
        if part in ("reward", "termination") and not configured and self._is_side_matter(kept):
            confidence = round(min(confidence, 0.45), 3)
        return SourceFinding(
            files=tuple(kept[:_MOST_FILES]),
            external=confidence < SURE_ENOUGH,
            confidence=confidence,
            evidence=tuple(each for path in ranked[:8] for each in files[path].strongest[:2]),
        )

    def _is_side_matter(self, files: list[str]) -> bool:
        """A learning library with a toy environment or two does not hold the task's reward."""
        scan = self.scan
        few = len(files) <= max(_FEW, 0.03 * len(scan.source_files))
        return len(scan.learners) >= _FEW and few and scan.near.keys().isdisjoint(files)


def _signals(
    scan: RepositoryScan, facts: ModuleFacts, classes: dict[str, Class], part: str
) -> Iterator[tuple[float, int, str]]:
    if part == "reward":
        return
    names = _FUNCTIONS[part]
    in_file = bool(_FILES[part].search(facts.path.lower()))
    judged = part in ("reward", "termination")
    for function in facts.functions:
        if names.search(function.name) and not (
            judged and _is_learners(scan, function, classes, in_file)
        ):
            yield 0.5, function.line, f"def {function.name}"
    for call in facts.calls:
        if _TERM_CALLS[part].search(call.last):
            yield 0.5, call.line, f"{call.last}(…)"
    if in_file and facts.functions and part != "termination":
        yield 0.4, 1, "named after it"
    if part in _VARIABLES:
        yield from _assembled(scan, facts, classes, _VARIABLES[part])
    if not judged:
        for each in facts.classes:
            if names.search(each.name.lower()):
                yield 0.4, each.line, f"class {each.name}"


def _is_learners(
    scan: RepositoryScan, function: Function, classes: dict[str, Class], in_file: bool
) -> bool:
    """Whether a reward-like name belongs to a learner's bookkeeping, not to a task."""
    name = function.name
    if name in {"reward", "rewards"} and "property" in function.decorators:
        return True
    if not name.startswith(("_reward_", "_rew_")) and _LEARNER_NAMES.search(name):
        return True
    owner = classes.get(function.scope)
    if owner is None:
        return function.scope != "" or not (in_file or name.startswith(("compute", "reward")))
    return scan.repository.descends(owner, "Wrapper")


def _assembled(
    scan: RepositoryScan, facts: ModuleFacts, classes: dict[str, Class], assigned: re.Pattern[str]
) -> Iterator[tuple[float, int, str]]:
    """Reward or end computed inside an environment's own step."""
    steps = {
        function.full_name: classes.get(function.scope)
        for function in facts.functions
        if function.name in _STEPS
    }
    for each in facts.assignments:
        owner = steps.get(each.scope)
        if owner is None or not each.computed or not assigned.match(each.target):
            continue
        value = str(each.value)
        is_plain = ".step" in value or "zeros" in value or value.strip("<>") == "float"
        if is_plain or _LEARNER_NAMES.search(each.target) or "Wrapper" in owner.name:
            continue
        is_environment = any(map(_ENVIRONMENT.search, (owner.name, *owner.bases)))
        if is_environment and not scan.repository.descends(owner, "Wrapper"):
            where = f"{owner.name}.{each.scope.rpartition('.')[2]}"
            yield 0.5, each.line, f"{each.target} computed in {where}"
            return


def _wrappers(scan: RepositoryScan) -> SourceFinding:
    """Return where rewards are scaled, clipped or normalised before learning."""
    reached = {*scan.train_files, *(() if scan.train else scan.source_files)}
    calls = (call for call in scan.source_calls() if _REWARD_WRAPPER.search(call.last))
    classes = (
        each
        for each in scan.source_classes()
        if any(base.endswith("RewardWrapper") for base in each.bases)
    )
    places = [quote(call, f"{call.last}(…)") for call in calls if call.path in reached]
    places += [quote(each, f"class {each.name}") for each in classes if each.path in reached]
    first: dict[str, SourceLine] = {}
    for place in places:
        first.setdefault(place.path, place)
    return SourceFinding(
        files=tuple(first),
        confidence=0.7 if first else 0.0,
        evidence=tuple(first.values())[:8],
    )


def _policy(scan: RepositoryScan) -> SourceFinding:
    """Return where the networks of policies and critics are written."""
    networks: dict[str, SourceLine] = {}
    for each in scan.source_classes():
        is_network = any(base.endswith(("Module", "Model", "Network")) for base in each.bases)
        if is_network and _POLICY.search(each.name):
            networks.setdefault(each.path, quote(each, f"class {each.name}"))
    return _surrounding(networks, networks.values())


def _evaluator(scan: RepositoryScan) -> SourceFinding:
    """Return where trained policies are evaluated."""
    files = dict.fromkeys(entry.path for entry in scan.evaluate)
    evidence = [each for entry in scan.evaluate[:4] for each in entry.evidence[:1]]
    for function in scan.source_functions():
        if _EVALUATOR.match(function.name):
            files.setdefault(function.path)
            evidence.append(quote(function, f"def {function.name}"))
    return _surrounding(files, evidence)


def _surrounding(files: Iterable[str], evidence: Iterable[SourceLine]) -> SourceFinding:
    named = tuple(files)
    return SourceFinding(
        files=named[:_MOST_FILES],
        external=not named,
        confidence=0.7 if named else 0.0,
        evidence=tuple(evidence)[:8],
    )


class _Weight(NamedTuple):
    """A weight as it is written somewhere, and the function its configuration names."""

    name: str
    where: str
    value: float | None
    function: str


def find_terms(scan: RepositoryScan) -> tuple[RewardTerm, ...]:
    """Return every term with the place of its code and of its weight, whichever exist."""
    codes: dict[str, str] = {}
    methods: list[tuple[str, str]] = []
    for function in scan.source_functions():
        where = f"{function.path}:{function.line}"
        codes[function.name] = where
        match = _METHOD.match(function.name)
        if match:  # `_reward_x` also counts as `x`
            name = match[1] or match[2]
            codes[name] = where
            if function.scope and function.name.startswith("_"):
                methods.append((name, where))
    terms: dict[str, RewardTerm] = {}
    for name, place, value, function in _weights(scan):
        code = codes.get(function) or codes.get(name)
        terms.setdefault(name, RewardTerm(name=name, code=code, weight=place, value=value))
    covered = {term.code for term in terms.values()}
    for name, where in methods:
        if name not in terms and where not in covered:
            terms[name] = RewardTerm(name=name, code=where)
    return tuple(terms[name] for name in sorted(terms))[:_MOST_TERMS]


def _weights(scan: RepositoryScan) -> Iterator[_Weight]:
    for facts in scan.sources():
        yield from _from_term_objects(facts)
        for assignment in facts.assignments:
            yield from _from_scales(assignment)
        for call in facts.calls:
            if call.last in {"create", "dict", "ConfigDict"}:
                yield from _from_table(call.scope, call.keywords, f"{call.path}:{call.line}")
    for path, keys in scan.settings.yaml.items():
        in_folder = re.search(r"(^|/)rewards?/", path)
        for key in keys if scan.tree.is_own(path) else ():
            owner = key.path.rpartition(".")[0]
            speaks = _WEIGHTS.search(owner) and (in_folder or _REWARD_SCOPE.search(owner))
            if speaks and _is_weight(key.value):
                yield _Weight(key.last, f"{path}:{key.line}", float(key.value), key.last)


def _from_term_objects(facts: ModuleFacts) -> Iterator[_Weight]:
    named = {
        each.line: each.target.rpartition(".")[2]
        for each in facts.assignments
        if is_symbol(each.value)
    }
    for call in facts.calls:
        if not _TERM_CALLS["reward"].search(call.last):
            continue
        function = call.keywords.get("func", call.args[0] if call.args else "")
        code = function.strip("<>").rpartition(".")[2] if isinstance(function, str) else ""
        name = named.get(call.line) or code
        weight = call.keywords.get("weight")
        value = float(weight) if isinstance(weight, int | float) else None
        if name:
            yield _Weight(name, f"{call.path}:{call.line}", value, code)


def _from_scales(each: Assignment) -> Iterator[_Weight]:
    """`class rewards: class scales: x = 1.0`, and dictionaries called scales."""
    where = f"{each.path}:{each.line}"
    yield from _from_table(each.scope, {each.target: each.value}, where, nested=False)
    table: dict[str, Any] = each.keywords or {}
    if is_table(each.value):
        table = each.value
    yield from _from_table(f"{each.scope}.{each.target}", table, where)


def _from_table(
    owner: str, table: dict[str, Any], where: str, *, nested: bool = True
) -> Iterator[_Weight]:
    """Weights in nested dictionaries: the path must speak of rewards and end in weights."""
    speaks = _WEIGHTS.search(owner) and _REWARD_SCOPE.search(owner)
    for name, value in table.items():
        if nested and is_table(value):
            yield from _from_table(f"{owner}.{name}", value, where)
        elif speaks and _is_weight(value):
            yield _Weight(name, where, float(value), name)


def _is_weight(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
