"""Runs, sessions, work orders, wishes and things on a terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from telic.cli.console import console, print_facts, print_rows
from telic.cli.output import view
from telic.core.text import duration, number, sparkline
from telic.session.outcome import OUTCOMES, Outcome, outcome_words

if TYPE_CHECKING:
    from telic.cli.terminal_looks import CommandLine
    from telic.llm.work_orders import WorkOrder
    from telic.session.loop import Session
    from telic.session.records import SessionSummary
    from telic.training.job import TrainJob
    from telic.training.run import Run
    from telic.verbs.control import BranchMade, CriteriaAgreed, NoteTaken, WorkState
    from telic.verbs.play import EpisodeVideo
    from telic.verbs.session import AnswerTaken, OrderList, SessionLine, SessionList
    from telic.verbs.things import (
        ExportedPolicy,
        ReportPlace,
        RunPage,
        SessionPage,
        ThingMoved,
    )
    from telic.verbs.train import PresetTable, TrainingRuns


@view
def show_run(run: Run) -> None:
    """Print what was learned, how good it is and where everything is."""
    from telic.storage.layout import RunFolder
    from telic.training.folder import is_resumable

    summary = run.summary
    console.print()
    print_facts(
        {
            "run": run.path,
            "status": summary["status"],
            **_best_facts(run.path),
            "steps": f"{summary['total_timesteps']:,}",
            "time": duration(summary["training_time_s"]),
            "steps per second": number(summary["steps_per_second"]),
            "video": next((video for video in run.videos if "median" in video.name), None),
        }
    )
    name = run.path.name
    if summary["status"] == "completed":
        console.print(f"\nnext: telic show {name}   telic play {name}   telic export {name}")
    elif is_resumable(RunFolder(run.path)):
        console.print(f"\ngo on with: telic resume {name}")


@view
def show_plan(job: TrainJob) -> None:
    """Print what would be trained."""
    print_facts(
        {
            "environment": job.env,
            "members": len(job.members),
            "steps each": f"{job.iterations * job.settings.batch_size:,}",
            "environments": job.settings.num_envs * len(job.members),
            "evaluations": f"{job.evaluations} x {job.eval_episodes} episodes",
        }
    )
    print_rows(["member"], [[member.name] for member in job.members])


@view
def show_runs(found: TrainingRuns) -> None:
    """Print a line per run."""
    if not found.runs:
        console.print(f"No runs in {found.runs_dir}. Make one with: telic train HalfCheetah-v5")
        return
    shown = ("run", "env", "status", "members", "total_timesteps", "best_return")
    rows = [
        (*map(run.get, shown), duration(time.time() - run["updated"]) + " ago")
        for run in found.runs
    ]
    columns = ["run", "environment", "state", "members", "steps", "best return", "active"]
    print_rows(columns, rows)


@view
def show_run_page(page: RunPage) -> None:
    """Print a run with its members."""
    facts = page.facts
    print_facts(
        {
            "run": facts["path"],
            "environment": facts["env"],
            "state": facts["status"],
            "steps": f"{facts['total_timesteps']:,}" if facts["total_timesteps"] else None,
            "time": duration(facts["training_time_s"]),
            "error": facts["error"],
        }
    )
    for member in page.members:
        _print_member(member, page.is_single)
    if not page.is_single:
        _print_comparison(page.members)


@view
def show_command_line(made: CommandLine) -> None:
    """Print the command that made something, and nothing else."""
    console.print(made.command, markup=False, soft_wrap=True)


@view
def show_video(video: EpisodeVideo) -> None:
    """Print where the video is."""
    print_facts(video.facts)


@view
def show_export(exported: ExportedPolicy) -> None:
    """Print what the bundle holds."""
    console.print("exported and verified")
    print_facts(exported.facts)


@view
def show_presets(found: PresetTable) -> None:
    """Print a table per preset."""
    for name, by_env in found.presets.items():
        fields = list(next(iter(by_env.values())).settings.model_dump())
        rows = [
            (field, *(_setting(getattr(preset.settings, field)) for preset in by_env.values()))
            for field in fields
        ]
        rows.insert(0, ("steps", *(f"{preset.steps:,}" for preset in by_env.values())))
        short = [env.removesuffix("-v5") for env in by_env]
        print_rows(["setting", *short], rows, title=f"preset {name}")
        console.print()


def _setting(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def _print_member(member: dict[str, Any], single: bool) -> None:
    console.print(f"\n[bold]{escape(member['member'])}[/]  {sparkline(member['curve'])}")
    if not single:
        return
    shown = ("p10_return", "median_return", "p90_return", "episode_length")
    evaluations: list[dict[str, Any]] = member["evaluations"]
    rows = [
        (x["global_step"], x.get("mean_return"), _interval(x.get("interval")), *map(x.get, shown))
        for x in evaluations
    ]
    columns = ["steps", "return", "95 % interval", "p10", "median", "p90", "length"]
    print_rows(columns, rows)
    reward: dict[str, Any] = member["reward"] or {}
    if reward.get("latex"):
        console.print(f"\nreward: {escape(reward['latex'])}")
    for term in reward.get("terms", []):
        console.print(f"  {escape(term['name'])}: {escape(term.get('description') or '')}")
    summary: dict[str, Any] = member["summary"] or {}
    for finding in summary.get("findings", []):
        console.print(f"[yellow]![/] {escape(finding['message'])}")
    print_facts({"files": member["path"], "videos": ", ".join(member["videos"]) or None})


def _print_comparison(members: list[dict[str, Any]]) -> None:
    rows: list[tuple[Any, ...]] = []
    shown = ("env_return", "episode_length", "global_step")
    for member in members:
        summary: dict[str, Any] = member["summary"] or {}
        best: dict[str, Any] = summary.get("best") or {}
        spread = _interval(best.get("interval"))
        rows.append((member["member"], best.get("mean_return"), spread, *map(best.get, shown)))
    console.print()
    columns = ["member", "return", "95 % interval", "task return", "length", "at step"]
    print_rows(columns, rows)


def _interval(interval: Sequence[float] | None) -> str:
    return f"{number(interval[0])} … {number(interval[1])}" if interval else "–"


def _best_facts(path: Path) -> dict[str, Any]:
    """Return what to say about the best member of a run."""
    from telic.storage.facts import MemberResultFacts
    from telic.storage.files import read_facts
    from telic.storage.layout import RunFolder
    from telic.training.folder import best_member

    run = RunFolder(path)
    folder = best_member(run)
    if folder is None or not folder.summary.exists():
        return {}
    best = read_facts(folder.summary, MemberResultFacts).get("best")
    if best is None:
        return {"best": folder.name}
    spread = _interval(best.get("interval"))
    return {
        "best": folder.name if len(run.members()) > 1 else None,
        "return": f"{number(best.get('mean_return'))} (95 % interval {spread}, "
        f"{best.get('episodes')} "
        f"fresh episodes, at {best['global_step']:,} steps)",
        "episode length": number(best.get("episode_length")),
    }


_STYLES = {"passed": "bold green", "stopped": "bold"}


def counted_episodes(summary: SessionSummary) -> str:
    """Say how many of its fresh episodes the best policy passes."""
    return f" ({summary.passing} of {summary.episodes} fresh episodes pass)"


@view
def show_session(session: Session) -> None:
    """Print what a session came to, and what can be done with it."""
    summary = session.summary
    verdict = outcome_words(summary.outcome, summary.limits)
    styled = f"[{_STYLES.get(summary.outcome, 'bold yellow')}]{verdict}[/]"
    on = "; the same command goes on" if summary.outcome == "stopped" else ""
    console.print(f"\n{styled}{on}: {escape(summary.intent)} ({summary.env})")
    for reason in summary.reasons:
        console.print(f"[yellow]![/] {escape(reason)}")
    if summary.reason:
        console.print(f"[dim]{escape(summary.reason)}[/]")
    if summary.score is not None:
        counted = "" if summary.passing is None else counted_episodes(summary)
        proven = (
            ", which proves nothing"
            if summary.low is None
            else f", at least {number(summary.low, 2)} with 95 % confidence"
        )
        console.print(f"score {number(summary.score, 2)}{proven}{counted}")
    _print_robustness(session)
    page = session.path / "report.html"
    console.print(f"report  {page if page.exists() else session.path / 'report.md'}")
    video = session.path / "report" / "median.mp4"
    if video.exists():
        console.print(f"video   {video}")
    if session.run is not None:
        console.print(f"policy  telic export {session.path.name}")


def _print_robustness(session: Session) -> None:
    from telic.session.robustness import read_card, summary_line
    from telic.storage.layout import SessionFolder

    card = read_card(SessionFolder(session.path))
    if card is not None:
        console.print(f"robustness: {summary_line(card)}", soft_wrap=True)


_NARROW = 100
"""columns below which a list is short of room"""


@view
def show_sessions(found: SessionList) -> None:
    """Print a line per session."""
    if not found.sessions:
        start = 'telic run "run forward fast"'
        console.print(f"No sessions in {found.runs_dir}. Start one with: {start}")
        return
    is_narrow = console.width < _NARROW  # ids are found without the word in front of them, too
    where = "env" if is_narrow else "environment"
    columns = ["session", "intent", where, "state", "tried", "score", "people"]
    rows = [
        (
            x.session.removeprefix("session_") if is_narrow else x.session,
            x.intent,
            x.env,
            x.state.replace("_", " "),
            x.iterations,
            number(x.score, 2),
            _people(x) or "",
        )
        for x in found.sessions
    ]
    if not any(line.labels for line in found.sessions):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    print_rows(columns, rows)


def _people(line: SessionLine) -> str | None:
    """Say how many labels of people agree with the judge; None where there are none."""
    return f"{line.labels - line.disputed} of {line.labels} agree" if line.labels else None


def _state_words(page: SessionPage) -> str:
    state = page.facts.state
    known: dict[str, Outcome] = {outcome: outcome for outcome in OUTCOMES}
    return outcome_words(known[state], page.limits) if state in known else state


@view
def show_session_page(page: SessionPage) -> None:
    """Print what was asked, what was tried, and where the report is."""
    facts = page.facts
    print_facts(
        {
            "session": facts.path,
            "intent": facts.intent,
            "environment": facts.env,
            "state": _state_words(page),
            "because": "; ".join(page.reasons) or None,
            "score": None if facts.score is None else number(facts.score, 2),
            "labels": _people(facts),
            "report": page.report,
        }
    )
    if page.iterations:
        rows = [
            (
                x["number"],
                "yes" if x["passed"] else "no",
                x["score"],
                x["change"],
                ", ".join(x["tags"] or ()) or x["failure"] or "",
            )
            for x in page.iterations
        ]
        console.print()
        print_rows(["iteration", "passed", "score", "change", "lacking"], rows)


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
    rows = [(x.key[:12], x.role, x.state, x.reason or "") for x in found.orders]
    print_rows(["order", "role", "state", "last complaint"], rows, title="work orders")


@view
def show_order(order: WorkOrder) -> None:
    """Print an order as a page."""
    from telic.llm.work_orders import describe

    console.print(describe(order), markup=False, highlight=False, soft_wrap=True)


@view
def show_answer(taken: AnswerTaken) -> None:
    """Say where the answer went."""
    console.print(f"handed in: {taken.answer}")
