"""Terminal views of study results that need more than the generic view."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from rich.markup import escape

from telic.cli._console import console, errors, print_facts, print_rows
from telic.cli._output import print_data, view
from telic.core.text import number

if TYPE_CHECKING:
    from telic.studies.launch.launch import DryRun
    from telic.studies.next import NextAction
    from telic.verbs.study import AdapterReport
    from telic.verbs.study_runs import LedgerReport, StatusReport, StudyAudit, StudyProgress

_MARKS = {True: "[green]✓[/]", False: "[red]✗[/]", None: "[dim]-[/]"}


@view
def show_status(report: StatusReport) -> None:
    """Print the state of a study, or one of its records."""
    facts = report.facts
    if report.about in ("candidates", "runs"):
        print_data([{report.about[:-1]: name, **each} for name, each in facts.items()])
        return
    if report.next is None:
        print_data(facts)
        return
    counts = [f"{many} {name}" for name, many in facts["counts"].items() if many]
    stops = [f"{stop['rule']}: {stop['why']}" for stop in facts["fired_stops"]]
    print_facts(
        {
            "study": f"{facts['study']} ({facts['study_status']})",
            "ledger": f"{facts['ledger_head']['seq']} events",
            "contract": facts["contract_version"] and f"version {facts['contract_version']}",
            "incumbent": facts["incumbent"] and facts["incumbent"]["candidate"],
            "baseline": facts["baseline"],
            "noise floor": facts["noise_floor"],
            "candidates": ", ".join(counts) or "none",
            "running": ", ".join(facts["active_runs"]) or None,
            "not approved": ", ".join(facts["pending_approvals"]) or None,
            "stopped by": "; ".join(stops) or None,
        }
    )
    spent, reserved, left = (facts["budget"][name] for name in ("spent", "reserved", "left"))
    rows = [
        (name, number(amount), number(reserved.get(name)), number(left.get(name)))
        for name, amount in spent.items()
        if amount is not None or left.get(name) is not None
    ]
    if rows:
        console.print()
        print_rows(["budget", "spent", "reserved", "left"], rows)
    console.print()
    show_next(report.next)


@view
def show_next(following: NextAction) -> None:
    """Print the next safe step."""
    print_facts({"next": following.action, "why": following.why})
    for blocking in following.blocking:
        console.print(f"  [yellow]first:[/] {escape(blocking)}", soft_wrap=True)
    if following.command:
        console.print(f"  {escape(following.command)}", soft_wrap=True)


@view
def show_ledger(report: LedgerReport) -> None:
    """Print whether the ledger and its files are intact."""
    check = report.check
    problems = list(report.changed)
    if not check["ok"]:
        where = f"line {check['bad_seq']} is bad, {check['why']}"
        problems = [f"The ledger was modified: {where}. Launches and decisions are blocked."]
    for problem in problems:
        errors.print(f"[bold red]✗[/] {escape(problem)}", soft_wrap=True)
    if check["ok"]:
        print_facts({"events": check["head"]["seq"], "head": check["head"]["hash"][:12]})


@view
def show_adapter(report: AdapterReport) -> None:
    """Print errors and open questions of the adapter, and the results of smoke runs."""
    check = report.check
    for problem in check.problems:
        console.print(f"[red]✗[/] {escape(problem)}", soft_wrap=True)
    for question in check.questions:
        console.print(f"[yellow]?[/] {escape(question.field)}: {escape(question.why)}")
        for candidate in question.candidates:
            console.print(f"    {escape(candidate)}", soft_wrap=True)
    facts = {"file": check.file, "unknown": check.unknown, "not confirmed": check.unconfirmed}
    print_data(facts)
    for shown in report.proof.checks if report.proof else ():
        console.print(f"{_MARKS[shown.passed]} {shown.name}: {escape(shown.why)}")
    if check.ok:
        console.print("[green]✓[/] schema, citations and commands are valid")


@view
def show_progress(report: StudyProgress) -> None:
    """Print the steps taken, the run that was started, or the gates."""
    if report.stopped is not None:
        console.print(f"{report.stopped} is stopping. Then: telic study run")
    elif report.gates is not None:
        _show_gates(report.gates)
    elif report.launched is not None:
        launched, why = report.launched, f": {report.why}" if report.why else ""
        console.print(f"[green]✓[/] {launched.run} {report.status}{escape(why)}")
        print_facts({"folder": launched.folder, "pid": launched.pid})
    elif report.status is not None:
        console.print(f"[green]✓[/] {report.study} is {report.status}")
    else:
        steps = ", ".join(f"{name} {count}" for name, count in report.steps.items())
        print_facts({"done": steps or "nothing", "incumbent": report.incumbent})
        if report.next is not None:
            console.print()
            show_next(report.next)


def _show_gates(gates: DryRun) -> None:
    from telic.studies.rules.gates import GATES

    rows = [(x.id, "open" if x.passed else "shut", x.why or GATES[x.id].title) for x in gates.gates]
    print_rows(["gate", "", "why"], [*rows])
    start = gates.start
    if start is not None:
        variables = " ".join(f"{name}={value}" for name, value in start["environment"].items())
        words = {name: shlex.join(start[name]) for name in ("argv", "started_by")}
        print_data({**start, **words, "environment": variables})
    verdict = "all gates are open" if gates.is_open else "the run would be refused"
    console.print(f"\nDry run: nothing was started; {verdict}.")


@view
def show_study_audit(audit: StudyAudit) -> None:
    """Print the result of a measurement, monitoring, audit or review."""
    facts = audit.facts
    if audit.kind == "claim":
        from telic.studies.evidence.audit import AUDIT_CHECKS

        print_data({"verdict": facts["verdict"], **facts["stats"], "seeds needed": facts["n_star"]})
        for check in facts["checks"]:
            title = f"{check['id']} {AUDIT_CHECKS[check['id']][0]}"
            why = f": {escape(check['why'])}" if check["why"] else ""
            console.print(f"{_MARKS[check['passed']]} {title}{why}")
        for reason in facts["reasons"]:
            console.print(f"  {escape(reason)}")
    else:
        print_data(facts, title=f"{audit.kind}: {audit.summary}")
    if audit.reflection is not None:
        print_data(audit.reflection, title="reward terms")
    if audit.evidence:
        console.print(f"evidence: {audit.evidence}")
