"""What verbs of studies come to, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from telic.cli.console import console, errors, print_facts, print_rows
from telic.cli.output import view
from telic.core.text import number

if TYPE_CHECKING:
    from telic.cli.study_terminal import WrittenCandidate
    from telic.studies.decide import DecisionOutcome
    from telic.studies.documents.candidate import Candidate
    from telic.studies.next import NextAction
    from telic.verbs.study import LedgerEntry, NewStudy
    from telic.verbs.study_approvals import Approvals
    from telic.verbs.study_candidates import (
        CandidateTable,
        SimilarCandidates,
        ValidatedCandidate,
        WithdrawnCandidate,
    )
    from telic.verbs.study_contract import (
        AdapterReport,
        Amendment,
        ConfirmedField,
        ContractView,
        EvaluatorHashes,
    )
    from telic.verbs.study_go import GoneOn
    from telic.verbs.study_state import AdoptedLedger, LedgerProof, StudyReportFiles, StudyStanding

_DONE = "[green]✓[/]"
_RESULTS = {True: _DONE, False: "[red]✗[/]", None: "[dim]-[/]"}


# ---------------------------------------------------------------------------- the study


@view
def show_new_study(study: NewStudy) -> None:
    """Print where a new study is."""
    console.print(f"{_DONE} {study.study} is the active study")
    print_facts({"contract": study.contract, "ledger": study.ledger})
    console.print(
        "Next: fill in contract.yaml, metric_spec.yaml and adapter.yaml, then: telic study go"
    )


@view
def show_standing(standing: StudyStanding) -> None:
    """Print where a study stands and what to do now."""
    state, following = standing
    counts = ", ".join(f"{count} {name}" for name, count in state.counts.items() if count)
    print_facts(
        {
            "study": f"{state.study} ({state.study_status})",
            "ledger": f"{state.ledger_head.seq} events, head {state.ledger_head.hash[:12]}",
            "contract": state.contract_version and f"version {state.contract_version}",
            "incumbent": state.incumbent and state.incumbent.candidate,
            "baseline": state.baseline,
            "noise floor": state.noise_floor,
            "candidates": counts or "none",
            "running": ", ".join(state.active_runs) or None,
            "not approved": ", ".join(state.pending_approvals) or None,
            "stopped by": "; ".join(f"{x.rule}: {x.why}" for x in state.fired_stops) or None,
        }
    )
    spent, reserved, left = state.budget.spent, state.budget.reserved, state.budget.left
    rows = [
        (name, number(value), number(getattr(reserved, name)), number(getattr(left, name)))
        for name, value in spent
        if value is not None or getattr(left, name) is not None
    ]
    if rows:
        console.print()
        print_rows(["budget", "spent", "reserved", "left"], rows)
    console.print()
    print_facts({"next": following.action, "why": following.why, "type": following.command})


@view
def show_gone_on(gone: GoneOn) -> None:
    """Print how far a study came, and what it waits for."""
    done = ", ".join(f"{name} {count}" for name, count in gone.steps.items()) or "nothing"
    print_facts({"done": done, "incumbent": gone.incumbent})
    console.print()
    show_next(gone.question)


@view
def show_next(following: NextAction) -> None:
    """Print the next safe action."""
    print_facts({"next": following.action, "why": following.why})
    for blocking in following.blocking:
        console.print(f"  [yellow]first:[/] {escape(blocking)}", soft_wrap=True)
    if following.command:
        console.print(f"  {escape(following.command)}", soft_wrap=True)


@view
def show_entry(entry: LedgerEntry) -> None:
    """Print what an event means."""
    console.print(f"{_DONE} {entry.says}")


@view
def show_report_files(files: StudyReportFiles) -> None:
    """Print where the report is."""
    print_facts({"markdown": files.markdown, "page": files.page})


# ---------------------------------------------------------------------------- the contract


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
        console.print(f"{_RESULTS[shown.passed]} {shown.name}: {escape(shown.why)}")
    if check.ok:
        console.print(f"{_DONE} schema, citations and commands are valid")


@view
def show_confirmed(confirmed: ConfirmedField) -> None:
    """Print which field a person stands for."""
    console.print(f"{_DONE} {escape(confirmed.field)} is confirmed")


@view
def show_contract(contract: ContractView) -> None:
    """Print what is wrong, what is to be asked, and which approvals hold."""
    for text in contract.check.problems:
        console.print(f"[red]✗[/] {escape(text)}", soft_wrap=True)
    for text in contract.check.questions:
        console.print(f"[yellow]?[/] {escape(text)}", soft_wrap=True)
    if contract.ok:
        console.print(f"{_DONE} version {contract.check.version} is the agreed one")
    console.print()
    print_rows(
        ["approval", "status", "why"], [(x.name, x.status, x.why) for x in contract.approvals]
    )


@view
def show_evaluator(hashes: EvaluatorHashes) -> None:
    """Print the hashes of the files that measure."""
    print_rows(["file", "sha256"], [(file, sha[:12]) for file, sha in hashes.files.items()])
    console.print("Next: telic study contract amend --reason TEXT")


@view
def show_amendment(amendment: Amendment) -> None:
    """Print what changed in the contract."""
    console.print(f"{_DONE} version {amendment.event.data['version']} is agreed on")
    for dotted, (before, after) in amendment.event.data["diff"].items():
        console.print(f"  {escape(dotted)}: {escape(str(before))} → {escape(str(after))}")
    if amendment.voided:
        console.print(f"[yellow]void now:[/] {', '.join(amendment.voided)}")


@view
def show_approvals(approvals: Approvals) -> None:
    """Print what was said about what."""
    console.print(f"{_DONE} {approvals.said}: {', '.join(approvals.keys) or 'nothing'}")


@view
def show_proof(proof: LedgerProof) -> None:
    """Print how the chain came out."""
    check = proof.check
    if not check.ok:
        errors.print(
            f"[bold red]✗[/] The ledger is not what was written: line {check.bad_seq} is bad, "
            f"{escape(check.why)}. Launches and decisions are blocked.",
            soft_wrap=True,
        )
        return
    for changed in proof.changed:
        errors.print(f"[bold red]✗[/] {escape(changed)}", soft_wrap=True)
    signed = check.head.seq - check.unsigned
    console.print(
        f"{_DONE} {check.head.seq} lines, {signed} signed by your key, head {check.head.hash[:12]}"
    )


@view
def show_adopted(adopted: AdoptedLedger) -> None:
    """Print where a ledger is continued."""
    console.print(f"{_DONE} {adopted.study} is continued here from line {adopted.head.seq}")


# ---------------------------------------------------------------------------- candidates


@view
def show_written(written: WrittenCandidate) -> None:
    """Print the candidate's name and what comes next."""
    candidate = written.candidate
    console.print(f"{_DONE} {candidate.id}, content {(candidate.content_hash or '')[:12]}")
    console.print(written.following)


@view
def show_candidate(candidate: Candidate) -> None:
    """Print one candidate."""
    said, phase = candidate.hypothesis, f" in {candidate.phase}" if candidate.phase else ""
    changes = {
        path: f"{change.from_value} → {change.to}"
        for path, change in candidate.change.overrides.items()
    }
    print_facts(
        {
            "candidate": f"{candidate.id}, revision {candidate.revision}",
            "kind": candidate.kind,
            "status": f"{candidate.status}{phase}",
            "hypothesis": said.statement,
            "because": said.mechanism,
            "wrong if": said.falsifier,
            **changes,
            "patch": candidate.change.patch,
            "parents": ", ".join(candidate.parents) or None,
            "content": (candidate.content_hash or "")[:12],
        }
    )


@view
def show_candidates(found: CandidateTable) -> None:
    """Print a table of all candidates."""
    print_rows(
        ["candidate", "kind", "status", "phase", "revision"],
        [
            (name, x.kind, str(x.status), x.phase or "", x.revision)
            for name, x in found.candidates.items()
        ],
    )


@view
def show_validated(found: ValidatedCandidate) -> None:
    """Print how the checks went."""
    outcome = found.outcome
    rows = [(x.id, "✓" if x.passed else "✗", x.why) for x in outcome.checks]
    print_rows(["check", "", "why not"], rows)
    console.print(f"{outcome.candidate} is {outcome.status}")


@view
def show_similar(found: SimilarCandidates) -> None:
    """Print what resembles a candidate."""
    print_rows(
        ["candidate", "alike", "status", "shares"],
        [(x.candidate, x.likeness, str(x.status), ", ".join(x.shares)) for x in found.similar],
    )


@view
def show_withdrawn(withdrawn: WithdrawnCandidate) -> None:
    """Print that an idea was given up."""
    console.print(f"{_DONE} {withdrawn.candidate.id} is withdrawn")


@view
def show_decision(decided: DecisionOutcome) -> None:
    """Print what was decided, or proposed."""
    if decided.recorded:
        console.print(f"{_DONE} {decided.decision}: {decided.candidate}, {decided.verdict}")
        console.print(f"incumbent: {decided.incumbent or 'none'}")
    else:
        console.print(f"proposed: {decided.candidate}, {decided.verdict}. {decided.why}")
