"""Measure runs, watch live ones, test the claims of candidates, and probe robustness."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from telic.core.config import Record
from telic.core.request import argument, option
from telic.core.text import integers
from telic.errors import UsageError
from telic.studies.documents.candidate import Evidence
from telic.studies.evidence.probes import ProbePlan, ProbeSummary
from telic.verbs.study import CANDIDATE, StudyRequest, study_verb


class AuditRequest(StudyRequest):
    """A run or candidate to audit."""

    about: str = argument(
        "A run: measure it, or watch it while it is live. A candidate: its claim."
    )
    finding: str | None = option(
        "Enter what a reviewer found in the candidate instead.", "--finding", default=None
    )
    exploit: bool = option(
        "With --finding: whether the reward is being gamed.",
        "--exploit/--no-exploit",
        default=False,
    )
    unusable: bool = option(
        "The files of the run changed after its end and are lost: record it as not measured.",
        "--unusable",
        default=False,
    )


class StudyAudit(Record):
    """What was measured, watched, audited or reviewed."""

    kind: Literal["metrics", "monitor", "claim", "review"]
    evidence: str | None
    summary: str
    facts: dict[str, Any]
    reflection: dict[str, Any] | None = None
    """what the terms of the reward did, if the metric spec names them"""

    def as_data(self) -> dict[str, Any]:
        """Return the facts, with their evidence."""
        return {**self.facts, "evidence": self.evidence, "reflection": self.reflection}


@study_verb(AuditRequest)
def audit(request: AuditRequest) -> StudyAudit:
    """Audit a run or a candidate and enter the result as evidence.

    A run that has ended is measured, and the terms of its reward are examined; a live one is
    monitored. The claim of a candidate is tested against the incumbent: twelve checks, intervals, a
    verdict. With --finding a reviewer's finding is entered; a review by the author is marked as a
    self-review: it counts if it finds an exploit, or after a person has approved the candidate.
    """
    from telic.studies.evidence.audit import audit_result
    from telic.studies.evidence.monitor import monitor_run
    from telic.studies.evidence.review import review_candidate

    study, about, who = request.open(), request.about, request.who
    if request.finding is not None:
        found = review_candidate(study, about, who, request.finding, is_exploit=request.exploit)
        return _of_sheet("review", found)
    if not about.startswith("r-"):
        claim = audit_result(study, about, who)
        return StudyAudit(
            kind="claim",
            evidence=claim.evidence.id,
            summary=claim.audit.verdict,
            facts=claim.audit.as_data(),
        )
    run = study.state.runs.get(about)
    if run is not None and run.is_live:
        report = monitor_run(study, about, who)
        summary = report.recommendation.replace("_", " ")
        return StudyAudit(kind="monitor", evidence=None, summary=summary, facts=report.as_data())
    return _measured(request)


def _measured(request: AuditRequest) -> StudyAudit:
    from telic.studies.evidence.reflection import reflect_run
    from telic.studies.rules.stops import ingest

    study, who = request.open(), request.who
    found = _of_sheet("metrics", ingest(study, request.about, who, is_unusable=request.unusable))
    if not study.metric_spec.components or found.facts.get("primary") is None:
        return found
    reflection = reflect_run(study, request.about, who)
    told = {"evidence": reflection.evidence.id, **reflection.reflection.as_data()}
    return found.model_copy(update={"reflection": told})


def _of_sheet(kind: Literal["metrics", "review"], sheet: Evidence) -> StudyAudit:
    return StudyAudit(kind=kind, evidence=sheet.id, summary=sheet.summary, facts=sheet.payload)


# ---------------------------------------------------------------------------- robustness


class ProbeRequest(StudyRequest):
    """A robustness probe: parameters of the world to vary, or measured scores."""

    candidate: str = argument(CANDIDATE)
    checkpoint: Path | None = option("To plan: the checkpoint of the policy.", default=None)
    parameters: Sequence[str] = option(
        "To plan: path=nominal:low..high, with :log for a logarithmic grid; repeatable.",
        "--parameter",
        default=(),
        many=True,
    )
    seeds: Sequence[int] = option(
        "To plan: at least three, e.g. 901-903.", default=(), read=integers
    )
    episodes: int = option("Per setting and seed.", default=10, minimum=10)
    results: Path | None = option("To summarize: JSON or YAML, scores per setting.", default=None)
    worst: float = option("Score of the worst policy, e.g. random.", default=0.0)


class RobustnessReport(Record):
    """A planned probe, or how far each parameter can move before the policy fails."""

    evidence: str
    plan: ProbePlan | None = None
    summary: ProbeSummary | None = None

    def as_data(self) -> dict[str, Any]:
        """Return the plan or the summary, with its evidence."""
        document = self.plan or self.summary
        return {"evidence": self.evidence, **({} if document is None else document.as_data())}


@study_verb(ProbeRequest)
def probe(request: ProbeRequest) -> RobustnessReport:
    """Plan a one-at-a-time robustness probe, or summarize its results; measures nothing itself."""
    from telic.storage.reading import file_hash
    from telic.studies.evidence.probes import plan_probe, read_parameters, summarise_probe

    study = request.open()
    if request.results is not None:
        summary, sheet = summarise_probe(
            study, request.candidate, request.results, request.who, request.worst
        )
        return RobustnessReport(evidence=sheet.id, summary=summary)
    if request.checkpoint is None or not request.checkpoint.is_file():
        raise UsageError(
            f"There is no checkpoint {request.checkpoint}.",
            hint="Plan with --checkpoint, --parameter and --seeds, or summarize with --results.",
        )
    plan, sheet = plan_probe(
        study,
        request.candidate,
        file_hash(request.checkpoint),
        read_parameters(list(request.parameters)),
        tuple(request.seeds),
        request.who,
        request.episodes,
    )
    return RobustnessReport(evidence=sheet.id, plan=plan)
