"""A candidate as checks see it, and the checks of its change: V04 to V10, V15 and V16."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from telic.errors import BadFile, TelicError
from telic.storage.reading import file_hash, read_bytes, read_text
from telic.studies import git_read
from telic.studies.budget import left_by_others
from telic.studies.canonical import content_hash, utc_now
from telic.studies.documents.adapter import Adapter
from telic.studies.documents.candidate import (
    Candidate,
    CandidateStatus,
    CheckResult,
    Evidence,
    Invariant,
    Override,
    RunStatus,
)
from telic.studies.documents.contract import Amounts, ParamRange, Phase
from telic.studies.folder import STATE_FOLDER
from telic.studies.git_read import Patch, first_match, read_patch
from telic.studies.state import CandidateState
from telic.studies.study import Study

_SEED_NAMES = frozenset(
    {"seed", "seeds", "random_seed", "rng_seed", "env_seed", "global_seed", "random_state"}
)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?")
_SEED_WORD = re.compile(r"seed|random_state", re.IGNORECASE)
Subject = TypeVar("Subject")


class RuleFinding(NamedTuple):
    """What a rule found; without problems it holds."""

    problems: Sequence[str] = ()
    value: Any = None


def run_rules(
    rules: Mapping[str, Callable[[Subject], RuleFinding]], subject: Subject, *, shut: bool
) -> tuple[CheckResult, ...]:
    """Run every rule of a table; one that fails does not spare the others.

    `shut` makes a rule that cannot be evaluated fail with the reason; else the error is raised.
    """
    results: list[CheckResult] = []
    for code, rule in rules.items():
        try:
            finding = rule(subject)
        except TelicError as error:
            if not shut:
                raise
            finding = RuleFinding((str(error),))
        why = "; ".join(finding.problems)
        results.append(CheckResult(id=code, passed=not why, value=finding.value, why=why))
    return tuple(results)


def broken_invariants(study: Study, candidate: Candidate, tree: Path) -> tuple[str, ...]:
    """Return what a candidate promises to leave alone and what, in a tree, is not as it was."""
    return tuple(
        why for each in candidate.invariants if (why := _broken(study, candidate, each, tree))
    )


def _broken(study: Study, candidate: Candidate, invariant: Invariant, tree: Path) -> str | None:
    args = invariant.args
    match invariant.check:
        case "file_unchanged":
            path = str(args.get("path"))
            file = tree / path
            same = file.is_file() and file_hash(file) == args.get("sha256")
            return None if same else f"{path} is not what the candidate says it is"
        case "metric_untouched":
            same = study.is_metric_spec_agreed
            return None if same else "the metric spec is not the agreed one"
        case "eval_untouched":
            same = study.is_protocol_agreed
            return None if same else "the evaluation protocol is not the agreed one"
        case "param_in_range":
            name = str(args.get("param") or args.get("path"))
            override = candidate.change.overrides.get(name)
            low, high = args.get("min"), args.get("max")
            value = None if override is None else override.to
            is_low = value is not None and low is not None and value < low
            is_high = value is not None and high is not None and value > high
            return f"{name}={value} leaves {low} to {high}" if is_low or is_high else None


class OtherCandidate(NamedTuple):
    """Another candidate of the study."""

    candidate: Candidate
    status: CandidateStatus
    had_runs: bool

    @property
    def counts(self) -> bool:
        """Whether it was tried or is about to be; a draft or a withdrawn idea was not."""
        return self.status not in (CandidateStatus.DRAFT, CandidateStatus.REJECTED) or self.had_runs


class UsedSeed(NamedTuple):
    """A seed of a finished run of this candidate."""

    phase: Phase
    seed: int
    revision: int
    """of the candidate at that time"""


class CandidateCase:
    """A candidate, the agreement it must fit, and what was tried before.

    Args:
        study: it belongs to.
        name: as the folder and the ledger call it.
        may_be: statuses from which the request makes sense.
    """

    def __init__(self, study: Study, name: str, may_be: Iterable[CandidateStatus]) -> None:
        self.study = study
        self.name = name
        self.may_be = frozenset(may_be)
        self.now = utc_now()

    @cached_property
    def candidate(self) -> Candidate:
        """The record on disk."""
        return self.study.candidate(self.name)

    @cached_property
    def held(self) -> CandidateState:
        """The candidate as the ledger has it."""
        return self.study.candidate_state(self.name)

    @cached_property
    def folder(self) -> Path:
        """The folder of its current revision."""
        return self.study.candidate_folder(self.name)

    @property
    def patch_file(self) -> Path | None:
        """The patch, when the candidate names one."""
        name = self.candidate.change.patch
        return None if name is None else self.folder / name

    @cached_property
    def patch(self) -> Patch | None:
        """What the patch does; None when there is none, or none that is text."""
        path = self.patch_file
        if path is None or not path.is_file():
            return None
        try:
            return read_patch(read_text(path))
        except BadFile:  # V09 says so
            return None

    @cached_property
    def touched(self) -> tuple[str, ...]:
        """Every file of the repository that the change writes."""
        brought = [file.path for file in self.candidate.change.files]
        return tuple(dict.fromkeys([*(self.patch.files if self.patch else ()), *brought]))

    @cached_property
    def evidence(self) -> dict[str, Evidence]:
        """What it refers to and the study has unaltered, by id."""
        record = self.candidate
        refs = (*record.evidence_refs, record.reflection_ref, record.dr_probe_ref)
        names = dict.fromkeys(ref for ref in refs if ref is not None)
        altered = self.study.altered(names)
        return {name: self.study.sheet(name) for name in names if name not in altered}

    @cached_property
    def others(self) -> dict[str, OtherCandidate]:
        """The other candidates of the study."""
        state = self.study.state
        tried = {run.candidate for run in state.runs.values()}
        return {
            name: OtherCandidate(self.study.candidate(name), held.status, name in tried)
            for name, held in state.candidates.items()
            if name != self.name
        }

    @cached_property
    def used_seeds(self) -> tuple[UsedSeed, ...]:
        """Seeds of its finished runs."""
        return tuple(
            UsedSeed(run.phase, run.seed, run.revision)
            for run in self.study.state.runs_of(self.name).values()
            if run.status == RunStatus.FINISHED
        )

    @cached_property
    def left(self) -> Amounts:
        """Budget that others have neither spent nor reserved."""
        return left_by_others(self.study.state, self.name)


# ---------------------------------------------------------------------------- V04 to V08


def kind_in_scope(case: CandidateCase) -> RuleFinding:
    """V04: the kind of change was agreed on; a baseline always is."""
    kind, agreed = case.candidate.kind, case.study.contract.scope.kinds
    if kind == "baseline" or kind in agreed:
        return RuleFinding()
    return RuleFinding((f"kind {kind} is not in scope.kinds ({', '.join(agreed)})",))


def params_in_range(case: CandidateCase) -> RuleFinding:
    """V05: every changed parameter is known and its new value allowed."""
    overrides, scope = case.candidate.change.overrides, case.study.contract.scope
    if case.candidate.kind == "baseline":
        agreed = case.study.contract.baseline.overrides
        extra = [path for path, override in overrides.items() if agreed.get(path) != override.to]
        return RuleFinding([f"{path} is not one of baseline.overrides" for path in extra])
    problems = list[str]()
    for path, override in overrides.items():
        allowed = scope.params.get(path)
        if allowed is None:
            problems.append(f"{path} is not in scope.params")
        elif why := _why_outside(override.to, allowed):
            problems.append(f"{path} = {override.to!r} {why}")
    most = scope.limits.max_changed_params
    if len(overrides) > most:
        said = f"{len(overrides)} parameters change; scope.limits.max_changed_params is {most}"
        problems.append(said)
    return RuleFinding(problems, value=len(overrides))


def is_range(value: Any) -> bool:
    """Return whether a value is two numbers, the first not above the second."""
    pair = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()
    return len(pair) == 2 and all(map(_is_number, pair)) and pair[0] <= pair[1]


def _why_outside(value: Any, allowed: ParamRange) -> str | None:
    if is_range(value):
        return _why_outside(value[0], allowed) or _why_outside(value[1], allowed)
    is_number = _is_number(value)
    fits = {
        "float": is_number,
        "int": is_number and float(value).is_integer(),
        "bool": isinstance(value, bool),
        "str": isinstance(value, str),
    }
    if not fits[allowed.type]:
        return f"is not of type {allowed.type}"
    if allowed.choices is not None and value not in allowed.choices:
        return f"is not one of {', '.join(map(str, allowed.choices))}"
    if is_number and allowed.min is not None and value < allowed.min:
        return f"is below {allowed.min:g}"
    if is_number and allowed.max is not None and value > allowed.max:
        return f"is above {allowed.max:g}"
    return None


def steps_are_small(case: CandidateCase) -> RuleFinding:
    """V06: no parameter moves by more than its ratio, counted from where it really is."""
    problems = list[str]()
    for path, override in case.candidate.change.overrides.items():
        is_known, start = _known_start(case, path)
        if is_known and start != override.from_value:
            problems.append(f"{path} starts from {start!r}, not from {override.from_value!r}")
        allowed = case.study.contract.scope.params.get(path)
        if allowed and allowed.max_step_ratio is not None and override.to != override.from_value:
            problems += _ratio_problems(path, *_ends(override), allowed.max_step_ratio)
    return RuleFinding(problems)


def _known_start(case: CandidateCase, path: str) -> tuple[bool, Any]:
    """Return the value the first parent or the baseline gives a parameter, where one does."""
    for parent in case.candidate.parents[:1]:
        tried = case.others.get(parent)
        if tried and path in tried.candidate.change.overrides:
            return True, tried.candidate.change.overrides[path].to
    agreed = case.study.contract.baseline.overrides
    return path in agreed, agreed.get(path)


def _ends(override: Override) -> tuple[list[Any], list[Any]]:
    """Return old and new values side by side; a range has two."""
    if is_range(override.to) and is_range(override.from_value):
        return list(override.from_value), list(override.to)
    return [override.from_value], [override.to]


def _ratio_problems(path: str, before: list[Any], after: list[Any], most: float) -> list[str]:
    problems = list[str]()
    for old, new in zip(before, after, strict=True):
        if not (_is_number(old) and _is_number(new)):
            problems.append(f"{path} may move by a ratio, but {old!r} to {new!r} has none")
        elif old != new and (old == 0 or new / old <= 0):
            problems.append(f"{path} goes from {old:g} to {new:g}: through zero no ratio holds")
        elif old != new and (ratio := max(new / old, old / new)) > most * (1 + 1e-9):
            problems.append(f"{path} changes by a factor of {ratio:.3g}; {most:g} is the most")
    return problems


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def files_in_scope(case: CandidateCase) -> RuleFinding:
    """V07: every touched file is allowed and none is denied."""
    files, problems = case.study.contract.scope.files, list[str]()
    if case.patch is not None:
        problems += [f"the patch cannot be accepted: {why}" for why in case.patch.problems]
    for path in case.touched:
        if path.startswith("/") or ".." in path.split("/"):
            problems.append(f"{path} leaves the repository")
        elif denied := first_match(path, files.deny):
            problems.append(f"{path} is denied by {denied}")
        elif first_match(path, files.allow) is None:
            problems.append(f"{path} is not in scope.files.allow")
    return RuleFinding(problems, value=list(case.touched))


def is_small(case: CandidateCase) -> RuleFinding:
    """V08: the change has few enough lines to be read."""
    lines = case.patch.changed_lines if case.patch else 0
    for file in case.candidate.change.files:
        path = case.folder / "files" / file.path
        if path.is_file():
            lines += read_bytes(path).count(b"\n")
    most = case.study.contract.scope.limits.max_diff_lines
    if lines > most:
        return RuleFinding((f"{lines} lines change; scope.limits.max_diff_lines is {most}",), lines)
    return RuleFinding(value=lines)


# ---------------------------------------------------------------------------- V09 and V10


def patch_applies(case: CandidateCase) -> RuleFinding:
    """V09: the patch applies cleanly to its base, and brought files are the ones described."""
    study, base, problems = case.study, case.candidate.base_commit, list[str]()
    if study.is_git and base is not None and not git_read.has_commit(study.root, base):
        problems.append(f"this clone has no commit {base[:12]}")
    elif (patch := case.patch_file) is not None:
        problems += _patch_problems(case, patch)
    for file in case.candidate.change.files:
        path = case.folder / "files" / file.path
        if not path.is_file():
            problems.append(f"files/{file.path} is missing")
        elif file_hash(path) != file.sha256:
            problems.append(f"files/{file.path} is not the file that was described")
    return RuleFinding(problems)


def _patch_problems(case: CandidateCase, patch: Path) -> list[str]:
    root = case.study.root
    if case.patch is None:
        return [f"{patch.name} is missing or is not text beside candidate.json"]
    if file_hash(patch) != case.candidate.change.patch_sha256:
        return [f"{patch.name} is not the patch that was described"]
    base = case.candidate.base_commit if case.study.is_git else None
    if why := git_read.why_patch_fails(root, patch, base):
        return [f"{patch.name} does not apply: {why.splitlines()[0]}"]
    hidden = set(git_read.patched_paths(root, patch)) - set(case.patch.files)
    return [f"git would also write {path}, which the patch does not show" for path in hidden]


def measure_untouched(case: CandidateCase) -> RuleFinding:
    """V10: evaluator, metric and protocol are what was agreed on, and the change avoids them."""
    study = case.study
    protected = {
        "the evaluator": tuple(study.protocol.evaluator_files),
        "an evaluator file of the adapter": study.adapter.files.evaluator.globs,
        "the studies' own records": (f"{STATE_FOLDER}/**",),
    }
    if study.metric_spec.extractor.kind == "python_file":
        protected["the metric extractor"] = (study.metric_spec.extractor.path,)
    problems = [
        f"{path} is {what}"
        for path in case.touched
        for what, patterns in protected.items()
        if first_match(path, patterns)
    ]
    if not study.is_metric_spec_agreed:
        problems.append("the metric spec is not the one the contract names")
    if not study.is_protocol_agreed:
        problems.append("the evaluation protocol is not the one the contract names")
    for path in changed_evaluators(study, study.root):
        there = (study.root / path).is_file()
        said = "is not the one of the protocol" if there else "is missing"
        problems.append(f"the evaluator {path} {said}")
    return RuleFinding(problems)


def changed_evaluators(study: Study, tree: Path) -> list[str]:
    """Return the evaluator files of the protocol that are missing in a tree or differ there."""
    return [
        path
        for path, agreed in study.protocol.evaluator_files.items()
        if not (tree / path).is_file() or file_hash(tree / path) != agreed
    ]


# ---------------------------------------------------------------------------- V15 and V16


def effective_change(candidate: Candidate) -> dict[str, Any]:
    """Return what the change comes to, however it is written: the values it sets, no no-ops."""
    change = candidate.change
    return {
        "overrides": {
            path: _same_number(each.to)
            for path, each in change.overrides.items()
            if each.to != each.from_value
        },
        "patch": change.patch_sha256,
        "files": {each.path: each.sha256 for each in change.files},
        "params": None if change.params is None else list(map(_same_number, change.params)),
        "curriculum": candidate.curriculum,
    }


def effective_hash(candidate: Candidate) -> str:
    """Return one name for everything that comes to the same change."""
    return content_hash(effective_change(candidate))


def _same_number(value: Any) -> Any:
    """Write 2 and 2.0 alike."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_new(case: CandidateCase) -> RuleFinding:
    """V15: nobody tried the same effective change, or the earlier try is named."""
    candidate = case.candidate
    if candidate.kind == "baseline":
        return RuleFinding()
    own = effective_hash(candidate)
    named = {*candidate.parents, candidate.replicate_of}
    same = [
        name
        for name, other in case.others.items()
        if other.counts
        and case.name not in (*other.candidate.parents, other.candidate.replicate_of)
        and effective_hash(other.candidate) == own
    ]
    said = "tried the same change; cite it as a parent or set replicate_of"
    problems = [f"{name} {said}" for name in same if name not in named]
    return RuleFinding(problems, value=same or None)


def is_more_than_a_seed(case: CandidateCase) -> RuleFinding:
    """V16: a change of seeds only, or no change at all, is no idea."""
    candidate = case.candidate
    problems = [
        f"{path} sets a seed; seeds belong in plan.seeds"
        for path in candidate.change.overrides
        if sets_seed(path, case.study.adapter)
    ]
    if candidate.kind in ("baseline", "dr_probe") or candidate.replicate_of:
        return RuleFinding(problems)
    change = effective_change(candidate)
    if not any(change.values()):
        problems.append("nothing changes: with other seeds only, luck would look like progress")
    only_patch = not any(value for key, value in change.items() if key != "patch")
    if case.patch is not None and only_patch and is_seed_patch(case.patch):
        problems.append("the patch changes nothing but seeds")
    return RuleFinding(problems)


def sets_seed(path: str, adapter: Adapter) -> bool:
    """Return whether an override path names a seed."""
    flags = {f.lstrip("-+") for f in (adapter.seeds.flag, adapter.seeds.env_flag) if f}
    last = re.split(r"[./]", path)[-1].replace("-", "_").lower()
    return path.lstrip("-+") in flags or last in _SEED_NAMES


def is_seed_patch(patch: Patch) -> bool:
    """Return whether a diff replaces lines by the same lines with other seed numbers."""
    removed, added = (Counter(map(_masked, lines)) for lines in (patch.removed, patch.added))
    removed.pop("", None)
    added.pop("", None)
    return removed == added


def _masked(line: str) -> str:
    code = line.split("#")[0]
    if _SEED_WORD.search(code):
        code = _NUMBER.sub("0", code)
    return "".join(code.split())
