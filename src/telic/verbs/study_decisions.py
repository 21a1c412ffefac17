"""Decide about candidates: only this moves the incumbent, and only people accept one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from telic.core.verb import Question, argument, option
from telic.studies.decide import DecisionOutcome
from telic.studies.documents.candidate import Verdict
from telic.verbs.study import PersonRequest, study_verb

_NAME = "Candidate, e.g. c-0003-more-tracking."


class DecideRequest(PersonRequest):
    """What becomes of a candidate."""

    candidate: str = argument(_NAME)
    verdict: Verdict = argument("accept, reject, inconclusive, debug or keep.")
    because: str = option("Why; kept with the decision.", "--because", default="")
    audit: str | None = option("The audit; the newest if left out.", default=None)
    cause: str | None = option(
        "Reject without an audit: guardrail_breach, falsifier_met, rollback, exploit or "
        "phase_rule.",
        default=None,
    )
    evidence: Sequence[str] = option("What it rests on.", "--evidence", default=(), many=True)


def _decide_question(request: DecideRequest) -> Question | None:
    # An agent's accept is a proposal, which needs nobody; a person proves to be one.
    if request.verdict not in ("accept", "keep") or request.who.kind != "human":
        return None
    name = request.open().name
    return Question(
        f"{request.verdict.capitalize()} {request.candidate} as the incumbent of {name}? "
        f"Because: {request.because}",
        request.terminal_command("decide", request.candidate, request.verdict),
    )


@study_verb(DecideRequest, question=_decide_question)
def decide(request: DecideRequest) -> DecisionOutcome:
    """Record a decision that cites evidence; to accept or keep, a person types a code."""
    from telic.studies.decide import decide as record

    return record(
        request.open(),
        request.candidate,
        request.verdict,
        request.decider(request.verdict in ("accept", "keep")),
        request.because,
        evidence=request.evidence,
        audit=request.audit,
        cause=request.cause,
    )


@study_verb(DecideRequest)
def propose_decision(request: DecideRequest) -> DecisionOutcome:
    """Record a decision that cites evidence; an accept stays a proposal until a person agrees.

    To have a person accept, keep or revert, call request_decision.
    """
    about = [x for x in request.open().events if x.subject == request.candidate]
    if about and about[-1].type == "decision.proposed":
        last = about[-1].data
        if (last.get("verdict"), last.get("reason")) == (request.verdict, request.because):
            return DecisionOutcome(
                candidate=request.candidate,
                verdict=request.verdict,
                recorded=False,
                why="It is proposed already.",
            )
    return decide.do(request)


class RevertRequest(PersonRequest):
    """A candidate to take back."""

    candidate: str = argument(_NAME)
    because: str = option("Why; kept with the decision.", "--because", default="")
    to: str | None = option("Whom to trust again; the one before.", default=None)
    evidence: Sequence[str] = option("What it rests on.", "--evidence", default=(), many=True)


def _revert_question(request: RevertRequest) -> Question | None:
    if request.who.kind != "human":
        return None
    return Question(
        f"Revert {request.candidate} in {request.open().name}? Because: {request.because}",
        request.terminal_command("revert", request.candidate, "--because", request.because),
    )


@study_verb(RevertRequest, question=_revert_question)
def revert(request: RevertRequest) -> DecisionOutcome:
    """Take an accepted candidate back; a person has to say so in a terminal."""
    from telic.studies.decide import revert as take_back

    actor = request.decider(needs_person=True)
    return take_back(
        request.open(),
        request.candidate,
        actor,
        request.because,
        to=request.to,
        evidence=request.evidence,
    )


class PersonDecisionRequest(PersonRequest):
    """A decision that only people make."""

    candidate: str = argument(_NAME)
    verdict: Literal["accept", "keep", "revert"] = argument("What the person is asked to agree to.")
    because: str = option("Why; kept in the ledger.")
    audit: str | None = option("The newest if left out.", default=None)
    to: str | None = option("With revert: whom to trust again.", default=None)


def _person_question(request: PersonDecisionRequest) -> Question:
    words = ["decide", request.candidate, request.verdict]
    if request.verdict == "revert":
        words = ["revert", request.candidate]
    words += ["--because", request.because]
    words += ["--audit", request.audit] if request.audit else []
    words += ["--to", request.to] if request.to else []
    what = f"{request.verdict.capitalize()} {request.candidate} in {request.open().name}?"
    return Question(f"{what} Because: {request.because}", request.terminal_command(*words))


@study_verb(PersonDecisionRequest, question=_person_question)
def request_decision(request: PersonDecisionRequest) -> DecisionOutcome:
    """Ask the person to accept a candidate as the incumbent, to keep it, or to take it back."""
    shared = {name: getattr(request, name) for name in _SHARED}
    if request.verdict == "revert":
        return revert.do(RevertRequest(request.candidate, to=request.to, **shared))
    return decide.do(
        DecideRequest(request.candidate, request.verdict, audit=request.audit, **shared)
    )


_SHARED = ("because", "root", "actor", "task", "study", "consent", "seen")
