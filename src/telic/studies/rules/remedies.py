"""What opens a gate that is shut: the verb that does it, or the question that a person answers.

A launch that would be refused is never suggested: whoever asks what to do next gets the way to it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from telic.studies.canonical import run_id
from telic.studies.decide import NOBODY, previous_incumbent
from telic.studies.documents.candidate import CandidateStatus, CheckResult
from telic.studies.evidence.review import REVIEW, ask_for_review, own_praise_counts
from telic.studies.launch.attempt import LaunchAttempt, LaunchRequest
from telic.studies.queue import ReadyJob
from telic.studies.rules.change import changed_evaluators
from telic.studies.rules.gates import GATES, evaluate, shut
from telic.studies.study import Study

_LOOKED_AT = tuple(code for code in GATES if code not in ("G01", "G03"))
"""the word of whoever launches is not given yet, and the ledger is looked at before all else"""
_AMEND = "telic study contract amend --reason TEXT"
EVALUATOR_CHANGED = (
    "restore the evaluator, or agree on the new one: telic study contract evaluator, then "
    f"{_AMEND}; what was measured before is then measured anew"
)


class Remedy(NamedTuple):
    """What to do about a launch that would be refused."""

    action: Literal["agree", "validate", "mend", "abandon", "repair", "review", "decide", "ask"]
    why: str
    command: str | None = None
    asks: tuple[str, ...] = ()
    """what a person has to settle; empty when nobody is needed"""
    args: Mapping[str, Any] = MappingProxyType({})


def remedy_for(study: Study, ready: ReadyJob) -> Remedy | None:
    """Return what opens the first shut gate of a job that is ready; None when all are open."""
    job = ready.job
    request = LaunchRequest(
        job.candidate, job.phase, job.seed, gpu=job.slot.gpu, retry_of=ready.retry_of
    )
    attempt = LaunchAttempt(
        study,
        request,
        run_id=run_id(datetime.now(UTC)),
        nonce=secrets.token_hex(8),
        processes=False,
    )
    closed = shut(evaluate(attempt, _LOOKED_AT), dry=True)
    if not closed:
        return None
    first = closed[0]
    found = _REMEDIES.get(first.id, _ask)(attempt, first)
    args = {"gate": first.id, "candidate": job.candidate, "phase": job.phase, "seed": job.seed}
    why = f"{job.job_id} cannot start: {first.id} {found.why}"
    return found._replace(why=why, args={**args, **found.args})


# ---------------------------------------------------------------------------- one by one


def _approve(attempt: LaunchAttempt, gate: CheckResult) -> Remedy:
    unmet = attempt.study.missing_approvals
    asks = tuple(f"approval {each.name} is {each.status}: {each.why}" for each in unmet)
    keys = " ".join(each.key for each in unmet)
    return Remedy("agree", gate.why, f"telic study approve {keys}", asks)


def _approve_experiment(attempt: LaunchAttempt, gate: CheckResult) -> Remedy:
    name = attempt.request.candidate
    approve = f"telic study approve experiment --candidate {name}"
    instead = () if attempt.held.status == CandidateStatus.ACCEPTED else (_give_up(name),)
    asks = (f"approval experiment:{name}: {gate.why}", *instead)
    return Remedy("agree", gate.why, approve, asks)


def _check_again(attempt: LaunchAttempt, gate: CheckResult) -> Remedy:
    """What was validated is checked anew; what already runs is given up; an incumbent restored."""
    name, status = attempt.request.candidate, attempt.held.status
    if status == CandidateStatus.VALIDATED:
        return Remedy("validate", gate.why, f"telic study candidate validate {name}")
    if status == CandidateStatus.LAUNCHED:
        return Remedy("abandon", gate.why, f"telic study candidate withdraw {name} --because TEXT")
    if attempt.study.can_be_put_back(name):
        put_back = "its files are put back to what was accepted"
        return Remedy("repair", gate.why, "telic study state --rebuild", (put_back,))
    restore = f"restore what {name} needs, or a person takes it back"
    revert = _take_back(attempt.study, name)
    return Remedy("decide", gate.why, revert, (restore,), {"verdict": "revert"})


def _confirm(attempt: LaunchAttempt, gate: CheckResult) -> Remedy:
    spec, adapter = attempt.spec, attempt.adapter
    used = "commands.smoke" if spec is adapter.commands.smoke else "commands.train"
    fields = {"commands": used, "metrics": "metrics", "seeds": "seeds", "launcher": "launcher"}
    named = [field for word, field in fields.items() if f"adapter's {word} " in gate.why]
    if not named:
        return _ask(attempt, gate)
    confirm = f"telic study confirm {named[0]}"
    return Remedy("ask", gate.why, confirm, (f"is {named[0]} in adapter.yaml right?",))


def _in_turn(attempt: LaunchAttempt, gate: CheckResult) -> Remedy:
    if "gamed" not in gate.why:
        return _ask(attempt, gate)
    name = attempt.request.candidate
    return Remedy("review", gate.why, REVIEW.format(name), ask_for_review(name))


def _measured(attempt: LaunchAttempt, gate: CheckResult) -> Remedy:
    """A tree of its own is as old as its commit: a newer evaluator gets there by a newer tree."""
    study, tree, name = attempt.study, attempt.tree, attempt.request.candidate
    is_old = tree.is_dir() and changed_evaluators(study, tree)
    if not is_old or changed_evaluators(study, study.root):
        return _ask(attempt, gate)
    if attempt.held.status != CandidateStatus.VALIDATED:
        return _check_again(attempt, gate)
    revise = f"telic study candidate revise {name} --draft FILE"
    newer = "the draft names as base_commit a commit that has the evaluator of the protocol"
    return Remedy("mend", gate.why, revise, (newer, _give_up(name)))


def _reviewed(attempt: LaunchAttempt, gate: CheckResult) -> Remedy:
    name = attempt.request.candidate
    if "no review" in gate.why and ";" not in gate.why:
        command = f"telic study review {name} --no-exploit --says TEXT"
        asks = ("somebody else than its author looks at it", own_praise_counts(name))
        return Remedy("review", gate.why, command, asks)
    return _ask(attempt, gate)


def _move(attempt: LaunchAttempt, gate: CheckResult) -> Remedy:
    name = attempt.request.candidate
    if "moves hardware" not in gate.why or ";" in gate.why:
        return _ask(attempt, gate)
    command = f"telic study approve physical_actuation --candidate {name}"
    return Remedy("agree", gate.why, command, (gate.why,))


def _ask(attempt: LaunchAttempt, gate: CheckResult) -> Remedy:
    question = _QUESTIONS.get(gate.id, "what shall be done about it?")
    name, status = attempt.request.candidate, attempt.held.status
    is_trusted = status == CandidateStatus.ACCEPTED
    give_up = (
        f"or take it back: {_take_back(attempt.study, name)}" if is_trusted else _give_up(name)
    )
    command = _AMEND if gate.id in _AMENDED else None
    return Remedy("ask", gate.why, command, (question, give_up))


def _take_back(study: Study, name: str) -> str:
    trusted = study.incumbent
    others = trusted is not None and trusted.candidate != name
    has_successor = others or previous_incumbent(study.state, name) is not None
    to = "" if has_successor else f" --to {NOBODY}"
    return f"telic study revert {name}{to} --because TEXT"


def _give_up(name: str) -> str:
    return f"or give the candidate up: telic study candidate withdraw {name} --because TEXT"


_AMENDED = ("G13", "G14", "G22")
_QUESTIONS = {
    "G02": "shall the study go on? (telic study resume --reason TEXT)",
    "G10": "in which order shall its phases run? Revise its plan",
    "G13": "may it run here, with that launcher? Then say so in the contract's hardware",
    "G14": "may it cost more? Then raise the contract's budget",
    "G15": "what shall be done about the stop rule?",
    "G16": "wait, or stop one of the runs: telic study run --stop RUN",
    "G17": "can this machine be given what it lacks?",
    "G18": "commit, stash or remove what is in no commit, or fetch the commit that is gone",
    "G19": EVALUATOR_CHANGED,
    "G20": "what is the command? telic study confirm commands.train COMMAND",
    "G21": "may it reach the network? Else take the setting out of adapter.yaml",
    "G22": "may code that a model wrote be run? Then say so in the contract's generated_code",
    "G23": "is that harmless? Then correct it: telic study confirm commands.train COMMAND",
    "G24": "what is wrong with the launcher's options in adapter.yaml?",
}
_REMEDIES: dict[str, Callable[[LaunchAttempt, CheckResult], Remedy]] = {
    "G04": lambda attempt, gate: Remedy("agree", gate.why, _AMEND, (gate.why,)),
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
