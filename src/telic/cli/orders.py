"""telic orders: answer what a session asks a model, by hand or as a coding agent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from telic.cli.options import RUNS, AsJson, Debug, RunsDir
from telic.cli.output import command, console, print_json, table
from telic.errors import UsageError

Folder = Annotated[
    Path | None,
    typer.Option("--session", help="Session folder; the latest with open orders if left out."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    orders = typer.Typer(
        help="Answer the work orders of a session that runs with a host as its model.",
        no_args_is_help=True,
    )
    orders.command("list")(command(list_))
    orders.command("show")(command(show))
    orders.command("answer")(command(answer))
    app.add_typer(orders, name="orders")


def list_(
    session: Folder = None, runs_dir: RunsDir = RUNS, as_json: AsJson = False, debug: Debug = False
) -> None:
    """List work orders, those that wait first."""
    from telic.llm import list_orders

    lines = list_orders(_folder(session, runs_dir))
    if as_json:
        print_json([each.model_dump() for each in lines])
        return
    rows = [(each.key[:12], each.role, each.state, each.reason or "") for each in lines]
    console.print(table("work orders", ["order", "role", "state", "last complaint"], rows))


def show(
    key: Annotated[str, typer.Argument(help="Order: its key, or the start of it.")],
    session: Folder = None,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Print a work order: instructions, request and the schema of the answer."""
    from telic.llm import read_order
    from telic.llm.work_orders import describe

    order = read_order(_folder(session, runs_dir), key)
    if as_json:
        print_json(order.model_dump())
    else:
        console.print(describe(order), markup=False, highlight=False, soft_wrap=True)


def answer(
    key: Annotated[str, typer.Argument(help="Order: its key, or the start of it.")],
    file: Annotated[str, typer.Argument(help="JSON file with the answer; - reads it from input.")],
    session: Folder = None,
    runs_dir: RunsDir = RUNS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Check an answer against its schema and hand it in."""
    from telic.llm import answer_order

    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}.") from None
    path = answer_order(_folder(session, runs_dir), key, text)
    if as_json:
        print_json({"answer": str(path)})
    else:
        console.print(f"handed in: {path}")


def _folder(session: Path | None, runs_dir: Path) -> Path:
    """Return the folder of orders that is meant."""
    from telic.llm.work_orders import ORDERS

    if session is not None:
        found = session if session.name == ORDERS else session / ORDERS
        if not found.is_dir():
            raise UsageError(f"{session} has no work orders.", hint="See: telic run --help")
        return found
    known = sorted(runs_dir.glob(f"*/{ORDERS}"), key=lambda each: each.stat().st_mtime)
    if not known:
        raise UsageError(
            f"No session in {runs_dir} has work orders.", hint="Name one with --session."
        )
    return known[-1]
