"""Measure runs, test what candidates claim, and decide: only people accept an incumbent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from telic.core.config import Record
from telic.core.request import argument, option
from telic.core.text import integers
from telic.core.verb import Question, Wrapped
from telic.errors import UsageError
from telic.studies.decide import DecisionOutcome
from telic.studies.documents.candidate import Evidence, Verdict
from telic.studies.evidence.audit import AuditResult
from telic.studies.evidence.measurement import SampleCheck
from telic.studies.evidence.monitor import MonitorReport
from telic.studies.evidence.probes import ProbePlan, ProbeSummary
from telic.studies.evidence.reflection import ReflectionResult
from telic.verbs.study import CANDIDATE, RUN, PersonRequest, StudyRequest, study_verb


class SampleRequest(StudyRequest):
    """A log to read."""

    sample: Path = argument("A log, or a folder of logs, in the repository.")


@study_verb(SampleRequest, exit_code=lambda found: 4 if found.missing else 0)
def metrics(request: SampleRequest) -> SampleCheck:
    """Check that the metric spec can read a sample log; exit code 4 when a key is missing."""
    from telic.studies.evidence.measurement import check_sample

    return check_sample(request.open().folder, request.sample)


class RunRequest(StudyRequest):
    """A run."""

    run: str = argument(RUN)


class AnalyzeRequest(RunRequest):
    """A run to measure."""

    unusable: bool = option(
        "Its files were changed after it ended and cannot be restored: enter it as not measured.",
        "--unusable",
        default=False,
    )


@study_verb(AnalyzeRequest)
def analyze(request: AnalyzeRequest) -> Evidence:
    """Measure a run that has ended and enter it as evidence; again is the same evidence.

    Only bytes that the run itself left are read: files changed since are refused.
    """
    from telic.studies.rules.stops import ingest

    return ingest(request.open(), request.run, request.who, is_unusable=request.unusable)


class MonitorRequest(StudyRequest):
    """Which runs to look at."""

    run: str | None = argument("Run; all live ones if left out.", default=None)


class MonitorReports(Wrapped, Record):
    """A look at live runs."""

    reports: tuple[MonitorReport, ...]


@study_verb(MonitorRequest)
def monitor(request: MonitorRequest) -> MonitorReports:
    """Look at live runs: are they alive, are they learning. Stops nothing."""
    from telic.studies.evidence.monitor import monitor_run

    study = request.open()
    runs = [request.run] if request.run else list(study.state.active_runs)
    reports = [monitor_run(study, run, request.who) for run in runs]
    return MonitorReports(reports=tuple(reports))


class RewardReflection(ReflectionResult):
    """What the terms of a reward did."""

    def as_data(self) -> dict[str, Any]:
        """Return the reflection, with its evidence."""
        return {"evidence": self.evidence.id, **self.reflection.as_data()}


@study_verb(RunRequest)
def reflect(request: RunRequest) -> RewardReflection:
    """Say what the terms of the reward did, how likely it is being gamed, and what to change."""
    from telic.studies.evidence.reflection import reflect_run

    found = reflect_run(request.open(), request.run, request.who)
    return RewardReflection(reflection=found.reflection, evidence=found.evidence)


class ReviewRequest(StudyRequest):
    """What somebody found in a candidate."""

    candidate: str = argument(CANDIDATE)
    finding: str = option("What was found.", "--says")
    exploit: bool = option("Is the reward being gamed?", "--exploit/--no-exploit")


@study_verb(ReviewRequest)
def review(request: ReviewRequest) -> Evidence:
    """Enter a review of a candidate by somebody else than its author.

    One that may come from the author under another name is called a self-review: it counts when it
    finds an exploit, or once a person has approved the candidate after it.
    """
    from telic.studies.evidence.review import review_candidate

    study = request.open()
    return review_candidate(
        study, request.candidate, request.who, request.finding, is_exploit=request.exploit
    )


class AuditResultRequest(StudyRequest):
    """A claim to test."""

    candidate: str = argument(CANDIDATE)


class ClaimAudit(AuditResult):
    """How a candidate's claim came out."""

    def as_data(self) -> dict[str, Any]:
        """Return the audit, with its evidence."""
        return {"evidence": self.evidence.id, **self.audit.as_data()}


@study_verb(AuditResultRequest)
def audit_result(request: AuditResultRequest) -> ClaimAudit:
    """Test a candidate's claim against the incumbent: twelve checks, intervals, a verdict."""
    from telic.studies.evidence import audit as auditing

    found = auditing.audit_result(request.open(), request.candidate, request.who)
    return ClaimAudit(audit=found.audit, evidence=found.evidence)


# ---------------------------------------------------------------------------- probes


class ProbeRequest(StudyRequest):
    """How far to move the world."""

    candidate: str = argument(CANDIDATE)
    checkpoint: Path = option("The policy's checkpoint; only hashed.")
    parameters: Sequence[str] = option(
        "path=nominal:low..high, with :log for a logarithmic grid.", "--parameter", many=True
    )
    seeds: Sequence[int] = option("At least three, e.g. 901-903.", read=integers)
    episodes: int = option("Per setting and seed.", default=10, minimum=10)


class PlannedProbe(Record):
    """A probe that was planned."""

    plan: ProbePlan
    evaluations: int
    evidence: str

    def as_data(self) -> dict[str, Any]:
        """Return the plan, with its evidence."""
        return {
            "evidence": self.evidence,
            "evaluations": self.evaluations,
            **self.plan.as_data(),
        }


@study_verb(ProbeRequest)
def dr_plan(request: ProbeRequest) -> PlannedProbe:
    """Plan how far one parameter of the world at a time is moved; measures nothing."""
    from telic.storage.reading import file_hash
    from telic.studies.evidence.probes import plan_probe, read_parameters

    if not request.checkpoint.is_file():
        raise UsageError(f"There is no file {request.checkpoint}.")
    plan, sheet = plan_probe(
        request.open(),
        request.candidate,
        file_hash(request.checkpoint),
        read_parameters(list(request.parameters)),
        tuple(request.seeds),
        request.who,
        request.episodes,
    )
    return PlannedProbe(plan=plan, evaluations=plan.evaluations, evidence=sheet.id)


class ProbeResultsRequest(StudyRequest):
    """What a probe measured."""

    candidate: str = argument(CANDIDATE)
    results: Path = argument("JSON or YAML with the scores per setting.")
    worst: float = option("Score of the worst policy, e.g. random.", default=0.0)


class ProbeOutcome(Record):
    """What a probe showed."""

    summary: ProbeSummary
    evidence: str

    def as_data(self) -> dict[str, Any]:
        """Return the summary, with its evidence."""
        return {"evidence": self.evidence, **self.summary.as_data()}


@study_verb(ProbeResultsRequest)
def dr_summary(request: ProbeResultsRequest) -> ProbeOutcome:
    """Say how far each parameter can be moved before the policy fails."""
    from telic.studies.evidence.probes import summarise_probe

    study = request.open()
    summary, sheet = summarise_probe(
        study, request.candidate, request.results, request.who, request.worst
    )
    return ProbeOutcome(summary=summary, evidence=sheet.id)


# ---------------------------------------------------------------------------- decisions


class DecideRequest(PersonRequest):
    """What becomes of a candidate."""

    candidate: str = argument(CANDIDATE)
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
    if about and about[-1].kind == "decision.proposed":
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

    candidate: str = argument(CANDIDATE)
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

    candidate: str = argument(CANDIDATE)
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
        return revert.do(RevertRequest(candidate=request.candidate, to=request.to, **shared))
    return decide.do(
        DecideRequest(
            candidate=request.candidate, verdict=request.verdict, audit=request.audit, **shared
        )
    )


_SHARED = ("because", "root", "actor", "task", "study", "consent", "seen")
