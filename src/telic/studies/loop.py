"""Run a study through telic's loop: propose, check, run, judge, record, decide.

Each iteration handles one candidate. The first is the baseline, and later ones come from people and
agents, or from the contract's proposer (automation.proposer), which requires the approval
"autonomy". The loop is recorded in the ledger, so that a killed process resumes with the same
proposals. The module `next` selects each step, and this module executes it.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

from telic.core.config import Record
from telic.core.text import is_dict
from telic.errors import TelicError
from telic.loop import Loop
from telic.storage.reading import parse_json
from telic.studies.adapter_check import prove_adapter
from telic.studies.candidates import new_candidate, withdraw
from telic.studies.canonical import content_hash
from telic.studies.contract import amend, check_contract
from telic.studies.decide import decide_candidate
from telic.studies.documents.base import SYSTEM, StudyActor
from telic.studies.documents.candidate import CLOSED_STATUSES, CandidateStatus
from telic.studies.documents.contract import ParamRange
from telic.studies.errors import StudyError
from telic.studies.evidence.audit import audit_result
from telic.studies.launch._machine import run_program
from telic.studies.launch.attempt import LaunchRequest
from telic.studies.launch.launch import launch
from telic.studies.launch.recovery import reconcile, stop_run
from telic.studies.next import NextAction, note_next
from telic.studies.queue import TOKEN, more_seeds, plan_incumbent_check
from telic.studies.rules.checks import validate_candidate
from telic.studies.rules.results import advance, ingest
from telic.studies.study import Study

_POLL_S = 0.1
_Step = TypeVar("_Step", bound=BaseModel)


_NOT_BEGUN = NextAction(action="wait", why="nothing was done yet")


class LoopCandidate(Record):
    """Candidate of one iteration."""

    id: str


class LoopVerdict(Record):
    """Outcome of a candidate, or the reason why the candidate is still undecided."""

    status: CandidateStatus
    why: str


def run_study(
    study: Study,
    actor: StudyActor,
    *,
    may_launch: bool,
    processes: bool = True,
    seconds: float | None = None,
    on_step: Callable[[NextAction], None] = lambda _: None,
) -> NextAction:
    """Execute steps until a step requires a person or an author and return this step.

    If `may_launch` is false, the loop stops at the first launch. If `processes` is false, no
    scheduler is queried. After `seconds`, the pending step is returned. `on_step` is called before
    each step.
    """
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    parts = _StudyParts(study, actor, on_step, may_launch, processes, deadline)
    Loop(_LedgerRecorder(study), parts).run()
    return parts.step


class _LedgerRecorder:
    """Recorder that stores each candidate and its outcome in the ledger."""

    def __init__(self, study: Study) -> None:
        self._study = study

    def recorded(self, kind: str, record: type[_Step], subject: str | None = None) -> _Step | None:
        candidates = list(self._study.state.candidates.items())
        number = int(subject or 0)
        if number > len(candidates):
            return None
        name, held = candidates[number - 1]
        if kind == "candidate":
            return record.model_validate({"id": name})
        verdict = {"status": held.status, "why": held.reason}
        return record.model_validate(verdict) if held.status in CLOSED_STATUSES else None

    def once(
        self, kind: str, record: type[_Step], make: Callable[[], _Step], subject: str | None = None
    ) -> _Step:
        return make()  # already entered by the function that made it


@dataclass
class _StudyParts:
    """Implementations of the loop's steps for a study."""

    candidate_type, verdict_type = LoopCandidate, LoopVerdict

    _study: Study
    _actor: StudyActor
    _on_step: Callable[[NextAction], None]
    _may_launch: bool
    _processes: bool
    _deadline: float
    step: NextAction = _NOT_BEGUN

    def propose(self, number: int) -> LoopCandidate | None:
        """Return the next candidate, or None if a person or an author is needed."""

        def names() -> list[str]:
            return list(self._study.state.candidates)

        self._advance(lambda step: step.action == "propose" or len(names()) >= number)
        is_late = time.monotonic() >= self._deadline
        if len(names()) < number and self.step.action == "propose" and not is_late:
            draft = propose_change(self._study, self.step)
            if draft is not None:
                new_candidate(self._study, draft.pop("title"), draft, self._actor)
        return LoopCandidate(id=names()[number - 1]) if len(names()) >= number else None

    def check(self, number: int, candidate: LoopCandidate) -> None:
        """Do nothing, because `run` includes the checks V01 to V16 and the launch gates."""

    def run(self, number: int, candidate: LoopCandidate) -> None:
        """Execute steps until the candidate is decided, or a person or an author is needed."""
        self._advance(lambda _: self._study.candidate_state(candidate.id).status in CLOSED_STATUSES)

    def judge(self, number: int, candidate: LoopCandidate, result: None) -> LoopVerdict:
        """Return the candidate's verdict. The ledger contains the audit."""
        held = self._study.candidate_state(candidate.id)
        return LoopVerdict(status=held.status, why=held.reason or self.step.why)

    def decide(self, number: int, candidate: LoopCandidate, verdict: LoopVerdict) -> str | None:
        """Continue after a decision, or end if a person or an author must act."""
        return None if verdict.status in CLOSED_STATUSES else str(verdict.status)

    def _advance(self, is_done: Callable[[NextAction], bool]) -> None:
        """Execute steps until `is_done` holds for the next step or it cannot be executed here."""
        study, before = self._study, None
        while True:
            step = self.step = note_next(study)
            if step.action != "wait" or before != step:
                self._on_step(step)
            is_stuck = step == before and step.action != "wait"  # no progress is possible here
            is_barred = step.action in ("launch", "prove", "wait") and not self._may_launch
            is_left = needs_person(step)
            if step.action == "agree" and not (
                study.state.contract_version or study.state.approvals
            ):
                found = check_contract(study)  # a first contract without open questions
                is_left = bool(found.questions) or len(found.problems) > 1
            is_late = time.monotonic() >= self._deadline
            if is_done(step) or is_stuck or is_late or is_barred or is_left:
                return
            before = step
            take_step(study, step, self._actor, processes=self._processes)


_TAKEN = (
    *("agree", "prove", "reconcile", "wait", "ingest", "stop", "audit", "decide"),
    *("advance", "plan", "validate", "abandon", "propose", "launch"),
)


def needs_person(step: NextAction) -> bool:
    """Return whether a step requires a person or an author."""
    if step.action == "stop":
        return "run" not in step.args
    if step.action == "propose":
        return step.args.get("kind") != "baseline"
    return bool(step.blocking) or step.action not in _TAKEN


def take_step(study: Study, step: NextAction, actor: StudyActor, *, processes: bool = True) -> None:
    """Execute one step that needs neither a person nor an author."""
    args, why = step.args, step.why
    name, run = str(args.get("candidate")), str(args.get("run"))
    if step.action == "wait":
        time.sleep(_POLL_S)
    if step.action in ("wait", "reconcile"):
        reconcile(study, processes=processes)
    elif step.action == "decide":
        # If the contract allows it, the system reverts gains refuted on fresh seeds.
        by = SYSTEM if args["verdict"] == "revert" else actor
        cited = {key: args[key] for key in ("audit", "cause", "to") if key in args}
        decide_candidate(study, name, args["verdict"], by, why, **cited)
    elif step.action == "launch":
        fields = {key: args[key] for key in ("candidate", "phase", "seed", "gpu")}
        launch(study, LaunchRequest(**fields, confirm=TOKEN), actor)
    elif step.action == "advance" and args.get("more_seeds"):
        more_seeds(study, name, actor, why)
    else:
        others: dict[str, Callable[[], object]] = {
            "agree": lambda: amend(study, actor, "first version"),
            "prove": lambda: prove_adapter(study, actor),
            "ingest": lambda: ingest(study, run, actor),
            "stop": lambda: stop_run(study, run, args.get("by", "stop_rule"), why),
            "audit": lambda: audit_result(study, name, actor),
            "advance": lambda: advance(study),
            "plan": lambda: plan_incumbent_check(study, actor),
            "validate": lambda: validate_candidate(study, name),
            "abandon": lambda: withdraw(study, name, actor, why),
            "propose": lambda: new_candidate(study, "baseline", {"kind": "baseline"}, actor),
        }
        others[step.action]()


# ---------------------------------------------------------------------------- the proposer

_ROUNDS = 12
"""maximum number of step halvings of the numeric proposer"""


def propose_change(study: Study, step: NextAction) -> dict[str, Any] | None:
    """Return a draft with a title, or None if an author is needed or the ideas are exhausted.

    Raises StudyError E_PROPOSER when the proposer's command fails.
    """
    if step.args.get("kind") == "baseline":
        return {"title": "baseline", "kind": "baseline"}
    automation = study.contract.automation
    if not automation.autoloop or study.approval("autonomy").status != "approved":
        return None
    if automation.proposer == "numeric":
        return next(_moves(study), None)
    return None if automation.proposer is None else _asked(study, automation.proposer)


def _values(study: Study, candidate: str | None) -> dict[str, Any]:
    """Return the parameter values set by a candidate."""
    if candidate is None:
        return dict(study.contract.baseline.overrides)
    return {path: x.to for path, x in study.candidate(candidate).change.overrides.items()}


def _moves(study: Study) -> Iterator[dict[str, Any]]:
    """Yield untried changes of single parameters in both directions, with decreasing steps."""
    values = _values(study, study.incumbent.candidate if study.incumbent else None)
    params = {
        path: allowed
        for path, allowed in study.contract.scope.params.items()
        if allowed.type in ("float", "int") and allowed.min is not None and allowed.max is not None
    }
    tried = {content_hash(_values(study, name)) for name in study.state.candidates}
    for place in range(2 * _ROUNDS):
        share, is_up = 0.5 ** (place // 2 + 1), place % 2 == 0
        for path, allowed in params.items():
            now = values.get(path)
            to = _moved(now, allowed, share if is_up else -share)
            if to != now and content_hash({**values, path: to}) not in tried:
                yield _draft(study, values, path, to)


def _moved(now: Any, allowed: ParamRange, share: float) -> float | int:
    """Move a value by a fraction of its range, on a log scale for wide ranges."""
    low, high = float(allowed.min or 0.0), float(allowed.max or 0.0)
    is_log = low > 0 and high / low >= 10
    to, back = (math.log, math.exp) if is_log else (float, float)
    start = to(now) if isinstance(now, int | float) else (to(low) + to(high)) / 2
    value = back(min(max(start + share * (to(high) - to(low)), to(low)), to(high)))
    ratio = allowed.max_step_ratio
    if ratio is not None and isinstance(now, int | float) and now > 0:
        value = min(max(value, now / ratio), now * ratio)
    value = min(max(float(f"{value:.4g}"), low), high)
    return round(value) if allowed.type == "int" else value


def _draft(study: Study, values: dict[str, Any], path: str, to: Any) -> dict[str, Any]:
    """Return a draft that changes one parameter and keeps the incumbent's other values."""
    kept = {name: {"from": value, "to": value} for name, value in values.items()}
    primary = study.metric_spec.primary
    evidence = study.evidence_names("audit") or list(study.state.evidence)
    return {
        "title": f"{path} {to:g}",
        "kind": "config",
        "change": {"overrides": {**kept, path: {"from": values.get(path), "to": to}}},
        "hypothesis": {
            "statement": f"{path} = {to:g} improves {primary.key}.",
            "mechanism": "Only this parameter of the scope is changed.",
            "expected": {"metric": primary.key, "direction": primary.direction},
            "falsifier": "gain < 0",
        },
        "evidence_refs": evidence[-1:],
        "origin": {"engine": "numeric"},
    }


def _asked(study: Study, argv: tuple[str, ...]) -> dict[str, Any]:
    """Return the draft that the proposer command prints for the study's current state."""
    history = [
        {"id": name, "status": held.status, "reason": held.reason, "overrides": overrides}
        for name, held in study.state.candidates.items()
        for overrides in [study.candidate(name).change.model_dump(mode="json")["overrides"]]
    ]
    facts = {
        "task": study.contract.task.as_data(),
        "metric": study.metric_spec.primary.as_data(),
        "scope": study.contract.scope.as_data(),
        "incumbent": study.incumbent and study.incumbent.as_data(),
        "values": _values(study, study.incumbent.candidate if study.incumbent else None),
        "candidates": history,
        "evidence": (study.evidence_names("audit") or list(study.state.evidence))[-5:],
    }
    try:
        answer = parse_json(
            run_program(argv, study.root, json.dumps(facts)), "The proposer's draft"
        )
    except TelicError as error:
        raise StudyError("E_PROPOSER", error.message, hint=error.hint) from None
    if not is_dict(answer) or not isinstance(answer.get("title"), str):
        raise StudyError("E_PROPOSER", "The proposer printed no draft with a title.")
    return {"origin": {"engine": argv[0], "model": argv[0]}, **answer}
