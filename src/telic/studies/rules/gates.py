"""The twenty-four gates in order; all are evaluated, all are recorded, and all must be open.

G01 to G12 stand here: somebody means it, the records are sound, people agreed to it, and it is the
candidate that was checked, in its turn, with its seeds, in its scope.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from telic.studies.documents.candidate import CandidateStatus, CheckResult, RunStatus
from telic.studies.errors import (
    BrokenIntegrity,
    EnvironmentBlocked,
    GateRefused,
    InvalidDocument,
    StudyBudgetExceeded,
    StudyError,
)
from telic.studies.evidence.hacking import is_unreviewed
from telic.studies.launch.attempt import LaunchAttempt
from telic.studies.launch.order import LaunchPermit, mint
from telic.studies.queue import CONTROL_PHASES, TOKEN, why_seed_is_spent
from telic.studies.rules import start_gates
from telic.studies.rules.case import RuleFinding, broken_invariants, run_rules
from telic.studies.rules.objections import standing_exploit
from telic.studies.state_file import committed_head
from telic.studies.study import Study

# Without the lock, somebody else may be between a line and what follows from it.
_PATIENCE_S = (0.0, 0.02, 0.1, 0.3)
_SCOPE_CHECKS = ("V04", "V05", "V06", "V07", "V08")
_CONTROL_CHECKS = ("V02", "V09", "V10")
"""what an accepted candidate is asked again: is it itself, and is it measured as agreed"""

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


def pass_gates(attempt: LaunchAttempt, results: Sequence[CheckResult]) -> LaunchPermit:
    """Give the permit for what was evaluated; raises the refusal when a gate is shut."""
    if [each.id for each in results] != list(GATES):
        raise GateRefused("E_GATES", "Not every gate was evaluated.")
    if closed := shut(results):
        raise refusal(closed)
    return mint(attempt.nonce, attempt.command.hash)


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
        hint="telic study run CANDIDATE without --execute shows every gate.",
    )


# ---------------------------------------------------------------------------- G01 to G06


def is_meant(attempt: LaunchAttempt) -> RuleFinding:
    """G01: --execute and the exact token; a look without them is no launch."""
    request = attempt.request
    if not request.execute:
        return RuleFinding(("this is a dry run",))
    return RuleFinding(() if request.confirm == TOKEN else (f"the token is not {TOKEN}",))


def study_is_open(attempt: LaunchAttempt) -> RuleFinding:
    """G02: the registry resolves to one task and study, and the study is open."""
    study, folder, problems = attempt.study, attempt.study.folder, list[str]()
    if study.registry.layout != "scoped":
        problems.append("a flat tree of the old layout can be read, not launched from")
    task = study.registry.task(folder.task_id)
    if task is None or task.study(folder.study_id) is None:
        problems.append(f"the registry knows no {study.name}")
    if study.state.study_status != "open":
        problems.append(f"the study is {study.state.study_status}")
    return RuleFinding(problems, value=study.name)


def ledger_is_whole(attempt: LaunchAttempt) -> RuleFinding:
    """G03: the chain verifies, and state.json has seen its last line."""
    study, problem = attempt.study, ""
    for patience in _PATIENCE_S:
        time.sleep(patience)
        chain = study.ledger.check()
        if not chain.ok:
            problem = f"line {chain.bad_seq} of the ledger is bad: {chain.why}"
        elif committed_head(study.folder) != chain.head:
            problem = "state.json is not what the ledger comes to"
        else:
            return RuleFinding(value={"seq": chain.head.seq, "hash": chain.head.hash[:12]})
    if attempt.request.execute and _catch_up(study):
        head = study.ledger.head
        return RuleFinding(value={"seq": head.seq, "hash": head.hash[:12]})
    return RuleFinding((problem,))


def _catch_up(study: Study) -> bool:
    """Say whether state.json has, or now gets, the last line of a ledger that verifies.

    With the lock held nobody is between a line and its projection: what lags was left by a crash,
    and is made again. A projection that saw a line which is gone fails the verification itself.
    """
    with study.ledger.locked():
        chain = study.ledger.check()
        if chain.ok and committed_head(study.folder) != chain.head:
            study.ledger.rebuild()
        return chain.ok


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
        if is_repeat and not is_control and study.run_revisions.get(name) == attempt.held.revision:
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
    "G13": start_gates.hardware_is_approved,
    "G14": start_gates.fits_budget,
    "G15": start_gates.nothing_says_stop,
    "G16": start_gates.place_is_free,
    "G17": start_gates.machine_is_ready,
    "G18": start_gates.tree_is_isolated,
    "G19": start_gates.measure_is_unchanged,
    "G20": start_gates.command_is_confirmed,
    "G21": start_gates.network_is_settled,
    "G22": start_gates.generated_code_is_reviewed,
    "G23": start_gates.command_is_harmless,
    "G24": start_gates.launcher_is_rendered,
}
