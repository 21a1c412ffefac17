"""Look at a study: where it stands, what to do next, whether its ledger holds, and its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from telic.core.config import Record
from telic.core.request import option
from telic.core.verb import Question
from telic.studies.budget import BudgetState
from telic.studies.chain import Check, LedgerEvent, LedgerHead
from telic.studies.next import NextAction
from telic.studies.state import FiredStop, Incumbent
from telic.verbs.study import PersonRequest, StudyRequest, study_verb

if TYPE_CHECKING:
    from telic.studies.state import StudyState

# ---------------------------------------------------------------------------- looking


class StateRequest(StudyRequest):
    """Where a study stands."""

    rebuild: bool = option(
        "Make state.json and edited files of tried candidates again from the ledger.", default=False
    )


class StudyView(Record):
    """Where a study stands; the resource telic://TASK/STUDY/state has all of it."""

    study: str
    status: str
    ledger_head: LedgerHead
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
        return {**self.state.told().as_data(), "next_action": self.following.as_data()}

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
    from telic.studies.state_file import committed_head

    study = request.open()
    found = study.state
    if request.rebuild or committed_head(study.folder) != found.ledger_head:
        if request.rebuild:
            study.put_back_candidates()
        found = study.ledger.rebuild()
    return StudyStanding(found, next_step(study))


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


class VerifyRequest(StudyRequest):
    """A ledger to verify."""

    collect: bool = option(
        "Put files aside that a crash left uncommitted a week ago.", "--collect", default=False
    )


class LedgerProof(NamedTuple):
    """How the chain of a ledger came out."""

    check: Check
    git_notes: int | None = None
    collected: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """files that are not what the ledger recorded"""

    @property
    def ok(self) -> bool:
        """The chain holds, and so does every file that it names."""
        return self.check.ok and not self.changed

    def as_data(self) -> dict[str, Any]:
        """Return the check, with what was looked at beside it where it holds."""
        found = self.check.model_dump(mode="json")
        if self.check.ok:
            found |= {"git_notes": self.git_notes, "collected": list(self.collected)}
            found |= {"ok": self.ok, "changed": list(self.changed)}
        return found


@study_verb(VerifyRequest, exit_code=lambda proof: 0 if proof.ok else 5)
def verify(request: VerifyRequest) -> LedgerProof:
    """Recompute the chain of the ledger, and hash every file that it names.

    Says which line is bad or which file was changed; exit code 5 then. A chain that was written
    anew, cut short or added to outside of telic is found by the note of its last line that every
    write leaves in the user's own folder.
    """
    from telic.studies.administration import collect_orphans, require_noted
    from telic.studies.evidence.proof import changed_files

    study = request.open()
    found = study.ledger.verify()
    if not found.ok:
        return LedgerProof(found)
    study.require_intact()
    noted = require_noted(study.ledger)
    collected = tuple(collect_orphans(study) if request.collect else ())
    return LedgerProof(found, noted, collected, changed_files(study.refresh()))


@study_verb(StudyRequest)
def ledger_verify(request: StudyRequest) -> Check:
    """Recompute the chain of the study, byte by byte; names the first bad line."""
    return request.open().ledger.verify()


class AnchorRequest(PersonRequest):
    """A ledger to anchor."""

    git_note: bool = option(
        "Also write the head into a note of the commit.", "--git-note", default=False
    )


class Anchor(NamedTuple):
    """The head of a study, signed."""

    event: LedgerEvent
    commit: str | None

    def as_data(self) -> dict[str, Any]:
        """Return what was signed, and the commit it was noted at."""
        return {**self.event.data, "commit": self.commit}


def _adopt_question(request: AnchorRequest) -> Question | None:
    study = request.open()
    check = study.ledger.verify()
    if not check.foreign:
        return None
    return Question(
        f"The ledger of {study.name} was not written here: {check.why}. Take it over as it is, "
        f"with its {check.events} lines?",
        request.terminal_command("ledger", "anchor"),
    )


@study_verb(AnchorRequest, question=_adopt_question)
def anchor(request: AnchorRequest) -> Anchor:
    """Sign the head of the ledger now; with a git note a copy of it leaves with the repository.

    A ledger that somebody else went on with, on another machine, is taken over by a person's word.
    """
    from telic.studies.administration import note_head

    study = request.open()
    if study.ledger.verify().foreign and request.person:
        study.ledger.adopt()
    event = study.ledger.anchor()
    return Anchor(event, note_head(study.ledger) if request.git_note else None)


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
    ledger_head: LedgerHead


@study_verb(StudyRequest)
def get_report(request: StudyRequest) -> ReportText:
    """Render the report of the study as Markdown; writes nothing (see write_report)."""
    from telic.studies.next import next_step
    from telic.studies.report import report_text

    study = request.open()
    text = report_text(study, next_step(study))
    return ReportText(markdown=text, ledger_head=study.ledger.head)
