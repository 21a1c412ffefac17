"""Sessions, work orders, wishes and things on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from telic.cli.output import console, print_facts, table, view
from telic.core.text import number

if TYPE_CHECKING:
    from telic.llm.work_orders import WorkOrder
    from telic.session.api import Session
    from telic.verbs.control import BranchMade, CriteriaAgreed, NoteTaken, WorkState
    from telic.verbs.orders import AnswerTaken, OrderList
    from telic.verbs.session import SessionList
    from telic.verbs.things import ReportPlace, SessionPage, ThingMoved

_VERDICTS = {
    "passed": "[bold green]passed[/]",
    "not_passed": "[bold yellow]did not pass[/]",
    "stopped": "[bold]stopped[/]; the same command goes on",
}


@view
def show_session(session: Session) -> None:
    """Print what a session came to, and what can be done with it."""
    summary = session.summary
    console.print(f"\n{_VERDICTS[summary.outcome]}: {summary.intent} ({summary.env})")
    if summary.reason:
        console.print(f"[dim]{escape(summary.reason)}[/]")
    if summary.score is not None:
        low = number(summary.low, 2)
        console.print(f"score {number(summary.score, 2)}, at least {low} with 95 % confidence")
    page = session.path / "report.html"
    console.print(f"report  {page if page.exists() else session.path / 'report.md'}")
    video = session.path / "report" / "median.mp4"
    if video.exists():
        console.print(f"video   {video}")
    if session.run is not None:
        console.print(f"policy  telic export {session.path.name}")


@view
def show_sessions(found: SessionList) -> None:
    """Print a line per session."""
    if not found.sessions:
        start = 'telic run "run forward fast"'
        console.print(f"No sessions in {found.runs_dir}. Start one with: {start}")
        return
    columns = ["session", "intent", "environment", "state", "iterations", "score"]
    rows = [
        (each.session, each.intent, each.env, each.state, each.iterations, number(each.score, 2))
        for each in found.sessions
    ]
    console.print(table(None, columns, rows))


@view
def show_session_page(page: SessionPage) -> None:
    """Print what was asked, what was tried, and where the report is."""
    facts = page.facts
    print_facts(
        {
            "session": facts.path,
            "intent": facts.intent,
            "environment": facts.env,
            "state": facts.state,
            "score": None if facts.score is None else number(facts.score, 2),
            "report": page.report,
        }
    )
    if page.iterations:
        rows = [
            (
                each["number"],
                "yes" if each["passed"] else "no",
                each["score"],
                each["change"],
                ", ".join(each["tags"] or ()) or each["failure"] or "",
            )
            for each in page.iterations
        ]
        console.print()
        console.print(table(None, ["iteration", "passed", "score", "change", "lacking"], rows))


@view
def show_state(work: WorkState) -> None:
    """Say what became of it."""
    console.print(f"{work.name} is {work.state}.")
    if work.state in ("stopped", "interrupted", "pausing", "paused"):
        console.print(f"go on with: telic resume {work.name}")


@view
def show_note(note: NoteTaken) -> None:
    """Say that it was heard."""
    console.print(f"noted for the next revision of {note.session}")


@view
def show_agreement(agreed: CriteriaAgreed) -> None:
    """Print what was agreed to."""
    console.print(f"{agreed.session} goes on with:")
    for criterion in agreed.agreement.criteria:
        console.print(f"  • {criterion.title}", markup=False)


@view
def show_branch(made: BranchMade) -> None:
    """Say how to start it."""
    console.print(f"{made.session} starts from iteration {made.iteration} of {made.origin}")
    console.print(f"start it with: telic resume {made.session}")


@view
def show_report(report: ReportPlace) -> None:
    """Print where a report is."""
    print_facts({"markdown": report.markdown, "page": report.page})


@view
def show_moved(thing: ThingMoved) -> None:
    """Say where it went."""
    if thing.is_deleted:
        console.print(f"deleted {thing.name}; bring it back with: telic restore {thing.name}")
    else:
        console.print(f"{thing.name} is back: {thing.path}", soft_wrap=True)


@view
def show_orders(found: OrderList) -> None:
    """Print a line per order."""
    rows = [(each.key[:12], each.role, each.state, each.reason or "") for each in found.orders]
    console.print(table("work orders", ["order", "role", "state", "last complaint"], rows))


@view
def show_order(order: WorkOrder) -> None:
    """Print an order as a page."""
    from telic.llm.work_orders import describe

    console.print(describe(order), markup=False, highlight=False, soft_wrap=True)


@view
def show_answer(taken: AnswerTaken) -> None:
    """Say where the answer went."""
    console.print(f"handed in: {taken.answer}")
