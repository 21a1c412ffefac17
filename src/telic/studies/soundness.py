"""May a study go on at all: is its record intact, is its agreement kept, does a rule say stop."""

from __future__ import annotations

from telic.errors import TelicError
from telic.studies.approvals import missing
from telic.studies.clock import utc_now
from telic.studies.evidence.reading import audits_of, hacking_levels
from telic.studies.ledger import Ledger
from telic.studies.state import StudyState
from telic.studies.stops import Facts, Stop, check_stops
from telic.studies.subjects import contract_hash, current_protocol_hash, metric_spec_hash


def ledger_problems(ledger: Ledger) -> tuple[str, ...]:
    """Return what is wrong with the chain itself; then nothing else can be trusted."""
    check = ledger.verify()
    return () if check.ok else (f"ledger line {check.bad_seq}: {check.why}",)


def agreement_problems(ledger: Ledger, state: StudyState) -> tuple[str, ...]:
    """Return where files and approvals are no longer what was agreed on."""
    folder, problems = ledger.folder, list[str]()
    try:
        contract = folder.read_contract()
    except TelicError as error:
        return (error.message,)
    if contract_hash(contract) != state.contract_hash:
        problems.append("contract.yaml was edited and is not the agreed version")
    if contract.metrics.spec_hash != metric_spec_hash(folder):
        problems.append("metric_spec.yaml is not the agreed one")
    if contract.evaluation.protocol_hash != current_protocol_hash(folder):
        problems.append("eval_protocol.yaml is not the agreed one")
    problems += [
        f"the approval {each.key} is void: {each.why}"
        for each in missing(folder, state)
        if each.status == "void"
    ]
    return tuple(problems)


def standing_stops(ledger: Ledger, state: StudyState) -> tuple[Stop, ...]:
    """Return the stop rules that hold now or fired before and were not lifted."""
    folder = ledger.folder
    primary = folder.read_metric_spec().primary
    facts = Facts(
        now=utc_now(),
        stop_file=folder.stop_file.exists(),
        direction=primary.direction,
        target=primary.target,
        guardrail_breaches=_breaches(ledger, state),
        hacking_levels=hacking_levels(folder, state),
    )
    found = {each.rule: each for each in check_stops(state, facts)}
    for fired in state.fired_stops:
        stop = Stop.model_validate({"rule": fired.rule, "effect": "pause", "why": fired.why})
        found.setdefault(stop.rule, stop)
    return tuple(found.values())


def _breaches(ledger: Ledger, state: StudyState) -> tuple[str, ...]:
    """Return block-severity guardrails that the newest audit of the incumbent finds broken."""
    if state.incumbent is None:
        return ()
    audits = audits_of(ledger.folder, state, state.incumbent.candidate)
    rails = audits[-1].guardrails if audits else ()
    return tuple(each.key for each in rails if each.severity == "block" and not each.passed)
