"""Look at a study: where it stands, what to do next, whether its ledger holds, and its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from telic.core.config import Record
from telic.core.request import option
from telic.core.verb import Question
from telic.storage.journal import JournalCheck, JournalHead
from telic.studies.budget import BudgetState
from telic.studies.next import NextAction
from telic.studies.state import FiredStop, Incumbent
from telic.verbs.study import PersonRequest, StudyRequest, study_verb

if TYPE_CHECKING:
    from telic.studies.state import StudyState

# ---------------------------------------------------------------------------- looking


class StateRequest(StudyRequest):
    """Where a study stands."""

    rebuild: bool = option("Write state.json again from the ledger.", default=False)


class StudyView(Record):
    """Where a study stands; the resource telic://TASK/STUDY/state has all of it."""

    study: str
    status: str
    ledger_head: JournalHead
    contract_version: int | None
    incumbent: Incumbent | None
    baseline: str | None
    noise_floor: float | None
    candidates: dict[str, int]
    """how many there are, by status"""
    active_runs: tuple[str, ...]
    pending_approvals: tuple[str, ...]
    stopped_by: tuple[FiredStop, ...]
    budget: BudgetState
    next: NextAction


class StudyStanding(NamedTuple):
    """The whole state of a study, and what to do now."""

    state: StudyState
    following: NextAction

    def as_data(self) -> dict[str, Any]:
        """Return the state as it is told, with the next action in it."""
        return {**self.state.as_data(), "next_action": self.following.as_data()}

    def summary(self) -> StudyView:
        """Return what fits into one look."""
        state = self.state
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
            next=self.following,
        )


@study_verb(StateRequest)
def state(request: StateRequest) -> StudyStanding:
    """Show where the study stands, from the ledger alone."""
    from telic.studies.next import next_step

    study = request.open()
    if request.rebuild:
        study.ledger.save_state()
    return StudyStanding(study.state, next_step(study))


@study_verb(StudyRequest)
def get_state(request: StudyRequest) -> StudyView:
    """Say where the study stands and what to do next, from the ledger alone."""
    from telic.studies.next import next_step

    study = request.open()
    return StudyStanding(study.state, next_step(study)).summary()


@study_verb(StudyRequest)
def next_action(request: StudyRequest) -> NextAction:
    """Say the next safe action, the command for it, and why; never does it."""
    from telic.studies.next import note_next

    return note_next(request.open())


@study_verb(StudyRequest)
def loop_step(request: StudyRequest) -> NextAction:
    """Say the next safe action, with what, and why; never does it. Call this when unsure."""
    from telic.studies.next import next_step

    return next_step(request.open())


# ---------------------------------------------------------------------------- the ledger


class LedgerProof(NamedTuple):
    """The result of verifying a ledger and the files that it names."""

    check: JournalCheck
    changed: tuple[str, ...] = ()
    """files that are not what the ledger recorded"""

    @property
    def ok(self) -> bool:
        """The chain holds, and so does every file that it names."""
        return self.check.ok and not self.changed

    def as_data(self) -> dict[str, Any]:
        """Return the check and the changed files."""
        found = self.check.model_dump(mode="json")
        return {**found, "ok": self.ok, "changed": list(self.changed)}


@study_verb(StudyRequest, exit_code=lambda proof: 0 if proof.ok else 5)
def verify(request: StudyRequest) -> LedgerProof:
    """Verify the chain and signatures of the ledger, and hash every file that it names.

    Names the first bad line or the changed files; exit code 5 then. A chain that was rewritten,
    cut short or extended outside of telic does not match the note of its last line, which every
    write leaves in the user's own folder.
    """
    from telic.studies.evidence.proof import changed_files

    study = request.open()
    found = study.ledger.verify()
    return LedgerProof(found, changed_files(study) if found.ok else ())


@study_verb(StudyRequest)
def ledger_verify(request: StudyRequest) -> JournalCheck:
    """Verify the chain and signatures of the ledger; names the first bad line."""
    return request.open().ledger.verify()


class AdoptedLedger(Record):
    """A ledger that is continued here."""

    study: str
    head: JournalHead

    def as_data(self) -> dict[str, Any]:
        """Return the study and its head."""
        return self.model_dump(mode="json")


def _adopt_question(request: PersonRequest) -> Question | None:
    study = request.open()
    check = study.ledger.verify()
    if not check.foreign:
        return None
    return Question(
        f"The ledger of {study.name} was not written here: {check.why}. Continue it as it is, "
        f"with its {check.head.seq} lines?",
        request.terminal_command("ledger", "adopt"),
    )


@study_verb(PersonRequest, question=_adopt_question)
def adopt(request: PersonRequest) -> AdoptedLedger:
    """Continue a ledger that was written on another machine; a person has to agree."""
    study = request.open()
    if study.ledger.verify().foreign and request.person:
        study.ledger.adopt()
    return AdoptedLedger(study=study.name, head=study.ledger.head)


# ---------------------------------------------------------------------------- the report


class StudyReportFiles(Record):
    """Where a report was written."""

    markdown: str
    page: str


@study_verb(StudyRequest)
def report(request: StudyRequest) -> StudyReportFiles:
    """Write report.md and report.html from the ledger and the evidence; keeps people's notes."""
    from telic.studies.next import next_step
    from telic.studies.report import write_report

    study = request.open()
    folder = write_report(study, next_step(study))
    return StudyReportFiles(markdown=str(folder.report), page=str(folder.report_page))


class ReportText(Record):
    """A report as Markdown."""

    markdown: str
    ledger_head: JournalHead


@study_verb(StudyRequest)
def get_report(request: StudyRequest) -> ReportText:
    """Render the report of the study as Markdown; writes nothing (see write_report)."""
    from telic.studies.next import next_step
    from telic.studies.report import report_text

    study = request.open()
    text = report_text(study, next_step(study))
    return ReportText(markdown=text, ledger_head=study.ledger.head)
