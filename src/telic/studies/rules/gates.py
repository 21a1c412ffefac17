"""The gates of a launch, G01 to G24: all are evaluated and recorded, and all must be open.

G01 to G12: the launch is confirmed, the records are sound, people agreed, and it is the candidate
that was checked, in its phase, with its seeds, in its scope. G13 to G24: it may run here and now,
and the command is measured, confirmed and harmless.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from typing import TypeVar

from telic.storage.reading import file_hash
from telic.studies import git_read
from telic.studies.budget import shortfalls
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
from telic.studies.launch.attempt import LaunchAttempt
from telic.studies.launch.command import shell_problems
from telic.studies.launch.isolation import is_made, mode_of, tree_problems
from telic.studies.launch.machine import preflight
from telic.studies.queue import TOKEN, why_seed_is_spent
from telic.studies.rules.checks import WRITES_CODE
from telic.studies.rules.results import standing_exploit
from telic.studies.rules.stops import standing_stops
from telic.studies.rules.table import Problem, Problems, Rule, RuleResult, run_rules

_Result = TypeVar("_Result", bound=CheckResult)
_CONTROL_CHECKS = ("V02", "V09", "V10")
"""checks of a control arm: an accepted candidate is not judged again as an idea"""
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
"""errors of gates that are shut alone"""


def evaluate(attempt: LaunchAttempt, only: Sequence[str] | None = None) -> tuple[RuleResult, ...]:
    """Evaluate every gate; one that cannot be evaluated is shut, and says why."""
    gates = {code: gate for code, gate in GATES.items() if only is None or code in only}
    return run_rules(gates, attempt)


def shut(results: Sequence[_Result], *, dry: bool = False) -> list[_Result]:
    """Return the gates that are shut; a dry run needs no confirmation."""
    return [each for each in results if not each.passed and not (dry and each.id == "G01")]


def refusal(closed: Sequence[CheckResult]) -> StudyError:
    """Return the error for shut gates; its kind, and so the exit code, follows from which."""
    codes = {each.id for each in closed}
    first = "G03" if "G03" in codes else closed[0].id
    kind = _ERRORS.get(first, GateRefused) if first == "G03" or len(codes) == 1 else GateRefused
    listed = "; ".join(f"{each.id} {each.why}" for each in closed)
    return kind(
        f"E_{closed[0].id}",
        f"Not launched. {listed}.",
        hint="telic study run CANDIDATE without --confirm shows every gate.",
    )


def _is_control(attempt: LaunchAttempt) -> bool:
    """Return whether it runs again next to a challenger, and stays accepted."""
    return attempt.held.status == CandidateStatus.ACCEPTED


# ---------------------------------------------------------------------------- G01 to G06


def _confirmed(attempt: LaunchAttempt) -> Problems:
    if not attempt.request.execute:
        yield "this is a dry run"
    elif attempt.request.confirm != TOKEN:
        yield f"the token is not {TOKEN}"


def _open(attempt: LaunchAttempt) -> Problems:
    study, folder = attempt.study, attempt.study.folder
    if folder.study_id not in study.registry.tasks.get(folder.task_id, ()):
        yield f"the repository has no study {study.name}"
    if study.state.study_status != "open":
        yield f"the study is {study.state.study_status}"


def _intact(attempt: LaunchAttempt) -> Problems:
    found = attempt.study.ledger.verify()
    if not found.ok:
        yield f"line {found.bad_seq} of the ledger is bad: {found.why}"


def _agreed(attempt: LaunchAttempt) -> Problems:
    study = attempt.study
    if not study.is_contract_agreed:
        agreed = (study.state.contract_hash or "none")[:12]
        yield f"contract.yaml ({study.contract_hash[:12]}) is not the agreed one ({agreed})"


def _approved(attempt: LaunchAttempt) -> Problems:
    for each in attempt.study.missing_approvals:
        yield f"{each.name} is {each.status}: {each.why}"


def _experiment_approved(attempt: LaunchAttempt) -> Problems:
    """Require an approval of the candidate or its class; of an exploit, one after the review."""
    name = attempt.request.candidate
    standing = attempt.study.experiment_standing(name, attempt.request.phase)
    if exploit := standing_exploit(attempt.study, name):
        yield f"{exploit}; a person may approve it anyway"
    elif standing.status != "approved":
        yield f"{name} is {standing.status}: {standing.why}"


# ---------------------------------------------------------------------------- G07 to G12


def _unchanged(attempt: LaunchAttempt) -> Problems:
    """Compare it with what was validated.

    A launched candidate continues under an amended contract as long as its checks (G08) pass and
    the protocol is the same; of a control arm only the content must be the same.
    """
    study, held, phase = attempt.study, attempt.held, attempt.request.phase
    runs_again = _is_control(attempt)
    if runs_again and phase not in ("promotion", "incumbent_validation"):
        yield f"an accepted candidate does not run in {phase}"
        return
    if not runs_again and held.status not in (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED):
        yield f"it is {held.status}, not validated"
        return
    content = attempt.candidate.compute_hash()
    same = {"the candidate": held.content_hash == content}
    if not runs_again:
        same["the evaluation protocol"] = held.protocol_hash == study.protocol_hash
    if held.status == CandidateStatus.VALIDATED:
        same["the contract"] = held.contract_hash == study.contract_hash
        same["the adapter"] = held.adapter_hash == study.adapter_hash
    for what, is_same in same.items():
        if not is_same:
            yield f"{what} has changed since it was validated"


def _checked(attempt: LaunchAttempt) -> Problems:
    for check in attempt.checks:
        if not check.passed and (not _is_control(attempt) or check.id in _CONTROL_CHECKS):
            yield f"{check.id}: {check.why}"


def _in_order(attempt: LaunchAttempt) -> Problems:
    study, name, phase = attempt.study, attempt.request.candidate, attempt.request.phase
    planned = attempt.candidate.plan.phases
    if not _is_control(attempt) and phase not in planned:
        yield f"{phase} is not in its plan"
    elif not _is_control(attempt) and attempt.held.phase != phase:
        yield f"it is in phase {attempt.held.phase}, not {phase}"
    elif attempt.held.kind != "baseline" and study.incumbent is None:
        yield "no baseline has been accepted under this protocol, so there is nothing to compare"
    elif phase == "promotion" and is_unreviewed(study, name):
        yield Problem("its reward may be gamed, and it was not reviewed", "review")
    else:
        for earlier in planned[: planned.index(phase)] if phase in planned else ():
            runs = study.state.runs_of(name, earlier).values()
            if not any(run.status == RunStatus.FINISHED for run in runs):
                yield f"no run of {earlier} has finished"


def _seed_fresh(attempt: LaunchAttempt) -> Problems:
    study, request, state = attempt.study, attempt.request, attempt.study.state
    phase, seed, name = request.phase, request.seed, request.candidate
    if not study.adapter.seeds.controllable:
        yield "the repository does not let seeds be set"
    if why := why_seed_is_spent(state, study.contract.seeds, name, phase, seed):
        yield why
    if not _is_control(attempt):
        if seed not in study.planned_seeds(name, phase):
            yield f"{seed} is not planned for {phase}"
        for run_id, run in state.runs_of(name, phase).items():
            is_done = (run.seed, run.status) == (seed, RunStatus.FINISHED) and phase != "smoke"
            if is_done and run.revision == attempt.held.revision:  # smoke may show determinism
                yield f"{run_id} has finished with this seed"
    if request.retry_of is not None:
        run = state.runs.get(request.retry_of)
        if run is None or (run.candidate, run.phase, run.seed) != (name, phase, seed):
            yield f"{request.retry_of} is not a run of this candidate, phase and seed"
        elif not run.may_be_retried:
            yield f"{request.retry_of} is {run.status}; only lost and preempted runs are retried"


# ---------------------------------------------------------------------------- G13 to G18


def _hardware(attempt: LaunchAttempt) -> Problems:
    hardware, kind = attempt.study.contract.hardware, attempt.adapter.launcher.kind
    host = socket.gethostname()
    if hardware.launcher == "local" and {"local", "localhost", host}.isdisjoint(hardware.hosts):
        yield f"{host} is not one of {', '.join(hardware.hosts)}"
    if foreign := [str(gpu) for gpu in attempt.gpus if gpu not in hardware.gpus]:
        yield f"GPU {', '.join(foreign)} is not in the contract"
    if kind != hardware.launcher:
        yield f"the adapter starts runs with {kind}, the contract allows {hardware.launcher}"


def _affordable(attempt: LaunchAttempt) -> Problems:
    request, state = attempt.request, attempt.study.state
    yield from shortfalls(state, attempt.reservation, request.candidate, request.phase)


def _not_stopped(attempt: LaunchAttempt) -> Problems:
    for stop in standing_stops(attempt.study):
        yield f"{stop.rule}: {stop.why}"


def _place_free(attempt: LaunchAttempt) -> Problems:
    state, contract, request = attempt.study.state, attempt.study.contract, attempt.request
    live = {name: state.runs[name] for name in state.active_runs}
    most = contract.scope.limits.max_concurrent
    if len(live) >= most:
        yield f"{len(live)} of {most} runs are active: {', '.join(live)}"
    if contract.hardware.gpus and not attempt.gpus:
        yield "no GPU of the contract is free"
    template = attempt.adapter.outputs.run_dir_template
    if live and template is not None and "{nonce}" not in template:
        yield "outputs.run_dir_template has no {nonce}, so only one run at a time can be told apart"
    for name, run in live.items():
        if run.gpu is not None and run.gpu in attempt.gpus:
            yield f"{name} has GPU {run.gpu}"
        wanted = (request.candidate, request.phase, request.seed)
        if (run.candidate, run.phase, run.seed) == wanted:
            yield f"{name} is the same run and is live"


def _machine_ready(attempt: LaunchAttempt) -> Problems:
    hardware = attempt.study.contract.hardware
    yield from preflight(
        attempt.machine,
        gpus=attempt.gpus if attempt.processes else (),  # only the driver knows whether one answers
        min_free_gpu_gb=hardware.min_free_gpu_gb,
        min_free_disk_gb=hardware.min_free_disk_gb,
    )


def _isolated(attempt: LaunchAttempt) -> Problems:
    """Require that it runs in its base with its change, and in nothing else.

    Before the tree is made, it must be possible to make it; the launch makes it and checks again.
    """
    study, candidate = attempt.study, attempt.candidate
    mode, base = mode_of(study.folder, candidate), candidate.base_commit
    if mode == "in_place" or is_made(study.folder, candidate) or attempt.is_final:
        waived = study.contract.excepted("worktree_required", attempt.now) is not None
        yield from tree_problems(study.folder, candidate, excepted=waived)
    elif mode == "worktree" and (base is None or not git_read.has_commit(study.root, base)):
        yield f"commit {base} is missing, so no worktree can be made"


# ---------------------------------------------------------------------------- G19 to G24


def _measured_as_agreed(attempt: LaunchAttempt) -> Problems:
    study, protocol = attempt.study, attempt.study.protocol
    if not study.is_protocol_agreed:
        yield "eval_protocol.yaml is not the agreed one"
    if not study.is_metric_spec_agreed:
        yield "metric_spec.yaml is not the agreed one"
    at_home = study.changed_evaluators(study.root)
    in_tree = study.changed_evaluators(attempt.tree) if attempt.tree.is_dir() else []
    for path in at_home:
        yield f"{study.root / path} is not the evaluator of the protocol"
    for path in in_tree if attempt.tree != study.root else ():
        why = f"{attempt.tree / path} is not the evaluator of the protocol"
        yield why if at_home else Problem(why, "old base")
    if protocol.dataset is not None:
        path = study.root / protocol.dataset
        if not path.is_file():
            yield f"the dataset {protocol.dataset} is missing"
        elif file_hash(path) != protocol.dataset_hash:
            yield f"{protocol.dataset} is not the dataset of the protocol"


def _command_confirmed(attempt: LaunchAttempt) -> Problems:
    adapter = attempt.adapter
    is_smoke = attempt.spec is adapter.commands.smoke
    command = "commands.smoke" if is_smoke else "commands.train"
    for name in (command, "metrics", "seeds"):
        section = name.partition(".")[0]
        source = adapter.provenance.get(name) or adapter.provenance.get(section)
        if source is None or source.status != "confirmed":
            status = source.status if source else "unknown"
            yield Problem(f"the adapter's {section} are {status}, not confirmed by a person", name)
    yield from shell_problems(attempt.command.argv)


def _network(attempt: LaunchAttempt) -> Problems:
    if not attempt.network_approved:
        yield from attempt.environment.problems


def _generated_code(attempt: LaunchAttempt) -> Problems:
    study, candidate, options = attempt.study, attempt.candidate, attempt.adapter.launcher.options
    brings_code = bool(candidate.change.patch or candidate.change.files)
    is_generated = candidate.origin.model is not None or candidate.kind in WRITES_CODE
    if not brings_code or not is_generated:
        return
    allowed = study.contract.generated_code
    if allowed is None or not allowed.allowed:
        yield "the contract does not allow generated code"
    elif study.standing("generated_code").status != "approved":
        yield "generated_code is not approved"
    elif allowed.sandbox == "confined" and options.get("sandbox") != "confined":
        yield "the contract requires confinement, and this launcher does not confine"
    review = last_review(study, attempt.request.candidate)
    facts = {} if review is None or study.altered([review.id]) else review.payload
    if facts.get("content_hash") != candidate.compute_hash() or facts.get("passed") is not True:
        yield Problem("it has no passing review by another person or agent", "review")


def _harmless(attempt: LaunchAttempt) -> Problems:
    refused = {
        "installs_packages_at_runtime": "it installs packages while it runs",
        "deletes_results": "it deletes results",
    }
    for hazard in attempt.adapter.hazards:
        if hazard.id in refused:
            yield f"{refused[hazard.id]} ({hazard.detail or hazard.id})"
        elif hazard.id == "actuates_hardware":
            name = attempt.request.candidate
            if attempt.study.standing("physical_actuation", name).status != "approved":
                why = f"it moves hardware ({hazard.detail}), which needs its own approval"
                yield Problem(why, "actuation")
    yield from word_problems(attempt.command.argv)


def word_problems(argv: tuple[str, ...]) -> Iterator[str]:
    """Yield which words of a command delete or install."""
    names = [word.rsplit("/", 1)[-1] for word in argv]
    for word in filter(_DESTRUCTIVE.match, argv):
        yield f"{word} deletes existing files"
    if names[0] in _REMOVERS:
        yield f"{argv[0]} removes files"
    # The program itself, or a module: python -m pip install.
    programs = {names[0], *(names[i + 1] for i, word in enumerate(argv[:-1]) if word == "-m")}
    if programs & _INSTALLERS and "install" in argv:
        yield f"{' '.join(argv[:4])} installs packages"


def _launcher_valid(attempt: LaunchAttempt) -> Problems:
    _ = attempt.steps  # raises unless the whole command can be built
    yield from attempt.launcher_problems


EVALUATOR_CHANGED = (
    "restore the evaluator, or agree on the new one: telic study contract --evaluator FILE, then "
    "telic study contract --amend TEXT; earlier measurements are then repeated"
)
GATES: dict[str, Rule] = {
    "G01": Rule("launch confirmed", _confirmed),
    "G02": Rule(
        "study open",
        _open,
        "should the study continue? (telic study run --resume --because TEXT)",
    ),
    "G03": Rule("ledger intact", _intact),
    "G04": Rule("contract agreed", _agreed),
    "G05": Rule("required approvals hold", _approved),
    "G06": Rule("experiment approved", _experiment_approved),
    "G07": Rule("unchanged since validation", _unchanged),
    "G08": Rule("checks V01 to V16 pass", _checked),
    "G10": Rule(
        "phases in order", _in_order, "in which order should its phases run? Revise its plan"
    ),
    "G11": Rule("seed planned and fresh", _seed_fresh),
    "G13": Rule(
        "hardware and launcher of the contract",
        _hardware,
        "may it run here, with that launcher? Then allow it in the contract's hardware",
    ),
    "G14": Rule(
        "fits the budget", _affordable, "may it cost more? Then raise the contract's budget"
    ),
    "G15": Rule("no stop rule", _not_stopped, "what should be done about the stop rule?"),
    "G16": Rule(
        "place and GPU free",
        _place_free,
        "wait, or stop one of the runs: telic study run --stop RUN",
    ),
    "G17": Rule(
        "machine ready", _machine_ready, "can this machine be given the missing resources?"
    ),
    "G18": Rule(
        "runs in its own tree",
        _isolated,
        "commit, stash or remove uncommitted changes, or fetch the missing commit",
    ),
    "G19": Rule("evaluator and metric as agreed", _measured_as_agreed, EVALUATOR_CHANGED),
    "G20": Rule(
        "command confirmed, without shell",
        _command_confirmed,
        "what is the command? edit adapter.yaml, then telic study approve",
    ),
    "G21": Rule(
        "network off or approved",
        _network,
        "may it reach the network? Else take the setting out of adapter.yaml",
    ),
    "G22": Rule(
        "generated code allowed and reviewed",
        _generated_code,
        "may generated code be run? Then allow it in the contract's generated_code",
    ),
    "G23": Rule(
        "command harmless",
        _harmless,
        "is that harmless? Then correct it: edit adapter.yaml, then telic study approve",
    ),
    "G24": Rule(
        "launcher options allowed",
        _launcher_valid,
        "what is wrong with the launcher's options in adapter.yaml?",
    ),
}
