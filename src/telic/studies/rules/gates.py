"""Launch gates G01 to G23. Each gate is evaluated and recorded, and all gates must be open.

G01 to G12 require a confirmed launch, intact records, valid approvals, and the validated candidate
with its phase, seeds and scope. G13 to G23 require a suitable machine and time, and a command that
is measurable, confirmed and harmless.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from telic.storage.reading import file_hash
from telic.studies import _git_read as git_read
from telic.studies.documents.candidate import CandidateStatus, CheckResult, RunStatus
from telic.studies.errors import (
    BrokenIntegrity,
    EnvironmentBlocked,
    GateRefused,
    InvalidDocument,
    StudyBudgetExceeded,
    StudyError,
)
from telic.studies.evidence.review import is_unreviewed, last_review
from telic.studies.launch._isolation import is_made, mode_of, tree_problems
from telic.studies.launch._machine import preflight
from telic.studies.launch.attempt import LaunchAttempt
from telic.studies.launch.command import shell_problems
from telic.studies.queue import TOKEN, why_seed_is_spent
from telic.studies.rules._table import Problem, Problems, Rule, RuleResult, rule, run_rules
from telic.studies.rules.checks import WRITES_CODE
from telic.studies.rules.results import active_stops, unresolved_exploit
from telic.studies.state import shortfalls

_CONTROL_CHECKS = ("V02", "V09", "V10")
"""checks that apply to a control arm that was accepted earlier"""
_DESTRUCTIVE = re.compile(
    r"--?(?:delete|remove|wipe|purge|clean|overwrite|force[-_]?(?:delete|overwrite|clean)"
    r"|rm|reset[-_]?logs?|clear[-_]?(?:logs?|cache|results?))(?:=(?!false|0|no).*)?$",
    re.IGNORECASE,
)
_INSTALLERS = frozenset({"pip", "pip3", "uv", "conda", "mamba", "apt", "apt-get", "brew", "npm"})
_REMOVERS = frozenset({"rm", "rmdir", "shred", "dd", "mkfs", "truncate"})
_ERRORS: dict[str, type[StudyError]] = {
    "G03": BrokenIntegrity,
    "G08": InvalidDocument,
    "G14": StudyBudgetExceeded,
    "G17": EnvironmentBlocked,
}
"""error class if only this gate is closed"""
_AMEND = "then: telic study contract --amend TEXT"
GATES: dict[str, Rule] = {}


def evaluate(attempt: LaunchAttempt, only: Sequence[str] | None = None) -> tuple[RuleResult, ...]:
    """Evaluate every gate. A gate that cannot be evaluated is closed, with the reason."""
    gates = {code: gate for code, gate in GATES.items() if only is None or code in only}
    return run_rules(gates, attempt)


def refusal(closed: Sequence[CheckResult]) -> StudyError:
    """Return the error for closed gates. Its class and exit code depend on the closed gates."""
    codes = [each.id for each in closed]
    first = "G03" if "G03" in codes else codes[0]
    kind = _ERRORS.get(first, GateRefused) if first == "G03" or len(codes) == 1 else GateRefused
    listed = "; ".join(f"{each.id} ({each.title}): {each.why}" for each in closed)
    fix = "; ".join(f"{code}: {GATES[code].fix}" for code in codes)
    return kind(f"E_{codes[0]}", f"Not launched. {listed}.", hint=f"To fix it: {fix}.")


def _gate(code: str, title: str, fix: str) -> Callable[..., Any]:
    return rule(GATES, code, title, fix)


def _is_control(attempt: LaunchAttempt) -> bool:
    """Return whether the run evaluates an accepted candidate as the control for a challenger."""
    return attempt.held.status == CandidateStatus.ACCEPTED


# ---------------------------------------------------------------------------- agreement


@_gate("G01", "launch confirmed", f"add --confirm {TOKEN}")
def _confirmed(attempt: LaunchAttempt) -> Problems:
    if attempt.request.confirm is None:
        yield "this is a dry run"
    elif attempt.request.confirm != TOKEN:
        yield f"the token is not {TOKEN}"


@_gate("G02", "study open", "should it continue? telic study run --resume --because TEXT")
def _open(attempt: LaunchAttempt) -> Problems:
    if (status := attempt.study.state.study_status) != "open":
        yield f"the study is {status}"


@_gate("G03", "ledger intact", "restore ledger.jsonl from version control, then: telic verify")
def _intact(attempt: LaunchAttempt) -> Problems:
    found = attempt.study.ledger.verify()
    if not found.ok:
        yield f"line {found.bad_seq} of the ledger is invalid: {found.why}"


@_gate("G04", "contract agreed", f"undo the edit of contract.yaml, or agree on it, {_AMEND}")
def _agreed(attempt: LaunchAttempt) -> Problems:
    study = attempt.study
    if not study.is_contract_agreed:
        agreed = (study.state.contract_hash or "none")[:12]
        yield f"contract.yaml ({study.contract_hash[:12]}) differs from the agreed one ({agreed})"


@_gate("G05", "required approvals are valid", "a person approves them: telic study approve")
def _approved(attempt: LaunchAttempt) -> Problems:
    for each in attempt.study.missing_approvals:
        yield f"approval {each.name} is {each.status}: {each.why}"


@_gate("G06", "experiment approved", "a person approves it: telic study approve experiment")
def _experiment_approved(attempt: LaunchAttempt) -> Problems:
    """Require approval of the candidate or its class, and renewed approval after an exploit."""
    name = attempt.request.candidate
    approval = attempt.study.experiment_approval(name, attempt.request.phase)
    if exploit := unresolved_exploit(attempt.study, name):
        yield f"{exploit}; a person may approve it anyway"
    elif approval.status != "approved":
        yield f"approval experiment:{name} is {approval.status}: {approval.why}"


# ---------------------------------------------------------------------------- the candidate


@_gate("G07", "unchanged since validation", "validate it again: telic study run")
def _unchanged(attempt: LaunchAttempt) -> Problems:
    """Compare the candidate with its validated state.

    A launched candidate continues under an amended contract if its checks (G08) still pass and the
    protocol is unchanged. For a control arm, only the content needs to match.
    """
    study, held, phase = attempt.study, attempt.held, attempt.request.phase
    runs_again = _is_control(attempt)
    if runs_again and phase not in ("promotion", "incumbent_validation"):
        yield f"an accepted candidate does not run in {phase}"
        return
    if not runs_again and held.status not in (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED):
        yield f"it is {held.status}, not validated"
        return
    same = {"the candidate": held.content_hash == attempt.candidate.compute_hash()}
    if not runs_again:
        same["the evaluation protocol"] = held.protocol_hash == study.protocol_hash
    if held.status == CandidateStatus.VALIDATED:
        same["the contract"] = held.contract_hash == study.contract_hash
        same["the adapter"] = held.adapter_hash == study.adapter_hash
    for what in (what for what, is_same in same.items() if not is_same):
        yield f"{what} has changed since it was validated"


@_gate("G08", "checks V01 to V16 pass", "revise it: telic study propose FILE --revise CANDIDATE")
def _checked(attempt: LaunchAttempt) -> Problems:
    for check in attempt.checks:
        if not check.passed and (not _is_control(attempt) or check.id in _CONTROL_CHECKS):
            yield f"{check.id} ({check.title}): {check.why}"


@_gate("G10", "phases in order", "which order of phases is intended? Revise its plan")
def _in_order(attempt: LaunchAttempt) -> Problems:
    study, name, phase = attempt.study, attempt.request.candidate, attempt.request.phase
    planned = attempt.candidate.plan.phases
    if not _is_control(attempt) and phase not in planned:
        yield f"{phase} is not in its plan"
    elif not _is_control(attempt) and attempt.held.phase != phase:
        yield f"it is in phase {attempt.held.phase}, not {phase}"
    elif attempt.held.kind != "baseline" and study.incumbent is None:
        yield "no baseline is accepted under this protocol, so there is nothing to compare"
    elif phase == "promotion" and is_unreviewed(study, name):
        yield Problem("it may exploit its reward, and it was not reviewed", "review")
    else:
        for earlier in planned[: planned.index(phase)] if phase in planned else ():
            runs = study.state.runs_of(name, earlier).values()
            if not any(run.status == RunStatus.FINISHED for run in runs):
                yield f"no run of {earlier} has finished"


@_gate("G11", "seed planned and fresh", "use a planned, unused seed of the pool: --seed NUMBER")
def _seed_fresh(attempt: LaunchAttempt) -> Problems:
    study, request, state = attempt.study, attempt.request, attempt.study.state
    phase, seed, name = request.phase, request.seed, request.candidate
    if not study.adapter.seeds.controllable:
        yield "seeds cannot be set in the repository"
    if why := why_seed_is_spent(state, study.contract.seeds, name, phase, seed):
        yield why
    if not _is_control(attempt):
        if seed not in study.planned_seeds(name, phase):
            yield f"{seed} is not planned for {phase}"
        for run_id, run in state.runs_of(name, phase).items():
            is_done = (run.seed, run.status) == (seed, RunStatus.FINISHED) and phase != "smoke"
            if is_done and run.revision == attempt.held.revision:  # smoke may test determinism
                yield f"{run_id} has finished with this seed"


# ---------------------------------------------------------------------------- the machine


@_gate(
    "G13",
    "hardware of the contract",
    f"may it run here? Allow it in the contract's hardware, {_AMEND}",
)
def _hardware(attempt: LaunchAttempt) -> Problems:
    hardware, host = attempt.study.contract.hardware, socket.gethostname()
    if {"local", "localhost", host}.isdisjoint(hardware.hosts):
        yield f"{host} is not one of {', '.join(hardware.hosts)}"
    if foreign := [str(gpu) for gpu in attempt.gpus if gpu not in hardware.gpus]:
        yield f"GPU {', '.join(foreign)} is not in the contract"


@_gate("G14", "fits the budget", f"may it cost more? Raise the contract's budget, {_AMEND}")
def _affordable(attempt: LaunchAttempt) -> Problems:
    yield from shortfalls(attempt.study.state, attempt.reservation, attempt.request.candidate)


@_gate("G15", "no stop rule", "how should the stop rule be handled? See telic study next")
def _not_stopped(attempt: LaunchAttempt) -> Problems:
    for stop in active_stops(attempt.study):
        yield f"{stop.rule}: {stop.why}"


@_gate("G16", "slot and GPU free", "wait, or stop one of the runs: telic study run --stop RUN")
def _place_free(attempt: LaunchAttempt) -> Problems:
    state, contract, request = attempt.study.state, attempt.study.contract, attempt.request
    live = {name: state.runs[name] for name in state.active_runs}
    most = contract.scope.limits.max_concurrent
    if len(live) >= most:
        yield f"{len(live)} of {most} runs are active: {', '.join(live)}"
    if contract.hardware.gpus and not attempt.gpus:
        yield "no GPU of the contract is free"
    template = attempt.study.adapter.outputs.run_dir_template
    if live and template is not None and "{nonce}" not in template:
        yield "outputs.run_dir_template has no {nonce}: outputs of concurrent runs would mix"
    for name, run in live.items():
        if run.gpu is not None and run.gpu in attempt.gpus:
            yield f"{name} is using GPU {run.gpu}"
        wanted = (request.candidate, request.phase, request.seed)
        if (run.candidate, run.phase, run.seed) == wanted:
            yield f"{name} is the same run and is active"


@_gate("G17", "machine ready", "can this machine be given the missing resources?")
def _machine_ready(attempt: LaunchAttempt) -> Problems:
    # Only the driver can report whether a GPU responds.
    gpus = attempt.gpus if attempt.processes else ()
    yield from preflight(attempt.machine, attempt.study.contract.hardware, gpus)


@_gate(
    "G18",
    "runs in its own tree",
    "commit, stash or remove uncommitted changes, or fetch the missing commit",
)
def _isolated(attempt: LaunchAttempt) -> Problems:
    """Require that the run's tree contains exactly the base commit and the candidate's change.

    If the tree does not exist yet, it must be possible to create the tree. The launch checks again.
    """
    study, candidate = attempt.study, attempt.candidate
    mode, base = mode_of(study.folder, candidate), candidate.base_commit
    if mode == "in_place" or is_made(study.folder, candidate) or attempt.is_final:
        yield from tree_problems(study.folder, candidate)
    elif base is None or not git_read.has_commit(study.root, base):
        yield f"commit {base} is missing, so no worktree can be created"


# ---------------------------------------------------------------------------- the command


@_gate(
    "G19",
    "evaluator and metric as agreed",
    f"restore the evaluator, or agree on it: telic study contract --evaluator FILE, {_AMEND}; "
    "earlier measurements are then repeated",
)
def _measured_as_agreed(attempt: LaunchAttempt) -> Problems:
    study, protocol = attempt.study, attempt.study.protocol
    if not study.is_protocol_agreed:
        yield "eval_protocol.yaml differs from the agreed version"
    if not study.is_metric_spec_agreed:
        yield "metric_spec.yaml differs from the agreed version"
    at_home = study.changed_evaluators(study.root)
    in_tree = study.changed_evaluators(attempt.tree) if attempt.tree.is_dir() else []
    for path in at_home:
        yield f"{study.root / path} differs from the protocol's evaluator"
    for path in in_tree if attempt.tree != study.root else ():
        why = f"{attempt.tree / path} differs from the protocol's evaluator"
        yield Problem(why, "" if at_home else "old base")
    if protocol.dataset is not None:
        path = study.root / protocol.dataset
        if not path.is_file():
            yield f"the dataset {protocol.dataset} is missing"
        elif file_hash(path) != protocol.dataset_hash:
            yield f"{protocol.dataset} differs from the protocol's dataset"


@_gate("G20", "commands known, no shell", "complete the commands in adapter.yaml, without a shell")
def _no_shell(attempt: LaunchAttempt) -> Problems:
    for step in attempt.steps:
        yield from shell_problems(step.argv)


@_gate(
    "G21",
    "network off or approved",
    "may it use the network? Approve it, or remove the setting from adapter.yaml",
)
def _network(attempt: LaunchAttempt) -> Problems:
    yield from attempt.environment.problems


@_gate(
    "G22",
    "generated code allowed and reviewed",
    f"may generated code be run? Allow it in the contract's generated_code, {_AMEND}",
)
def _generated_code(attempt: LaunchAttempt) -> Problems:
    study, candidate = attempt.study, attempt.candidate
    is_generated = candidate.origin.model is not None or candidate.kind in WRITES_CODE
    if not is_generated or not (candidate.change.patch or candidate.change.files):
        return
    allowed = study.contract.generated_code
    if allowed is None or not allowed.allowed:
        yield "the contract does not allow generated code"
    elif study.approval("generated_code").status != "approved":
        yield "generated_code is not approved"
    if study.approval("experiment", candidate.id).status == "approved":
        return
    review = last_review(study, candidate.id)
    facts = {} if review is None or study.altered([review.id]) else review.payload
    if facts.get("content_hash") != candidate.compute_hash() or facts.get("passed") is not True:
        yield Problem("no person approved it, and no other agent's review passed it", "review")


@_gate(
    "G23",
    "command harmless",
    "is this harmless? Then fix adapter.yaml, then: telic study approve",
)
def _harmless(attempt: LaunchAttempt) -> Problems:
    refused = {
        "installs_packages_at_runtime": "it installs packages at run time",
        "deletes_results": "it deletes results",
    }
    for hazard in attempt.study.adapter.hazards:
        if hazard.id in refused:
            yield f"{refused[hazard.id]} ({hazard.detail or hazard.id})"
        elif hazard.id == "actuates_hardware":
            name = attempt.request.candidate
            if attempt.study.approval("physical_actuation", name).status != "approved":
                why = f"it moves hardware ({hazard.detail}) and requires a separate approval"
                yield Problem(why, "actuation")
    yield from word_problems(attempt.command.argv)


def word_problems(argv: tuple[str, ...]) -> Iterator[str]:
    """Yield a problem for each argument of a command that deletes files or installs packages."""
    names = [word.rsplit("/", 1)[-1] for word in argv]
    for word in filter(_DESTRUCTIVE.match, argv):
        yield f"{word} deletes existing files"
    if names[0] in _REMOVERS:
        yield f"{argv[0]} removes files"
    # The program itself or a module, e.g. python -m pip install.
    programs = {names[0], *(names[i + 1] for i, word in enumerate(argv[:-1]) if word == "-m")}
    if programs & _INSTALLERS and "install" in argv:
        yield f"{' '.join(argv[:4])} installs packages"
