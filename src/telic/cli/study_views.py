"""Results of study verbs on a terminal, where the generic view does not do."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from telic.cli.console import console, errors, print_facts, print_rows
from telic.cli.output import print_data, view
from telic.core.text import number

if TYPE_CHECKING:
    from telic.studies.decide import DecisionOutcome
    from telic.studies.launch.launch import DryRun
    from telic.studies.next import NextAction
    from telic.verbs.study import AdapterReport, ContractView, NewStudy
    from telic.verbs.study_candidates import ProposedCandidate
    from telic.verbs.study_runs import LedgerReport, StatusReport, StudyAudit, StudyProgress

_DONE = "[green]✓[/]"
_MARKS = {True: _DONE, False: "[red]✗[/]", None: "[dim]-[/]"}

# ---------------------------------------------------------------------------- the study


@view
def show_new_study(study: NewStudy) -> None:
    """Print where a new study is and what comes next."""
    console.print(f"{_DONE} {study.study} is the active study")
    print_facts({"folder": study.folder})
    for question in study.questions:
        console.print(f"[yellow]?[/] {escape(question)}", soft_wrap=True)
    console.print("Next: fill in adapter.yaml, metric_spec.yaml and contract.yaml; check them with")
    console.print("  telic study adapter, telic study contract; then: telic study run")


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
    budget = facts["budget"]
    print_facts(
        {
            "study": f"{facts['study']} ({facts['study_status']})",
            "ledger": f"{facts['ledger_head']['seq']} events",
            "contract": facts["contract_version"] and f"version {facts['contract_version']}",
            "incumbent": facts["incumbent"] and facts["incumbent"]["candidate"],
            "baseline": facts["baseline"],
            "noise floor": facts["noise_floor"],
            "candidates": ", ".join(
                f"{many} {name}" for name, many in facts["counts"].items() if many
            )
            or "none",
            "running": ", ".join(facts["active_runs"]) or None,
            "not approved": ", ".join(facts["pending_approvals"]) or None,
            "stopped by": "; ".join(f"{x['rule']}: {x['why']}" for x in facts["fired_stops"])
            or None,
        }
    )
    rows = [
        (
            name,
            number(spent),
            number(budget["reserved"].get(name)),
            number(budget["left"].get(name)),
        )
        for name, spent in budget["spent"].items()
        if spent is not None or budget["left"].get(name) is not None
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
    if not check["ok"]:
        errors.print(
            f"[bold red]✗[/] The ledger is not what was written: line {check['bad_seq']} is bad, "
            f"{escape(check['why'])}. Launches and decisions are blocked.",
            soft_wrap=True,
        )
        return
    for changed in report.changed:
        errors.print(f"[bold red]✗[/] {escape(changed)}", soft_wrap=True)
    console.print(f"{_DONE} {check['head']['seq']} events, head {check['head']['hash'][:12]}")


# ---------------------------------------------------------------------------- agreement


@view
def show_adapter(report: AdapterReport) -> None:
    """Print what is wrong with the adapter, what it leaves open and what smoke runs showed."""
    check = report.check
    for problem in check.problems:
        console.print(f"[red]✗[/] {escape(problem)}", soft_wrap=True)
    for question in check.questions:
        console.print(f"[yellow]?[/] {escape(question.field)}: {escape(question.why)}")
        for candidate in question.candidates:
            console.print(f"    {escape(candidate)}", soft_wrap=True)
    print_facts(
        {
            "file": check.file,
            "unknown": ", ".join(check.unknown) or None,
            "not confirmed": ", ".join(check.unconfirmed) or None,
        }
    )
    for shown in report.proof.checks if report.proof else ():
        console.print(f"{_MARKS[shown.passed]} {shown.name}: {escape(shown.why)}")
    if check.ok:
        console.print(f"{_DONE} schema, citations and commands are valid")


@view
def show_contract(contract: ContractView) -> None:
    """Print problems, open questions, approvals and the sample log."""
    for text in contract.check.problems:
        console.print(f"[red]✗[/] {escape(text)}", soft_wrap=True)
    for text in contract.check.questions:
        console.print(f"[yellow]?[/] {escape(text)}", soft_wrap=True)
    if contract.ok:
        console.print(f"{_DONE} version {contract.check.version} is recorded")
    if contract.voided:
        console.print(f"[yellow]void now:[/] {', '.join(contract.voided)}")
    rows = [(x.name, x.status, x.why) for x in contract.approvals]
    print_rows(["approval", "status", "why"], [*rows])
    if contract.sample is not None:
        print_data(contract.sample.as_data(), title="sample")


# ---------------------------------------------------------------------------- candidates and runs


@view
def show_proposed(proposed: ProposedCandidate) -> None:
    """Print the candidate and failed checks."""
    console.print(f"{_MARKS[proposed.ok]} {proposed.id}, revision {proposed.revision}")
    if proposed.problem:
        console.print(f"  [red]✗[/] not checked: {escape(proposed.problem)}", soft_wrap=True)
    for check in proposed.outcome.checks if proposed.outcome else ():
        if not check.passed:
            console.print(f"  [red]✗[/] {check.id} {escape(check.why)}", soft_wrap=True)


@view
def show_decision(decided: DecisionOutcome) -> None:
    """Print what was decided, or proposed."""
    if decided.recorded:
        name = f"{decided.decision}: " if decided.decision else ""
        console.print(f"{_DONE} {name}{decided.candidate}, {decided.verdict}")
        console.print(f"incumbent: {decided.incumbent or 'none'}")
    else:
        console.print(f"proposed: {decided.candidate}, {decided.verdict}. {escape(decided.why)}")


@view
def show_run_report(report: StudyProgress) -> None:
    """Print the steps that were taken, the run that was started, or the gates."""
    if report.stopped is not None:
        console.print(f"{report.stopped} is stopping. Then: telic study run")
    elif report.gates is not None:
        _show_gates(report.gates)
    elif report.launched is not None:
        launched, why = report.launched, f": {report.why}" if report.why else ""
        console.print(f"{_DONE} {launched.run} {report.status}{escape(why)}")
        print_facts({"folder": launched.folder, "pid": launched.pid})
    elif report.status is not None:
        console.print(f"{_DONE} {report.study} is {report.status}")
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
        console.print()
        print_facts(
            {
                "runs": shlex.join(start.argv),
                "in": start.cwd,
                "started by": shlex.join(start.started_by),
                "job": "" if start.job is None else json.dumps(start.job),
                "reserves": start.reservation,
                "sets": " ".join(f"{name}={value}" for name, value in start.environment.items()),
            }
        )
    verdict = "every gate is open" if gates.is_open else "it would be refused"
    console.print(f"\nDry run: nothing was started; {verdict}.")


# ---------------------------------------------------------------------------- evidence


@view
def show_study_audit(audit: StudyAudit) -> None:
    """Print what was measured, watched, audited or reviewed."""
    if audit.kind == "claim":
        _show_claim(audit.facts)
    else:
        print_data(audit.facts, title=f"{audit.kind}: {audit.summary}")
    if audit.reflection is not None:
        print_data(audit.reflection, title="reward terms")
    if audit.evidence:
        console.print(f"evidence: {audit.evidence}")


def _show_claim(facts: dict[str, Any]) -> None:
    from telic.studies.evidence.audit import TITLES

    print_facts({"verdict": facts["verdict"].replace("_", " "), **_claim_numbers(facts)})
    for check in facts["checks"]:
        why = f": {escape(check['why'])}" if check["why"] else ""
        console.print(f"{_MARKS[check['passed']]} {check['id']} {TITLES.get(check['id'], '')}{why}")
    for reason in facts["reasons"]:
        console.print(f"  {escape(reason)}")


def _claim_numbers(facts: dict[str, Any]) -> dict[str, Any]:
    stats = facts["stats"]
    return {
        "difference": stats["delta"],
        "95 % interval": stats["ci"] and " to ".join(map(number, stats["ci"])),
        "smallest that counts": stats["delta_min"],
        "p (corrected)": stats["holm_p"],
        "probability of improvement": stats["poi"],
        "noise floor": stats["sigma_0"],
        "seeds needed": facts["n_star"],
    }
