"""Run a study, and inspect its runs, gates, status, evidence, ledger and report."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from telic.core.config import Record
from telic.core.request import RunsRequest, argument, inner, option
from telic.core.text import is_row
from telic.core.verb import Question, verb
from telic.errors import UnknownName
from telic.session.evidence import drawings, end_signer
from telic.session.records import PASSES, verified
from telic.storage.journal import JournalCheck
from telic.storage.keys import signed_text, usable_key
from telic.storage.layout import SessionFolder
from telic.storage.reading import read_text
from telic.storage.workspace import Workspace, kind_of
from telic.studies.administration import set_study_status, why_stopped
from telic.studies.approvals import change_diff
from telic.studies.documents.candidate import Evidence, RunStatus
from telic.studies.evidence.audit import audit_result
from telic.studies.evidence.review import reflect_run, review_candidate
from telic.studies.evidence.robustness import probe_candidate
from telic.studies.evidence.store import changed_files
from telic.studies.launch.attempt import check_token, next_request
from telic.studies.launch.launch import DryRun, LaunchResult, launch, look
from telic.studies.launch.recovery import reconcile
from telic.studies.launch.recovery import stop_run as ask_to_stop
from telic.studies.loop import run_study
from telic.studies.next import NextAction, next_step, note_next
from telic.studies.report import write_study_report
from telic.studies.rules.results import ingest
from telic.studies.study import Study
from telic.verbs.study import CANDIDATE, PersonRequest, StudyRequest

_OTHER = "report/{} is not a file of the signed report"
_POLL_S = 0.5

# ---------------------------------------------------------------------------- running


class RunRequest(PersonRequest):
    """Request to take steps or to start one run."""

    candidate: str | None = argument(
        "Candidate to run once. Default: take all steps that do not require a person.", default=None
    )
    confirm: str | None = option(
        "RUN_CANDIDATE, to start runs. By default, no runs are started.", default=None
    )
    phase: str | None = option("Phase. Default: the current phase.", default=None)
    seed: int | None = option("Seed. Default: the phase's next seed.", default=None)
    gpu: int | None = option("GPU to use, from the contract.", default=None)
    wait: bool = option("Wait until the run ends, then measure it.", "--wait", default=False)
    minutes: float | None = option(
        "Minutes after which to return. Runs continue.", default=None, minimum=0
    )
    stop: str | None = option("Run to stop.", default=None)
    pause: bool = option("Pause the study. Running jobs continue.", "--pause", default=False)
    resume: bool = option("Resume a paused study. Requires a person.", "--resume", default=False)
    because: str = option("Reason for --stop, --pause or --resume.", default="no reason given")
    on_step: Callable[[str], None] = inner("Called with each step.", default=lambda _: None)
    processes: bool = inner("Whether programs such as schedulers may be started.", default=True)


class StudyProgress(Record):
    """Progress of a study: steps taken, a started run, a new status, or the gates of a run."""

    study: str
    steps: dict[str, int] = Field(default={})
    """number of steps taken, by kind"""
    incumbent: str | None = None
    next: NextAction | None = None
    """action required from a person or author"""
    gates: DryRun | None = None
    """command and gates of a run that was not started"""
    launched: LaunchResult | None = None
    status: str | None = None
    """status of the started run, or of the study if it was paused or resumed"""
    why: str = ""
    stopped: str | None = None

    @property
    def is_refused(self) -> bool:
        """True if a gate is closed."""
        return self.gates is not None and not self.gates.is_open

    @property
    def hint(self) -> str:
        """Return the outcome of a dry run, or the next step after the study stopped."""
        if self.gates is not None:
            verdict = "all gates passed" if self.gates.is_open else "the run would be blocked"
            return f"Dry run, nothing was started: {verdict}."
        return "" if self.stopped is None else "Stopping. To continue: telic study run"

    def as_data(self) -> dict[str, Any]:
        """Return what is known."""
        return self.model_dump(mode="json", exclude_none=True)


def _resume_question(request: RunRequest) -> Question | None:
    """Return the confirmation required to resume a study."""
    if not request.resume:
        return None
    study = request.open()
    return Question(
        f"Resume {study.name}? It was stopped because: {why_stopped(study)}",
        request.terminal_command("run", "--resume", "--because", request.because),
    )


def _run_question(request: RunRequest) -> Question | None:
    """Return the confirmation that is needed to start or resume runs, if any."""
    if request.resume or request.confirm is None or not request.asks:
        return _resume_question(request)
    check_token(request.confirm)
    study = request.open()
    is_free = study.contract.automation.launch == "pre_approved"
    if is_free and study.approval("autonomy").status == "approved":
        return None
    step = next_step(study)
    name = request.candidate or step.args.get("candidate")
    diff = change_diff(study, name) if name in study.state.candidates else "nothing yet"
    about = (request.candidate,) if request.candidate else ()
    return Question(
        f"Next: {step.action}, {step.why}\nIt changes:\n{diff}\n"
        f"Start runs of {study.name} up to the next question?",
        request.terminal_command("run", *about, "--confirm", request.confirm),
    )


@verb(RunRequest, exit_code=lambda x: 3 if x.is_refused else 0, question=_run_question)
def run_steps(request: RunRequest) -> StudyProgress:
    """Execute all steps up to the first step that requires a person.

    Ended runs are measured, analyzed and audited, candidates advance, and the baseline is drafted.
    --confirm RUN_CANDIDATE also starts runs and waits for them. With a CANDIDATE, the gates of one
    run are shown, and --confirm starts it. Exit codes: 2 usage, 3 closed gate, 4 validation, 5
    integrity, 7 budget, 8 requirements of this machine.
    """
    check_token(request.confirm)
    study, because = request.open(), request.because
    if request.pause:
        set_study_status(study, "paused", request.by, because)
        return StudyProgress(study=study.name, status="paused", why=because)
    if request.resume:
        set_study_status(study, "open", request.person.actor, because)
        return StudyProgress(study=study.name, status="open", why=because)
    if request.stop is not None:
        ask_to_stop(study, request.stop, "user", because)
        return StudyProgress(study=study.name, stopped=request.stop)
    return _steps(request, study) if request.candidate is None else _once(request, study)


def _steps(request: RunRequest, study: Study) -> StudyProgress:
    done: dict[str, int] = {}

    def note(step: NextAction) -> None:
        about = step.args.get("candidate") or step.args.get("run") or study.name
        request.on_step(f"{step.action} {about}: {step.why}")
        done[step.action] = done.get(step.action, 0) + 1

    may_launch = request.confirm is not None
    last = run_study(
        study,
        request.by,
        may_launch=may_launch,
        processes=request.processes,
        seconds=None if request.minutes is None else 60 * request.minutes,
        on_step=note,
    )
    done[last.action] = done.get(last.action, 1) - 1  # the last step was not taken
    trusted = study.incumbent
    return StudyProgress(
        study=study.name,
        steps={name: count for name, count in done.items() if count > 0},
        incumbent=None if trusted is None else trusted.candidate,
        next=last,
    )


def _once(request: RunRequest, study: Study) -> StudyProgress:
    assert request.candidate is not None
    wanted = next_request(study, request.candidate, request.phase, request.seed)
    wanted = wanted._replace(confirm=request.confirm, gpu=request.gpu)
    if request.confirm is None:
        return StudyProgress(study=study.name, gates=look(study, wanted))
    launched = launch(study, wanted, request.by)
    while request.wait and study.state.runs[launched.run].is_live:
        time.sleep(_POLL_S)
        reconcile(study, processes=True)
    state = study.state.runs[launched.run]
    if request.wait and state.status == RunStatus.FINISHED:
        ingest(study, launched.run, request.by)
    return StudyProgress(
        study=study.name, launched=launched, status=str(state.status), why=state.why
    )


class _GatesRequest(StudyRequest):
    """Request to evaluate the gates of a run."""

    candidate: str = argument(CANDIDATE)
    phase: str | None = option("Phase. Default: the current phase.", default=None)
    seed: int | None = option("Seed. Default: the next seed of the phase.", default=None)


@verb(_GatesRequest)
def check_gates(request: _GatesRequest) -> DryRun:
    """Evaluate the gates G01 to G23 and show the command of a run without starting it."""
    study = request.open()
    wanted = next_request(study, request.candidate, request.phase, request.seed)
    return look(study, wanted, processes=False)


# ---------------------------------------------------------------------------- status


class StatusRequest(StudyRequest):
    """Request to show a study or one of its records."""

    about: str | None = argument(
        "Candidate, run or evidence id, or candidates, runs or queue. Default: the study.",
        default=None,
    )


class StatusReport(Record):
    """State of a study, or of one of its records."""

    about: str
    """study, candidates, runs, queue, candidate, run or evidence"""
    facts: dict[str, Any]
    next: NextAction | None = None
    """next action, if the record is the study"""

    def as_data(self) -> dict[str, Any]:
        """Return the facts, including a study's next step."""
        following = {} if self.next is None else {"next_action": self.next.as_data()}
        return {**self.facts, **following}


@verb(StatusRequest)
def status(request: StatusRequest) -> StatusReport:
    """Show the state of the study, a candidate, a run or an evidence record."""
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
            runs = data["runs"]
            if about not in runs:
                raise UnknownName("run", about, list(runs), see="telic study status runs")
            return StatusReport(about="run", facts={"run": about, **runs[about]})
        case _ if about.startswith("e-"):
            return StatusReport(about="evidence", facts=study.sheet(about).as_data())
        case _:
            return StatusReport(about="candidate", facts=study.candidate(about).as_data())


@verb(StudyRequest)
def next_action(request: StudyRequest) -> NextAction:
    """Print the next safe step, its command and the reason for it, without executing it."""
    return note_next(request.open())


# ---------------------------------------------------------------------------- evidence


class AuditRequest(StudyRequest):
    """Request to audit a run or a candidate."""

    about: str = argument("Finished run to measure, or candidate whose claim is tested.")
    finding: str | None = option(
        "Record this review finding about the candidate instead.", "--finding", default=None
    )
    exploit: bool = option(
        "Whether the finding is a reward exploit.",
        "--exploit/--no-exploit",
        default=False,
    )
    unusable: bool = option(
        "Record that the run cannot be measured, because its files changed after it ended.",
        "--unusable",
        default=False,
    )
    probe: bool = option(
        "Summarize the candidate's runs under the protocol's perturbations instead.",
        "--probe",
        default=False,
    )


class StudyAudit(Record):
    """Result of a measurement, audit, review or robustness probe."""

    kind: Literal["metrics", "claim", "review", "probe"]
    evidence: str | None
    summary: str
    facts: dict[str, Any]
    reflection: dict[str, Any] | None = None
    """statistics of the reward terms, if the metric spec lists them"""

    def as_data(self) -> dict[str, Any]:
        """Return the facts and their evidence."""
        return {**self.facts, "evidence": self.evidence, "reflection": self.reflection}


@verb(AuditRequest)
def audit(request: AuditRequest) -> StudyAudit:
    """Audit a run or a candidate and record the result as evidence.

    An ended run is measured and its reward terms are analyzed. A candidate's claim is compared with
    the incumbent in twelve checks that lead to a verdict. --finding records a review, in which the
    author can only report an exploit. --probe determines the parameter ranges in which the
    candidate's policies work.
    """
    study, about, actor = request.open(), request.about, request.by
    if request.finding is not None:
        found = review_candidate(study, about, actor, request.finding, is_exploit=request.exploit)
        return _entered("review", found)
    if request.probe:
        return _entered("probe", probe_candidate(study, about, actor))
    if not about.startswith("r-"):
        return _entered("claim", audit_result(study, about, actor))
    found = _entered("metrics", ingest(study, about, actor, is_unusable=request.unusable))
    if not study.metric_spec.components or found.facts.get("primary") is None:
        return found
    reflected = reflect_run(study, about, actor)
    terms = {"evidence": reflected.id, **reflected.payload}
    return found.model_copy(update={"reflection": terms})


def _entered(kind: Literal["metrics", "claim", "review", "probe"], sheet: Evidence) -> StudyAudit:
    return StudyAudit(kind=kind, evidence=sheet.id, summary=sheet.summary, facts=sheet.payload)


# ---------------------------------------------------------------------------- ledger and report


class VerifyRequest(PersonRequest, RunsRequest):
    """Request to verify evidence."""

    path: Path | None = argument(
        "Session (also by name, or 'latest'), bundle or report. Default: the study's ledger.",
        default=None,
    )
    adopt: bool = option(
        "Continue a ledger that was written on another machine. Requires a person.",
        "--adopt",
        default=False,
    )


class LedgerReport(JournalCheck):
    """Result of verifying a ledger and the files it references."""

    changed: tuple[str, ...] = ()
    """files that differ from their hashes in the ledger"""


def _adopt_question(request: VerifyRequest) -> Question | None:
    if not request.adopt or request.path is not None:
        return None
    study = request.open()
    why = study.ledger.verify().why
    return Question(
        f"The ledger of {study.name} was not written on this machine: {why}. Continue it anyway?",
        request.terminal_command("verify", "--adopt"),
    )


class Verification(Record):
    """Result of verifying a session, a bundle or a report."""

    path: str
    ok: bool
    """whether all files are as they were signed"""
    state: str
    """passed (proven here), claimed (signed with another key) or unproven"""
    signed_by: str | None
    """public key of the signer, as printed by telic doctor"""
    reasons: tuple[str, ...] = ()


def _why_outdated(path: Path, session: str, outcome: Any) -> str | None:
    """Return why a report or bundle is outdated, if the session is a parent folder or in runs/."""
    homes = (*path.absolute().parents, Path("runs", session))
    known = (home for home in homes if home.name == session and kind_of(home) == "session")
    folder = next(map(SessionFolder, known), None)
    if folder is None or not folder.summary.exists() or outcome not in PASSES:
        return None
    summary = verified(folder)
    if summary.outcome in (outcome, "claimed"):
        return None
    return f"its session {session} is {summary.outcome} now: {'; '.join(summary.reasons)}"


def _verify_path(path: Path) -> Verification:
    from telic.training.export.bundle import check_bundle  # imports torch

    if kind_of(path) == "session":
        folder = SessionFolder(path)
        summary, signer = verified(folder), end_signer(folder)
        drawn = [_OTHER.format(each) for each in drawings(folder, folder.page)]
        state, reasons = summary.outcome, (*summary.reasons, *summary.limits, *drawn)
        is_whole = summary.outcome != "unproven" and not drawn
    else:
        fault: str | None = None
        if path.is_dir():
            claims, signer, fault = check_bundle(path)
        else:
            claims, signer = signed_text(read_text(path))
        fault = fault or (None if signer else "its signature is missing or invalid")
        fault = fault or _why_outdated(path, str(claims.get("session")), claims.get("outcome"))
        if not fault and path.is_file():
            fault = next(map(_OTHER.format, drawings(SessionFolder(path.parent), path)), None)
        key, outcome = usable_key(), claims.get("outcome")
        limits = map(str, found) if is_row(found := claims.get("limits")) else ()
        if outcome is None and not fault:
            reasons, state = ("it does not describe a judged session",), "unproven"
        else:
            is_ours = key is not None and signer == key.public
            state = "unproven" if fault else str(outcome) if is_ours else "claimed"
            named = () if is_ours else (f"another key signed: {outcome}",)
            reasons = (fault,) if fault else (*named, *limits)
        is_whole = not fault
    return Verification(path=str(path), ok=is_whole, state=state, signed_by=signer, reasons=reasons)


@verb(VerifyRequest, exit_code=lambda report: 0 if report.ok else 5, question=_adopt_question)
def verify(request: VerifyRequest) -> LedgerReport | Verification:
    """Verify a session, bundle or report, or a study's ledger and all its files.

    Signatures include their public key, so verification needs no secret. Exits with code 5 if
    anything differs. The last line of each ledger is also stored in the user's folder, so that
    changes made outside of telic are detected.
    """
    if (path := request.path) is not None:
        found = path if path.exists() else Workspace(request.runs_dir).session(str(path)).path
        return _verify_path(found)  # trained policies: imports the training code
    study = request.open()
    if request.adopt and request.person and study.ledger.verify().foreign:
        study.ledger.adopt()
    check = study.ledger.verify()
    changed = changed_files(study) if check.ok else ()
    facts = check.model_dump(exclude={"ok"})
    return LedgerReport(**facts, ok=check.ok and not changed, changed=changed)


class ReportRequest(PersonRequest):
    """Request to write a report."""

    close: bool = option(
        "Close the study permanently. Requires a person.", "--close", default=False
    )
    because: str = option("Reason for --close.", default="no reason given")


class StudyReportFiles(Record):
    """The files of a report."""

    markdown: str
    page: str


def _close_question(request: ReportRequest) -> Question | None:
    if not request.close:
        return None
    return Question(
        f"Close {request.open().name} permanently? No further runs can be started in it.",
        request.terminal_command("report", "--close", "--because", request.because),
    )


@verb(ReportRequest, question=_close_question)
def report_study(request: ReportRequest) -> StudyReportFiles:
    """Write report.md and report.html from the ledger and the evidence. Manual notes are kept.

    --close writes the final report and closes the study, which then accepts no proposals or runs.
    """
    study = request.open()
    if request.close:
        set_study_status(study, "closed", request.person.actor, request.because)
    folder = write_study_report(study, next_step(study))
    return StudyReportFiles(markdown=str(folder.report), page=str(folder.report_page))
