"""The decisions that a study waits for: doubts about the incumbent, objections, verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import Field

from telic.studies.decide import NOBODY
from telic.studies.documents.base import DocumentPart
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.prospects import Prospects

_VERDICTS = {
    "valid_improvement": "accept",
    "baseline_established": "accept",
    "no_improvement": "reject",
    "inconclusive": "inconclusive",
    "provisional": "inconclusive",
    "invalid": "debug",
}
ActionCode = Literal[
    "repair",
    "stop",
    "agree",
    "reconcile",
    "ingest",
    "monitor",
    "review",
    "audit",
    "decide",
    "advance",
    "reflect",
    "plan",
    "launch",
    "validate",
    "mend",
    "abandon",
    "propose",
    "wait",
    "ask",
]


class NextAction(DocumentPart):
    """What to do next, with what, and why."""

    action: ActionCode
    args: dict[str, Any] = Field(default={})
    why: str
    blocking: tuple[str, ...] = ()
    """what a person has to settle before it can be done"""
    command: str | None = None
    """what to type"""


def first_of(
    names: Sequence[str], action: ActionCode, what: str, why: str, command: str, *blocking: str
) -> Iterator[NextAction]:
    """Act on the first of some names."""
    if names:
        yield NextAction(
            action=action,
            args={what: names[0], "others": list(names[1:])},
            why=f"{names[0]}: {why}",
            blocking=blocking,
            command=command.format(names[0]),
        )


def doubts(o: Prospects) -> Iterator[NextAction]:
    """Give the incumbent whose gain did not show again more seeds, or hand it to a person."""
    doubt = o.doubted
    if doubt is None:
        return
    if not doubt.is_lost and doubt.can_have_seeds:
        yield NextAction(
            action="plan",
            args={"candidate": doubt.candidate, "more_seeds": True},
            why=doubt.why,
            command="telic study queue check-incumbent",
        )
    to = "" if o.has_successor else f" --to {NOBODY}"
    revert = f"telic study revert {doubt.candidate}{to} --because TEXT"
    keep = f"telic study decide {doubt.candidate} keep --because TEXT"
    first, second = (revert, keep) if doubt.is_lost else (keep, revert)
    yield NextAction(
        action="decide",
        args={"candidate": doubt.candidate, "verdict": "revert" if doubt.is_lost else "keep"},
        why=doubt.why,
        blocking=(f"a person decides; instead: {second}",),
        command=first,
    )


def objections(o: Prospects) -> Iterator[NextAction]:
    """Give up what a reviewer or the author's own condition speaks against."""
    for objection in (*o.exploits, *o.disproved):
        name, verdict, instead = objection.candidate, "reject", ()
        if objection.status == CandidateStatus.ACCEPTED:
            verdict, to = "revert", "" if o.has_successor else f" --to {NOBODY}"
            command = f"telic study revert {name}{to} --because TEXT"
        elif objection.status in (CandidateStatus.COMPLETED, CandidateStatus.DEBUG):
            command = f"telic study decide {name} reject --cause {objection.cause} --because TEXT"
        else:
            command = f"telic study candidate withdraw {name} --because TEXT"
        if objection.cause == "exploit":
            anyway = f"telic study approve experiment --candidate {name}"
            instead = (f"a person may let it run all the same: {anyway}",)
        elif verdict == "revert":
            instead = ("a person takes it back",)
        yield NextAction(
            action="decide",
            args={"candidate": name, "verdict": verdict, "cause": objection.cause},
            why=f"{name}: {objection.why}",
            blocking=instead,
            command=command,
        )


def verdicts(o: Prospects) -> Iterator[NextAction]:
    """Give the decisions that audits, used-up attempts and the rules of phases suggest."""
    for claim in o.judged:
        name, verdict = claim.candidate, _VERDICTS[claim.verdict]
        if claim.can_have_seeds and verdict == "inconclusive":
            yield NextAction(
                action="advance",
                args={"candidate": name, "more_seeds": True},
                why=f"{claim.audit} says {claim.verdict}, and more seeds fit the budget",
                command=f"telic study queue more-seeds {name} --because TEXT",
            )
        asks = claim.falls_to_people and verdict == "accept"
        yield NextAction(
            action="decide",
            args={"candidate": name, "verdict": verdict, "audit": claim.audit},
            why=f"{claim.audit} says {claim.verdict}",
            blocking=("a person accepts (automation.decide: ask)",) if asks else (),
            command=f"telic study decide {name} {verdict} --audit {claim.audit} --because TEXT",
        )
    for name in o.given_up:
        yield NextAction(
            action="decide",
            args={"candidate": name, "verdict": "reject"},
            why=f"{name}: every attempt to mend it was used",
            command=f"telic study decide {name} reject --because TEXT",
        )
    for name, why in o.unclaimed:
        yield NextAction(
            action="decide",
            args={"candidate": name, "verdict": "inconclusive"},
            why=f"{name}: {why}",
            command=f"telic study decide {name} inconclusive --because TEXT",
        )
    for step in o.unreadable:
        reject = f"telic study decide {step.candidate} reject --cause phase_rule --because TEXT"
        mend = "mend metric_spec.yaml, then: telic study contract amend, telic study analyze RUN"
        yield NextAction(
            action="decide",
            args={"candidate": step.candidate, "verdict": "reject", "cause": "phase_rule"},
            why=f"{step.phase}: {step.why}",
            blocking=(f"is it given up, or can its log be read otherwise? {mend}",),
            command=reject,
        )
    for step in o.stuck:
        yield NextAction(
            action="decide",
            args={"candidate": step.candidate, "verdict": "reject", "cause": "phase_rule"},
            why=f"{step.phase}: {step.why}",
            command=f"telic study decide {step.candidate} reject --cause phase_rule --because TEXT",
        )
