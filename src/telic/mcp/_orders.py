"""Work orders: model requests from sessions and searches, to be answered by the host agent."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from telic.errors import TelicError, UnknownName, UsageError
from telic.llm.work_orders import ORDERS, answer_order, list_orders, read_order
from telic.mcp._workplace import READS, RECORDS, Call, Server, add_tool, caller, workplace
from telic.storage.files import plain, write_json
from telic.storage.keys import is_own_folder
from telic.verbs.artifacts import list_artifacts

_CODE = "source"
"""field of an answer that contains a complete Python file"""
_OrderName = Annotated[str, Field(description="Id of the order, as returned by next_work_order.")]
_Because = Annotated[str, Field(description="Reason to record with the order.")]
_Answer = Annotated[dict[str, Any], Field(description="One JSON object that matches the schema.")]


def _folders(runs_dir: Path) -> dict[str, Path]:
    """Return the work order folders of this user. The agent must not follow orders of others."""
    found = sorted(runs_dir.glob(f"*/{ORDERS}"))
    return {path.parent.name: path for path in found if is_own_folder(path.parent)}


def _folder(call: Call, run: str) -> Path:
    folders = _folders(workplace(call).runs_dir)
    if run not in folders:
        raise UnknownName("session or search", run, list(folders))
    return folders[run]


def _declined_file(folder: Path, key: str) -> Path:
    return folder / f"{key}.declined.json"


def picture(call: Call, run: str, name: str) -> Path:
    """Return a picture from a work order. Raises UnknownName if it does not exist."""
    folder = _folder(call, run)
    orders = [read_order(folder, line.key) for line in list_orders(folder)]
    pictures = {Path(path).name: Path(path) for order in orders for path in order.images}
    if name not in pictures:
        raise UnknownName("picture", name, list(pictures))
    return pictures[name]


def list_work(
    call: Call,
    limit: Annotated[int, Field(ge=1, le=1000, description="Maximum number of entries.")] = 20,
) -> dict[str, Any]:
    """List sessions, runs and searches with their request, state, score and open work orders."""
    place = workplace(call)
    found = list_artifacts(runs_dir=place.runs_dir, root=place.root, limit=limit)
    return {"work": [plain(line) for line in found.data if line.kind != "study"]}


def next_work_order(call: Call) -> dict[str, Any]:
    """Return the next model request from a session or search.

    Read the order's inputs, and answer with `submit_work_order` and one JSON object that matches
    its `output_schema`. If no order is returned, call again later. For studies, call `study_next`.
    """
    for run, folder in _folders(workplace(call).runs_dir).items():
        for line in list_orders(folder):
            if line.state in ("open", "rejected") and not _declined_file(folder, line.key).exists():
                order = read_order(folder, line.key)
                asked = {
                    "id": f"{run}/{order.key}",
                    "role": order.role,
                    "instructions": order.system,
                    "request": order.prompt,
                    "inputs": [f"telic://orders/{run}/{Path(path).name}" for path in order.images],
                    "output_schema": order.answer_schema,
                    "complaint": line.reason,
                }
                return {"order": asked, "why": ""}
    return {"order": None, "why": "All work orders have been answered."}


def submit_work_order(call: Call, order: _OrderName, answer: _Answer) -> dict[str, Any]:
    """Submit an answer. If it is rejected, the response lists all errors."""
    run, _, key = order.partition("/")
    folder, source = _folder(call, run), answer.get(_CODE)
    try:
        if isinstance(source, str):
            ast.parse(source)
        path = answer_order(folder, key, json.dumps(answer))
    except SyntaxError as error:
        why = f"line {error.lineno} of the code: {error.msg}"
        raise UsageError(f"The answer was not accepted: {why}") from None
    except UnknownName:
        raise
    except TelicError as error:
        raise UsageError(f"The answer was not accepted: {error.message}", hint=error.hint) from None
    return {"order": order, "result": str(path.relative_to(workplace(call).runs_dir))}


def decline_work_order(call: Call, order: _OrderName, because: _Because) -> dict[str, Any]:
    """Decline a work order that you cannot or should not answer. It is not offered again."""
    run, _, key = order.partition("/")
    folder = _folder(call, run)
    declined = {"by": caller(call).name, "because": because}
    write_json(_declined_file(folder, read_order(folder, key).key), declined)
    return {"order": order}


def register(server: Server) -> None:
    """Register the work order tools."""
    add_tool(server, next_work_order, READS)
    add_tool(server, submit_work_order, RECORDS)
    add_tool(server, decline_work_order, RECORDS)
    add_tool(server, list_work, READS)
