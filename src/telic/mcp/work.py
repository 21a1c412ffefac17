"""Sessions and searches: what there is, what they and studies ask for; started if allowed."""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from telic.core.config import Record
from telic.errors import UnknownName, UsageError
from telic.mcp.http import TOKEN_VARIABLE
from telic.mcp.orders import (
    Handed,
    HostOrder,
    OrderSource,
    SessionOrders,
    StudyOrders,
    is_study_order,
    study_of_order,
)
from telic.mcp.workplace import (
    ADDS,
    READS,
    RECORDS,
    STARTS,
    Because,
    Call,
    Server,
    Study,
    Task,
    add_tool,
    caller,
    workplace,
)
from telic.session.records import is_running
from telic.storage.layout import list_sessions
from telic.studies.errors import StudyError
from telic.verbs.lines import ThingLine
from telic.verbs.things import list_things

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


# ---------------------------------------------------------------------------- what it asks for

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


# ---------------------------------------------------------------------------- starting and ending

Model = Annotated[
    str | None,
    Field(description="host: you answer its work orders; provider:model; null: no model."),
]


class StartedWork(Record):
    """A process that goes on by itself; list_work shows how far it is."""

    pid: int
    log: str
    command: str


class StopAsked(Record):
    """A session or a search that ends at its next safe point; it can go on later."""

    work: str


def register_starting(server: Server) -> None:
    """Add the tools."""
    for tool in (start_session, start_search, stop_work):
        add_tool(server, tool, STARTS)


def start_session(
    call: Call,
    intent: Annotated[str, Field(min_length=1, description="What the robot should do, in words.")],
    env: Annotated[str, Field(description="Environment id.")] = "HalfCheetah-v5",
    model: Model = "host",
    iterations: Annotated[int, Field(ge=1, description="Rewards to try at most.")] = 4,
    steps: Annotated[int | None, Field(ge=1, description="Steps per policy.")] = None,
    max_calls: Annotated[int | None, Field(ge=1, description="Model calls at most.")] = None,
    budget_usd: Annotated[float | None, Field(ge=0)] = None,
    budget_hours: Annotated[float | None, Field(gt=0)] = None,
) -> StartedWork:
    """Start a session in the background: from words to a trained policy with evidence."""
    options = {
        "--env": env,
        "--model": model,
        "--iterations": iterations,
        "--steps": steps,
        "--max-calls": max_calls,
        "--max-usd": budget_usd,
        "--max-hours": budget_hours,
    }
    return _start(workplace(call).runs_dir, "run", options, [intent])


def start_search(
    call: Call,
    env: Annotated[str, Field(description="Task, e.g. CartPole-v1.")],
    method: Annotated[str, Field(description="E.g. r2po, props, cma.")] = "r2po",
    model: Model = "host",
    runs: Annotated[int, Field(ge=1, description="Independent repetitions.")] = 1,
    episodes: Annotated[int, Field(ge=1, description="Episodes of the budget, per run.")] = 4000,
    max_calls: Annotated[int | None, Field(ge=1, description="Model calls at most.")] = None,
    budget_usd: Annotated[float | None, Field(ge=0)] = None,
) -> StartedWork:
    """Start a policy search in the background."""
    options = {
        "--env": env,
        "--method": method,
        "--model": model,
        "--runs": runs,
        "--episodes": episodes,
        "--max-calls": max_calls,
        "--max-usd": budget_usd,
    }
    return _start(workplace(call).runs_dir, "search", options)


def stop_work(
    call: Call, work: Annotated[str, Field(description="Its id, as list_work gives it.")]
) -> StopAsked:
    """Ask a session or a search to save and end; running it again goes on."""
    from telic.search.records import list_searches

    runs_dir = workplace(call).runs_dir
    folders = {
        folder.name: folder for folder in (*list_sessions(runs_dir), *list_searches(runs_dir))
    }
    if work not in folders:
        raise UnknownName("session or search", work, list(folders))
    if not is_running(folders[work]):
        raise UsageError(f"{work} is not running.")
    folders[work].stop.touch()
    return StopAsked(work=work)


def _start(
    runs_dir: Path, verb: str, options: Mapping[str, object], words: Sequence[str] = ()
) -> StartedWork:
    """Start a telic command that outlives this server; what it prints goes to a file."""
    given = [f"{name}={value}" for name, value in options.items() if value is not None]
    line = [verb, *given, f"--runs-dir={runs_dir}", "--json", *(["--", *words] if words else [])]
    log = runs_dir / "started" / f"{verb}_{secrets.token_hex(4)}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "telic", *line],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE},
        )
    # Somebody has to ask how it ended, or it stays in the process table for as long as we run.
    threading.Thread(target=process.wait, daemon=True).start()
    return StartedWork(pid=process.pid, log=str(log), command=shlex.join(["telic", *line]))
