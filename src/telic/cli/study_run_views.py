"""Queues, runs and evidence of studies on a terminal."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from rich.markup import escape

from telic.cli.console import console, print_facts, print_rows
from telic.cli.output import view
from telic.core.text import number

if TYPE_CHECKING:
    from telic.cli.study_terminal import StartedRun
    from telic.studies.documents.candidate import Evidence, QueueBatch
    from telic.studies.evidence.measurement import SampleCheck
    from telic.studies.queue import QueueStep
    from telic.verbs.study_evidence import (
        ClaimAudit,
        MonitorReports,
        PlannedProbe,
        ProbeOutcome,
        RewardReflection,
    )
    from telic.verbs.study_runs import (
        Advances,
        GateLook,
        JobList,
        QueueOrder,
        SettledRuns,
        StoppedRun,
    )

_MARKS = {True: "[green]✓[/]", False: "[red]✕[/]"}
_DONE = "[green]✓[/]"


def _span(ends: tuple[float, float]) -> str:
    return f"{number(ends[0])} to {number(ends[1])}"


# ---------------------------------------------------------------------------- the queue and runs


@view
def show_jobs(found: JobList) -> None:
    """Print jobs of the queue."""
    rows = [(job.job_id, job.phase, job.seed, len(job.depends_on)) for job in found.jobs]
    print_rows(["job", "phase", "seed", "waits for"], rows)


@view
def show_step(step: QueueStep) -> None:
    """Print which jobs may start, and why the others wait."""
    rows = [(ready.job.job_id, "ready", "") for ready in step.ready]
    rows += [(name, "running", "") for name in step.running]
    rows += [(waiting.job_id, "waits", waiting.why) for waiting in step.waiting]
    print_rows(["job", "", "why"], [*rows])


@view
def show_advances(found: Advances) -> None:
    """Print where completed candidates go."""
    rows = [(x.candidate, x.phase or "", x.to or "stays", x.why) for x in found.candidates]
    print_rows(["candidate", "phase", "goes to", "why"], [*rows])


@view
def show_batch(batch: QueueBatch) -> None:
    """Print candidates that run side by side."""
    print_rows(
        ["candidate", "phase", "seeds", "gpu", "worktree"],
        [
            (x.id, x.phase, ", ".join(map(str, x.seeds)), x.gpu, x.worktree or "")
            for x in batch.candidates
        ],
    )


@view
def show_order(order: QueueOrder) -> None:
    """Print the order of the queue."""
    policy = order.queue.policy
    console.print(f"{_DONE} {policy.order}, one in {policy.eta} goes on")


@view
def show_gates(found: GateLook) -> None:
    """Print which gates are open and what a launch would start."""
    rows = [
        (gate.id, "open" if gate.passed else "shut", gate.why or _short(gate.value))
        for gate in found.look.gates
    ]
    print_rows(["gate", "", "why"], [*rows])
    start = found.look.start
    if start is not None:
        console.print()
        print_facts(
            {
                "runs": shlex.join(start.argv),
                "in": start.cwd,
                "started by": shlex.join(start.started_by),
                "reserves": start.reservation,
                "sets": " ".join(f"{name}={value}" for name, value in start.environment.items()),
            }
        )
        if start.document:
            console.print(f"\n{escape(start.document)}", soft_wrap=True)
    verdict = "every gate is open" if found.open else "it would be refused"
    console.print(f"\nDry run: nothing was started; {verdict}.")


def _short(value: object, longest: int = 80) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


@view
def show_started(started: StartedRun) -> None:
    """Print the run that was started."""
    launched = started.launched
    console.print(f"{_DONE} {launched.run} runs")
    print_facts(
        {
            "folder": launched.folder,
            "pid": launched.pid,
            "job": launched.job_id,
            "look at it": launched.attach,
        }
    )
    if started.waited:
        why = f": {started.why}" if started.why else ""
        console.print(f"{launched.run} {started.status}{why}")


@view
def show_settled(settled: SettledRuns) -> None:
    """Print what became of runs."""
    if not settled.runs:
        console.print("No run is active.")
        return
    print_rows(["run", "", "why"], [(x.run, x.outcome, x.why) for x in settled.runs])


@view
def show_stopped(stopped: StoppedRun) -> None:
    """Print that a run was asked to end."""
    console.print(f"{stopped.run} was asked to end. Then: telic study run --reconcile")


# ---------------------------------------------------------------------------- evidence


@view
def show_sample(sample: SampleCheck) -> None:
    """Print what the metric spec reads from a log."""
    print_rows(
        ["key", "role", "points", "value"],
        [(x.key, x.role, x.points, x.value) for x in sample.keys],
    )
    for key in sample.missing:
        console.print(f"[red]✕[/] {escape(key)} is not in the log")
    if sample.missing:
        console.print("In the log: " + escape(", ".join(sample.logged[:20])))


@view
def show_evidence(sheet: Evidence) -> None:
    """Print a measured run, or a review in one line."""
    if sheet.kind != "metrics":
        console.print(f"{_DONE} {sheet.id}: {sheet.summary}")
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


@view
def show_monitor(found: MonitorReports) -> None:
    """Print how live runs do."""
    if not found.reports:
        console.print("Nothing is running.")
    for report in found.reports:
        progress = "" if report.progress is None else f", {report.progress:.0%}"
        advice = report.recommendation.replace("_", " ")
        console.print(f"[bold]{report.run}[/]{progress}: {advice}")
        rows = [(x.id, x.severity, x.value, x.threshold, x.evidence) for x in report.signatures]
        if rows:
            print_rows(["sign", "severity", "value", "limit", "evidence"], [*rows])
        for problem in report.problems:
            console.print(f"[yellow]![/] {escape(problem)}")


@view
def show_reflection(found: RewardReflection) -> None:
    """Print what the terms of a reward did."""
    advice = {x.term: f"{x.action}: {x.why}" for x in found.reflection.advice}
    print_rows(
        ["term", "share", "trend", "alignment", "flags", "advice"],
        [
            (x.name, x.share, x.trend, x.alignment, ", ".join(x.flags), advice[x.name])
            for x in found.reflection.terms
        ],
    )
    risk = found.reflection.hacking
    console.print(f"hacking risk: [bold]{risk.level}[/] ({risk.score:.2f})")
    for reason in risk.reasons:
        console.print(f"  {escape(reason)}")
    console.print(f"evidence: {found.evidence.id}")


@view
def show_probe(probe: PlannedProbe) -> None:
    """Print which settings a probe measures."""
    rows = [(x.path, ", ".join(number(value) for value in x.grid)) for x in probe.plan.parameters]
    print_rows(["parameter", "settings"], [*rows])
    console.print(
        f"{probe.evaluations} evaluations of {probe.plan.episodes} episodes; {probe.evidence}"
    )


@view
def show_probe_outcome(outcome: ProbeOutcome) -> None:
    """Print how far each parameter can be moved."""
    print_rows(
        ["parameter", "nominal", "holds", "suggested", "censored", "notes"],
        [
            (
                x.path,
                x.nominal,
                _span(x.feasible),
                _span(x.suggested_range),
                ", ".join(x.censored),
                "; ".join(x.safety_notes),
            )
            for x in outcome.summary.parameters
        ],
    )
    console.print(f"evidence: {outcome.evidence}")


@view
def show_claim(found: ClaimAudit) -> None:
    """Print how a claim came out."""
    from telic.studies.evidence.claims import TITLES

    audit, stats = found.audit, found.audit.stats
    print_facts(
        {
            "verdict": audit.verdict.replace("_", " "),
            "difference": None if stats.delta is None else f"{stats.delta:+.4g}",
            "95 %": stats.ci and _span(stats.ci),
            "would count": stats.delta_min and number(stats.delta_min),
            "p (corrected)": stats.holm_p and f"{stats.holm_p:.4g}",
            "chance to beat": stats.poi and f"{stats.poi:.0%}",
            "noise floor": stats.sigma_0 and number(stats.sigma_0),
            "seeds needed": audit.n_star,
        }
    )
    for check in audit.checks:
        why = f": {escape(check.why)}" if check.why else ""
        console.print(f"{_MARKS[check.passed]} {check.id} {TITLES.get(check.id, '')}{why}")
    for reason in audit.reasons:
        console.print(f"  {escape(reason)}")
    console.print(f"evidence: {found.evidence.id}")
