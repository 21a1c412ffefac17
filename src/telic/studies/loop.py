"""Run a study through the loop of telic: propose, check, run, judge, record, decide.

An iteration is one candidate: the baseline first, then those that people and agents propose, or a
proposer that the contract names (`automation.proposer`). The ledger is the record of the loop, so a
killed process resumes where it was. What is next is decided by `next`; this module takes the step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel

from telic.core.config import Record
from telic.loop import Loop
from telic.studies.candidates import new_candidate, withdraw
from telic.studies.contract import amend, check_contract
from telic.studies.decide import decide
from telic.studies.documents.base import SYSTEM, StudyActor
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.evidence.audit import audit_result
from telic.studies.evidence.monitor import monitor_run
from telic.studies.launch.attempt import LaunchRequest
from telic.studies.launch.launch import launch
from telic.studies.launch.recovery import reconcile, stop_run
from telic.studies.next import NextAction, note_next
from telic.studies.proposer import propose_change
from telic.studies.queue import TOKEN, more_seeds, plan_incumbent_check
from telic.studies.rules.checks import validate_candidate
from telic.studies.rules.results import advance
from telic.studies.rules.stops import ingest
from telic.studies.smoke import prove_adapter
from telic.studies.study import Study

_POLL_S = 0.1
_ENDED = (
    *(CandidateStatus.ACCEPTED, CandidateStatus.REJECTED),
    *(CandidateStatus.INCONCLUSIVE, CandidateStatus.REVERTED),
)
_Step = TypeVar("_Step", bound=BaseModel)


class LoopCandidate(Record):
    """The candidate of an iteration."""

    id: str


class LoopVerdict(Record):
    """The end of a candidate, or why it has none yet."""

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
    """Take every step that needs neither a person nor an author; return the first that does.

    Without `may_launch` it ends at the first launch; without `processes` no scheduler is queried.
    After `seconds` it returns the step that it would take. `on_step` is called with each step
    before it is taken.
    """
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    parts = _StudyParts(study, actor, may_launch, processes, deadline, on_step)
    Loop(_LedgerRecorder(study), parts).run()
    return parts.step


class _LedgerRecorder:
    """The ledger as the record of the loop: its n-th candidate, and how that one ended."""

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
        return record.model_validate(verdict) if held.status in _ENDED else None

    def once(
        self, kind: str, record: type[_Step], make: Callable[[], _Step], subject: str | None = None
    ) -> _Step:
        return make()  # what made it has entered it


class _StudyParts:
    """The steps of the loop of a study."""

    candidate_type, verdict_type = LoopCandidate, LoopVerdict

    def __init__(
        self,
        study: Study,
        actor: StudyActor,
        may_launch: bool,
        processes: bool,
        deadline: float,
        on_step: Callable[[NextAction], None],
    ) -> None:
        self._study, self._actor, self._on_step = study, actor, on_step
        self._may_launch, self._processes, self._deadline = may_launch, processes, deadline
        self.step = NextAction(action="wait", why="nothing was done yet")

    def propose(self, number: int) -> LoopCandidate | None:
        """Return the next candidate; None when a person or an author is needed."""
        self._advance(lambda step: step.action == "propose" or len(self._candidates()) >= number)
        is_late = time.monotonic() >= self._deadline
        if len(self._candidates()) < number and self.step.action == "propose" and not is_late:
            draft = propose_change(self._study, self.step)
            if draft is not None:
                title = draft.pop("title")
                new_candidate(self._study, title, draft, self._actor)
        names = self._candidates()
        return LoopCandidate(id=names[number - 1]) if len(names) >= number else None

    def check(self, number: int, candidate: LoopCandidate) -> None:
        """Run it: its checks V01 to V16 and the gates of each launch are steps of their own."""

    def run(self, number: int, candidate: LoopCandidate) -> None:
        """Take steps until the candidate is decided on, or a person or an author is needed."""
        self._advance(lambda _: self._status(candidate) in _ENDED)

    def judge(self, number: int, candidate: LoopCandidate, result: None) -> LoopVerdict:
        """Return where the candidate stands; its audit is in the ledger."""
        held = self._study.candidate_state(candidate.id)
        return LoopVerdict(status=held.status, why=held.reason or self.step.why)

    def decide(self, number: int, candidate: LoopCandidate, verdict: LoopVerdict) -> str | None:
        """Continue after a decision; end where one is left to a person or an author."""
        return None if verdict.status in _ENDED else str(verdict.status)

    def _candidates(self) -> list[str]:
        return list(self._study.state.candidates)

    def _status(self, candidate: LoopCandidate) -> CandidateStatus:
        return self._study.candidate_state(candidate.id).status

    def _advance(self, is_done: Callable[[NextAction], bool]) -> None:
        """Take steps until one is reached that is done, or that cannot be taken here."""
        before = None
        while True:
            step = self.step = note_next(self._study)
            if step.action != "wait" or before != step:
                self._on_step(step)
            is_stuck = step == before and step.action != "wait"  # it cannot be settled from here
            is_late = time.monotonic() >= self._deadline
            if is_done(step) or is_stuck or is_late or not self._may_take(step):
                return
            before = step
            if step.action == "reconcile" and not self._processes:
                reconcile(self._study)
            else:
                take_step(self._study, step, self._actor)

    def _may_take(self, step: NextAction) -> bool:
        if step.action in ("launch", "prove", "wait") and not self._may_launch:
            return False
        return not needs_person(step) or _may_agree(self._study, step)


def _may_agree(study: Study, step: NextAction) -> bool:
    """Return whether a first contract can be recorded: no question, no approval yet."""
    state = study.state
    if step.action != "agree" or state.contract_version is not None or state.approvals:
        return False
    found = check_contract(study)
    return not found.questions and len(found.problems) == 1  # it is not agreed on yet


def needs_person(step: NextAction) -> bool:
    """Return whether a step is left to a person or an author."""
    if step.action == "stop":
        return "run" not in step.args
    if step.action == "propose":
        return step.args.get("kind") != "baseline"
    return bool(step.blocking) or step.action not in _TAKEN


def take_step(study: Study, step: NextAction, actor: StudyActor) -> None:
    """Take one step that needs neither a person nor an author."""
    _TAKEN[step.action](study, step, actor)


def _decide(study: Study, step: NextAction, actor: StudyActor) -> None:
    args = step.args
    # A gain that fresh seeds refute is taken back by the system, where the contract decides.
    by = SYSTEM if args["verdict"] == "revert" else actor
    cited = {name: args[name] for name in ("audit", "cause", "to") if name in args}
    decide(study, args["candidate"], args["verdict"], by, step.why, **cited)


def _wait(study: Study, step: NextAction, actor: StudyActor) -> None:
    time.sleep(_POLL_S)
    reconcile(study, processes=True)


def _advance_phase(study: Study, step: NextAction, actor: StudyActor) -> None:
    if step.args.get("more_seeds"):
        more_seeds(study, step.args["candidate"], actor, step.why)
    else:
        advance(study)


def _launch(study: Study, step: NextAction, actor: StudyActor) -> None:
    fields = {key: step.args[key] for key in ("candidate", "phase", "seed", "gpu", "retry_of")}
    launch(study, LaunchRequest(**fields, execute=True, confirm=TOKEN), actor)


_TAKEN: dict[str, Callable[[Study, NextAction, StudyActor], object]] = {
    "agree": lambda study, step, actor: amend(study, actor, "first version"),
    "prove": lambda study, step, actor: prove_adapter(study, actor),
    "reconcile": lambda study, step, actor: reconcile(study, processes=True),
    "wait": _wait,
    "ingest": lambda study, step, actor: ingest(study, step.args["run"], actor),
    "monitor": lambda study, step, actor: monitor_run(study, step.args["run"], actor),
    "stop": lambda study, step, actor: stop_run(
        study, step.args["run"], step.args.get("by", "stop_rule"), step.why
    ),
    "audit": lambda study, step, actor: audit_result(study, step.args["candidate"], actor),
    "decide": _decide,
    "advance": _advance_phase,
    "plan": lambda study, step, actor: plan_incumbent_check(study, actor),
    "validate": lambda study, step, actor: validate_candidate(study, step.args["candidate"]),
    "abandon": lambda study, step, actor: withdraw(study, step.args["candidate"], actor, step.why),
    "propose": lambda study, step, actor: new_candidate(
        study, "baseline", {"kind": "baseline"}, actor
    ),
    "launch": _launch,
}
