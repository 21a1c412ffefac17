"""Next actions, and the action that opens a gate that is shut.

A launch that would be refused is never suggested: the next action is the way to open its gate.
"""

from __future__ import annotations

import secrets
from typing import Any, Literal

from pydantic import Field

from telic.studies.canonical import run_id
from telic.studies.decide import NOBODY
from telic.studies.documents.base import DocumentPart
from telic.studies.documents.candidate import CandidateStatus, CheckResult
from telic.studies.evidence.review import REVIEW, ask_for_review, own_praise_counts
from telic.studies.launch.attempt import LaunchAttempt, LaunchRequest
from telic.studies.queue import Job
from telic.studies.rules.change import changed_evaluators
from telic.studies.rules.gates import GATES, evaluate, shut
from telic.studies.study import Study

_LOOKED_AT = tuple(code for code in GATES if code not in ("G01", "G03"))
"""the launch is not confirmed yet, and the ledger is verified before everything else"""
AMEND = "telic study contract --amend TEXT"
WITHDRAW = "telic study decide {} withdraw --because TEXT"
REVISE = "telic study propose FILE --revise {}"
APPROVE_CANDIDATE = "telic study approve experiment --candidate {}"
EVALUATOR_CHANGED = (
    "restore the evaluator, or agree on the new one: telic study contract --evaluator FILE, then "
    f"{AMEND}; what was measured before is then measured again"
)
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
_QUESTIONS = {
    "G02": "should the study continue? (telic study run --resume --because TEXT)",
    "G10": "in which order should its phases run? Revise its plan",
    "G13": "may it run here, with that launcher? Then allow it in the contract's hardware",
    "G14": "may it cost more? Then raise the contract's budget",
    "G15": "what should be done about the stop rule?",
    "G16": "wait, or stop one of the runs: telic study run --stop RUN",
    "G17": "can this machine be given what it lacks?",
    "G18": "commit, stash or remove what is in no commit, or fetch the commit that is gone",
    "G19": EVALUATOR_CHANGED,
    "G20": "what is the command? edit adapter.yaml, then telic study approve",
    "G21": "may it reach the network? Else take the setting out of adapter.yaml",
    "G22": "may code that a model wrote be run? Then allow it in the contract's generated_code",
    "G23": "is that harmless? Then correct it: edit adapter.yaml, then telic study approve",
    "G24": "what is wrong with the launcher's options in adapter.yaml?",
}
_AMENDED = ("G13", "G14", "G22")


class NextAction(DocumentPart):
    """What to do next, with what, and why."""

    action: ActionCode
    args: dict[str, Any] = Field(default={})
    why: str
    blocking: tuple[str, ...] = ()
    """what a person has to settle before it can be done"""
    command: str | None = None
    """what to type"""


def remedy_for(study: Study, job: Job) -> NextAction | None:
    """Return what opens the first shut gate of a ready job; None when all are open."""
    attempt = LaunchAttempt(
        study,
        LaunchRequest(job.candidate, job.phase, job.seed, gpu=job.gpu, retry_of=job.run_id),
        run_id=run_id(),
        nonce=secrets.token_hex(8),
        processes=False,
    )
    closed = shut(evaluate(attempt, _LOOKED_AT), dry=True)
    if not closed:
        return None
    gate = closed[0]
    action, command, asks = _remedy(attempt, gate)
    args = {"gate": gate.id, "candidate": job.candidate, "phase": job.phase, "seed": job.seed}
    return NextAction(
        action=action,
        args={**args, "verdict": "revert"} if action == "decide" else args,
        why=f"{job.name} cannot start: {gate.id} {gate.why}",
        blocking=asks,
        command=command,
    )


_Remedy = tuple[ActionCode, str | None, tuple[str, ...]]


def _remedy(attempt: LaunchAttempt, gate: CheckResult) -> _Remedy:
    """Return the action that opens a gate, its command, and what a person is asked."""
    study, name, why = attempt.study, attempt.request.candidate, gate.why
    is_trusted = attempt.held.status == CandidateStatus.ACCEPTED
    give_up = f"or withdraw the candidate: {WITHDRAW.format(name)}"
    match gate.id:
        case "G04":
            return "agree", AMEND, (why,)
        case "G05":
            unmet = study.missing_approvals
            asks = tuple(f"approval {each.name} is {each.status}: {each.why}" for each in unmet)
            return "agree", f"telic study approve {' '.join(x.key for x in unmet)}", asks
        case "G06":
            asks = (f"approval experiment:{name}: {why}", *(() if is_trusted else (give_up,)))
            return "agree", APPROVE_CANDIDATE.format(name), asks
        case "G07" | "G08" | "G09" | "G11" | "G12":
            return _check_again(attempt)
        case "G10" if "gamed" in why:
            return "review", REVIEW.format(name), ask_for_review(name)
        case "G19" if _has_old_evaluator(attempt):
            if attempt.held.status != CandidateStatus.VALIDATED:
                return _check_again(attempt)
            newer = "the draft names as base_commit a commit that has the evaluator of the protocol"
            return "mend", REVISE.format(name), (newer, give_up)
        case "G20" if field := _unconfirmed(attempt, why):
            return "ask", "telic study approve", (f"is {field} in adapter.yaml right?",)
        case "G22" if "no review" in why and ";" not in why:
            asks = ("a reviewer other than its author looks at it", own_praise_counts(name))
            return "review", f"telic study audit {name} --no-exploit --finding TEXT", asks
        case "G23" if "moves hardware" in why and ";" not in why:
            return "agree", f"telic study approve physical_actuation --candidate {name}", (why,)
        case _:
            question = _QUESTIONS.get(gate.id, "what should be done about it?")
            instead = f"or take it back: {take_back(study, name)}" if is_trusted else give_up
            return "ask", AMEND if gate.id in _AMENDED else None, (question, instead)


def _check_again(attempt: LaunchAttempt) -> _Remedy:
    """Validate again what was validated, give up what already runs, restore an incumbent."""
    name, status = attempt.request.candidate, attempt.held.status
    if status == CandidateStatus.VALIDATED:
        return "validate", "telic study run", ()
    if status == CandidateStatus.LAUNCHED:
        return "abandon", WITHDRAW.format(name), ()
    restore = f"restore what {name} needs, or a person takes it back"
    return "decide", take_back(attempt.study, name), (restore,)


def _has_old_evaluator(attempt: LaunchAttempt) -> bool:
    """Return whether only the candidate's own tree has another evaluator than the protocol."""
    study, tree = attempt.study, attempt.tree
    is_old = tree.is_dir() and bool(changed_evaluators(study, tree))
    return is_old and not changed_evaluators(study, study.root)


def _unconfirmed(attempt: LaunchAttempt, why: str) -> str | None:
    """Return the field of the adapter that G20 wants confirmed."""
    is_smoke = attempt.spec is attempt.adapter.commands.smoke
    fields = {"commands": "commands.smoke" if is_smoke else "commands.train"}
    fields |= {name: name for name in ("metrics", "seeds", "launcher")}
    return next((field for word, field in fields.items() if f"adapter's {word} " in why), None)


def take_back(study: Study, name: str) -> str:
    """Return the command that takes an accepted candidate back."""
    trusted = study.incumbent
    others = trusted is not None and trusted.candidate != name
    has_successor = others or study.state.previous_incumbent(name) is not None
    to = "" if has_successor else f" --to {NOBODY}"
    return f"telic study decide {name} revert{to} --because TEXT"
