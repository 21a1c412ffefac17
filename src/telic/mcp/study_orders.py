"""Work orders of a study: propose a candidate, or mend one that failed; kept in the ledger."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from telic.errors import TelicError, UnknownName
from telic.mcp.orders import ATTEMPTS, Handed, HostOrder, OrderLease, OrderLimits, new_lease, refuse
from telic.studies.canonical import content_hash
from telic.studies.chain import LedgerEvent
from telic.studies.documents.base import StudyActor
from telic.studies.next import next_step
from telic.studies.state import StudyState
from telic.studies.study import Study as OpenStudy
from telic.verbs.study_candidates import CandidateDraft, make_candidate, mend_candidate

_PREFIX = "study/"
_PROPOSE = """\
Propose one candidate: one bounded change inside the contract's scope that could improve the primary
metric. Say what will happen, by which mechanism, and what would show that you are wrong. Rest on
evidence, not on the training reward alone. Look at what was tried and do not repeat it. Prefer the
smallest change that tests the idea."""
_MEND = """\
The candidate failed. Find out why from its runs, and send the parts of it that have to change. Keep
its hypothesis; if the idea itself is wrong, decline the order."""


class StudyOrders:
    """What a study wants written now; at most one order at a time."""

    def __init__(self, study: OpenStudy, actor: StudyActor) -> None:
        self._study = study
        self._actor = actor

    def next(self, worker: str) -> HostOrder | None:
        """Issue the order that the study's next step asks for, or renew its lease."""
        wanted = self._wanted()
        if wanted is None:
            return None
        about = self._about(wanted["id"])
        left = ATTEMPTS - _refusals(about)
        if left <= 0 or any(each.data.get("declined") for each in about):
            return None
        issued = [each for each in about if each.type == "work_order.issued"]
        if issued and _held_by_other(issued[-1], worker):
            return None
        held = _lease_of(issued[-1]) if issued else None
        if held is None or held.has_ended:
            held = new_lease(worker)
            facts = {"role": wanted["role"], "context_hash": wanted["context_hash"]}
            data = {**facts, "lease": held.model_dump(), "about": wanted["candidate"]}
            issued.append(self._study.append("work_order.issued", wanted["id"], data, self._actor))
        return HostOrder(
            id=wanted["id"],
            role=wanted["role"],
            instructions=wanted["instructions"],
            request=wanted["request"],
            inputs=wanted["inputs"],
            output_schema=CandidateDraft.model_json_schema(),
            limits=OrderLimits(attempts_left=left),
            context_hash=wanted["context_hash"],
            issued_at=issued[0].at,
            lease=held,
            complaint=_last_complaint(about),
        )

    def submit(self, order: str, answer: dict[str, Any], worker: str) -> Handed:
        """Make or mend the candidate that an answer describes; sent again it is the same one."""
        about = self._about(order)
        issued = next((each for each in reversed(about) if each.type == "work_order.issued"), None)
        if issued is None:
            raise UnknownName("work order", order, [])
        done = next((each for each in about if each.type == "work_order.accepted"), None)
        if done is not None:
            return Handed(order=order, result=str(done.data["candidate"]))
        left = ATTEMPTS - _refusals(about)
        if left <= 0:
            raise refuse("every attempt was used", 0)
        facts = {
            "role": issued.data["role"],
            "prompt_hash": issued.data["context_hash"],
            "output_hash": content_hash(answer),
            "model": self._actor.name,
            "tokens": None,
            "usd": None,
        }
        self._study.append("work_order.submitted", order, facts, self._actor)
        try:
            made = self._make(order, issued.data.get("about"), answer)
        except (TelicError, ValidationError) as error:
            why = error.message if isinstance(error, TelicError) else _complaints(error)
            self._study.append("work_order.rejected", order, {**facts, "why": why}, self._actor)
            raise refuse(why, left - 1) from None
        entered = {**facts, "candidate": made}
        self._study.append("work_order.accepted", order, entered, self._actor)
        return Handed(order=order, result=made)

    def decline(self, order: str, reason: str, worker: str) -> None:
        """Record that this order will not be answered; another comes when the study has moved."""
        if not self._about(order):
            raise UnknownName("work order", order, [])
        facts = {"why": reason, "declined": True}
        self._study.append("work_order.rejected", order, facts, self._actor)

    def _make(self, order: str, about: str | None, answer: dict[str, Any]) -> str:
        draft = CandidateDraft.model_validate(answer)
        if about is not None:
            return mend_candidate(self._study, about, draft, self._actor, order).id
        origin = {"engine": self._actor.name, "work_order": order}
        return make_candidate(self._study, draft, self._actor, order, origin).id

    def _about(self, order: str) -> list[LedgerEvent]:
        return [
            each
            for each in self._study.events
            if each.subject == order and each.type.startswith("work_order.")
        ]

    def _wanted(self) -> dict[str, Any] | None:
        """Return the order for the next step, named by what it rests on."""
        action, state = next_step(self._study), self._study.state
        if action.action == "propose" and "role" in action.args:
            role, candidate, text = str(action.args["role"]), None, _PROPOSE
        elif action.action == "mend":
            role, candidate, text = "reviser", str(action.args["candidate"]), _MEND
        else:
            return None
        context = content_hash({"role": role, "about": candidate, "rests_on": _rests_on(state)})
        base = f"telic://{self._study.folder.name}"
        inputs = [f"{base}/contract", f"{base}/state", f"{base}/report"]
        if candidate is not None:
            inputs.append(f"{base}/candidates/{candidate}")
        return {
            "id": f"{_PREFIX}{self._study.folder.name}/{context[:12]}",
            "role": role,
            "candidate": candidate,
            "instructions": text,
            "request": action.why,
            "inputs": tuple(inputs),
            "context_hash": context,
        }


def is_study_order(order: str) -> bool:
    """Say whether a name is that of a study's order."""
    return order.startswith(_PREFIX)


def study_of(order: str) -> tuple[str, str]:
    """Return the task and the study that an order belongs to."""
    _, task, study, _ = [*order.split("/"), "", "", ""][:4]
    return task, study


def _rests_on(state: StudyState) -> dict[str, Any]:
    candidates = {name: [each.status, each.revision] for name, each in state.candidates.items()}
    return {"contract": state.contract_hash, "candidates": candidates}


def _refusals(about: list[LedgerEvent]) -> int:
    return sum(each.type == "work_order.rejected" for each in about)


def _last_complaint(about: list[LedgerEvent]) -> str | None:
    refused = [each for each in about if each.type == "work_order.rejected"]
    return str(refused[-1].data["why"]) if refused else None


def _held_by_other(issued: LedgerEvent, worker: str) -> bool:
    lease = _lease_of(issued)
    return lease.by != worker and not lease.has_ended


def _lease_of(issued: LedgerEvent) -> OrderLease:
    return OrderLease.model_validate(issued.data["lease"])


def _complaints(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
