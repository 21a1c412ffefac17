"""Work orders as a host agent gets them: leased, with a few attempts, from whoever asks."""

from __future__ import annotations

import ast
import json
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import Field, ValidationError

from telic.core.config import Record
from telic.errors import TelicError, UnknownName, UsageError
from telic.llm.work_orders import (
    ORDERS,
    WorkOrderLine,
    answer_order,
    check_answer,
    list_orders,
    read_order,
)
from telic.mcp.workplace import (
    ADDS,
    READS,
    RECORDS,
    Because,
    Call,
    Server,
    Study,
    Task,
    add_tool,
    caller,
    workplace,
)
from telic.storage.files import read_record, write_json
from telic.storage.journal import JournalEntry
from telic.studies.canonical import content_hash, moment, utc_now
from telic.studies.documents.base import StudyActor
from telic.studies.errors import StudyError
from telic.studies.next import next_step
from telic.studies.state import StudyState
from telic.studies.study import Study as OpenStudy
from telic.verbs.artifacts import list_things
from telic.verbs.lines import ThingLine
from telic.verbs.study_candidates import CandidateDraft, make_candidate, mend_candidate

ATTEMPTS = 5
LEASE = timedelta(minutes=30)
_CODE = "source"
"""field of an answer that holds a whole Python file"""
_PREFIX = "study/"
_PROPOSE = """\
Propose one candidate: one bounded change inside the contract's scope that could improve the primary
metric. Say what will happen, by which mechanism, and what would show that you are wrong. Rest on
evidence, not on the training reward alone. Look at what was tried and do not repeat it. Prefer the
smallest change that tests the idea."""
_MEND = """\
The candidate failed. Find out why from its runs, and send the parts of it that have to change. Keep
its hypothesis; if the idea itself is wrong, decline the order."""


class OrderLease(Record):
    """Who works on an order, and until when nobody else gets it."""

    by: str
    until: str

    @property
    def has_ended(self) -> bool:
        """Others may have the order again."""
        return moment(utc_now()) >= moment(self.until)

    def is_held_from(self, worker: str) -> bool:
        """Somebody else than this worker has the order now."""
        return self.by != worker and not self.has_ended


class OrderLimits(Record):
    """How often an answer may be refused."""

    attempts: int = ATTEMPTS
    attempts_left: int = ATTEMPTS


class HostOrder(Record):
    """A request to a model, for a host agent to answer."""

    id: str
    role: str
    instructions: str
    request: str
    inputs: tuple[str, ...]
    """resources to read first, pictures among them"""
    output_schema: dict[str, Any]
    """the answer is one JSON object of this schema"""
    limits: OrderLimits
    context_hash: str
    """changes when what the order rests on changes"""
    issued_at: str
    lease: OrderLease
    complaint: str | None = None
    """why the last answer was not accepted"""


class Handed(Record):
    """An answer that was taken."""

    order: str
    result: str
    """where the answer went: a file, or the candidate that was made of it"""


class OrderSource(Protocol):
    """Where orders come from: a session, a search, or a study."""

    def next(self, worker: str) -> HostOrder | None:
        """Lease the first order that waits to this worker; None when none waits."""
        ...

    def submit(self, order: str, answer: dict[str, Any], worker: str) -> Handed:
        """Check an answer and hand it in; raises TelicError with every complaint."""
        ...

    def decline(self, order: str, reason: str, worker: str) -> None:
        """Give an order back; this server does not offer it again."""
        ...


def new_lease(worker: str) -> OrderLease:
    """Return a lease that begins now."""
    until = (moment(utc_now()) + LEASE).strftime("%Y-%m-%dT%H:%M:%SZ")
    return OrderLease(by=worker, until=until)


def refuse(complaint: str, left: int) -> UsageError:
    """Return the error for an answer that is not taken."""
    hint = f"{left} attempts are left." if left else "No attempt is left; the order is given back."
    return UsageError(f"The answer was not accepted: {complaint}", hint=hint)


# ---------------------------------------------------------------------------- sessions and searches


class _Progress(Record):
    """KEY.lease.json: who works on an order, and how it went."""

    lease: OrderLease
    issued_at: str
    attempts: int = 0
    complaint: str | None = None
    declined: str | None = None
    """why nobody is offered it any more"""


class SessionOrders:
    """The orders of every session and search in a folder of runs."""

    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir

    def next(self, worker: str) -> HostOrder | None:
        """Lease the first order that waits to this worker."""
        for folder in sorted(self._runs_dir.glob(f"*/{ORDERS}")):
            for line in list_orders(folder):
                progress = _progress(folder, line.key, worker)
                if line.state == "answered" or progress.declined is not None:
                    continue
                if progress.lease.is_held_from(worker):
                    continue
                progress = progress.model_copy(update={"lease": new_lease(worker)})
                _save(folder, line.key, progress)
                return _as_work_order(folder, line, progress)
        return None

    def submit(self, order: str, answer: dict[str, Any], worker: str) -> Handed:
        """Check an answer and hand it in; the session checks more before it trusts it."""
        folder, key = self._find(order)
        text = json.dumps(answer)
        progress = _progress(folder, key, worker)
        try:
            check_answer(read_order(folder, key), text)
            _check_code(answer)
            path = answer_order(folder, key, text)
        except TelicError as error:
            attempts = progress.attempts + 1
            left = max(0, ATTEMPTS - attempts)
            declined = None if left else f"{ATTEMPTS} answers were refused"
            news = {"attempts": attempts, "complaint": error.message, "declined": declined}
            _save(folder, key, progress.model_copy(update=news))
            raise refuse(error.message, left) from None
        return Handed(order=order, result=str(path.relative_to(self._runs_dir)))

    def decline(self, order: str, reason: str, worker: str) -> None:
        """Give an order back; a person may still answer it with `telic orders`."""
        folder, key = self._find(order)
        progress = _progress(folder, key, worker)
        _save(folder, key, progress.model_copy(update={"declined": reason}))

    def _find(self, order: str) -> tuple[Path, str]:
        run, _, key = order.partition("/")
        folder = _orders_of(self._runs_dir, run)
        return folder, read_order(folder, key).key


def picture(runs_dir: Path, run: str, name: str) -> Path:
    """Return a picture of an order; raises UnknownName when no order there has one of that name."""
    folder = _orders_of(runs_dir, run)
    orders = [read_order(folder, line.key) for line in list_orders(folder)]
    names = [image for order in orders for image in order.images]
    if name not in names:
        raise UnknownName("picture", name, names)
    return folder / name


def _orders_of(runs_dir: Path, run: str) -> Path:
    folders = {folder.parent.name: folder for folder in runs_dir.glob(f"*/{ORDERS}")}
    if run not in folders:
        raise UnknownName("session or search", run, list(folders))
    return folders[run]


def _as_work_order(folder: Path, line: WorkOrderLine, progress: _Progress) -> HostOrder:
    order = read_order(folder, line.key)
    run = folder.parent.name
    return HostOrder(
        id=f"{run}/{order.key}",
        role=order.role,
        instructions=order.system,
        request=order.prompt,
        inputs=tuple(f"telic://orders/{run}/{name}" for name in order.images),
        output_schema=order.answer_schema,
        limits=OrderLimits(attempts_left=max(0, ATTEMPTS - progress.attempts)),
        context_hash=content_hash(order.model_dump(mode="json")),
        issued_at=progress.issued_at,
        lease=progress.lease,
        complaint=progress.complaint or line.reason,
    )


def _check_code(answer: dict[str, Any]) -> None:
    """Refuse code that cannot be parsed; the allow-list and a trial call are the session's."""
    source = answer.get(_CODE)
    if not isinstance(source, str):
        return
    try:
        ast.parse(source)
    except SyntaxError as error:
        raise TelicError(f"line {error.lineno} of the code: {error.msg}") from None


def _progress(folder: Path, key: str, worker: str) -> _Progress:
    """Return how an order went so far; nobody had one that has no file, so it is this worker's."""
    path = folder / f"{key}.lease.json"
    if path.is_file():
        return read_record(path, _Progress)
    return _Progress(lease=new_lease(worker), issued_at=utc_now())


def _save(folder: Path, key: str, progress: _Progress) -> None:
    write_json(folder / f"{key}.lease.json", progress.model_dump(mode="json"))


# ---------------------------------------------------------------------------- studies


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
        if left <= 0 or any(event.data.get("declined") for event in about):
            return None
        issued = [event for event in about if event.kind == "work_order.issued"]
        lease = OrderLease.model_validate(issued[-1].data["lease"]) if issued else None
        if lease is not None and lease.is_held_from(worker):
            return None
        if lease is None or lease.has_ended:
            lease = new_lease(worker)
            facts = {"role": wanted["role"], "context_hash": wanted["context_hash"]}
            data = {**facts, "lease": lease.model_dump(), "about": wanted["candidate"]}
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
            lease=lease,
            complaint=_last_complaint(about),
        )

    def submit(self, order: str, answer: dict[str, Any], worker: str) -> Handed:
        """Make or mend the candidate that an answer describes; sent again it is the same one."""
        about = self._about(order)
        issued = next((x for x in reversed(about) if x.kind == "work_order.issued"), None)
        if issued is None:
            raise UnknownName("work order", order, [])
        done = next((x for x in about if x.kind == "work_order.accepted"), None)
        if done is not None:
            return Handed(order=order, result=str(done.data["candidate"]))
        left = ATTEMPTS - _refusals(about)
        if left <= 0:
            raise refuse("every attempt was used", 0)
        facts: dict[str, Any] = {
            "role": issued.data["role"],
            "prompt_hash": issued.data["context_hash"],
            "output_hash": content_hash(answer),
            "model": self._actor.name,
            "tokens": None,
            "usd": None,
        }
        self._study.append("work_order.submitted", order, facts, self._actor)
        try:
            candidate = self._make(order, issued.data.get("about"), answer)
        except (TelicError, ValidationError) as error:
            why = error.message if isinstance(error, TelicError) else _complaints(error)
            self._study.append("work_order.rejected", order, {**facts, "why": why}, self._actor)
            raise refuse(why, left - 1) from None
        facts["candidate"] = candidate
        self._study.append("work_order.accepted", order, facts, self._actor)
        return Handed(order=order, result=candidate)

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

    def _about(self, order: str) -> list[JournalEntry]:
        events = self._study.events
        return [x for x in events if x.subject == order and x.kind.startswith("work_order.")]

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


def study_of_order(order: str) -> tuple[str, str]:
    """Return the task and the study that an order belongs to."""
    _, task, study, _ = [*order.split("/"), "", "", ""][:4]
    return task, study


def _rests_on(state: StudyState) -> dict[str, Any]:
    candidates = {name: [x.status, x.revision] for name, x in state.candidates.items()}
    return {"contract": state.contract_hash, "candidates": candidates}


def _refusals(about: list[JournalEntry]) -> int:
    return sum(event.kind == "work_order.rejected" for event in about)


def _last_complaint(about: list[JournalEntry]) -> str | None:
    refused = [event for event in about if event.kind == "work_order.rejected"]
    return str(refused[-1].data["why"]) if refused else None


def _complaints(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, x['loc']))}: {x['msg']}" for x in error.errors())


# ---------------------------------------------------------------------------- tools

Limit = Annotated[int, Field(ge=1, le=1000, description="Maximum number, newest first.")]


class WorkList(Record):
    """Sessions and searches, the most recently active first."""

    work: tuple[ThingLine, ...]


def register(server: Server) -> None:
    """Add the tool."""
    add_tool(server, list_work, READS)


def list_work(call: Call, limit: Limit = 20) -> WorkList:
    """List sessions, runs and searches: what was asked, state, score, open work orders."""
    found = list_things(runs_dir=workplace(call).runs_dir, root=workplace(call).root, limit=limit)
    return WorkList(work=tuple(line for line in found.things if line.kind != "study"))


OrderName = Annotated[str, Field(description="The order's id, as next_work_order gave it.")]


class NextOrder(Record):
    """An order to answer, or none."""

    order: HostOrder | None
    why: str


class Declined(Record):
    """An order that was given back."""

    order: str


def register_orders(server: Server) -> None:
    """Add the tools that answer what work asks for."""
    add_tool(server, next_work_order, ADDS)
    add_tool(server, submit_work_order, RECORDS)
    add_tool(server, decline_work_order, RECORDS)


def next_work_order(call: Call, task: Task = None, study: Study = None) -> NextOrder:
    """Take the next request for a model: of a session or a search first, then of the study.

    Answer it with one JSON object of its output_schema through submit_work_order. It is yours for
    half an hour. When there is none, ask again later; nothing waits for you here.
    """
    place = workplace(call)
    order = SessionOrders(place.runs_dir).next(_worker(call))
    if order is None:
        try:
            opened = place.open_study(task, study)
        except StudyError as error:  # a repository may have sessions and no study
            return NextOrder(order=None, why=error.message)
        order = StudyOrders(opened, caller(call)).next(_worker(call))
    return NextOrder(order=order, why="" if order else "Nothing waits for an answer.")


def submit_work_order(
    call: Call,
    order: OrderName,
    answer: Annotated[dict[str, Any], Field(description="One object of the order's schema.")],
) -> Handed:
    """Hand in an answer; a refusal says everything that is wrong with it. Five attempts."""
    return _source(call, order).submit(order, answer, _worker(call))


def decline_work_order(call: Call, order: OrderName, because: Because) -> Declined:
    """Give an order back that you cannot or should not answer."""
    _source(call, order).decline(order, because, _worker(call))
    return Declined(order=order)


def _source(call: Call, order: str) -> OrderSource:
    place = workplace(call)
    if is_study_order(order):
        return StudyOrders(place.open_study(*study_of_order(order)), caller(call))
    return SessionOrders(place.runs_dir)


def _worker(call: Call) -> str:
    """Return a name that two sessions of the same client do not share."""
    return f"{caller(call).label}@{workplace(call).name}"
