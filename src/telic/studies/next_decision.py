"""Which decision is due: doubts about the incumbent first, then objections, then audits. Pure."""

from __future__ import annotations

from telic.studies.documents.candidate import CandidateStatus
from telic.studies.outlook import NextAction, Outlook

_VERDICTS = {
    "valid_improvement": "accept",
    "baseline_established": "accept",
    "no_improvement": "reject",
    "inconclusive": "inconclusive",
    "provisional": "inconclusive",
    "invalid": "debug",
}


def next_decision(o: Outlook) -> NextAction | None:
    """Return the decision that is due, for whoever may take it; None when none is."""
    if found := _doubt(o) or _object(o):
        return found
    if o.judged:
        first = o.judged[0]
        if first.can_have_seeds and _VERDICTS[first.verdict] == "inconclusive":
            return NextAction(
                action="advance",
                args={"candidate": first.candidate, "more_seeds": True},
                why=f"{first.audit} says {first.verdict}, and more seeds fit the budget",
                command=f"telic study queue more-seeds {first.candidate} --because TEXT",
            )
        verdict = _VERDICTS[first.verdict]
        asks = first.falls_to_people and verdict == "accept"
        return NextAction(
            action="decide",
            args={"candidate": first.candidate, "verdict": verdict, "audit": first.audit},
            why=f"{first.audit} says {first.verdict}",
            blocking=("a person accepts (automation.decide: ask)",) if asks else (),
            command=f"telic study decide {first.candidate} {verdict} --audit {first.audit} "
            "--because TEXT",
        )
    if o.given_up:
        return NextAction(
            action="decide",
            args={"candidate": o.given_up[0], "verdict": "reject"},
            why=f"{o.given_up[0]}: every attempt to mend it was used",
            command=f"telic study decide {o.given_up[0]} reject --because TEXT",
        )
    if o.stuck:
        held = o.stuck[0]
        return NextAction(
            action="decide",
            args={"candidate": held.candidate, "verdict": "reject", "cause": "phase_rule"},
            why=f"{held.phase}: {held.why}",
            command=f"telic study decide {held.candidate} reject --cause phase_rule --because TEXT",
        )
    return None


def _doubt(o: Outlook) -> NextAction | None:
    held = o.doubted
    if held is None:
        return None
    if not held.is_lost and held.can_have_seeds:
        return NextAction(
            action="plan",
            args={"candidate": held.candidate, "more_seeds": True},
            why=held.why,
            command="telic study queue check-incumbent",
        )
    revert = f"telic study revert {held.candidate} --because TEXT"
    keep = f"telic study decide {held.candidate} keep --because TEXT"
    verdict = "revert" if held.is_lost else "keep"
    other = f"a person decides; instead: {keep if held.is_lost else revert}"
    return NextAction(
        action="decide",
        args={"candidate": held.candidate, "verdict": verdict},
        why=held.why,
        blocking=(other,),
        command=revert if held.is_lost else keep,
    )


def _object(o: Outlook) -> NextAction | None:
    """Give up what a reviewer or the author's own condition speaks against."""
    for held in (*o.exploits, *o.disproved):
        name, verdict, instead = held.candidate, "reject", ()
        if held.status == CandidateStatus.ACCEPTED:
            verdict, command = "revert", f"telic study revert {name} --because TEXT"
        elif held.status == CandidateStatus.COMPLETED:
            command = f"telic study decide {name} reject --cause {held.cause} --because TEXT"
        else:
            command = f"telic study candidate withdraw {name} --because TEXT"
        if held.cause == "exploit":
            anyway = f"telic study approve experiment --candidate {name}"
            instead = (f"a person may let it run all the same: {anyway}",)
        return NextAction(
            action="decide",
            args={"candidate": name, "verdict": verdict, "cause": held.cause},
            why=f"{name}: {held.why}",
            blocking=instead,
            command=command,
        )
    return None
