"""The twenty-four gates in order; all are evaluated, all are recorded, and all must be open."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from telic.errors import TelicError
from telic.studies.documents.candidate import CheckResult
from telic.studies.errors import (
    BrokenIntegrity,
    BudgetExceeded,
    EnvironmentBlocked,
    GateRefused,
    InvalidDocument,
    StudyError,
)
from telic.studies.launch import (
    gates_agreement,
    gates_candidate,
    gates_command,
    gates_machine,
)
from telic.studies.launch.permit import LaunchPermit, mint
from telic.studies.launch.situation import Situation
from telic.studies.validation.subject import Finding

GATES: dict[str, Callable[[Situation], Finding]] = {
    "G01": gates_agreement.is_meant,
    "G02": gates_agreement.study_is_open,
    "G03": gates_agreement.ledger_is_whole,
    "G04": gates_agreement.contract_is_agreed,
    "G05": gates_agreement.approvals_hold,
    "G06": gates_agreement.experiment_is_approved,
    "G07": gates_candidate.is_as_checked,
    "G08": gates_candidate.checks_pass,
    "G09": gates_candidate.invariants_hold,
    "G10": gates_candidate.is_its_turn,
    "G11": gates_candidate.seed_is_fresh,
    "G12": gates_candidate.stays_in_scope,
    "G13": gates_machine.hardware_is_approved,
    "G14": gates_machine.fits_budget,
    "G15": gates_machine.nothing_says_stop,
    "G16": gates_machine.place_is_free,
    "G17": gates_machine.machine_is_ready,
    "G18": gates_machine.tree_is_isolated,
    "G19": gates_command.measure_is_unchanged,
    "G20": gates_command.command_is_confirmed,
    "G21": gates_command.network_is_settled,
    "G22": gates_command.generated_code_is_reviewed,
    "G23": gates_command.command_is_harmless,
    "G24": gates_command.launcher_is_rendered,
}

# Which refusal a caller sees when several gates are shut: the deepest trouble first.
_ERRORS: dict[str, type[StudyError]] = {
    "G03": BrokenIntegrity,
    "G08": InvalidDocument,
    "G14": BudgetExceeded,
    "G17": EnvironmentBlocked,
}


def evaluate(situation: Situation, only: Sequence[str] | None = None) -> tuple[CheckResult, ...]:
    """Evaluate every gate; one that cannot be evaluated is shut, and says why."""
    results: list[CheckResult] = []
    for code, gate in GATES.items():
        if only is not None and code not in only:
            continue
        try:
            found = gate(situation)
        except TelicError as error:
            found = Finding((str(error),))
        why = "; ".join(found.problems)
        results.append(CheckResult(id=code, passed=not why, value=found.value, why=why))
    return tuple(results)


def shut(results: Sequence[CheckResult], *, dry: bool = False) -> list[CheckResult]:
    """Return the gates that are shut; a dry run is not asked whether it is meant."""
    return [each for each in results if not each.passed and not (dry and each.id == "G01")]


def pass_gates(situation: Situation, results: Sequence[CheckResult]) -> LaunchPermit:
    """Give the permit for what was evaluated; raises the refusal when a gate is shut."""
    if [each.id for each in results] != list(GATES):
        raise GateRefused("E_GATES", "Not every gate was evaluated.")
    if closed := shut(results):
        raise refusal(closed)
    return mint(situation.nonce, situation.command.hash)


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
