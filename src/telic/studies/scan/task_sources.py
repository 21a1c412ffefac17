"""Where reward, termination, curriculum and randomisation are written, and what surrounds them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from telic.studies.scan.context import Scan
from telic.studies.scan.records import SURE_ENOUGH, SourceFinding, TaskSources
from telic.studies.scan.reward_terms import TERM_CALLS, find_terms
from telic.studies.scan.signals import Signals
from telic.studies.scan.surroundings import find_evaluator, find_policy, find_wrappers
from telic.studies.scan.syntax import Class, Function, ModuleFacts
from telic.studies.scan.training_calls import takes_gradient_steps


class Pattern(NamedTuple):
    """Names that speak for one part of the task."""

    function: re.Pattern[str]
    file: re.Pattern[str]
    assigned: re.Pattern[str] | None
    """a variable computed in an environment's step"""


_PATTERNS: dict[str, Pattern] = {
    "reward": Pattern(
        re.compile(
            r"^_?(compute|get|calc|calculate)_(\w+_)?rewards?$|^_reward_\w+|^_?rewards?(_fn|_func"
            r"|_function|_dense|_sparse)?$|^_?(compute|get)_rew$|^rew(ard)?_[a-z]\w+$|^\w+_reward$"
        ),
        re.compile(r"(^|[/_])rewards?([_/.]|$)"),
        re.compile(r"^(self\.)?_?(\w+_)?(rewards?|rew_buf|rew)$"),
    ),
    "termination": Pattern(
        re.compile(
            r"^_?(check|get|compute|is|has)_?(\w+_)?(terminat\w*|dones?)$|^_?is_done$|^_get_dones$"
            r"|^_?terminations?$|^_?should_terminate$"
        ),
        re.compile(r"(^|[/_])terminations?([_/.]|$)"),
        re.compile(r"^(self\.)?_?(terminated|terminations?|dones?|reset_buf)$"),
    ),
    "curriculum": Pattern(
        re.compile(r"curricul|^_?update_\w*level|difficulty_schedule|terrain_levels"),
        re.compile(r"curricul"),
        None,
    ),
    "randomization": Pattern(
        re.compile(r"^_?(domain_)?randomi[sz]e\w*|domain_rand|^_?push_robots?|^_?apply_randomi"),
        re.compile(r"(^|[/_])(domain_)?randomi[sz]\w*|(^|[/_])events?\.py$"),
        None,
    ),
}
_LEARNER_NAMES = re.compile(
    r"(^|[_.])(normali[sz]\w*|scaled?|clip\w*|log\w*|plot\w*|mean|avg|average|episod\w*|total|print|"
    r"record|save|test|eval\w*|expected|estimat\w*|update|set|add|reset|intrinsic|predict\w*|store|"
    r"shap\w*|relabel\w*|buffer|wrapper|accumul\w*|cumul\w*|range|specs?|space|bounds|moving|"
    r"discount\w*|best|target|max|min|sample\w*|visuali\w*)(_|$)",
    re.I,
)
_ENVIRONMENT = re.compile(r"(Env|Environment|Task|World|Game)")
_YAML_KEYS = {
    "reward": re.compile(r"(^|\.)rewards?(\.|$)|reward_scales"),
    "curriculum": re.compile(r"(^|\.)curriculum(\.|$)"),
    "randomization": re.compile(r"(^|\.)(domain_rand\w*|randomi[sz]ation\w*)(\.|$)"),
}
_MOST_FILES = 60
_FEW = 3


def find_task_sources(scan: Scan) -> TaskSources:
    """Return the files of each part of the task, with the reward's terms."""
    found: dict[str, dict[str, Signals]] = {name: {} for name in _PATTERNS}
    for path in scan.source_files:
        facts = scan.repository.modules[path]
        for part, pattern in _PATTERNS.items():
            for weight, line, note in _signals(scan, path, facts, part, pattern):
                found[part].setdefault(path, Signals(scan.tree.weight(path))).add(
                    weight, path, line, note
                )
    _from_yaml(scan, found)
    terms = find_terms(scan)
    for term in terms:
        path, _, line = (term.code or "").rpartition(":")
        if path and term.weight:
            signals = found["reward"].setdefault(path, Signals(scan.tree.weight(path)))
            signals.add(0.4, path, int(line), f"code of the term {term.name}")
    findings = {part: _finding(scan, part, files) for part, files in found.items()}
    return TaskSources(
        reward=findings["reward"],
        termination=findings["termination"],
        curriculum=findings["curriculum"],
        randomization=findings["randomization"],
        wrappers=find_wrappers(scan),
        policy=find_policy(scan),
        evaluator=find_evaluator(scan),
        terms=terms if not findings["reward"].external else (),
    )


def _signals(
    scan: Scan, path: str, facts: ModuleFacts, part: str, pattern: Pattern
) -> Iterator[tuple[float, int, str]]:
    in_file = bool(pattern.file.search(path.lower()))
    classes = {f"{each.scope}.{each.name}".lstrip("."): each for each in facts.classes}
    for function in facts.functions:
        if not pattern.function.search(function.name):
            continue
        if part in ("reward", "termination") and _is_learners(
            scan, path, function, classes, in_file
        ):
            continue
        yield (0.5, function.line, f"def {function.name}")
    for call in facts.calls:
        if TERM_CALLS[part].search(call.last):
            yield (0.5, call.line, f"{call.last}(…)")
    if in_file and facts.functions and part != "termination":
        yield (0.4, 1, "named after it")
    if pattern.assigned:
        yield from _assembled(scan, path, facts, classes, pattern.assigned)
    if part in ("curriculum", "randomization"):
        for each in facts.classes:
            if pattern.function.search(each.name.lower()):
                yield (0.4, each.line, f"class {each.name}")


def _is_learners(
    scan: Scan, path: str, function: Function, classes: dict[str, Class], in_file: bool
) -> bool:
    """Whether a reward-like name belongs to a learner's bookkeeping, not to a task."""
    if function.name in {"reward", "rewards"} and "property" in function.decorators:
        return True
    is_term = function.name.startswith(("_reward_", "_rew_"))
    if not is_term and _LEARNER_NAMES.search(function.name):
        return True
    owner = classes.get(function.scope)
    if owner is None:
        return function.scope != "" or not (
            in_file or function.name.startswith(("compute", "reward"))
        )
    return scan.repository.descends(path, owner, "Wrapper")


def _assembled(
    scan: Scan, path: str, facts: ModuleFacts, classes: dict[str, Class], assigned: re.Pattern[str]
) -> Iterator[tuple[float, int, str]]:
    """Reward or end computed inside an environment's own step."""
    steps = {
        f"{each.scope}.{each.name}".lstrip("."): classes.get(each.scope)
        for each in facts.functions
        if each.name in {"step", "_step", "step_env", "post_physics_step", "c_step", "_step_async"}
    }
    for each in facts.assignments:
        owner = steps.get(each.scope)
        if owner is None or not each.computed or not assigned.match(each.target):
            continue
        made = str(each.value)
        if (
            _LEARNER_NAMES.search(each.target)
            or ".step" in made
            or "zeros" in made
            or made.strip("<>") == "float"
        ):
            continue
        named = _ENVIRONMENT.search(owner.name) or any(map(_ENVIRONMENT.search, owner.bases))
        if (
            named
            and not scan.repository.descends(path, owner, "Wrapper")
            and "Wrapper" not in owner.name
        ):
            yield (
                0.5,
                each.line,
                f"{each.target} computed in {owner.name}.{each.scope.rpartition('.')[2]}",
            )
            return


def _from_yaml(scan: Scan, found: dict[str, dict[str, Signals]]) -> None:
    for path, keys in scan.settings.yaml.items():
        if scan.tree.weight(path) < 0.5:
            continue
        for part, pattern in _YAML_KEYS.items():
            key = next((each for each in keys if pattern.search(each.path.lower())), None)
            folder = re.search(rf"(^|/){part}s?/", path)
            if key or folder:
                signals = found[part].setdefault(path, Signals(scan.tree.weight(path)))
                signals.add(0.4, path, key.line if key else 1, f"{part} settings")


def _finding(scan: Scan, part: str, files: dict[str, Signals]) -> SourceFinding:
    reached = set(scan.files(scan.any_train_reach))
    ranked = sorted(files, key=lambda path: (path not in reached, -files[path].confidence, path))
    kept = [path for path in ranked if files[path].confidence >= 0.35]
    doubt = 1.0
    for path in kept:
        doubt *= 1 - files[path].confidence
    confidence = round(1 - doubt, 3)
    configured = any(
        TERM_CALLS[part].search(each.note.removesuffix("(…)"))
        for path in kept
        for each in files[path].evidence
    )
    if part in ("reward", "termination") and not configured and _is_side_matter(scan, kept):
        confidence = round(min(confidence, 0.45), 3)
    evidence = tuple(each for path in ranked[:8] for each in files[path].strongest[:2])
    return SourceFinding(
        files=tuple(kept[:_MOST_FILES]),
        external=confidence < SURE_ENOUGH,
        confidence=confidence,
        evidence=evidence,
    )


def _is_side_matter(scan: Scan, files: list[str]) -> bool:
    """A learning library with a toy environment or two does not hold the task's reward."""
    learners = {path for path, call in scan.source_calls() if takes_gradient_steps(call)}
    reached = set(scan.files(scan.train_reach))
    few = len(files) <= max(_FEW, 0.03 * len(scan.source_files))
    return len(learners) >= _FEW and few and reached.isdisjoint(files)
