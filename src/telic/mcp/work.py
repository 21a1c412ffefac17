"""Sessions and searches: what there is and how far it is; started in the background if allowed."""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from telic.core.config import Record
from telic.errors import UnknownName, UsageError
from telic.llm.work_orders import ORDERS, list_orders
from telic.mcp.http import TOKEN_VARIABLE
from telic.mcp.workplace import READS, STARTS, Call, Server, add_tool, workplace
from telic.session.state import is_running
from telic.storage.files import read_json
from telic.storage.layout import list_sessions

Limit = Annotated[int, Field(ge=1, le=1000, description="At most so many, the newest.")]


class WorkLine(Record):
    """A session or a search in a list."""

    id: str
    kind: Literal["session", "search"]
    what: str
    """the intent, or the method"""
    env: str
    state: str
    score: float | None
    open_orders: int


class WorkList(Record):
    """Sessions and searches, the newest first."""

    work: tuple[WorkLine, ...]
    left_out: int


def register(server: Server) -> None:
    """Add the tool."""
    add_tool(server, list_work, READS)


def list_work(call: Call, limit: Limit = 20) -> WorkList:
    """List sessions and searches: what was asked, how far they are, which orders wait."""
    runs_dir = workplace(call).runs_dir
    found = [*_sessions(runs_dir), *_searches(runs_dir)]
    found.sort(key=lambda each: each.id.partition("_")[2], reverse=True)
    return WorkList(work=tuple(found[:limit]), left_out=max(0, len(found) - limit))


def _sessions(runs_dir: Path) -> list[WorkLine]:
    from telic.session.state import state_of
    from telic.storage.layout import list_sessions

    lines: list[WorkLine] = []
    for folder in list_sessions(runs_dir):
        request = read_json(folder.config)
        files = [folder.iteration(each).judgment for each in folder.iterations()]
        scores = [read_json(each)["score"] for each in files if each.exists()]
        lines.append(
            WorkLine(
                id=folder.name,
                kind="session",
                what=request["intent"],
                env=request["env"],
                state=state_of(folder),
                open_orders=_open_orders(folder.path),
                score=max((each for each in scores if each is not None), default=None),
            )
        )
    return lines


def _searches(runs_dir: Path) -> list[WorkLine]:
    from telic.search.records import list_searches
    from telic.storage.locks import lock_holder

    lines: list[WorkLine] = []
    for folder in list_searches(runs_dir):
        request = read_json(folder.config)
        ended = read_json(folder.summary) if folder.summary.exists() else None
        idle = "interrupted" if ended is None else ended["outcome"]
        lines.append(
            WorkLine(
                id=folder.name,
                kind="search",
                what=request["method"],
                env=request["env"],
                state=idle if lock_holder(folder.lock) is None else "running",
                score=None,
                open_orders=_open_orders(folder.path),
            )
        )
    return lines


def _open_orders(path: Path) -> int:
    return sum(each.state != "answered" for each in list_orders(path / ORDERS))


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
        "--budget-usd": budget_usd,
        "--budget-hours": budget_hours,
    }
    return _start(workplace(call).runs_dir, ["run"], options, [intent])


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
        "--budget-usd": budget_usd,
    }
    return _start(workplace(call).runs_dir, ["search"], options, [])


def stop_work(
    call: Call, work: Annotated[str, Field(description="Its id, as list_work gives it.")]
) -> StopAsked:
    """Ask a session or a search to save and end; running it again goes on."""
    from telic.search.records import list_searches

    runs_dir = workplace(call).runs_dir
    known = {each.name: each for each in (*list_sessions(runs_dir), *list_searches(runs_dir))}
    if work not in known:
        raise UnknownName("session or search", work, list(known))
    if not is_running(known[work]):
        raise UsageError(f"{work} is not running.")
    known[work].stop.touch()
    return StopAsked(work=work)


def _start(
    runs_dir: Path, verb: list[str], options: dict[str, object], words: list[str]
) -> StartedWork:
    """Start a telic command that outlives this server; what it prints goes to a file."""
    given = [f"{name}={value}" for name, value in options.items() if value is not None]
    line = [*verb, *given, f"--runs-dir={runs_dir}", "--json", *(["--", *words] if words else [])]
    log = runs_dir / "started" / f"{verb[0]}_{secrets.token_hex(4)}.log"
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
