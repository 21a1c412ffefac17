"""Views for results that the generic view cannot print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.markdown import Markdown
from rich.markup import escape

from telic import session as sessions
from telic import tracking
from telic.cli._console import console, print_facts, print_rows
from telic.cli._output import print_data, view
from telic.core.text import duration, number, sparkline
from telic.core.verb import as_data
from telic.judges.criteria import scope_words
from telic.llm.work_orders import order_text
from telic.report import document as doc
from telic.report.markdown import render_section
from telic.session.records import outcome_words
from telic.storage.files import read_fields
from telic.storage.layout import RunFolder, SessionFolder
from telic.storage.scalars import EvaluationRow
from telic.training.folder import best_member, is_resumable

if TYPE_CHECKING:
    from telic.authors.author import MeasurableIntent
    from telic.bench.intents import Benchmark
    from telic.bench.results import PassRate
    from telic.envs.spec import EnvSpec
    from telic.llm.work_orders import WorkOrder
    from telic.search.records import SearchSummary
    from telic.search.runner import Search
    from telic.session.loop import Session
    from telic.training.run import Run
    from telic.verbs.artifacts import RunPage
    from telic.verbs.envs import RobotText
    from telic.verbs.motions import MotionIntake
    from telic.verbs.study_runs import StatusReport
    from telic.verbs.track import TrackedRun, TrackerEvaluation

_STYLES = {"passed": "bold green", "stopped": "bold"}
_RESUME = "run the same command to resume"


def _interval(interval: Sequence[float | None] | None) -> str:
    if not interval or interval[0] is None:
        return "–"
    return f"{number(interval[0])} … {number(interval[1])}"


def _say(text: str, **options: Any) -> None:
    console.print(text, soft_wrap=True, **options)


# ---- sessions and runs


def asked_lines(event: MeasurableIntent) -> Iterator[str]:
    """Yield lines that describe the criteria, goals, weights and unjudged parts of an intent."""
    yield "criteria:"
    whole = sum(each.weight for each in event.criteria) or 1.0
    for each in event.criteria:
        counts = "constraint" if each.is_guard else f"weight {each.weight / whole:.0%}"
        counts += ", must be met" if each.is_stated else ""
        if each.zero is not None and each.goal is not None:
            is_share = each.measure.startswith("share(")
            form = "{:.0%}, full at {:.0%}" if is_share else "{:.3g}, full at {:.3g} {}"
            ends, unit = (each.zero, each.goal), each.unit
            if unit == "turns" and abs(each.goal) < 1.0:
                ends, unit = (360.0 * each.zero, 360.0 * each.goal), "degrees"
            counts += f", no credit at {form.format(*ends, unit)}".rstrip()
        yield f"  • {escape(each.title)} [dim]({escape(counts)})[/]"
    for doubt in event.doubts:
        yield f"  [dim]{escape(doubt)}[/]"
    left = (*event.not_understood, *event.dropped)
    if scope := scope_words([each.words for each in event.covered], left):
        yield f"  [{'yellow' if left else 'dim'}]{escape(scope)}[/]"


@view
def show_reading(reading: MeasurableIntent) -> None:
    """Print how an intent was interpreted."""
    for line in asked_lines(reading):
        _say(line)


@view
def show_session(session: Session) -> None:
    """Print the outcome of a session, and commands that open its report and policy."""
    summary = session.summary
    verdict = outcome_words(summary.outcome, summary.limits)
    styled = f"[{_STYLES.get(summary.outcome, 'bold yellow')}]{verdict}[/]"
    resume = f"; {_RESUME}" if summary.outcome == "stopped" else ""
    console.print(f"\n{styled}{resume}: {escape(summary.intent)} ({escape(summary.env)})")
    for reason in summary.reasons:
        console.print(f"[yellow]![/] {escape(reason)}")
    if summary.reason:
        console.print(f"[dim]{escape(summary.reason)}[/]")
    if summary.score is not None:
        low = f", lower bound {number(summary.low, 2)} (95 % confidence)"
        line = f"score {number(summary.score, 2)}{', not proven' if summary.low is None else low}"
        if summary.passing is not None:
            line += f" ({summary.passing} of {summary.episodes} fresh episodes pass)"
        console.print(line)
    if (card := sessions.robustness.read_card(SessionFolder(session.path))) is not None:
        _say(f"robustness: {sessions.robustness.summary_line(card)}")
    page, video = session.path / "report.html", session.path / "report" / "median.mp4"
    console.print(f"report  {page if page.exists() else session.path / 'report.md'}")
    if video.exists():
        console.print(f"video   {video}")
    if session.run is not None:
        console.print(f"policy  telic export {session.path.name}")


@view
def show_order(order: WorkOrder) -> None:
    """Print a work order as a page."""
    _say(order_text(order), markup=False)


@view
def show_run(run: Run) -> None:
    """Print the result of a training run and the paths of its files."""
    summary, name, folder = run.summary, run.path.name, RunFolder(run.path)
    best, facts = best_member(folder), dict[str, Any]()
    if best is not None and best.summary.exists():
        facts["best"] = best.name
        if (found := read_fields(best.summary, best=EvaluationRow | None)["best"]) is not None:
            facts["best"] = best.name if len(folder.members()) > 1 else None
            facts["return"] = (
                f"{number(found.get('mean_return'))} (95 % interval "
                f"{_interval(found.get('interval'))}, {found.get('episodes')} fresh episodes, "
                f"at {found['global_step']:,} steps)"
            )
            facts["episode length"] = number(found.get("episode_length"))
    console.print()
    print_facts(
        {
            "run": run.path,
            "status": summary["status"],
            **facts,
            "steps": f"{summary['total_timesteps']:,}",
            "time": duration(summary["training_time_s"]),
            "steps per second": number(summary["steps_per_second"]),
            "video": next((video for video in run.videos if "median" in video.name), None),
        }
    )
    if summary["status"] == "completed":
        console.print(f"\nnext: telic show {name}   telic play {name}   telic export {name}")
    elif is_resumable(folder):
        console.print(f"\nresume with: telic resume {name}")


@view
def show_run_page(page: RunPage) -> None:
    """Print a run and its members."""
    shown = (
        "path",
        "env",
        "status",
        "verdict",
        "total_timesteps",
        "training_time_s",
        "error",
        "command",
    )
    print_data({name: page.facts.get(name) for name in shown})
    for member in page.members:
        console.print(f"\n[bold]{escape(member['member'])}[/]  {sparkline(member['curve'])}")
        if page.is_single:
            _print_member(member)
    if not page.is_single:
        best = [((x["summary"] or {}).get("best") or {}, x["member"]) for x in page.members]
        names = ("env_return", "episode_length", "global_step")
        rows = [
            (name, x.get("mean_return"), _interval(x.get("interval")), *map(x.get, names))
            for x, name in best
        ]
        print_rows(["member", "return", "95 % interval", "task return", "length", "at step"], rows)


def _print_member(member: dict[str, Any]) -> None:
    shown = ("p10_return", "median_return", "p90_return", "episode_length")
    rows = [
        (x["global_step"], x.get("mean_return"), _interval(x.get("interval")), *map(x.get, shown))
        for x in member["evaluations"]
    ]
    print_rows(["steps", "return", "95 % interval", "p10", "median", "p90", "length"], rows)
    reward, summary = member["reward"] or {}, member["summary"] or {}
    if reward.get("latex"):
        console.print(f"\nreward: {escape(reward['latex'])}")
    for term in reward.get("terms", []):
        console.print(f"  {escape(term['name'])}: {escape(term.get('description') or '')}")
    for finding in summary.get("findings") or ():
        console.print(f"[yellow]![/] {escape(finding['message'])}")
    print_facts({"files": member["path"], "videos": ", ".join(member["videos"]) or None})


# ---- searches, motions and trackers


@view
def show_search(search: Search) -> None:
    """Print the result of a search."""
    summary = search.summary
    if summary.runs:
        show_summary(summary)
        console.print(f"\nbest    {list(search.best.best)}")
        console.print(f"folder  {search.path}")
        console.print(f"map     telic report {search.path.name}")
    if not summary.runs or summary.outcome == "stopped":
        console.print(f"[bold]stopped[/]; {_RESUME}")


@view
def show_summary(summary: SearchSummary) -> None:
    """Print one line per run of a search."""
    names = ("mean_all", "better_of_two", "best_seen", "incumbent_area")
    more = ("episodes", "calls", "episodes_to_good")
    rows = [
        (
            str(x.run),
            x.fresh.mean,
            _interval((x.fresh.low, x.fresh.high)),
            *(getattr(x, name) for name in (*names, *more)),
        )
        for x in summary.runs
    ]
    heads = ["run", "fresh", "95 % interval", "all", "better of two", "best seen", "incumbent"]
    title = f"{summary.env}: {summary.label}, {duration(summary.seconds)}"
    print_rows([*heads, "episodes", "calls", "to good"], rows, title)


@view
def show_motion_intake(intake: MotionIntake) -> None:
    """Print the totals of an import. Each clip was printed when it was added or rejected."""
    counts = ", ".join(f"{count:,} {what}" for what, count in intake.counts.items())
    _say(f"{counts or 'nothing'}: {escape(intake.library)}")


def _print_section(section: doc.Section) -> None:
    """Print a section of a report, whose charts are lines of text."""
    console.print(Markdown(render_section(section)))


@view
def show_tracked(run: TrackedRun) -> None:
    """Print the tracking success of a run's policies on held-out clips."""
    for report in run.reports:
        page = tracking.reports.evaluation_report(report)
        _print_section(doc.Section(page.title, (page.header.blocks[0], *page.sections[0].blocks)))
    _say(f"\nfolder  {run.path}")
    if run.status != "completed":
        console.print(f"[bold]{run.status}[/]; {_RESUME}")


@view
def show_tracker_evaluation(found: TrackerEvaluation) -> None:
    """Print the metrics of a tracker and its worst clips."""
    page = tracking.reports.evaluation_report(found.report)
    for section in (page.header, *page.sections[:-1]):
        _print_section(section)
    for path in found.files:
        _say(path)


# ---- this machine and benchmarks


@view
def show_robot_file(text: RobotText) -> None:
    """Print the file as it is."""
    _say(text.toml, markup=False, end="")


@view
def show_env(spec: EnvSpec) -> None:
    """Print the description of an environment."""
    from telic.quantities.reference import environment_page

    _say(environment_page(spec), markup=False)


def _rate(rate: PassRate) -> str:
    if rate.share is None:
        return "0 of 0"
    interval = f"{rate.low:.0%} to {rate.high:.0%} with 95 % confidence"
    return f"{rate.passed} of {rate.total} ({rate.share:.0%}; {interval})"


@view
def show_benchmark(benchmark: Benchmark) -> None:
    """Print the totals of a benchmark. Each case was printed when it ended."""
    path, summary = benchmark
    console.print(f"\n[bold]{_rate(summary.overall)}[/] pass")
    if summary.median_seconds_to_pass is not None:
        steps = number(summary.median_steps_to_pass)
        console.print(f"median pass: {duration(summary.median_seconds_to_pass)} and {steps} steps")
    cost = "an unknown amount" if summary.usd is None else f"${summary.usd:.2f}"
    console.print(f"total: {duration(summary.seconds)} and {cost} for models")
    if summary.waiting:
        console.print(f"unfinished; {_RESUME}: {', '.join(summary.waiting)}")
    console.print(f"page  {path / 'index.html'}")


# ---- studies


_OF_STUDY = (
    *("study", "study_status", "contract_version", "incumbent", "baseline", "noise_floor"),
    *("active_runs", "pending_approvals", "fired_stops", "counts", "budget", "next_action"),
)


@view
def show_status(report: StatusReport) -> None:
    """Print a summary of a study, or one of its records."""
    facts = as_data(report)
    if report.about == "study":
        print_data({name: facts[name] for name in _OF_STUDY})
    elif report.about in ("candidates", "runs"):
        print_data([{report.about[:-1]: name, **each} for name, each in facts.items()])
    else:
        print_data(facts)
