"""Views of results that a table will not do for: sessions, runs, searches, trackers, benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from telic.cli.console import console, print_facts, print_rows
from telic.cli.output import view
from telic.core.text import count, duration, number, sparkline
from telic.session.outcome import OUTCOMES, Outcome, outcome_words
from telic.storage.facts import MemberResultFacts
from telic.storage.files import read_facts
from telic.storage.layout import RunFolder, SessionFolder

if TYPE_CHECKING:
    from telic.bench.intents import Benchmark
    from telic.bench.judges import JudgeReport
    from telic.bench.results import CaseGroup, Rate
    from telic.llm.work_orders import WorkOrder
    from telic.search.records import SearchSummary
    from telic.search.runner import Search
    from telic.session.loop import Session
    from telic.session.records import SessionSummary
    from telic.tracking.reports import TrackingReport
    from telic.training.job import TrainJob
    from telic.training.run import Run
    from telic.verbs.artifacts import RunPage, SessionPage
    from telic.verbs.control import WorkState
    from telic.verbs.labels import LabelList, LabelTaken
    from telic.verbs.machine import EnvPage, MachineReport
    from telic.verbs.motions import MotionIntake
    from telic.verbs.robots import RobotText
    from telic.verbs.search import SearchMethods
    from telic.verbs.track import TrackedRun, TrackerEvaluation
    from telic.verbs.train import PresetTable

_STOPPED = "[bold]stopped[/]; run the same command to resume"
_STYLES = {"passed": "bold green", "stopped": "bold"}
_MARKS = {"ok": "[green]✓[/]", "note": "[yellow]•[/]", "bad": "[red]✗[/]"}
_SHOWN = 40


def _interval(interval: Sequence[float] | None) -> str:
    return f"{number(interval[0])} … {number(interval[1])}" if interval else "–"


# ---- sessions


def counted_episodes(summary: SessionSummary) -> str:
    """Return how many of its fresh episodes the best policy passes."""
    return f" ({summary.passing} of {summary.episodes} fresh episodes pass)"


@view
def show_session(session: Session) -> None:
    """Print the outcome of a session, and what can be done with it."""
    from telic.session.robustness import read_card, summary_line

    summary = session.summary
    verdict = outcome_words(summary.outcome, summary.limits)
    styled = f"[{_STYLES.get(summary.outcome, 'bold yellow')}]{verdict}[/]"
    resume = "; run the same command to resume" if summary.outcome == "stopped" else ""
    console.print(f"\n{styled}{resume}: {escape(summary.intent)} ({summary.env})")
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
    if (card := read_card(SessionFolder(session.path))) is not None:
        console.print(f"robustness: {summary_line(card)}", soft_wrap=True)
    page, video = session.path / "report.html", session.path / "report" / "median.mp4"
    console.print(f"report  {page if page.exists() else session.path / 'report.md'}")
    if video.exists():
        console.print(f"video   {video}")
    if session.run is not None:
        console.print(f"policy  telic export {session.path.name}")


@view
def show_session_page(page: SessionPage) -> None:
    """Print what was asked, what was tried, and where the report is."""
    known: dict[str, Outcome] = {outcome: outcome for outcome in OUTCOMES}
    is_over = page.state in known
    agree = f"{page.labels - page.disputed} of {page.labels} agree" if page.labels else None
    print_facts(
        {
            "session": page.path,
            "intent": page.intent,
            "environment": page.env,
            "state": outcome_words(known[page.state], page.limits) if is_over else page.state,
            "because": "; ".join(page.reasons) or None,
            "score": None if page.score is None else number(page.score, 2),
            "labels": agree,
            "report": page.report,
        }
    )
    rows = [
        (
            x["number"],
            "yes" if x["passed"] else "no",
            x["score"],
            x["change"],
            ", ".join(x["tags"] or ()) or x["failure"] or "",
        )
        for x in page.tried
    ]
    if rows:
        console.print()
        print_rows(["iteration", "passed", "score", "change", "failed criteria"], rows)


@view
def show_state(work: WorkState) -> None:
    """Print the state of work, and how to resume it."""
    console.print(f"{work.name} is {work.state}.")
    if work.state in ("stopped", "interrupted", "pausing", "paused"):
        console.print(f"resume with: telic resume {work.name}")


@view
def show_label(taken: LabelTaken) -> None:
    """Print a label, and whether the judge agrees."""
    label = taken.label
    where = f"episode {label.episode} of {label.member}, iteration {label.iteration}"
    gave = "gave no score" if label.score is None else f"gave {number(label.score, 2)}"
    side = "[yellow]disagrees[/]" if label.disagrees else "agrees"
    judge = f"the judge {gave}" + ("" if label.score is None else f" and {side}")
    answer = "[green]wanted[/]" if label.is_wanted else "[yellow]not wanted[/]"
    console.print(f"{answer}: {escape(where)} of {taken.session}; {judge}", soft_wrap=True)
    console.print(f"[dim]{taken.standing.words}[/]", soft_wrap=True)
    if label.passed and not label.is_wanted:
        console.print(f'withdraw the pass: telic veto {taken.session} --why "..."', soft_wrap=True)


@view
def show_labels(found: LabelList) -> None:
    """Print the labels of a session's episodes."""
    for veto in found.vetoes:
        console.print(f"[yellow]![/] {escape(veto.words)}", soft_wrap=True)
    if not found.labels:
        console.print(f"{found.session} has no labels.")
        console.print(f"add one: telic label yes --session {found.session}")
        return
    rows = [
        (
            f"{x.iteration}/{x.member}/{x.episode}",
            "yes" if x.is_wanted else "no",
            number(x.score, 2),
            "no" if x.disagrees else "yes" if x.score is not None else "–",
            x.author if x.by == "person" else f"{x.author} (agent)",
            x.why or "",
        )
        for x in found.labels
    ]
    print_rows(["episode", "wanted", "judge", "agree", "who", "why"], rows)
    console.print(f"[dim]{found.standing.words}[/]", soft_wrap=True)


@view
def show_order(order: WorkOrder) -> None:
    """Print a work order as a page."""
    from telic.llm.work_orders import describe  # loads all of llm

    console.print(describe(order), markup=False, highlight=False, soft_wrap=True)


# ---- training runs


@view
def show_run(run: Run) -> None:
    """Print the result of a training, and where everything is."""
    from telic.training.folder import is_resumable

    summary, name = run.summary, run.path.name
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
    if summary["status"] == "completed":
        console.print(f"\nnext: telic show {name}   telic play {name}   telic export {name}")
    elif is_resumable(RunFolder(run.path)):
        console.print(f"\nresume with: telic resume {name}")


def _best_facts(path: Path) -> dict[str, Any]:
    """Return what to print about the best member of a run."""
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
        f"{best.get('episodes')} fresh episodes, at {best['global_step']:,} steps)",
        "episode length": number(best.get("episode_length")),
    }


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
def show_presets(found: PresetTable) -> None:
    """Print a table per preset."""
    for name, by_env in found.presets.items():
        presets = list(by_env.values())
        rows = [("steps", *(f"{preset.steps:,}" for preset in presets))]
        for field in presets[0].settings.model_dump():
            values = [getattr(preset.settings, field) for preset in presets]
            rows.append((field, *(number(x) if isinstance(x, float) else str(x) for x in values)))
        short = [env.removesuffix("-v5") for env in by_env]
        print_rows(["setting", *short], rows, title=f"preset {name}")
        console.print()


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
            "command": facts.get("command"),
        }
    )
    for member in page.members:
        console.print(f"\n[bold]{escape(member['member'])}[/]  {sparkline(member['curve'])}")
        if page.is_single:
            _print_member(member)
    if not page.is_single:
        _print_members(page.members)


def _print_member(member: dict[str, Any]) -> None:
    shown = ("p10_return", "median_return", "p90_return", "episode_length")
    evaluations: list[dict[str, Any]] = member["evaluations"]
    rows = [
        (x["global_step"], x.get("mean_return"), _interval(x.get("interval")), *map(x.get, shown))
        for x in evaluations
    ]
    print_rows(["steps", "return", "95 % interval", "p10", "median", "p90", "length"], rows)
    reward: dict[str, Any] = member["reward"] or {}
    if reward.get("latex"):
        console.print(f"\nreward: {escape(reward['latex'])}")
    for term in reward.get("terms", []):
        console.print(f"  {escape(term['name'])}: {escape(term.get('description') or '')}")
    summary: dict[str, Any] = member["summary"] or {}
    for finding in summary.get("findings", []):
        console.print(f"[yellow]![/] {escape(finding['message'])}")
    print_facts({"files": member["path"], "videos": ", ".join(member["videos"]) or None})


def _print_members(members: list[dict[str, Any]]) -> None:
    rows: list[tuple[Any, ...]] = []
    shown = ("env_return", "episode_length", "global_step")
    for member in members:
        summary: dict[str, Any] = member["summary"] or {}
        best: dict[str, Any] = summary.get("best") or {}
        spread = _interval(best.get("interval"))
        rows.append((member["member"], best.get("mean_return"), spread, *map(best.get, shown)))
    console.print()
    print_rows(["member", "return", "95 % interval", "task return", "length", "at step"], rows)


# ---- searches


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
        console.print(_STOPPED)


@view
def show_summary(summary: SearchSummary) -> None:
    """Print a line per run of a search."""
    names = ["run", "fresh", "95 % interval", "all", "better of two", "best seen", "incumbent"]
    rows = [
        (
            str(run.run),
            run.fresh.mean,
            _interval(None if run.fresh.low is None else (run.fresh.low, run.fresh.high or 0.0)),
            run.mean_all,
            run.better_of_two,
            run.best_seen,
            run.incumbent_area,
            run.episodes,
            run.calls,
            run.episodes_to_good,
        )
        for run in summary.runs
    ]
    title = f"{summary.env}: {summary.label}, {duration(summary.seconds)}"
    print_rows([*names, "episodes", "calls", "to good"], rows, title)


@view
def show_methods(found: SearchMethods) -> None:
    """Print a line per method with the switches that differ from the defaults."""
    rows = [
        (name, ", ".join(f"{k}={v}" for k, v in values.items() if v != found.plain[k]))
        for name, values in found.methods.items()
    ]
    print_rows(["method", "switches that differ from the defaults"], rows)


@view
def show_motion_intake(intake: MotionIntake) -> None:
    """Print what was not added, with the reason, and the totals."""
    wrong = [line for line in intake.lines if line.outcome not in ("added", "there already")]
    for line in wrong[:_SHOWN]:
        mark = "[yellow]•[/]" if line.outcome == "left out" else "[red]✗[/]"
        reason = f"{escape(line.clip)} {line.outcome}: {escape(line.why)}"
        console.print(f"{mark} {reason}", soft_wrap=True)
    if len(wrong) > _SHOWN:
        console.print(f"… and {len(wrong) - _SHOWN:,} more; all of them with --json")
    slid = [
        (line.slid_before_m_s, line.slid_after_m_s)
        for line in intake.lines
        if line.slid_before_m_s is not None and line.slid_after_m_s is not None
    ]
    if slid:
        before, after = (sum(each) / len(slid) for each in zip(*slid, strict=True))
        console.print(f"foot sliding: {number(before)} m/s before, {number(after)} m/s now")
    counts = ", ".join(f"{count:,} {what}" for what, count in intake.counts.items())
    console.print(f"{counts or 'nothing'}: {escape(intake.library)}", soft_wrap=True)


def _show_report(report: TrackingReport) -> None:
    rows = [
        (
            each.encoder,
            f"{each.success_rate:.1%}",
            f"{each.global_success_rate:.1%}",
            "" if each.interval is None else f"{each.interval[0]:.0%} - {each.interval[1]:.0%}",
            f"{each.progress_rate:.1%}",
            f"{each.mpjpe_l_mm:.1f}",
            f"{each.mpjpe_g_mm:.1f}",
            "" if each.velocity_m_s is None else f"{each.velocity_m_s:.3f}",
            "" if each.acceleration_m_s2 is None else f"{each.acceleration_m_s2:.2f}",
        )
        for each in (*report.encoders, *([report.control] if report.control else ()))
    ]
    clips = count(len({each.clip for each in report.clips}), "clip")
    console.print(f"\n[bold]{report.member} at {report.step:,} steps, {clips} ({report.split})[/]")
    heads = ["encoder", "success", "in place", "95 %", "played", "local mm", "global mm"]
    print_rows([*heads, "m/s", "m/s²"], rows)
    pairs = [
        (f"{each.one} / {each.other}", f"{each.equal_share:.0%}", f"{each.chance or 0.0:.0%}")
        for each in report.agreement
        if each.equal_share is not None
    ]
    if pairs:
        print_rows(["tokens of", "equal codes", "by chance"], pairs)


@view
def show_tracked(run: TrackedRun) -> None:
    """Print how the members of a training track held-out clips."""
    for report in run.reports:
        _show_report(report)
    console.print(f"\nfolder  {run.path}", soft_wrap=True)
    if run.status != "completed":
        console.print(f"[bold]{run.status}[/]; run the same command to resume")


@view
def show_tracker_evaluation(found: TrackerEvaluation) -> None:
    """Print the metrics of a tracker, and its worst clips."""
    _show_report(found.report)
    rows = [
        (each.clip, each.encoder, f"{each.progress:.0%}", f"{each.errors.mpjpe_l_mm:.1f}")
        for each in found.report.worst(5)
    ]
    console.print("\nworst")
    print_rows(["clip", "encoder", "played", "local mm"], rows)
    for path in found.files:
        console.print(path, soft_wrap=True)


# ---- this machine


@view
def show_robot_file(text: RobotText) -> None:
    """Print the file as it is."""
    console.print(text.toml, markup=False, highlight=False, soft_wrap=True, end="")


@view
def show_env(page: EnvPage) -> None:
    """Print the page of an environment."""
    from telic.quantities.reference import environment_page

    console.print(environment_page(page.env), markup=False, soft_wrap=True)


@view
def show_machine(report: MachineReport) -> None:
    """Print a line per check, and how to fix what is missing."""
    for check in report.checks:
        line = f"{_MARKS[check.state]} [bold]{check.name}[/]: {check.message}"
        console.print(line, soft_wrap=True)
        if check.fix:
            console.print(f"    {check.fix}", soft_wrap=True)


# ---- benchmarks


@view
def show_benchmark(benchmark: Benchmark) -> None:
    """Print a line per case, then rates by difficulty, category and robot."""
    path, tally = benchmark
    rows = [
        (
            result.case.id,
            result.case.difficulty,
            result.outcome.replace("_", " "),
            result.score,
            result.low,
            result.iterations,
            result.env_steps,
            duration(result.seconds),
            result.reason or "",
        )
        for result in tally.results
    ]
    columns = ["case", "difficulty", "outcome", "score", "lower bound", "iterations", "steps"]
    console.print()
    print_rows([*columns, "time", "why"], rows)
    _print_groups("difficulty", tally.by_difficulty)
    _print_groups("category", tally.by_category)
    _print_groups("robot", tally.by_env)
    console.print(f"\n[bold]{_rate(tally.overall)}[/] pass")
    if tally.median_seconds_to_pass is not None:
        console.print(
            f"median pass: {duration(tally.median_seconds_to_pass)} and "
            f"{number(tally.median_steps_to_pass)} steps"
        )
    cost = "an unknown amount" if tally.usd is None else f"${tally.usd:.2f}"
    console.print(f"total: {duration(tally.seconds)} and {cost} for models")
    if tally.waiting:
        console.print(f"unfinished; run the same command to resume: {', '.join(tally.waiting)}")
    console.print(f"page  {path / 'index.html'}")


def _print_groups(title: str, groups: tuple[CaseGroup, ...]) -> None:
    rows = [
        (
            group.name,
            f"{group.rate.passed} of {group.rate.total}",
            f"{group.rate.low:.0%} to {group.rate.high:.0%}",
            group.mean_score,
        )
        for group in groups
    ]
    console.print()
    print_rows([title, "passed", "95 % interval", "mean score"], rows)


def _rate(rate: Rate) -> str:
    if rate.share is None:
        return "0 of 0"
    interval = f"{rate.low:.0%} to {rate.high:.0%} with 95 % confidence"
    return f"{rate.passed} of {rate.total} ({rate.share:.0%}; {interval})"


@view
def show_judges(report: JudgeReport) -> None:
    """Print where judges agree with the truth, and every disagreement."""
    rows: list[tuple[str | int, ...]] = []
    for pair in dict.fromkeys(example.pair for example in report.examples):
        own = [example for example in report.examples if example.pair == pair]
        wrong = [example.name for example in own if not example.agrees]
        rows.append((pair, own[0].env, len(own) - len(wrong), len(own), ", ".join(wrong)))
    print_rows(["pair", "robot", "agrees", "of", "disagrees on"], rows)
    for example in (example for example in report.examples if not example.agrees):
        truth = "right" if example.is_right else "wrong"
        console.print(
            f"\n[yellow]{escape(example.pair)}[/]: {escape(example.name)} ({example.kind}) is "
            f"{truth}, but scores {number(example.score, 2)}\n  [dim]{escape(example.why)}[/]",
            soft_wrap=True,
        )
    for name, why in report.refused.items():
        console.print(f"\n[blue]{escape(name)}[/] was refused: {escape(why)}", soft_wrap=True)
    print_facts(
        {
            "agreement": _rate(report.agreement),
            "demonstrations recognized": _rate(report.recognised),
            "wrong episodes rejected": _rate(report.rejected),
            "failure modes that pass": len(report.failure_mode_passes),
        }
    )
