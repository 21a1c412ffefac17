"""Views of results that the generic view does not fit: sessions, runs, trackers, benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from telic.cli.console import console, print_facts, print_rows
from telic.cli.output import view
from telic.core.text import count, duration, number, sparkline
from telic.judges.criteria import scope_words
from telic.session.outcome import outcome_words
from telic.storage.facts import MemberResultFacts
from telic.storage.files import read_facts
from telic.storage.layout import RunFolder, SessionFolder

if TYPE_CHECKING:
    from telic.authors.author import MeasurableIntent
    from telic.bench.intents import Benchmark
    from telic.bench.judges import JudgeReport
    from telic.bench.results import Rate
    from telic.llm.work_orders import WorkOrder
    from telic.search.records import SearchSummary
    from telic.search.runner import Search
    from telic.session.loop import Session
    from telic.tracking.reports import TrackingReport
    from telic.training.job import TrainJob
    from telic.training.run import Run
    from telic.verbs.artifacts import RunPage
    from telic.verbs.labels import LabelTaken
    from telic.verbs.machine import EnvPage
    from telic.verbs.motions import MotionIntake
    from telic.verbs.robots import RobotText
    from telic.verbs.search import SearchMethods
    from telic.verbs.track import TrackedRun, TrackerEvaluation
    from telic.verbs.train import PresetTable

_STYLES = {"passed": "bold green", "stopped": "bold"}
_MOST_LINES = 40
_RESUME = "run the same command to resume"


def _table(
    records: Iterable[Any], columns: Mapping[str, str | Callable[[Any], Any]], title: str = ""
) -> None:
    """Print records; a column is an attribute, "attribute:format", or a function of a record."""
    readers: list[Callable[[Any], Any]] = []
    for how in columns.values():
        if not isinstance(how, str):
            readers.append(how)
            continue
        path, _, layout = how.partition(":")
        readers.append(lambda x, get=attrgetter(path), f=layout: _shown(get(x), f))
    rows = [[read(record) for read in readers] for record in records]
    print_rows(list(columns), rows, title or None)


def _shown(value: Any, layout: str) -> Any:
    if not layout:
        return "" if value is None else value
    return "" if value is None else format(value, layout)


def _interval(interval: Sequence[float] | None) -> str:
    return f"{number(interval[0])} … {number(interval[1])}" if interval else "–"


def _say(text: str, **options: Any) -> None:
    console.print(text, soft_wrap=True, **options)


# ---- sessions


def asked_lines(event: MeasurableIntent) -> Iterator[str]:
    """Yield how an intent is read: criteria with goals and weights, and what is not judged."""
    yield "criteria:"
    whole = sum(each.weight for each in event.criteria) or 1.0
    for each in event.criteria:
        counts = "constraint" if each.is_guard else f"weight {each.weight / whole:.0%}"
        counts += ", must be met" if each.is_stated else ""
        if each.zero is not None and each.goal is not None:
            ends = (each.zero, each.goal)
            counts += ", no credit at {:.3g}, full at {:.3g} {}".format(*ends, each.unit).rstrip()
        yield f"  • {escape(each.title)} [dim]({escape(counts)})[/]"
    for doubt in event.doubts:
        yield f"  [dim]{escape(doubt)}[/]"
    left = (*event.not_understood, *event.dropped)
    if scope := scope_words([each.words for each in event.covered], left):
        yield f"  [{'yellow' if left else 'dim'}]{escape(scope)}[/]"


@view
def show_reading(reading: MeasurableIntent) -> None:
    """Print how an intent is read."""
    for line in asked_lines(reading):
        _say(line)


@view
def show_session(session: Session) -> None:
    """Print the outcome of a session, and how to use it."""
    from telic.session.robustness import read_card, summary_line

    summary = session.summary
    verdict = outcome_words(summary.outcome, summary.limits)
    styled = f"[{_STYLES.get(summary.outcome, 'bold yellow')}]{verdict}[/]"
    resume = f"; {_RESUME}" if summary.outcome == "stopped" else ""
    console.print(f"\n{styled}{resume}: {escape(summary.intent)} ({summary.env})")
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
    if (card := read_card(SessionFolder(session.path))) is not None:
        _say(f"robustness: {summary_line(card)}")
    page, video = session.path / "report.html", session.path / "report" / "median.mp4"
    console.print(f"report  {page if page.exists() else session.path / 'report.md'}")
    if video.exists():
        console.print(f"video   {video}")
    if session.run is not None:
        console.print(f"policy  telic export {session.path.name}")


@view
def show_label(taken: LabelTaken) -> None:
    """Print a label, and whether the judge agrees."""
    label = taken.label
    where = f"episode {label.episode} of {label.member}, iteration {label.iteration}"
    side = "[yellow]disagrees[/]" if label.disagrees else "agrees"
    judge = "gave no score" if label.score is None else f"gave {number(label.score, 2)} and {side}"
    answer = "[green]wanted[/]" if label.is_wanted else "[yellow]not wanted[/]"
    _say(f"{answer}: {escape(where)} of {taken.session}; the judge {judge}")
    _say(f"[dim]{taken.hint}[/]")


@view
def show_order(order: WorkOrder) -> None:
    """Print a work order as a page."""
    from telic.llm.work_orders import describe  # loads all of llm

    _say(describe(order), markup=False)


# ---- training runs


@view
def show_run(run: Run) -> None:
    """Print the result of a training, and where everything is."""
    from telic.training.folder import best_member, is_resumable

    summary, name, folder = run.summary, run.path.name, RunFolder(run.path)
    best, facts = best_member(folder), dict[str, Any]()
    if best is not None and best.summary.exists():
        facts["best"] = best.name
        if (found := read_facts(best.summary, MemberResultFacts).get("best")) is not None:
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
    _table(job.members, {"member": "name"})


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
        best = [((x["summary"] or {}).get("best") or {}, x["member"]) for x in page.members]
        shown = ("env_return", "episode_length", "global_step")
        rows = [
            (name, x.get("mean_return"), _interval(x.get("interval")), *map(x.get, shown))
            for x, name in best
        ]
        console.print()
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
    for finding in summary.get("findings", []):
        console.print(f"[yellow]![/] {escape(finding['message'])}")
    print_facts({"files": member["path"], "videos": ", ".join(member["videos"]) or None})


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
        console.print(f"[bold]stopped[/]; {_RESUME}")


@view
def show_summary(summary: SearchSummary) -> None:
    """Print a line per run of a search."""
    columns: dict[str, str | Callable[[Any], Any]] = {
        "run": lambda x: str(x.run),
        "fresh": "fresh.mean",
        "95 % interval": lambda x: _interval(
            None if x.fresh.low is None else (x.fresh.low, x.fresh.high)
        ),
        "all": "mean_all",
        "better of two": lambda x: x.better_of_two,
        "best seen": "best_seen",
        "incumbent": lambda x: x.incumbent_area,
        "episodes": "episodes",
        "calls": "calls",
        "to good": lambda x: x.episodes_to_good,
    }
    title = f"{summary.env}: {summary.label}, {duration(summary.seconds)}"
    _table(summary.runs, columns, title)


@view
def show_methods(found: SearchMethods) -> None:
    """Print a line per method with the switches that differ from the defaults."""
    rows = [
        (name, ", ".join(f"{k}={v}" for k, v in values.items() if v != found.plain[k]))
        for name, values in found.methods.items()
    ]
    print_rows(["method", "switches that differ from the defaults"], rows)


# ---- motions and trackers


@view
def show_motion_intake(intake: MotionIntake) -> None:
    """Print the clips that were not added, with the reason, and the totals."""
    wrong = [line for line in intake.lines if line.outcome not in ("added", "duplicate")]
    for line in wrong[:_MOST_LINES]:
        mark = "[yellow]•[/]" if line.outcome == "rejected" else "[red]✗[/]"
        _say(f"{mark} {escape(line.clip)} {line.outcome}: {escape(line.why)}")
    if len(wrong) > _MOST_LINES:
        console.print(f"… and {len(wrong) - _MOST_LINES:,} more; all of them with --json")
    slid = [
        (line.skate_before_m_s, line.skate_after_m_s)
        for line in intake.lines
        if line.skate_before_m_s is not None and line.skate_after_m_s is not None
    ]
    if slid:
        before, after = (sum(each) / len(slid) for each in zip(*slid, strict=True))
        console.print(f"foot skate: {number(before)} m/s before, {number(after)} m/s after")
    counts = ", ".join(f"{count:,} {what}" for what, count in intake.counts.items())
    _say(f"{counts or 'nothing'}: {escape(intake.library)}")


def _show_report(report: TrackingReport) -> None:
    clips = count(len({each.clip for each in report.clips}), "clip")
    console.print(f"\n[bold]{report.member} at {report.step:,} steps, {clips} ({report.split})[/]")
    columns: dict[str, str | Callable[[Any], Any]] = {
        "encoder": "encoder",
        "success": "success_rate:.1%",
        "in place": "global_success_rate:.1%",
        "95 %": lambda x: "" if x.interval is None else "{:.0%} - {:.0%}".format(*x.interval),
        "played": "progress_rate:.1%",
        "local mm": "mpjpe_l_mm:.1f",
        "global mm": "mpjpe_g_mm:.1f",
        "m/s": "velocity_m_s:.3f",
        "m/s²": "acceleration_m_s2:.2f",
    }
    _table((*report.encoders, *([report.control] if report.control else ())), columns)
    pairs = [each for each in report.agreement if each.equal_share is not None]
    if pairs:
        columns = {
            "tokens of": lambda x: f"{x.one} / {x.other}",
            "equal codes": "equal_share:.0%",
            "by chance": lambda x: f"{x.chance or 0.0:.0%}",
        }
        _table(pairs, columns)


@view
def show_tracked(run: TrackedRun) -> None:
    """Print how the members of a training track held-out clips."""
    for report in run.reports:
        _show_report(report)
    _say(f"\nfolder  {run.path}")
    if run.status != "completed":
        console.print(f"[bold]{run.status}[/]; {_RESUME}")


@view
def show_tracker_evaluation(found: TrackerEvaluation) -> None:
    """Print the metrics of a tracker, and its worst clips."""
    _show_report(found.report)
    columns = {"played": "progress:.0%", "local mm": "errors.mpjpe_l_mm:.1f"}
    _table(found.report.worst(5), {"clip": "clip", "encoder": "encoder", **columns}, "worst")
    for path in found.files:
        _say(path)


# ---- this machine


@view
def show_robot_file(text: RobotText) -> None:
    """Print the file as it is."""
    _say(text.toml, markup=False, end="")


@view
def show_env(page: EnvPage) -> None:
    """Print the page of an environment."""
    from telic.quantities.reference import environment_page

    _say(environment_page(page.env), markup=False)


# ---- benchmarks


def _rate(rate: Rate) -> str:
    if rate.share is None:
        return "0 of 0"
    interval = f"{rate.low:.0%} to {rate.high:.0%} with 95 % confidence"
    return f"{rate.passed} of {rate.total} ({rate.share:.0%}; {interval})"


@view
def show_benchmark(benchmark: Benchmark) -> None:
    """Print a line per case, then rates by difficulty, category and robot."""
    path, tally = benchmark
    columns: dict[str, str | Callable[[Any], Any]] = {
        "case": "case.id",
        "difficulty": "case.difficulty",
        "outcome": lambda x: x.outcome.replace("_", " "),
        "score": lambda x: x.score,
        "lower bound": lambda x: x.low,
        "iterations": lambda x: x.iterations,
        "steps": lambda x: x.env_steps,
        "time": lambda x: duration(x.seconds),
        "why": "reason",
    }
    console.print()
    _table(tally.results, columns)
    groups = {"difficulty": tally.by_difficulty, "category": tally.by_category}
    for title, rows in (groups | {"robot": tally.by_env}).items():
        columns = {
            title: "name",
            "passed": lambda x: f"{x.rate.passed} of {x.rate.total}",
            "95 % interval": lambda x: f"{x.rate.low:.0%} to {x.rate.high:.0%}",
            "mean score": lambda x: x.mean_score,
        }
        console.print()
        _table(rows, columns)
    console.print(f"\n[bold]{_rate(tally.overall)}[/] pass")
    if tally.median_seconds_to_pass is not None:
        steps = number(tally.median_steps_to_pass)
        console.print(f"median pass: {duration(tally.median_seconds_to_pass)} and {steps} steps")
    cost = "an unknown amount" if tally.usd is None else f"${tally.usd:.2f}"
    console.print(f"total: {duration(tally.seconds)} and {cost} for models")
    if tally.waiting:
        console.print(f"unfinished; {_RESUME}: {', '.join(tally.waiting)}")
    console.print(f"page  {path / 'index.html'}")


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
        _say(
            f"\n[yellow]{escape(example.pair)}[/]: {escape(example.name)} ({example.kind}) is "
            f"{truth}, but scores {number(example.score, 2)}\n  [dim]{escape(example.why)}[/]"
        )
    for name, why in report.refused.items():
        _say(f"\n[blue]{escape(name)}[/] was refused: {escape(why)}")
    print_facts(
        {
            "agreement": _rate(report.agreement),
            "demonstrations recognized": _rate(report.recognised),
            "wrong episodes rejected": _rate(report.rejected),
            "failure modes that pass": len(report.failure_mode_passes),
        }
    )
