"""telic study metrics, analyze, monitor, reflect, review, audit-result, report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from telic.cli.options import AsJson, Debug
from telic.cli.output import command, console, number, print_facts, print_json, table
from telic.cli.study_options import HERE, Root, Study, Task, find_study
from telic.cli.study_probes import CandidateId, dr_plan, dr_summary, ledger_of, offline, span

if TYPE_CHECKING:
    from telic.studies.evidence.claims import Audit

RunId = Annotated[str, typer.Argument(help="Run, e.g. r-20260801T090000Z-k3f9qa.")]
_MARKS = {True: "[green]✓[/]", False: "[red]✕[/]"}


def register(app: typer.Typer) -> None:
    """Add the commands; none of them starts a process or opens a connection."""
    app.command("metrics")(command(offline(metrics)))
    app.command("analyze")(command(offline(analyze)))
    app.command("monitor")(command(offline(monitor)))
    app.command("reflect")(command(offline(reflect)))
    app.command("review")(command(offline(review)))
    app.command("dr-plan")(command(offline(dr_plan)))
    app.command("dr-summary")(command(offline(dr_summary)))
    app.command("audit-result")(command(offline(audit_result)))
    app.command("report")(command(offline(report)))


def metrics(
    sample: Annotated[Path, typer.Argument(help="A log, or a folder of logs.")],
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Check that the metric spec can read a sample log; exit code 4 when a key is missing."""
    from telic.studies.evidence.checking import check_sample

    found = check_sample(find_study(root, task, study), sample)
    if as_json:
        print_json(found.as_data())
    else:
        rows = [(x.key, x.role, x.points, x.value) for x in found.keys]
        console.print(table(None, ["key", "role", "points", "value"], rows))
        for each in found.missing:
            console.print(f"[red]✕[/] {escape(each)} is not in the log")
        if found.missing:
            console.print("In the log: " + escape(", ".join(found.logged[:20])))
    if found.missing:
        raise typer.Exit(4)


def analyze(
    run: RunId,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Measure a run that has ended and enter it as evidence."""
    from telic.studies.findings import ingest
    from telic.studies.human import current_actor

    sheet = ingest(ledger_of(root, task, study), run, current_actor())
    if as_json:
        print_json(sheet.as_data())
        return
    payload = sheet.payload
    print_facts(
        {
            "evidence": sheet.id,
            "candidate": payload["candidate"],
            "phase, seed": f"{payload['phase']}, {payload['seed']}",
            "score": number(payload["primary"]),
            **{f"guardrail {key}": number(value) for key, value in payload["guardrails"].items()},
            "missing": ", ".join(payload["missing"]) or None,
            "steps": number(payload["steps"]),
        }
    )


def monitor(
    run: Annotated[str | None, typer.Argument(help="Run; all live ones if left out.")] = None,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Look at live runs: are they alive, are they learning. Stops nothing."""
    from telic.studies.evidence.monitoring import monitor_run
    from telic.studies.human import current_actor

    ledger = ledger_of(root, task, study)
    runs = [run] if run else list(ledger.state().active_runs)
    found = [monitor_run(ledger, each, current_actor()) for each in runs]
    if as_json:
        print_json([each.as_data() for each in found])
        return
    if not found:
        console.print("Nothing is running.")
    for each in found:
        progress = "" if each.progress is None else f", {each.progress:.0%}"
        console.print(f"[bold]{each.run}[/]{progress}: {each.recommendation.replace('_', ' ')}")
        rows = [(x.id, x.severity, x.value, x.threshold, x.evidence) for x in each.signatures]
        if rows:
            console.print(table(None, ["sign", "severity", "value", "limit", "evidence"], rows))
        for problem in each.problems:
            console.print(f"[yellow]![/] {escape(problem)}")


def reflect(
    run: RunId,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say what the terms of the reward did, how likely it is being gamed, and what to change."""
    from telic.studies.evidence.reflecting import reflect_run
    from telic.studies.human import current_actor

    found = reflect_run(ledger_of(root, task, study), run, current_actor())
    if as_json:
        print_json({"evidence": found.evidence.id, **found.reflection.as_data()})
        return
    advice = {each.term: f"{each.action}: {each.why}" for each in found.reflection.advice}
    rows = [
        (x.name, x.share, x.trend, x.alignment, ", ".join(x.flags), advice[x.name])
        for x in found.reflection.terms
    ]
    heads = ["term", "share", "trend", "alignment", "flags", "advice"]
    console.print(table(None, heads, rows))
    risk = found.reflection.hacking
    console.print(f"hacking risk: [bold]{risk.level}[/] ({risk.score:.2f})")
    for reason in risk.reasons:
        console.print(f"  {escape(reason)}")
    console.print(f"evidence: {found.evidence.id}")


def review(
    candidate: CandidateId,
    says: Annotated[str, typer.Option("--says", help="What was found.")],
    exploit: Annotated[
        bool, typer.Option("--exploit/--no-exploit", help="Is the reward being gamed?")
    ],
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Enter a review of a candidate by somebody else than its author."""
    from telic.studies.evidence.reviewing import review_candidate
    from telic.studies.human import current_actor

    sheet = review_candidate(
        ledger_of(root, task, study), candidate, current_actor(), says, is_exploit=exploit
    )
    if as_json:
        print_json(sheet.as_data())
    else:
        console.print(f"[green]✓[/] {sheet.id}: {sheet.summary}")


def audit_result(
    candidate: CandidateId,
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Test a candidate's claim against the incumbent: twelve checks, intervals, a verdict."""
    from telic.studies.evidence import auditing
    from telic.studies.human import current_actor

    found = auditing.audit_result(ledger_of(root, task, study), candidate, current_actor())
    if as_json:
        print_json({"evidence": found.evidence.id, **found.audit.as_data()})
    else:
        _tell_audit(found.audit)
        console.print(f"evidence: {found.evidence.id}")


def report(
    root: Root = HERE,
    task: Task = None,
    study: Study = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Write report.md and report.html from the ledger and the evidence; keeps people's notes."""
    from telic.studies.looking import next_step
    from telic.studies.report.write import write_report

    ledger = ledger_of(root, task, study)
    folder = write_report(ledger, next_step(ledger))
    if as_json:
        print_json({"markdown": str(folder.report), "page": str(folder.report_page)})
        return
    print_facts({"markdown": folder.report, "page": folder.report_page})


def _tell_audit(audit: Audit) -> None:
    from telic.studies.evidence.checks import TITLES

    stats = audit.stats
    numbers: dict[str, Any] = {
        "verdict": audit.verdict.replace("_", " "),
        "difference": None if stats.delta is None else f"{stats.delta:+.4g}",
        "95 %": stats.ci and span(stats.ci),
        "would count": stats.delta_min and number(stats.delta_min),
        "p (corrected)": stats.holm_p and f"{stats.holm_p:.4g}",
        "chance to beat": stats.poi and f"{stats.poi:.0%}",
        "noise floor": stats.sigma_0 and number(stats.sigma_0),
        "seeds needed": audit.n_star,
    }
    print_facts(numbers)
    for each in audit.checks:
        why = f": {escape(each.why)}" if each.why else ""
        console.print(f"{_MARKS[each.passed]} {each.id} {TITLES[each.id]}{why}")
    for reason in audit.reasons:
        console.print(f"  {escape(reason)}")
