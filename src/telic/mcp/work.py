"""Sessions and searches: what there is, how far it is, and which work orders wait."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from telic.core.config import Record
from telic.llm.work_orders import ORDERS, list_orders
from telic.mcp.adding import READS, Server, add_tool
from telic.mcp.workplace import Call, workplace
from telic.storage.files import read_json

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
    from telic.session.find import state_of
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
    from telic.search.folder import list_searches
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
