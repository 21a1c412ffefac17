"""What an author said would show that a candidate is wrong, held against what was measured.

A falsifier speaks about the claim (promotion); a rollback of a curriculum about every phase after
smoke. Words that no program can check are left to people.
"""

from __future__ import annotations

from typing import Literal

from telic.studies.candidate_files import current_candidate
from telic.studies.conditions import GAIN, Condition, read_condition
from telic.studies.documents.base import Part
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.documents.contract import Phase
from telic.studies.evidence.claims import oriented
from telic.studies.evidence.curriculum import Curriculum
from telic.studies.evidence.measuring import Measurement
from telic.studies.evidence.statistics import iqm
from telic.studies.ledger import Ledger
from telic.studies.phase_facts import measured, run_facts
from telic.studies.state import StudyState

Cause = Literal["falsifier_met", "rollback"]


class Judgment(Part):
    """One condition and what came of it."""

    candidate: str
    cause: Cause
    """what to reject it for when the condition is met"""
    condition: str
    value: float
    is_met: bool
    runs: tuple[str, ...]
    then: str = ""
    """what the author wants done"""

    @property
    def why(self) -> str:
        """The finding in one sentence."""
        name = "falsifier" if self.cause == "falsifier_met" else "rollback condition"
        after = f"; {self.then}" if self.then else ""
        said = "is met" if self.is_met else "is not met"
        return f"its {name} {said}: {self.condition}, and it is {self.value:.4g}{after}"


def judge_conditions(ledger: Ledger, candidate: str) -> list[Judgment]:
    """Return what the conditions of a candidate come to; those that cannot be checked are left out.

    A phase is judged once all of its runs are measured: a completed candidate by the phase that it
    is in, an incumbent by the check on held-out seeds.
    """
    state = ledger.state()
    held = state.candidates[candidate]
    phase: Phase | None = None
    if held.status == CandidateStatus.COMPLETED and held.phase != "smoke":
        phase = held.phase
    elif state.incumbent is not None and state.incumbent.candidate == candidate:
        phase = "incumbent_validation"
    if phase is None:
        return []
    found: list[Judgment] = []
    for cause, text, then in _conditions(ledger, candidate, phase):
        condition = read_condition(text)
        sheets = _sheets(ledger, state, candidate, phase) if condition else {}
        value = _value(ledger, state, condition, sheets, phase) if condition and sheets else None
        if condition is not None and value is not None:
            found.append(
                Judgment(
                    candidate=candidate,
                    cause=cause,
                    condition=text.strip(),
                    value=value,
                    is_met=condition.holds(value),
                    runs=tuple(each.run for each in sheets.values()),
                    then=then,
                )
            )
    return found


def _conditions(ledger: Ledger, candidate: str, phase: Phase) -> list[tuple[Cause, str, str]]:
    found = current_candidate(ledger, candidate)
    out: list[tuple[Cause, str, str]] = []
    if phase == "promotion":
        out.append(("falsifier_met", found.hypothesis.falsifier, ""))
    if found.curriculum is not None:
        back = Curriculum.model_validate(found.curriculum).rollback
        out.append(("rollback", back.condition, f"{back.action} from {back.checkpoint}"))
    return out


def _sheets(
    ledger: Ledger, state: StudyState, candidate: str, phase: Phase
) -> dict[int, Measurement]:
    """Return the measured runs of a phase by seed; empty unless all of them are."""
    runs = run_facts(ledger, state, ledger.events(), candidate, phase)
    found = {state.runs[each.run].seed: measured(ledger, state, each.run) for each in runs}
    return {seed: each for seed, each in found.items() if each} if all(found.values()) else {}


def _value(
    ledger: Ledger,
    state: StudyState,
    condition: Condition,
    sheets: dict[int, Measurement],
    phase: Phase,
) -> float | None:
    primary = ledger.folder.read_metric_spec().primary
    if condition.what != GAIN:
        is_primary = condition.what == primary.key
        values = [
            each.primary if is_primary else each.guardrails.get(condition.what)
            for each in sheets.values()
        ]
        return iqm([each for each in values if each is not None]) if None not in values else None
    held = state.incumbent
    own = next(iter(sheets.values())).candidate
    theirs = _sheets(ledger, state, held.candidate, phase) if held else {}
    both = [(sheets[seed].primary, theirs[seed].primary) for seed in sheets if seed in theirs]
    pairs = [(x, y) for x, y in both if x is not None and y is not None]
    if held is None or held.candidate == own or len(pairs) < len(sheets):
        return None
    x, y = (iqm([oriented(each[side], primary.direction) for each in pairs]) for side in (0, 1))
    return None if x is None or y is None else x - y
