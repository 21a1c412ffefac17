"""The twenty-four gates in order; all are evaluated, all are recorded, and all must be open.

G01 to G12: the launch is confirmed, the records are sound, people agreed, and it is the candidate
that was checked, in its phase, with its seeds, in its scope. G13 to G24: it may run here and now,
and the command is measured, confirmed and harmless.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from telic.storage.reading import file_hash
from telic.studies import git_read
from telic.studies.budget import shortfalls
from telic.studies.canonical import content_hash
from telic.studies.documents.candidate import CandidateStatus, CheckResult, RunStatus
from telic.studies.documents.metrics import Protocol
from telic.studies.errors import (
    BrokenIntegrity,
    EnvironmentBlocked,
    GateRefused,
    InvalidDocument,
    StudyBudgetExceeded,
    StudyError,
)
from telic.studies.evidence.review import is_unreviewed, last_review
from telic.studies.launch.attempt import LaunchAttempt, launcher_is_confirmed
from telic.studies.launch.command import shell_problems
from telic.studies.launch.isolation import is_made, mode_of, tree_problems
from telic.studies.launch.machine import preflight, run_probe
from telic.studies.queue import CONTROL_PHASES, TOKEN, why_seed_is_spent
from telic.studies.rules.change import RuleFinding, broken_invariants, changed_evaluators, run_rules
from telic.studies.rules.checks import WRITES_CODE
from telic.studies.rules.results import standing_exploit
from telic.studies.rules.stops import standing_stops

_SCOPE_CHECKS = ("V04", "V05", "V06", "V07", "V08")
_CONTROL_CHECKS = ("V02", "V09", "V10")
"""what an accepted candidate is asked again: is it itself, and is it measured as agreed"""

_NEEDS_CONFIRMED = ("commands", "metrics", "seeds")
_REFUSED_HAZARDS = {
    "installs_packages_at_runtime": "it installs packages while it runs",
    "deletes_results": "it deletes results",
}
_DESTRUCTIVE = re.compile(
    r"--?(?:delete|remove|wipe|purge|clean|overwrite|force[-_]?(?:delete|overwrite|clean)"
    r"|rm|reset[-_]?logs?|clear[-_]?(?:logs?|cache|results?))(?:=(?!false|0|no).*)?$",
    re.IGNORECASE,
)
_INSTALLERS = frozenset({"pip", "pip3", "uv", "conda", "mamba", "apt", "apt-get", "brew", "npm"})
_REMOVERS = frozenset({"rm", "rmdir", "shred", "dd", "mkfs", "truncate"})

# Which refusal a caller sees when several gates are shut: the deepest trouble first.
_ERRORS: dict[str, type[StudyError]] = {
    "G03": BrokenIntegrity,
    "G08": InvalidDocument,
    "G14": StudyBudgetExceeded,
    "G17": EnvironmentBlocked,
}


def evaluate(attempt: LaunchAttempt, only: Sequence[str] | None = None) -> tuple[CheckResult, ...]:
    """Evaluate every gate; one that cannot be evaluated is shut, and says why."""
    gates = {code: gate for code, gate in GATES.items() if only is None or code in only}
    return run_rules(gates, attempt, shut=True)


def shut(results: Sequence[CheckResult], *, dry: bool = False) -> list[CheckResult]:
    """Return the gates that are shut; a dry run is not asked whether it is meant."""
    return [each for each in results if not each.passed and not (dry and each.id == "G01")]


def refusal(closed: Sequence[CheckResult]) -> StudyError:
    """Return the error for shut gates; its kind, and so the exit code, follows from which."""
    codes = {each.id for each in closed}
    kind = next((error for code, error in _ERRORS.items() if codes == {code}), GateRefused)
    if "G03" in codes:
        kind = BrokenIntegrity
    listed = "; ".join(f"{each.id} {each.why}" for each in closed)
    return kind(
        f"E_{closed[0].id}",
        f"Not launched. {listed}.",
        hint="telic study run CANDIDATE without --confirm shows every gate.",
    )


# ---------------------------------------------------------------------------- G01 to G06


def is_meant(attempt: LaunchAttempt) -> RuleFinding:
    """G01: the launch was asked for with the exact token; otherwise it is a dry run."""
    request = attempt.request
    if not request.execute:
        return RuleFinding(("this is a dry run",))
    return RuleFinding(() if request.confirm == TOKEN else (f"the token is not {TOKEN}",))


def study_is_open(attempt: LaunchAttempt) -> RuleFinding:
    """G02: the registry resolves to one task and study, and the study is open."""
    study, folder, problems = attempt.study, attempt.study.folder, list[str]()
    if folder.study_id not in study.registry.tasks.get(folder.task_id, ()):
        problems.append(f"the repository has no study {study.name}")
    if study.state.study_status != "open":
        problems.append(f"the study is {study.state.study_status}")
    return RuleFinding(problems, value=study.name)


def ledger_is_whole(attempt: LaunchAttempt) -> RuleFinding:
    """G03: the ledger verifies."""
    found = attempt.study.ledger.verify()
    if not found.ok:
        return RuleFinding((f"line {found.bad_seq} of the ledger is bad: {found.why}",))
    return RuleFinding(value={"seq": found.head.seq, "hash": found.head.hash[:12]})


def contract_is_agreed(attempt: LaunchAttempt) -> RuleFinding:
    """G04: the contract is valid, and is the one that the ledger has."""
    study = attempt.study
    now = study.contract_hash
    if not study.is_contract_agreed:
        agreed = (study.state.contract_hash or "none")[:12]
        return RuleFinding((f"contract.yaml ({now[:12]}) is not the agreed one ({agreed})",))
    return RuleFinding(value=f"version {study.contract.version}")


def approvals_hold(attempt: LaunchAttempt) -> RuleFinding:
    """G05: every required approval is given, for what its subject says today."""
    unmet = attempt.study.missing_approvals
    return RuleFinding(tuple(f"{each.name} is {each.status}: {each.why}" for each in unmet))


def experiment_is_approved(attempt: LaunchAttempt) -> RuleFinding:
    """G06: a person approved this candidate, or a class of candidates that it belongs to.

    What a reviewer calls an exploit needs a person's approval that came after the review.
    """
    name = attempt.request.candidate
    if exploit := standing_exploit(attempt.study, name):
        return RuleFinding((f"{exploit}; a person may approve it all the same",))
    standing = attempt.study.experiment_standing(name, attempt.request.phase)
    if standing.status == "approved":
        return RuleFinding(value=standing.why or "approved by a person")
    return RuleFinding((f"{name} is {standing.status}: {standing.why}",))


# ---------------------------------------------------------------------------- G07 to G12


def is_as_checked(attempt: LaunchAttempt) -> RuleFinding:
    """G07: validated, and nothing it was validated against has changed since.

    A control arm was accepted for what it is: its content alone must be the same. What was launched
    goes on under an amended contract as long as its checks (G08) pass and the protocol is the same.
    """
    study, held, phase = attempt.study, attempt.held, attempt.request.phase
    if held.status == CandidateStatus.ACCEPTED:
        # A control arm: it is measured again beside a challenger, and stays accepted.
        if phase not in CONTROL_PHASES:
            return RuleFinding((f"an accepted candidate does not run in {phase}",))
    elif held.status not in (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED):
        return RuleFinding((f"it is {held.status}, not validated",))
    content = attempt.candidate.compute_hash()
    compared: list[tuple[str, str | None, str | None]] = [
        ("the candidate", held.content_hash, content)
    ]
    if held.status != CandidateStatus.ACCEPTED:
        protocol = study.protocol_hash
        compared.append(("the evaluation protocol", held.protocol_hash, protocol))
    if held.status == CandidateStatus.VALIDATED:
        compared.append(("the contract", held.contract_hash, study.contract_hash))
        compared.append(("the adapter", held.adapter_hash, study.adapter_hash))
    problems = [
        f"{what} has changed since it was validated" for what, then, now in compared if then != now
    ]
    expected = attempt.request.expect
    if expected is not None and not content.startswith(expected):
        problems.append(f"its content hash does not start with {expected}")
    return RuleFinding(problems, value=content[:12])


def checks_pass(attempt: LaunchAttempt) -> RuleFinding:
    """G08: V01 to V16, run again, pass; what was accepted is not judged anew as an idea."""
    is_control = _is_control(attempt)
    checks = [each for each in attempt.checks if not is_control or each.id in _CONTROL_CHECKS]
    return RuleFinding(_failed(checks))


def invariants_hold(attempt: LaunchAttempt) -> RuleFinding:
    """G09: what the candidate promises to leave alone is as it was."""
    return RuleFinding(broken_invariants(attempt.study, attempt.candidate, attempt.tree))


def is_its_turn(attempt: LaunchAttempt) -> RuleFinding:
    """G10: smoke before short trial before promotion."""
    study, name, phase = attempt.study, attempt.request.candidate, attempt.request.phase
    planned, is_control = attempt.candidate.plan.phases, _is_control(attempt)
    if phase not in planned and not is_control:
        return RuleFinding((f"{phase} is not in its plan",))
    if not is_control and attempt.held.phase != phase:
        return RuleFinding((f"it is in phase {attempt.held.phase}, not {phase}",))
    if phase == "promotion" and is_unreviewed(study, name):
        return RuleFinding(("its reward may be gamed, and nobody else has reviewed it",))
    earlier = planned[: planned.index(phase)] if phase in planned else ()
    missing = [
        each
        for each in earlier
        if not any(
            run.status == RunStatus.FINISHED for run in study.state.runs_of(name, each).values()
        )
    ]
    return RuleFinding(tuple(f"no run of {each} has finished" for each in missing), value=phase)


def seed_is_fresh(attempt: LaunchAttempt) -> RuleFinding:
    """G11: the seed is planned, from the right pool, and not yet used up in this role."""
    study, request, problems = attempt.study, attempt.request, list[str]()
    phase, seed, is_control = request.phase, request.seed, _is_control(attempt)
    if not study.adapter.seeds.controllable:
        problems.append("the repository does not let seeds be set")
    pools = study.contract.seeds
    if why := why_seed_is_spent(study.state, pools, request.candidate, phase, seed):
        problems.append(why)
    if not is_control and seed not in study.planned_seeds(request.candidate, phase):
        problems.append(f"{seed} is not planned for {phase}")
    for name, run in study.state.runs_of(request.candidate).items():
        is_same = (run.seed, run.phase, run.status) == (seed, phase, RunStatus.FINISHED)
        is_repeat = is_same and phase != "smoke"  # a repeated smoke run shows determinism
        if is_repeat and not is_control and run.revision == attempt.held.revision:
            problems.append(f"{name} has finished with this seed")
    problems += _retry_problems(attempt)
    return RuleFinding(problems, value=seed)


def stays_in_scope(attempt: LaunchAttempt) -> RuleFinding:
    """G12: parameters and files are those that the contract lets it change."""
    if _is_control(attempt):
        return RuleFinding(value="accepted before")
    return RuleFinding(_failed([each for each in attempt.checks if each.id in _SCOPE_CHECKS]))


def _failed(checks: Sequence[CheckResult]) -> tuple[str, ...]:
    return tuple(f"{check.id}: {check.why}" for check in checks if not check.passed)


def _is_control(attempt: LaunchAttempt) -> bool:
    return attempt.held.status == CandidateStatus.ACCEPTED


def _retry_problems(attempt: LaunchAttempt) -> list[str]:
    """A run that failed or was stopped for a reason is not simply tried again with its seed."""
    request = attempt.request
    if request.retry_of is None:
        return []
    run = attempt.study.state.runs.get(request.retry_of)
    wanted = (request.candidate, request.phase, request.seed)
    if run is None or (run.candidate, run.phase, run.seed) != wanted:
        return [f"{request.retry_of} is not a run of this candidate, phase and seed"]
    if run.may_be_retried:
        return []
    return [f"{request.retry_of} is {run.status}; only lost and preempted runs are retried"]


# ---------------------------------------------------------------------------- G13 to G18


def hardware_is_approved(attempt: LaunchAttempt) -> RuleFinding:
    """G13: host, GPUs and launcher are those of the contract."""
    hardware, gpus, problems = attempt.study.contract.hardware, attempt.gpus, list[str]()
    here = {"local", "localhost", socket.gethostname()}
    if hardware.launcher == "local" and here.isdisjoint(hardware.hosts):
        problems.append(f"{socket.gethostname()} is not one of {', '.join(hardware.hosts)}")
    if foreign := [gpu for gpu in gpus if gpu not in hardware.gpus]:
        problems.append(f"GPU {', '.join(map(str, foreign))} is not in the contract")
    kind = attempt.adapter.launcher.kind
    if kind != hardware.launcher:
        problems.append(
            f"the adapter starts runs with {kind}, the contract allows {hardware.launcher}"
        )
    return RuleFinding(problems, value={"launcher": hardware.launcher, "gpus": list(gpus)})


def fits_budget(attempt: LaunchAttempt) -> RuleFinding:
    """G14: what it reserves is left of every budget."""
    request, reservation = attempt.request, attempt.reservation
    problems = shortfalls(attempt.study.state, reservation, request.candidate, request.phase)
    return RuleFinding(problems, value=reservation.model_dump(exclude_none=True))


def nothing_says_stop(attempt: LaunchAttempt) -> RuleFinding:
    """G15: no stop rule fired."""
    return RuleFinding(tuple(f"{x.rule}: {x.why}" for x in standing_stops(attempt.study)))


def place_is_free(attempt: LaunchAttempt) -> RuleFinding:
    """G16: a place and a GPU are free, and the same run does not live already."""
    state, contract, problems = attempt.study.state, attempt.study.contract, list[str]()
    live = {name: state.runs[name] for name in state.active_runs}
    most = contract.scope.limits.max_concurrent
    if len(live) >= most:
        problems.append(f"{len(live)} of {most} runs are active: {', '.join(live)}")
    if contract.hardware.gpus and not attempt.gpus:
        problems.append("no GPU of the contract is free")
    wanted = (attempt.request.candidate, attempt.request.phase, attempt.request.seed)
    for name, run in live.items():
        if run.gpu is not None and run.gpu in attempt.gpus:
            problems.append(f"{name} has GPU {run.gpu}")
        if (run.candidate, run.phase, run.seed) == wanted:
            problems.append(f"{name} is this very run, and it lives")
    return RuleFinding(problems, value=f"{len(live)} of {most}")


def machine_is_ready(attempt: LaunchAttempt) -> RuleFinding:
    """G17: disk and GPU memory suffice, and the simulator starts where a probe is declared."""
    hardware, adapter = attempt.study.contract.hardware, attempt.adapter
    problems = preflight(
        attempt.machine,
        # Whether a GPU answers is only known to those who may ask its driver.
        gpus=attempt.gpus if attempt.processes else (),
        min_free_gpu_gb=hardware.min_free_gpu_gb,
        min_free_disk_gb=hardware.min_free_disk_gb,
    )
    probe = adapter.launcher.options.get("probe")
    # A probe may take a minute: it runs before the lock is taken, and only on a real request.
    if probe and attempt.request.execute and attempt.processes and not attempt.is_final:
        if not launcher_is_confirmed(adapter):
            problems.append("the adapter's probe is not run before its launcher is confirmed")
        else:
            words = tuple(str(word) for word in probe)
            where = attempt.tree if attempt.tree.is_dir() else attempt.study.root
            complaint = run_probe(words, where, attempt.environment.variables)
            problems += [complaint] if complaint else []
    return RuleFinding(problems, value={"free_disk_gb": attempt.machine.free_disk_gb})


def tree_is_isolated(attempt: LaunchAttempt) -> RuleFinding:
    """G18: it runs in its base with its change, and in nothing else.

    Before the tree is made, a look asks whether it can be made; the launch makes it and asks again.
    """
    study, candidate = attempt.study, attempt.candidate
    mode, base = mode_of(study.folder, candidate), candidate.base_commit
    waived = study.contract.excepted("worktree_required", attempt.now) is not None
    is_there = is_made(study.folder, candidate)
    if mode == "in_place" or is_there or attempt.is_final:
        problems = tree_problems(study.folder, candidate, excepted=waived)
        return RuleFinding(problems, value=mode)
    if mode == "worktree" and (base is None or not git_read.has_commit(study.root, base)):
        return RuleFinding((f"there is no commit {base} to make a worktree from",))
    return RuleFinding(value=f"{mode}, to be made")


# ---------------------------------------------------------------------------- G19 to G24


def measure_is_unchanged(attempt: LaunchAttempt) -> RuleFinding:
    """G19: evaluator and metric files are those of the protocol, in the tree that runs."""
    study, problems = attempt.study, list[str]()
    if not study.is_protocol_agreed:
        problems.append("eval_protocol.yaml is not the agreed one")
    if not study.is_metric_spec_agreed:
        problems.append("metric_spec.yaml is not the agreed one")
    trees = {study.root, attempt.tree} if attempt.tree.is_dir() else {study.root}
    changed = {tree: changed_evaluators(study, tree) for tree in sorted(trees)}
    problems += [
        f"{tree / path} is not the evaluator of the protocol"
        for path in study.protocol.evaluator_files
        for tree, paths in changed.items()
        if path in paths
    ]
    if why := _changed_dataset(study.protocol, study.root):
        problems.append(why)
    agreed = study.contract.evaluation.protocol_hash or ""
    return RuleFinding(problems, value=agreed[:12])


def _changed_dataset(protocol: Protocol, root: Path) -> str | None:
    if protocol.dataset is None:
        return None
    path = root / protocol.dataset
    if not path.is_file():
        return f"the dataset {protocol.dataset} is not there"
    same = file_hash(path) == protocol.dataset_hash
    return None if same else f"{protocol.dataset} is not the dataset of the protocol"


def command_is_confirmed(attempt: LaunchAttempt) -> RuleFinding:
    """G20: the command comes from a confirmed adapter and needs no shell."""
    problems = [
        f"the adapter's {name} are {status}, not confirmed by a person"
        for name in _NEEDS_CONFIRMED
        if (status := _provenance(attempt, name)) != "confirmed"
    ]
    if not launcher_is_confirmed(attempt.adapter):
        problems.append("the adapter's launcher runs commands that no person confirmed")
    problems += shell_problems(attempt.command.argv)
    return RuleFinding(problems, value=list(attempt.command.argv))


def network_is_settled(attempt: LaunchAttempt) -> RuleFinding:
    """G21: offline unless a person approved where it connects to."""
    if attempt.network_approved:
        return RuleFinding(value="approved")
    sources = attempt.adapter.logging.sources
    wants = [source.kind for source in sources if source.network and source.default]
    value = {"network": "offline", "neutralised": wants, "enforced_by": "environment"}
    return RuleFinding(attempt.environment.problems, value=value)


def generated_code_is_reviewed(attempt: LaunchAttempt) -> RuleFinding:
    """G22: code that a model wrote was allowed, and somebody else has looked at it."""
    study, candidate = attempt.study, attempt.candidate
    brings_code = bool(candidate.change.patch or candidate.change.files)
    is_generated = candidate.origin.model is not None or candidate.kind in WRITES_CODE
    if not brings_code or not is_generated:
        return RuleFinding(value="no generated code")
    problems, allowed = list[str](), study.contract.generated_code
    options = attempt.adapter.launcher.options
    if allowed is None or not allowed.allowed:
        problems.append("the contract does not allow generated code")
    elif study.standing("generated_code").status != "approved":
        problems.append("generated_code is not approved")
    elif allowed.sandbox == "confined" and options.get("sandbox") != "confined":
        problems.append("the contract wants it confined, and this launcher does not confine")
    if not _is_reviewed(attempt):
        problems.append("no review of it by somebody else passed")
    return RuleFinding(problems)


def command_is_harmless(attempt: LaunchAttempt) -> RuleFinding:
    """G23: it moves no hardware, deletes nothing and installs nothing."""
    problems: list[str] = []
    for hazard in attempt.adapter.hazards:
        if hazard.id in _REFUSED_HAZARDS:
            problems.append(f"{_REFUSED_HAZARDS[hazard.id]} ({hazard.detail or hazard.id})")
        elif hazard.id == "actuates_hardware" and not _may_move(attempt):
            problems.append(f"it moves hardware ({hazard.detail}), which needs its own approval")
    return RuleFinding((*problems, *word_problems(attempt.command.argv)))


def launcher_is_valid(attempt: LaunchAttempt) -> RuleFinding:
    """G24: the whole command is known, and asks nothing of its launcher that a run may not."""
    value = content_hash([step.model_dump() for step in attempt.steps])[:12]
    return RuleFinding(attempt.launcher_problems, value=value)


def word_problems(argv: tuple[str, ...]) -> list[str]:
    """Return which words of a command delete or install."""
    names = [word.rsplit("/", 1)[-1] for word in argv]
    problems = [f"{word} destroys what is there" for word in argv if _DESTRUCTIVE.match(word)]
    if names[0] in _REMOVERS:
        problems.append(f"{argv[0]} removes files")
    # The program itself, or a module: python -m pip install.
    programs = {names[0], *(names[i + 1] for i, w in enumerate(argv[:-1]) if w == "-m")}
    if programs & _INSTALLERS and "install" in argv:
        problems.append(f"{' '.join(argv[:4])} installs packages")
    return problems


def _may_move(attempt: LaunchAttempt) -> bool:
    standing = attempt.study.standing("physical_actuation", attempt.request.candidate)
    return standing.status == "approved"


def _provenance(attempt: LaunchAttempt, name: str) -> str:
    """Return how sure the adapter is of a section: of all of it, or of the part that is used."""
    adapter = attempt.adapter
    used = "smoke" if attempt.spec is adapter.commands.smoke else "train"
    part = adapter.provenance.get(f"{name}.{used}") if name == "commands" else None
    source = part or adapter.provenance.get(name)
    return source.status if source else "unknown"


def _is_reviewed(attempt: LaunchAttempt) -> bool:
    """Return whether the last review that counts is of what it is now, and found nothing."""
    study = attempt.study
    sheet = last_review(study, attempt.request.candidate)
    if sheet is None or study.altered([sheet.id]):
        return False
    is_same = sheet.payload.get("content_hash") == attempt.candidate.compute_hash()
    return is_same and sheet.payload.get("passed") is True


GATES: dict[str, Callable[[LaunchAttempt], RuleFinding]] = {
    "G01": is_meant,
    "G02": study_is_open,
    "G03": ledger_is_whole,
    "G04": contract_is_agreed,
    "G05": approvals_hold,
    "G06": experiment_is_approved,
    "G07": is_as_checked,
    "G08": checks_pass,
    "G09": invariants_hold,
    "G10": is_its_turn,
    "G11": seed_is_fresh,
    "G12": stays_in_scope,
    "G13": hardware_is_approved,
    "G14": fits_budget,
    "G15": nothing_says_stop,
    "G16": place_is_free,
    "G17": machine_is_ready,
    "G18": tree_is_isolated,
    "G19": measure_is_unchanged,
    "G20": command_is_confirmed,
    "G21": network_is_settled,
    "G22": generated_code_is_reviewed,
    "G23": command_is_harmless,
    "G24": launcher_is_valid,
}
