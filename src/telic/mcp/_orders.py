"""Work orders: model requests of sessions, searches and studies, answered by the host agent.

An order of a session or search is a file in its orders folder. An order of a study is derived from
its next step and named after its inputs; answers are events in the study's ledger.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from telic.core.config import Record
from telic.errors import TelicError, UnknownName, UsageError
from telic.llm.work_orders import (
    ORDERS,
    WorkOrderLine,
    answer_order,
    list_orders,
    read_order,
)
from telic.mcp._workplace import (
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
from telic.storage.files import plain, write_json
from telic.storage.keys import is_own_folder
from telic.studies.canonical import content_hash
from telic.studies.documents.base import StudyActor
from telic.studies.errors import StudyError
from telic.studies.next import next_step
from telic.studies.study import Study as OpenStudy
from telic.verbs.artifacts import list_artifacts
from telic.verbs.study_candidates import CandidateDraft, make_candidate, mend_candidate

_CODE = "source"
"""field of an answer that contains a complete Python file"""
_STUDY = "study"
_PROPOSE = """\
Propose one candidate: one bounded change inside the contract's scope that could improve the primary
metric. State what will happen, by which mechanism, and what would falsify it. Rely on evidence, not
on the training reward alone. Do not repeat what was tried. Prefer the smallest change that tests
the idea."""
_MEND = """\
The candidate failed. Find out why from its runs, and send the parts of it that have to change. Keep
its hypothesis; if the idea itself is wrong, decline the order."""


class HostOrder(Record):
    """A model request for the host agent to answer."""

    id: str
    role: str
    instructions: str
    request: str
    inputs: tuple[str, ...]
    """resources to read first, including pictures"""
    output_schema: dict[str, Any]
    """JSON Schema of the answer, a single JSON object"""
    complaint: str | None = None
    """why the previous answer was rejected"""


class Handed(Record):
    """An accepted answer."""

    order: str
    result: str
    """path of the answer file, or the candidate created from it"""


# ---------------------------------------------------------------------------- sessions and searches


def _orders_of(runs_dir: Path, run: str) -> Path:
    folders = {folder.parent.name: folder for folder in _own_orders(runs_dir)}
    if run not in folders:
        raise UnknownName("session or search", run, list(folders))
    return folders[run]


def _own_orders(runs_dir: Path) -> list[Path]:
    """Return the orders folders of this user's own work; others must not instruct the agent."""
    return [path for path in sorted(runs_dir.glob(f"*/{ORDERS}")) if is_own_folder(path.parent)]


def _declined_file(folder: Path, key: str) -> Path:
    return folder / f"{key}.declined.json"


def _open_orders(runs_dir: Path) -> Iterator[tuple[Path, WorkOrderLine]]:
    for folder in _own_orders(runs_dir):
        for line in list_orders(folder):
            if line.state in ("open", "rejected") and not _declined_file(folder, line.key).exists():
                yield folder, line


def _session_order(folder: Path, line: WorkOrderLine) -> HostOrder:
    order, run = read_order(folder, line.key), folder.parent.name
    return HostOrder(
        id=f"{run}/{order.key}",
        role=order.role,
        instructions=order.system,
        request=order.prompt,
        inputs=tuple(f"telic://orders/{run}/{Path(path).name}" for path in order.images),
        output_schema=order.answer_schema,
        complaint=line.reason,
    )


def picture(runs_dir: Path, run: str, name: str) -> Path:
    """Return a picture of an order; raises UnknownName if it does not exist."""
    folder = _orders_of(runs_dir, run)
    orders = [read_order(folder, line.key) for line in list_orders(folder)]
    pictures = {Path(path).name: Path(path) for order in orders for path in order.images}
    if name not in pictures:
        raise UnknownName("picture", name, list(pictures))
    return pictures[name]


def _answer_session(runs_dir: Path, order: str, answer: dict[str, Any]) -> str:
    """Validate and submit an answer; the session validates it further before using it."""
    run, _, key = order.partition("/")
    folder = _orders_of(runs_dir, run)
    source = answer.get(_CODE)
    if isinstance(source, str):
        try:
            ast.parse(source)
        except SyntaxError as error:
            raise TelicError(f"line {error.lineno} of the code: {error.msg}") from None
    return str(answer_order(folder, key, json.dumps(answer)).relative_to(runs_dir))


# ---------------------------------------------------------------------------- studies


class _Wanted(Record):
    """The order for a study's next step."""

    order: HostOrder
    context_hash: str
    candidate: str | None
    """candidate to fix, or None if a new one is needed"""


def _wanted(study: OpenStudy) -> _Wanted | None:
    action, state = next_step(study), study.state
    if action.action == "propose" and "role" in action.args:
        role, candidate, text = str(action.args["role"]), None, _PROPOSE
    elif action.action == "mend":
        role, candidate, text = "reviser", str(action.args["candidate"]), _MEND
    else:
        return None
    candidates = {name: [x.status, x.revision] for name, x in state.candidates.items()}
    rests_on = {"contract": state.contract_hash, "candidates": candidates}
    context = content_hash({"role": role, "about": candidate, "rests_on": rests_on})
    base = f"telic://{study.folder.name}"
    more = () if candidate is None else (f"{base}/candidates/{candidate}",)
    order = HostOrder(
        id=f"{_STUDY}/{study.folder.name}/{context[:12]}",
        role=role,
        instructions=text,
        request=action.why,
        inputs=(f"{base}/contract", f"{base}/state", f"{base}/report", *more),
        output_schema=CandidateDraft.model_json_schema(),
    )
    return _Wanted(order=order, context_hash=context, candidate=candidate)


def _study_order(study: OpenStudy) -> HostOrder | None:
    """Return the order for the study's next step, or None if there is none or it was declined."""
    wanted = _wanted(study)
    if wanted is None:
        return None
    about = [x for x in study.events if x.subject == wanted.order.id]
    rejected = [x.data for x in about if x.kind == "work_order.rejected"]
    if any(data.get("declined") for data in rejected):
        return None
    complaint = str(rejected[-1]["why"]) if rejected else None
    return wanted.order.model_copy(update={"complaint": complaint})


def _answer_study(study: OpenStudy, order: str, answer: dict[str, Any], actor: StudyActor) -> str:
    """Create or revise the candidate of an answer; idempotent."""
    for event in study.events:
        if event.subject == order and event.kind == "work_order.accepted":
            return str(event.data["candidate"])
    wanted = _wanted(study)
    if wanted is None or wanted.order.id != order:
        raise UnknownName("work order", order, [wanted.order.id] if wanted else [])
    facts: dict[str, Any] = {
        "role": wanted.order.role,
        "prompt_hash": wanted.context_hash,
        "output_hash": content_hash(answer),
        "model": actor.name,
        "tokens": None,
        "usd": None,
    }
    study.append("work_order.submitted", order, facts, actor)
    try:
        draft = CandidateDraft.model_validate(answer)
        if wanted.candidate is not None:
            candidate = mend_candidate(study, wanted.candidate, draft, actor, order).id
        else:
            origin = {"engine": actor.name, "work_order": order}
            candidate = make_candidate(study, draft, actor, order, origin).id
    except (TelicError, ValidationError) as error:
        why = error.message if isinstance(error, TelicError) else _complaints(error)
        study.append("work_order.rejected", order, {**facts, "why": why}, actor)
        raise UsageError(why) from None
    study.append("work_order.accepted", order, {**facts, "candidate": candidate}, actor)
    return candidate


def _complaints(error: ValidationError) -> str:
    return "; ".join(f"{'.'.join(map(str, x['loc']))}: {x['msg']}" for x in error.errors())


def _study_of(call: Call, order: str) -> OpenStudy | None:
    """Return the study of an order, or None if the order belongs to a session or search."""
    kind, task, study, _ = [*order.split("/"), "", "", ""][:4]
    return workplace(call).open_study(task, study) if kind == _STUDY else None


# ---------------------------------------------------------------------------- tools

OrderName = Annotated[str, Field(description="The order's id, as next_work_order gave it.")]


class Declined(Record):
    """A declined order."""

    order: str


def list_work(
    call: Call,
    limit: Annotated[int, Field(ge=1, le=1000, description="Maximum number.")] = 20,
) -> dict[str, Any]:
    """List sessions, runs and searches: what was asked, state, score, open work orders."""
    place = workplace(call)
    found = list_artifacts(runs_dir=place.runs_dir, root=place.root, limit=limit)
    return {"work": [plain(line) for line in found.data if line.kind != "study"]}


def next_work_order(call: Call, task: Task = None, study: Study = None) -> dict[str, Any]:
    """Return the next model request: of a session or search first, then of the study.

    Answer it with one JSON object that matches its output_schema, using submit_work_order. If there
    is none, call again later.
    """
    place = workplace(call)
    found = next(_open_orders(place.runs_dir), None)
    if found is not None:
        return {"order": plain(_session_order(*found)), "why": ""}
    try:
        order = _study_order(place.open_study(task, study))
    except StudyError as error:  # a repository may have sessions but no study
        return {"order": None, "why": error.message}
    return {"order": plain(order), "why": "" if order else "No work order is open."}


def submit_work_order(
    call: Call,
    order: OrderName,
    answer: Annotated[dict[str, Any], Field(description="One object of the order's schema.")],
) -> Handed:
    """Submit an answer; a rejection lists all of its errors."""
    study = _study_of(call, order)
    try:
        if study is not None:
            result = _answer_study(study, order, answer, caller(call))
        else:
            result = _answer_session(workplace(call).runs_dir, order, answer)
    except UnknownName:
        raise
    except TelicError as error:
        raise UsageError(f"The answer was not accepted: {error.message}", hint=error.hint) from None
    return Handed(order=order, result=result)


def decline_work_order(call: Call, order: OrderName, because: Because) -> Declined:
    """Decline an order that you cannot or should not answer; it is not offered again."""
    study = _study_of(call, order)
    if study is not None:
        wanted = _wanted(study)
        if wanted is None or wanted.order.id != order:
            raise UnknownName("work order", order, [wanted.order.id] if wanted else [])
        facts = {"why": because, "declined": True}
        study.append("work_order.rejected", order, facts, caller(call))
    else:
        run, _, key = order.partition("/")
        folder = _orders_of(workplace(call).runs_dir, run)
        declined = {"by": caller(call).name, "because": because}
        write_json(_declined_file(folder, read_order(folder, key).key), declined)
    return Declined(order=order)


def register(server: Server) -> None:
    """Register the work order tools."""
    add_tool(server, next_work_order, READS)
    add_tool(server, submit_work_order, RECORDS)
    add_tool(server, decline_work_order, RECORDS)
    add_tool(server, list_work, READS)
