"""The sixteen checks in order, and running them all."""

from __future__ import annotations

from collections.abc import Callable

from telic.studies.documents.candidate import CheckResult
from telic.studies.validation import integrity, novelty, reasons, scope, spending, structure
from telic.studies.validation.subject import Finding, Subject

CHECKS: dict[str, Callable[[Subject], Finding]] = {
    "V01": structure.is_whole,
    "V02": structure.is_itself,
    "V03": structure.may_move,
    "V04": scope.kind_in_scope,
    "V05": scope.params_in_range,
    "V06": scope.steps_are_small,
    "V07": scope.files_in_scope,
    "V08": scope.is_small,
    "V09": integrity.patch_applies,
    "V10": integrity.measure_untouched,
    "V11": reasons.can_be_wrong,
    "V12": reasons.has_its_evidence,
    "V13": spending.seeds_are_fresh,
    "V14": spending.fits_budget,
    "V15": novelty.is_new,
    "V16": novelty.is_more_than_a_seed,
}


def run_checks(subject: Subject) -> tuple[CheckResult, ...]:
    """Run every check; one that fails does not spare the others."""
    results = list[CheckResult]()
    for code, check in CHECKS.items():
        found = check(subject)
        why = "; ".join(found.problems)
        results.append(CheckResult(id=code, passed=not why, value=found.value, why=why))
    return tuple(results)


def unreadable(why: str) -> tuple[CheckResult, ...]:
    """Return the results for a candidate that cannot be read: V01 says why, the rest is unknown."""
    rest = [CheckResult(id=code, passed=False, why="not looked at") for code in CHECKS]
    return (CheckResult(id="V01", passed=False, why=why), *rest[1:])
