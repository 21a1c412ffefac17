"""Validate candidates with the checks V01 to V16 and record the validated hashes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from telic.errors import BadFile
from telic.storage.reading import file_hash, read_bytes
from telic.studies import _git_read as git_read
from telic.studies._git_read import Patch, first_match
from telic.studies.candidates import transition
from telic.studies.canonical import content_hash
from telic.studies.contract import overlaps
from telic.studies.documents.base import SYSTEM, DocumentPart
from telic.studies.documents.candidate import (
    Candidate,
    CandidateStatus,
    CheckResult,
    Evidence,
    RunStatus,
)
from telic.studies.documents.contract import BASELINE_PHASES, MIN_SEEDS, PHASES, ROLES, ParamRange
from telic.studies.errors import GateRefused, InvalidDocument
from telic.studies.evidence.audit import GAIN, read_condition
from telic.studies.evidence.robustness import ProbeSummary, curriculum_problems, range_problems
from telic.studies.folder import STATE_FOLDER
from telic.studies.rules._table import Problems, Rule, rule, run_rules
from telic.studies.state import CandidateState, exceeding, left_of, total_amounts
from telic.studies.study import Study

WRITES_CODE = ("reward_engineering", "code", "algorithm", "environment_generation")
_AUTHORING = (CandidateStatus.DRAFT, CandidateStatus.VALIDATED)
_SEED_NAMES = frozenset(
    {"seed", "seeds", "random_seed", "rng_seed", "env_seed", "global_seed", "random_state"}
)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?")
_SEED_WORD = re.compile(r"seed|random_state", re.IGNORECASE)
CHECKS: dict[str, Rule] = {}


# ---------------------------------------------------------------------------- validation


class ValidationOutcome(DocumentPart):
    """Candidate and the results of its checks V01 to V16."""

    id: str
    revision: int
    status: CandidateStatus
    ok: bool
    content_hash: str | None
    checks: tuple[CheckResult, ...] = ()
    problem: str = ""
    """reason why it could not be checked"""


def outcome_of(
    study: Study, name: str, checks: tuple[CheckResult, ...], problem: str = ""
) -> ValidationOutcome:
    """Return the outcome of a validation, with the current state of the candidate."""
    held = study.candidate_state(name)
    return ValidationOutcome(
        id=name,
        revision=held.revision,
        status=held.status,
        ok=not problem and all(check.passed for check in checks),
        content_hash=held.content_hash,
        checks=checks,
        problem=problem,
    )


def check_candidate(
    study: Study, name: str, may_be: tuple[CandidateStatus, ...] = _AUTHORING
) -> tuple[CheckResult, ...]:
    """Run the checks V01 to V16 without side effects. `may_be` lists the allowed statuses."""
    study.candidate_state(name)
    try:
        study.candidate(name)
    except InvalidDocument as error:
        rest = [CheckResult(id=code, passed=False, why="not checked") for code in CHECKS]
        return (CheckResult(id="V01", passed=False, why=error.message), *rest[1:])
    return run_rules(CHECKS, _Case(study, name, may_be))


def validate_candidate(study: Study, name: str) -> ValidationOutcome:
    """Check a draft and record the candidate as validated if every check passes.

    A validated candidate that has changed, or that now fails a check, first becomes a draft again.
    """
    with study.locked():
        if not study.is_contract_agreed:
            raise GateRefused(
                "E_CONTRACT",
                "contract.yaml differs from the agreed version.",
                hint="Undo the edit, or agree on it with: telic study contract --amend TEXT",
            )
        checks = check_candidate(study, name)
        failed = [check.id for check in checks if not check.passed]
        changed = [*changed_since(study, name), *failed]
        if changed and study.candidate_state(name).status == CandidateStatus.VALIDATED:
            to, reason = CandidateStatus.DRAFT, f"{', '.join(changed)} changed or failed"
            transition(study, name, to, SYSTEM, reason, {"changed": changed})
        held = study.candidate_state(name)
        if not failed and held.status == CandidateStatus.DRAFT:
            candidate, ran = study.candidate(name), study.state.runs_of(name).values()
            # After an amendment it continues in its previous phase.
            is_begun = any(run.revision == held.revision for run in ran)
            is_planned = is_begun and held.phase in candidate.plan.phases
            facts = {
                **_present_hashes(study, name),
                "record_hash": content_hash(candidate.file_data()),
                "checks": [{"id": check.id, "passed": check.passed} for check in checks],
                "phase": held.phase if is_planned else candidate.plan.phases[0],
            }
            to, reason = CandidateStatus.VALIDATED, "all checks passed"
            transition(study, name, to, SYSTEM, reason, facts)
        return outcome_of(study, name, checks)


def changed_since(study: Study, name: str) -> tuple[str, ...]:
    """Return what has changed since a candidate was validated."""
    held = study.candidate_state(name)
    try:
        now = _present_hashes(study, name)
    except InvalidDocument:
        return ("content_hash",)
    return tuple(key for key, value in now.items() if getattr(held, key) != value)


def _present_hashes(study: Study, name: str) -> dict[str, Any]:
    return {
        "content_hash": study.candidate(name).compute_hash(),
        "contract_hash": study.contract_hash,
        "protocol_hash": study.protocol_hash,
        "adapter_hash": study.adapter_hash,
    }


def _check(code: str, title: str, fix: str) -> Callable[..., Any]:
    return rule(CHECKS, code, title, fix)


class _Case:
    """Candidate to validate, with its study and earlier attempts."""

    def __init__(self, study: Study, name: str, may_be: tuple[CandidateStatus, ...]) -> None:
        self.study, self.name, self.may_be = study, name, may_be
        self.candidate: Candidate = study.candidate(name)
        self.held: CandidateState = study.candidate_state(name)
        self.folder: Path = study.candidate_folder(name)
        self.others = [each for each in study.state.candidates if each != name]

    @cached_property
    def patch(self) -> Patch | None:
        """Parsed patch, or None if the candidate has none or the patch is not text (V09)."""
        path = self.folder / (self.candidate.change.patch or "")
        try:
            return git_read.read_patch(self.study.root, path) if path.is_file() else None
        except BadFile:
            return None

    @cached_property
    def touched(self) -> tuple[str, ...]:
        """All repository files that the change modifies."""
        added = [file.path for file in self.candidate.change.files]
        return tuple(dict.fromkeys([*(self.patch.files if self.patch else ()), *added]))

    @cached_property
    def evidence(self) -> dict[str, Evidence]:
        """Cited evidence that exists and is unchanged, by id."""
        record = self.candidate
        refs = (*record.evidence_refs, record.reflection_ref, record.dr_probe_ref)
        names = dict.fromkeys(ref for ref in refs if ref is not None)
        altered = self.study.altered(names)
        return {name: self.study.sheet(name) for name in names if name not in altered}


@_check("V01", "complete for its kind", "fill in the missing fields")
def _complete(case: _Case) -> Problems:
    candidate, plan = case.candidate, case.candidate.plan
    if candidate.kind != "baseline" and not candidate.evidence_refs:
        yield "evidence_refs is empty: cite the evidence that motivated it"
    known, base = case.study.base_commits, candidate.base_commit
    if (case.study.is_git or known) and base not in known:
        allowed = " or ".join(known) or "the contract's baseline.commit (not set)"
        yield (
            f"base_commit is {base}, but must be {allowed}; to agree on another commit: "
            "telic study contract --set baseline.commit=HASH --amend TEXT"
        )
    order = [PHASES.index(phase) for phase in plan.phases]
    if not order or order != sorted(set(order)):
        yield f"plan.phases must be some of {', '.join(PHASES)}, each once, in order"
    elif "smoke" not in plan.phases:
        yield "plan.phases must begin with smoke"
    if candidate.kind == "baseline" and plan.phases != BASELINE_PHASES:
        yield f"a baseline runs {' and then '.join(BASELINE_PHASES)} only"
    for phase in plan.phases:
        if not plan.seeds.get(phase):
            yield f"plan.seeds has none for {phase}"
    for phase in plan.seeds.keys() - set(plan.phases):
        yield f"plan.seeds.{phase} belongs to a phase that is not planned"
    changes_files = bool(case.touched or candidate.change.patch or candidate.kind in WRITES_CODE)
    if changes_files and candidate.isolation.mode == "in_place":
        yield "isolation.mode is in_place, but a change of files requires a worktree"


@_check("V02", "consistent, references exist", "fix the references")
def _consistent(case: _Case) -> Problems:
    candidate, folder = case.candidate, case.study.folder
    names = (candidate.id, candidate.task_id, candidate.study_id)
    for named, actual in zip(names, (case.name, folder.task_id, folder.study_id), strict=True):
        if named != actual:
            yield f"its id is {named}, but its folder is {actual}"
    if candidate.revision != case.held.revision:
        yield f"it is revision {candidate.revision}, but the ledger has {case.held.revision}"
    for name in (*candidate.parents, candidate.replicate_of):
        if name is not None and name not in case.others:
            yield f"unknown candidate {name}"
    for ref in (*candidate.evidence_refs, candidate.reflection_ref, candidate.dr_probe_ref):
        if ref is not None and ref not in case.evidence:
            yield f"no intact evidence {ref}"
    ancestors = list(candidate.parents)
    for name in ancestors:  # grows during iteration
        known = case.study.candidate(name).parents if name in case.others else ()
        ancestors += [each for each in known if each not in ancestors]
    if case.name in ancestors:
        yield "it is its own ancestor"


@_check("V03", "allowed by the lifecycle", "propose a child that lists it as a parent")
def _movable(case: _Case) -> Problems:
    if case.held.status not in case.may_be:
        yield f"it is {case.held.status}; required: {' or '.join(sorted(case.may_be))}"
    if case.study.state.study_status != "open":
        yield "the study is not open"


@_check("V04", "kind in scope", "choose a kind from scope.kinds, or amend the contract")
def _kind_in_scope(case: _Case) -> Problems:
    kind, agreed = case.candidate.kind, case.study.contract.scope.kinds
    if kind != "baseline" and kind not in agreed:
        yield f"kind {kind} is not in scope.kinds ({', '.join(agreed)})"


@_check("V05", "parameters in range", "choose values within scope.params, or amend the contract")
def _parameters_in_range(case: _Case) -> Problems:
    overrides, scope = case.candidate.change.overrides, case.study.contract.scope
    if case.candidate.kind == "baseline":
        agreed = case.study.contract.baseline.overrides
        for path, override in overrides.items():
            if agreed.get(path) != override.to:
                yield f"{path} is not one of baseline.overrides"
        return
    for path, override in overrides.items():
        allowed = scope.params.get(path)
        values = override.to if _is_range(override.to) else [override.to]
        if allowed is None:
            yield f"{path} is not in scope.params"
        elif why := next(filter(None, (_why_outside(value, allowed) for value in values)), None):
            yield f"{path} = {override.to!r} {why}"
    changed = sum(each.to != each.from_value for each in overrides.values())
    most = scope.limits.max_changed_params
    if changed > most:
        yield f"{changed} parameters change; the limit scope.limits.max_changed_params is {most}"


def _is_range(value: Any) -> bool:
    pair = cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()
    return len(pair) == 2 and all(map(_is_number, pair)) and pair[0] <= pair[1]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _why_outside(value: Any, allowed: ParamRange) -> str | None:
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


@_check("V06", "steps not too large", "use smaller steps from the parent's value")
def _steps_small(case: _Case) -> Problems:
    """Check that no parameter moves too far from its value in the first parent or the baseline."""
    start = dict(case.study.contract.baseline.overrides)
    for parent in case.candidate.parents[:1]:
        if parent in case.others:
            known = case.study.candidate(parent).change.overrides
            start |= {path: each.to for path, each in known.items()}
    for path, override in case.candidate.change.overrides.items():
        if path in start and start[path] != override.from_value:
            yield f"{path} starts from {start[path]!r}, not from {override.from_value!r}"
        allowed = case.study.contract.scope.params.get(path)
        most = allowed.max_step_ratio if allowed else None
        if most is None or override.to == override.from_value:
            continue
        pairs = [(override.from_value, override.to)]
        if _is_range(override.to) and _is_range(override.from_value):
            pairs = list(zip(override.from_value, override.to, strict=True))
        for old, new in pairs:
            if not (_is_number(old) and _is_number(new)):
                yield f"{path} is limited by a ratio, but {old!r} to {new!r} has none"
            elif old != new and (old == 0 or new / old <= 0):
                yield f"{path} goes from {old:g} to {new:g}, and zero allows no ratio"
            elif old != new and (ratio := max(new / old, old / new)) > most * (1 + 1e-9):
                yield f"{path} changes by a factor of {ratio:.3g}; the maximum is {most:g}"


@_check("V07", "files in scope", "change files of scope.files only, or amend the contract")
def _files_in_scope(case: _Case) -> Problems:
    files = case.study.contract.scope.files
    for why in case.patch.problems if case.patch else ():
        yield f"the patch is invalid: {why}"
    for path in case.touched:
        if path.startswith("/") or ".." in path.split("/"):
            yield f"{path} is outside the repository"
        elif denied := first_match(path, files.deny):
            yield f"{path} is denied by {denied}"
        elif first_match(path, files.allow) is None:
            yield f"{path} is not in scope.files.allow"


@_check("V08", "short enough to review", "split the change")
def _short(case: _Case) -> Problems:
    paths = [case.folder / "files" / file.path for file in case.candidate.change.files]
    lines = len(case.patch.removed) + len(case.patch.added) if case.patch else 0
    lines += sum(len(read_bytes(path).splitlines()) for path in paths if path.is_file())
    most = case.study.contract.scope.limits.max_diff_lines
    if lines > most:
        yield f"{lines} lines change; the limit scope.limits.max_diff_lines is {most}"


@_check("V09", "patch applies", "recreate the patch against base_commit")
def _patch_applies(case: _Case) -> Problems:
    study, change, base = case.study, case.candidate.change, case.candidate.base_commit
    if study.is_git and base is not None and not git_read.has_commit(study.root, base):
        yield f"this clone has no commit {base[:12]}"
    elif change.patch is not None:
        path = case.folder / change.patch
        if case.patch is None:
            yield f"{path.name} is missing or is not text"
        elif file_hash(path) != change.patch_sha256:
            yield f"{path.name} differs from the described patch"
        elif why := git_read.why_patch_fails(study.root, path, base if study.is_git else None):
            yield f"{path.name} does not apply: {why.splitlines()[0]}"
    for file in change.files:
        path = case.folder / "files" / file.path
        if not path.is_file():
            yield f"files/{file.path} is missing"
        elif file_hash(path) != file.sha256:
            yield f"files/{file.path} differs from the described file"


@_check("V10", "evaluator and metric untouched", "do not change evaluator and metric")
def _measure_untouched(case: _Case) -> Problems:
    study = case.study
    protected = {
        "the evaluator": tuple(study.protocol.evaluator_files),
        "an evaluator file of the adapter": study.adapter.files.evaluator.globs,
        "the studies' own records": (f"{STATE_FOLDER}/**",),
    }
    for path in case.touched:
        for what, patterns in protected.items():
            if first_match(path, patterns):
                yield f"{path} is {what}"
    if study.protocol.command is None and case.touched:
        imported = {*study.evaluator_closure(study.root)} - {*study.protocol.evaluator_files}
        for path in imported.intersection(case.touched):
            yield f"{path} is imported by the evaluator"
        if not study.contract.evaluation.measures_training_log:
            yield (
                "it changes code, but its own training log would be measured: set a command in "
                "eval_protocol.yaml (it runs in a checkout of the contract's commit)"
            )
    if not study.is_metric_spec_agreed:
        yield "the metric spec differs from the one in the contract"
    if not study.is_protocol_agreed:
        yield "the evaluation protocol differs from the one in the contract"
    for path in study.changed_evaluators(study.root):
        yield f"the evaluator {path} is missing or differs from the protocol's"


@_check("V11", "hypothesis is falsifiable", "complete hypothesis and falsifier")
def _falsifiable(case: _Case) -> Problems:
    hypothesis, spec = case.candidate.hypothesis, case.study.metric_spec
    for name in ("statement", "mechanism", "falsifier"):
        if not getattr(hypothesis, name).strip():
            yield f"hypothesis.{name} is empty"
    condition = read_condition(hypothesis.falsifier)
    numbers = [GAIN, spec.primary.key, *(rail.key for rail in spec.guardrails)]
    if condition is not None and condition.what not in numbers:  # it could never be checked
        asked = f"hypothesis.falsifier asks for {condition.what}"
        yield f"{asked}, but must use one of {', '.join(numbers)}"
    expected = hypothesis.expected
    parts = (spec.primary, *spec.components, *spec.guardrails)
    metrics = dict.fromkeys(part.key for part in parts)
    if expected is None and case.candidate.kind != "baseline":
        yield "hypothesis.expected is missing: specify a metric and a direction"
    elif expected is not None and expected.metric not in metrics:
        known = ", ".join(metrics)
        yield f"hypothesis.expected.metric {expected.metric} is not in the metric spec ({known})"


@_check("V12", "required evidence cited", "cite the required evidence")
def _evidence_cited(case: _Case) -> Problems:
    candidate = case.candidate
    if candidate.kind == "reward_engineering" or candidate.reflection_ref is not None:
        yield from _citation_problems(case, "reflection", candidate.reflection_ref)
    if candidate.kind == "dr_tuning":
        ref = candidate.dr_probe_ref
        found = list(_citation_problems(case, "dr_probe", ref))
        yield from found
        if ref is not None and not found:
            ranges = {
                path: (float(override.to[0]), float(override.to[1]))
                for path, override in candidate.change.overrides.items()
                if _is_range(override.to)
            }
            summary = ProbeSummary.parse(case.evidence[ref].payload, ref)
            yield from range_problems(case.study, ranges, summary)
    if candidate.kind in ("curriculum", "environment_generation"):
        yield from curriculum_problems(case.study, candidate.curriculum)


def _citation_problems(case: _Case, kind: str, ref: str | None) -> Problems:
    if ref is None:
        yield f"{kind}_ref is missing"
    elif ref not in case.evidence:
        yield f"unknown evidence {ref}"
    elif (found := case.evidence[ref].kind) != kind:
        yield f"{ref} is evidence of {found}, not of {kind}"


@_check("V13", "new seeds from their pool", "use unused seeds of the pool")
def _seeds_fresh(case: _Case) -> Problems:
    """Reject seeds that were used in another role or for a claim about an earlier revision."""
    study, runs = case.study, case.study.state.runs_of(case.name).values()
    if not study.adapter.seeds.controllable:
        yield "according to the adapter, seeds cannot be set, so claims are impossible"
    for shared in overlaps(study.contract):
        yield f"the pools {shared}"
    for phase, seeds in case.candidate.plan.seeds.items():
        role = ROLES[phase]
        seen = {
            run.seed
            for run in runs
            if run.status == RunStatus.FINISHED
            and (
                ROLES[run.phase] != role
                or (role != "selection" and run.revision != case.candidate.revision)
            )
        }
        if outside := [str(x) for x in seeds if x not in study.contract.seeds.pool(role)]:
            yield f"{phase} seeds {', '.join(outside)} are not in the {role} pool"
        if len(set(seeds)) != len(seeds):
            yield f"{phase} lists a seed twice"
        if len(seeds) < MIN_SEEDS.get(phase, 1):
            yield f"{phase} requires at least {MIN_SEEDS[phase]} seeds"
        if used := [str(seed) for seed in seeds if seed in seen]:
            yield f"{phase} seeds {', '.join(used)} were already used for this candidate"


@_check("V14", "estimate fits the budget", "lower plan.est, or amend the budget")
def _affordable(case: _Case) -> Problems:
    """Compare the estimated cost (including past runs) with the budget left by other candidates."""
    plan, budget, state = case.candidate.plan, case.study.contract.budget, case.study.state
    launches = plan.est.launches or sum(map(len, plan.seeds.values()))
    wanted = plan.est.model_copy(update={"launches": launches})
    used = total_amounts(state.budget.spent, state.budget.reserved)
    left = left_of(state.budget_limits, used, own=state.used(candidate=case.name))
    for name, needed, limit in exceeding(wanted, left):
        yield f"it needs {needed:g} {name}, but {limit:g} are left"
    for name, needed, limit in exceeding(wanted, budget.per_candidate):
        yield f"it needs {needed:g} {name}; the limit for one candidate is {limit:g}"
    for name in ("env_steps", "gpu_h", "wall_clock_h"):
        if getattr(budget, name) is not None and getattr(plan.est, name) is None:
            yield f"plan.est.{name} is missing, but the budget limits it"


def _effect(study: Study, candidate: Candidate) -> dict[str, Any]:
    """Return the parameter values that a change sets, in a canonical form.

    Unchanged values are included only if the parent set them, because they are otherwise defaults.
    """
    change = candidate.change
    kept = {
        path
        for name in candidate.parents[:1]
        if name in study.state.candidates
        for path in study.candidate(name).change.overrides
    }
    return {
        "overrides": {
            path: each.to
            for path, each in change.overrides.items()
            if each.to != each.from_value or path in kept
        },
        "patch": change.patch_sha256,
        "files": {each.path: each.sha256 for each in change.files},
        "curriculum": candidate.curriculum,
    }


@_check("V15", "not tried before", "change something else, or set replicate_of")
def _new(case: _Case) -> Problems:
    candidate, study = case.candidate, case.study
    if candidate.kind == "baseline":
        return
    own = content_hash(_effect(study, candidate))  # canonical JSON is equal for 2 and 2.0
    for name in case.others:
        other, status = study.candidate(name), study.candidate_state(name).status
        is_idea = status in (CandidateStatus.DRAFT, CandidateStatus.REJECTED)
        if is_idea and not study.state.runs_of(name):
            continue  # never run
        is_named = name in (*candidate.parents, candidate.replicate_of)
        is_repeat = case.name in (*other.parents, other.replicate_of)
        if not is_named and not is_repeat and content_hash(_effect(study, other)) == own:
            yield f"{name} tried the same change; cite it as a parent or set replicate_of"


@_check("V16", "more than a change of seeds", "change more than seeds")
def _more_than_seeds(case: _Case) -> Problems:
    candidate, seeds = case.candidate, case.study.adapter.seeds
    flags = {flag.lstrip("-+") for flag in (seeds.flag, seeds.env_flag) if flag}
    train = case.study.adapter.commands.train
    managed: set[str] = set()  # parameters set by a placeholder: --steps {steps}, steps={steps}
    for before, word in pairwise(["", *(train.argv if train else ())]):
        name, joint, value = word.partition("=")
        name, value = (name, value) if joint else (before, word)
        if value in ("{steps}", "{seed}", "{run_dir}", "{nonce}"):
            managed.add(name.lstrip("-+").replace("-", "_"))
    for path in candidate.change.overrides:
        last = re.split(r"[./]", path)[-1].replace("-", "_").lower()
        if path.lstrip("-+") in flags or last.lstrip("_") in _SEED_NAMES:
            yield f"{path} sets a seed; seeds belong in plan.seeds"
        if path.lstrip("-+").replace("-", "_") in managed:
            yield f"{path} is set by the adapter's command for all runs"
    if candidate.kind in ("baseline", "dr_probe") or candidate.replicate_of:
        return
    effect = _effect(case.study, candidate)
    sets = candidate.change.overrides.values()
    effect["overrides"] = [each.to for each in sets if each.to != each.from_value]
    if not any(effect.values()):
        yield "only seeds change, so any difference would be due to chance"
    patch, others = case.patch, [value for key, value in effect.items() if key != "patch"]
    if patch is not None and not any(others):
        removed, added = (
            Counter(filter(None, map(_masked, lines))) for lines in (patch.removed, patch.added)
        )
        if removed == added:
            yield "the patch changes nothing but seeds"


def _masked(line: str) -> str:
    """Return a code line without whitespace, comments and seed numbers."""
    code = line.split("#")[0]
    return "".join((_NUMBER.sub("0", code) if _SEED_WORD.search(code) else code).split())
