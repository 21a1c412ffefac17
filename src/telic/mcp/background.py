"""Tools that start and end sessions and searches in the background; only with --allow-launch."""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated

from pydantic import Field

from telic.core.config import Record
from telic.errors import UnknownName, UsageError
from telic.mcp.adding import STARTS, Server, add_tool
from telic.mcp.http import TOKEN_VARIABLE
from telic.mcp.workplace import Call, workplace
from telic.session.find import is_running
from telic.storage.layout import list_sessions

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


def register(server: Server) -> None:
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
    from telic.search.folder import list_searches

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
