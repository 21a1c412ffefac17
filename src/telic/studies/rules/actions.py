"""Next actions, and the action that opens a gate that is shut.

A launch that would be refused is never suggested: the next action is the way to open its gate.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field

from telic.studies.canonical import run_id
from telic.studies.decide import NOBODY, previous_incumbent
from telic.studies.documents.base import DocumentPart
from telic.studies.documents.candidate import CandidateStatus, CheckResult
from telic.studies.evidence.review import REVIEW, ask_for_review, own_praise_counts
from telic.studies.launch.attempt import LaunchAttempt, LaunchRequest
from telic.studies.queue import ReadyJob
from telic.studies.rules.change import changed_evaluators
from telic.studies.rules.gates import GATES, evaluate, shut
from telic.studies.study import Study

_LOOKED_AT = tuple(code for code in GATES if code not in ("G01", "G03"))
"""the launch is not confirmed yet, and the ledger is verified before everything else"""
_AMEND = "telic study contract --amend TEXT"
EVALUATOR_CHANGED = (
    "restore the evaluator, or agree on the new one: telic study contract --evaluator FILE, then "
    f"{_AMEND}; what was measured before is then measured again"
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


class NextAction(DocumentPart):
    """What to do next, with what, and why."""

    action: ActionCode
    args: dict[str, Any] = Field(default={})
    why: str
    blocking: tuple[str, ...] = ()
    """what a person has to settle before it can be done"""
    command: str | None = None
    """what to type"""


def remedy_for(study: Study, ready: ReadyJob) -> NextAction | None:
    """Return what opens the first shut gate of a ready job; None when all are open."""
    job = ready.job
    attempt = LaunchAttempt(
        study,
        LaunchRequest(
            job.candidate, job.phase, job.seed, gpu=job.slot.gpu, retry_of=ready.retry_of
        ),
        run_id=run_id(),
        nonce=secrets.token_hex(8),
        processes=False,
    )
    closed = shut(evaluate(attempt, _LOOKED_AT), dry=True)
    if not closed:
        return None
    gate = closed[0]
    found = _REMEDIES.get(gate.id, _ask)(attempt, gate)
    args = {"gate": gate.id, "candidate": job.candidate, "phase": job.phase, "seed": job.seed}
    why = f"{job.job_id} cannot start: {gate.id} {found.why}"
    return found.model_copy(update={"why": why, "args": {**args, **found.args}})


def _action(
    action: ActionCode,
    gate: CheckResult,
    command: str | None = None,
    asks: tuple[str, ...] = (),
    **args: Any,
) -> NextAction:
    return NextAction(action=action, why=gate.why, command=command, blocking=asks, args=args)


# ---------------------------------------------------------------------------- one by one


def _approve(attempt: LaunchAttempt, gate: CheckResult) -> NextAction:
    unmet = attempt.study.missing_approvals
    asks = tuple(f"approval {each.name} is {each.status}: {each.why}" for each in unmet)
    keys = " ".join(each.key for each in unmet)
    return _action("agree", gate, f"telic study approve {keys}", asks)


def _approve_experiment(attempt: LaunchAttempt, gate: CheckResult) -> NextAction:
    name = attempt.request.candidate
    approve = f"telic study approve experiment --candidate {name}"
    instead = () if attempt.held.status == CandidateStatus.ACCEPTED else (_give_up(name),)
    asks = (f"approval experiment:{name}: {gate.why}", *instead)
    return _action("agree", gate, approve, asks)


def _check_again(attempt: LaunchAttempt, gate: CheckResult) -> NextAction:
    """Validate again what was validated, give up what already runs, restore an incumbent."""
    name, status = attempt.request.candidate, attempt.held.status
    if status == CandidateStatus.VALIDATED:
        return _action("validate", gate, "telic study run")
    if status == CandidateStatus.LAUNCHED:
        return _action("abandon", gate, f"telic study decide {name} withdraw --because TEXT")
    restore = f"restore what {name} needs, or a person takes it back"
    revert = take_back(attempt.study, name)
    return _action("decide", gate, revert, (restore,), verdict="revert")


def _confirm(attempt: LaunchAttempt, gate: CheckResult) -> NextAction:
    spec, adapter = attempt.spec, attempt.adapter
    used = "commands.smoke" if spec is adapter.commands.smoke else "commands.train"
    fields = {"commands": used, "metrics": "metrics", "seeds": "seeds", "launcher": "launcher"}
    named = [field for word, field in fields.items() if f"adapter's {word} " in gate.why]
    if not named:
        return _ask(attempt, gate)
    confirm = "telic study approve"
    return _action("ask", gate, confirm, (f"is {named[0]} in adapter.yaml right?",))


def _in_turn(attempt: LaunchAttempt, gate: CheckResult) -> NextAction:
    if "gamed" not in gate.why:
        return _ask(attempt, gate)
    name = attempt.request.candidate
    return _action("review", gate, REVIEW.format(name), ask_for_review(name))


def _measured(attempt: LaunchAttempt, gate: CheckResult) -> NextAction:
    """Ask for a newer base commit where the candidate's own tree has an older evaluator."""
    study, tree, name = attempt.study, attempt.tree, attempt.request.candidate
    is_old = tree.is_dir() and changed_evaluators(study, tree)
    if not is_old or changed_evaluators(study, study.root):
        return _ask(attempt, gate)
    if attempt.held.status != CandidateStatus.VALIDATED:
        return _check_again(attempt, gate)
    revise = f"telic study propose FILE --revise {name}"
    newer = "the draft names as base_commit a commit that has the evaluator of the protocol"
    return _action("mend", gate, revise, (newer, _give_up(name)))


def _reviewed(attempt: LaunchAttempt, gate: CheckResult) -> NextAction:
    name = attempt.request.candidate
    if "no review" in gate.why and ";" not in gate.why:
        command = f"telic study audit {name} --no-exploit --finding TEXT"
        asks = ("a reviewer other than its author looks at it", own_praise_counts(name))
        return _action("review", gate, command, asks)
    return _ask(attempt, gate)


def _move(attempt: LaunchAttempt, gate: CheckResult) -> NextAction:
    name = attempt.request.candidate
    if "moves hardware" not in gate.why or ";" in gate.why:
        return _ask(attempt, gate)
    command = f"telic study approve physical_actuation --candidate {name}"
    return _action("agree", gate, command, (gate.why,))


def _ask(attempt: LaunchAttempt, gate: CheckResult) -> NextAction:
    question = _QUESTIONS.get(gate.id, "what should be done about it?")
    name, status = attempt.request.candidate, attempt.held.status
    is_trusted = status == CandidateStatus.ACCEPTED
    give_up = f"or take it back: {take_back(attempt.study, name)}" if is_trusted else _give_up(name)
    command = _AMEND if gate.id in _AMENDED else None
    return _action("ask", gate, command, (question, give_up))


def take_back(study: Study, name: str) -> str:
    """Return the command that takes an accepted candidate back."""
    trusted = study.incumbent
    others = trusted is not None and trusted.candidate != name
    has_successor = others or previous_incumbent(study.state, name) is not None
    to = "" if has_successor else f" --to {NOBODY}"
    return f"telic study decide {name} revert{to} --because TEXT"


def _give_up(name: str) -> str:
    return f"or withdraw the candidate: telic study decide {name} withdraw --because TEXT"


_AMENDED = ("G13", "G14", "G22")
_QUESTIONS = {
    "G02": "should the study continue? (telic study resume --because TEXT)",
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
_REMEDIES: dict[str, Callable[[LaunchAttempt, CheckResult], NextAction]] = {
    "G04": lambda attempt, gate: _action("agree", gate, _AMEND, (gate.why,)),
    "G05": _approve,
    "G06": _approve_experiment,
    "G07": _check_again,
    "G08": _check_again,
    "G09": _check_again,
    "G10": _in_turn,
    "G11": _check_again,
    "G12": _check_again,
    "G19": _measured,
    "G20": _confirm,
    "G22": _reviewed,
    "G23": _move,
}
