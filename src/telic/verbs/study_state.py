"""Inspect a study: its status, the next step, its ledger and its report."""

from __future__ import annotations

from typing import Any

from telic.core.config import Record
from telic.core.request import argument, option
from telic.core.verb import Question
from telic.storage.journal import JournalHead
from telic.studies.budget import BudgetState
from telic.studies.next import NextAction
from telic.studies.state import CandidateState, FiredStop, Incumbent, RunState
from telic.verbs.study import PersonRequest, StudyRequest, study_verb


class StatusRequest(StudyRequest):
    """What to show."""

    about: str | None = argument(
        "A candidate, run or evidence id, or candidates, runs, queue; the study if left out.",
        default=None,
    )


class StatusReport(Record):
    """The state of a study, or of one record of it."""

    about: str
    """study, candidates, runs, queue, candidate, run or evidence"""
    facts: dict[str, Any]
    next: NextAction | None = None
    """only for the study"""

    def as_data(self) -> dict[str, Any]:
        """Return the facts, with the next step of a study."""
        following = {} if self.next is None else {"next_action": self.next.as_data()}
        return {**self.facts, **following}


@study_verb(StatusRequest)
def status(request: StatusRequest) -> StatusReport:
    """Show the state of the study, or one of its candidates, runs or evidence records."""
    from telic.studies.next import next_step

    study, about = request.open(), request.about
    data = study.state.as_data()
    match about:
        case None:
            return StatusReport(about="study", facts=data, next=next_step(study))
        case "candidates" | "runs":
            return StatusReport(about=about, facts=data[about])
        case "queue":
            return StatusReport(about=about, facts={"jobs": [x.as_data() for x in study.jobs]})
        case _ if about.startswith("r-"):
            return StatusReport(about="run", facts={"run": about, **_known(data["runs"], about)})
        case _ if about.startswith("e-"):
            return StatusReport(about="evidence", facts=study.sheet(about).as_data())
        case _:
            return StatusReport(about="candidate", facts=study.candidate(about).as_data())


def _known(runs: dict[str, Any], name: str) -> dict[str, Any]:
    from telic.errors import UnknownName

    if name not in runs:
        raise UnknownName("run", name, list(runs), see="telic study status runs")
    return runs[name]


class StudyView(Record):
    """A summary of a study; the resource telic://TASK/STUDY/state has all of it."""

    study: str
    status: str
    ledger_head: JournalHead
    contract_version: int | None
    incumbent: Incumbent | None
    baseline: str | None
    noise_floor: float | None
    candidates: dict[str, int]
    """number of candidates by status"""
    active_runs: tuple[str, ...]
    pending_approvals: tuple[str, ...]
    stopped_by: tuple[FiredStop, ...]
    budget: BudgetState
    next: NextAction


@study_verb(StudyRequest)
def get_state(request: StudyRequest) -> StudyView:
    """Summarize the study and its next step."""
    from telic.studies.next import next_step

    study = request.open()
    state = study.state
    return StudyView(
        study=state.study,
        status=state.study_status,
        ledger_head=state.ledger_head,
        contract_version=state.contract_version,
        incumbent=state.incumbent,
        baseline=state.baseline,
        noise_floor=state.noise_floor,
        candidates=state.counts,
        active_runs=state.active_runs,
        pending_approvals=state.pending_approvals,
        stopped_by=state.fired_stops,
        budget=state.budget,
        next=next_step(study),
    )


class CandidateLine(Record):
    """A candidate in a list."""

    id: str
    candidate: CandidateState


class CandidateList(Record):
    """The newest candidates of a study, the oldest of them first."""

    candidates: tuple[CandidateLine, ...]
    left_out: int


class RunLine(Record):
    """A run in a list."""

    id: str
    run: RunState


class RunList(Record):
    """The newest runs of a study, the oldest of them first."""

    runs: tuple[RunLine, ...]
    left_out: int


class ListRequest(StudyRequest):
    """How many to list."""

    limit: int = option("Number of entries.", default=100, minimum=1, maximum=1000)


@study_verb(ListRequest)
def list_candidates(request: ListRequest) -> CandidateList:
    """List candidates with their status, phase, kind and parents."""
    found = list(request.open().state.candidates.items())
    lines = [CandidateLine(id=name, candidate=each) for name, each in found[-request.limit :]]
    return CandidateList(candidates=tuple(lines), left_out=len(found) - len(lines))


@study_verb(ListRequest)
def list_runs(request: ListRequest) -> RunList:
    """List runs; telic://TASK/STUDY/runs/RUN/metrics has the numbers of one."""
    found = list(request.open().state.runs.items())
    lines = [RunLine(id=name, run=each) for name, each in found[-request.limit :]]
    return RunList(runs=tuple(lines), left_out=len(found) - len(lines))


@study_verb(StudyRequest)
def next_action(request: StudyRequest) -> NextAction:
    """Print the next safe step, the command for it and the reason; never takes it."""
    from telic.studies.next import note_next

    return note_next(request.open())


@study_verb(StudyRequest)
def loop_step(request: StudyRequest) -> NextAction:
    """Return the next safe step and the reason; never takes it. Call this when unsure."""
    from telic.studies.next import next_step

    return next_step(request.open())


# ---------------------------------------------------------------------------- the ledger


class VerifyRequest(PersonRequest):
    """A ledger to verify."""

    repair: bool = option("Write state.json again from the ledger.", "--repair", default=False)
    adopt: bool = option(
        "Continue a ledger that was written on another machine; a person has to agree.",
        "--adopt",
        default=False,
    )


class LedgerReport(Record):
    """The result of verifying a ledger and the files that it names."""

    ok: bool
    check: dict[str, Any]
    changed: tuple[str, ...] = ()
    """files that are not what the ledger recorded"""

    def as_data(self) -> dict[str, Any]:
        """Return the check and the changed files."""
        return {**self.check, "ok": self.ok, "changed": list(self.changed)}


def _adopt_question(request: VerifyRequest) -> Question | None:
    if not request.adopt:
        return None
    study = request.open()
    why = study.ledger.verify().why
    return Question(
        f"The ledger of {study.name} was not written here: {why}. Continue it as it is?",
        request.terminal_command("verify", "--adopt"),
    )


@study_verb(VerifyRequest, exit_code=lambda report: 0 if report.ok else 5, question=_adopt_question)
def verify(request: VerifyRequest) -> LedgerReport:
    """Verify the hash chain of the ledger and every file that it names; exit code 5 if one differs.

    A ledger that was rewritten, cut short or extended outside of telic does not match the note of
    its last line that every write leaves in the user's own folder.
    """
    from telic.studies.evidence.proof import changed_files

    study = request.open()
    if request.adopt and request.person and study.ledger.verify().foreign:
        study.ledger.adopt()
    if request.repair:
        study.ledger.save_state()
    check = study.ledger.verify()
    data = check.model_dump(mode="json")
    if not check.ok:
        return LedgerReport(ok=False, check=data)
    changed = changed_files(study)
    return LedgerReport(ok=not changed, check=data, changed=changed)


@study_verb(StudyRequest)
def ledger_verify(request: StudyRequest) -> LedgerReport:
    """Verify the hash chain of the ledger; names the first bad line."""
    check = request.open().ledger.verify()
    return LedgerReport(ok=check.ok, check=check.model_dump(mode="json"))


# ---------------------------------------------------------------------------- the report


class StudyReportFiles(Record):
    """Where a report was written."""

    markdown: str
    page: str


@study_verb(StudyRequest)
def report(request: StudyRequest) -> StudyReportFiles:
    """Write report.md and report.html from the ledger and the evidence; notes of people stay."""
    from telic.studies.next import next_step
    from telic.studies.report import write_report

    study = request.open()
    folder = write_report(study, next_step(study))
    return StudyReportFiles(markdown=str(folder.report), page=str(folder.report_page))


class ReportText(Record):
    """A report as Markdown."""

    markdown: str


@study_verb(StudyRequest)
def get_report(request: StudyRequest) -> ReportText:
    """Render the report of the study as Markdown; writes nothing."""
    from telic.studies.next import next_step
    from telic.studies.report import report_text

    study = request.open()
    return ReportText(markdown=report_text(study, next_step(study)))
