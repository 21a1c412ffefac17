"""Begin, look at, pause and end a study; and what every verb of a study shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from telic.core.config import Record
from telic.core.request import VerbRequest, argument, context, inner, option, place
from telic.core.verb import Question, Verb, verb
from telic.storage.journal import JournalEntry
from telic.studies.folder import StudyKind

if TYPE_CHECKING:
    from telic.studies.approvals import Consent
    from telic.studies.documents.base import StudyActor
    from telic.studies.study import Study

CANDIDATE = "Candidate, e.g. c-0003-more-tracking."
RUN = "Run, e.g. r-20260801T090000Z-k3f9qa."

Asked = TypeVar("Asked", bound=VerbRequest)
Result = TypeVar("Result")


class RootRequest(VerbRequest):
    """A request about a repository."""

    root: Path = place("The repository.", "--root", default=Path())
    actor: StudyActor | None = inner("Who asks; None: whoever runs this process.", default=None)

    @property
    def who(self) -> StudyActor:
        """Who asks, as the ledger names them."""
        from telic.studies.approvals import current_actor

        return self.actor or current_actor()


class StudyRequest(RootRequest):
    """A request about one study of a repository."""

    task: str | None = context("Task; the active one if left out.", "--task", default=None)
    study: str | None = context("Study; the active one if left out.", "--study", default=None)

    def open(self) -> Study:
        """Return the study that is meant."""
        from telic.studies.study import Study

        return Study.find(self.root, self.task, self.study)

    def terminal_command(self, *words: str) -> tuple[str, ...]:
        """Return the command that asks a person for the same in a terminal."""
        task = ("--task", self.task) if self.task else ()
        study = ("--study", self.study) if self.study else ()
        return ("telic", "study", *words, *task, *study)


class PersonRequest(StudyRequest):
    """A request that a person may have to agree to."""

    consent: Consent | None = inner(
        "The yes of a person, which a door has asked for.", default=None
    )
    seen: Mapping[str, Any] | None = inner("What the person was shown.", default=None)

    @property
    def person(self) -> Consent:
        """The yes of a person; raises GateRefused E_NO_HUMAN without one."""
        if self.consent is not None:
            return self.consent
        from telic.studies.errors import GateRefused

        raise GateRefused(
            "E_NO_HUMAN",
            "This needs a person, and nobody was asked.",
            hint="Run the same command in a terminal.",
        )

    def decider(self, needs_person: bool) -> StudyActor:
        """Return who decides: whoever asks, but a person only with the yes that proves one."""
        is_unproven = needs_person and self.who.kind == "human"
        return self.person.actor if self.consent is not None or is_unproven else self.who


def study_verb(
    request: type[Asked],
    *,
    examples: str = "",
    exit_code: Callable[[Any], int] = lambda result: 0,
    question: Callable[[Asked], Question | None] | None = None,
) -> Callable[[Callable[[Asked], Result]], Verb[Asked, Result]]:
    """Make a verb that can start no process and open no connection; see `verb`."""

    def make(function: Callable[[Asked], Result]) -> Verb[Asked, Result]:
        asked = None if question is None else _offline(question)
        how = verb(request, examples=examples, exit_code=exit_code, question=asked)
        return how(_offline(function))

    return make


def _offline(function: Callable[[Asked], Result]) -> Callable[[Asked], Result]:
    @wraps(function)
    def guarded(request: Asked) -> Result:
        from telic.studies.offline import offline

        with offline(function.__name__.strip("_").replace("_", " ")):
            return function(request)

    return guarded


# ---------------------------------------------------------------------------- beginning


class InitRequest(RootRequest):
    """A study to begin."""

    task: str = option("Name of the task, e.g. g1-walk.", "--task")
    study: str = option("Name of the study, e.g. speed.", "--study")
    says: str = option("What the robot must do.", "--says", default="")
    kind: StudyKind = option(
        "external, reward_loop, policy_search, tracking or generic.",
        "--kind",
        default="external",
        what="kind of study",
    )
    draft: bool = option(
        "Draft adapter.yaml from the repository.", "--draft/--no-draft", default=True
    )


class NewStudy(Record):
    """A study that was begun."""

    study: str
    folder: str
    contract: str
    ledger: str
    next: str = "fill in adapter.yaml, then draft_contract and draft_metrics"

    def as_data(self) -> dict[str, str]:
        """Return its name and its folder."""
        return {"study": self.study, "folder": self.folder}


@study_verb(InitRequest)
def init(request: InitRequest) -> NewStudy:
    """Begin a study: a ledger, and files to fill in that are valid as they are. Twice is once.

    adapter.yaml is drafted from the repository, of which nothing is run: see telic study adapter.
    """
    from telic.studies.administration import create_study
    from telic.studies.draft import write_draft
    from telic.studies.templates import write_templates

    folder = create_study(
        request.root,
        request.task,
        request.study,
        request.who,
        statement=request.says,
        kind=request.kind,
    ).folder
    if request.draft and not folder.adapter.exists():
        write_draft(folder)
    write_templates(folder)
    return NewStudy(
        study=folder.name,
        folder=str(folder.path),
        contract=str(folder.contract),
        ledger=str(folder.ledger),
    )


# ---------------------------------------------------------------------------- pausing and ending


class LedgerEntry(NamedTuple):
    """An event that was entered, and what it means."""

    event: JournalEntry
    says: str

    def as_data(self) -> dict[str, Any]:
        """Return the event."""
        return self.event.model_dump(mode="json")


class EnteredEvent(Record):
    """An event of the ledger."""

    seq: int
    type: str


class PauseRequest(StudyRequest):
    """A study to pause."""

    because: str = option("Why.", "--reason", default="asked for")


@study_verb(PauseRequest)
def pause(request: PauseRequest) -> LedgerEntry:
    """Stop launches until a person resumes the study; running jobs go on."""
    from telic.studies.administration import pause_study

    study = request.open()
    event = pause_study(study, request.who, request.because)
    return LedgerEntry(event, f"{study.name} is paused: {request.because}")


class ResumeRequest(PersonRequest):
    """A study to open again."""

    because: str = option("Why.", "--reason", default="asked for")


def _resume_question(request: ResumeRequest) -> Question:
    from telic.studies.administration import why_stopped

    study = request.open()
    return Question(
        f"Resume {study.name}? It stopped because: {why_stopped(study)}",
        request.terminal_command("resume", "--reason", request.because),
    )


@study_verb(ResumeRequest, question=_resume_question)
def resume(request: ResumeRequest) -> LedgerEntry:
    """Open a paused study again; a person has to say so in a terminal."""
    from telic.studies.administration import resume_study

    study = request.open()
    event = resume_study(study, request.person, request.because)
    return LedgerEntry(event, f"{study.name} is open again")


class CloseRequest(PersonRequest):
    """A study to end."""

    because: str = option("Why.", "--reason")


def _close_question(request: CloseRequest) -> Question:
    name = request.open().name
    return Question(
        f"Close {name} for good? Nothing more is launched in it.",
        request.terminal_command("close", "--reason", request.because),
    )


@study_verb(CloseRequest, question=_close_question)
def close(request: CloseRequest) -> LedgerEntry:
    """End a study for good and write its last report; a person has to say so in a terminal."""
    from telic.studies.administration import close_study
    from telic.studies.next import next_step
    from telic.studies.report import write_report

    study = request.open()
    event = close_study(study, request.person, request.because)
    write_report(study, next_step(study))
    return LedgerEntry(event, f"{study.name} is closed; its report: {study.folder.report}")


class NoteRequest(StudyRequest):
    """A note for the ledger."""

    text: str = argument("What to remember.")
    about: str | None = option("Candidate or run it is about.", default=None)
    key: str | None = option(
        "A name of your own for this request: sent again, it does nothing twice.", default=None
    )


@study_verb(NoteRequest)
def add_note(request: NoteRequest) -> EnteredEvent:
    """Add a note to the study, for people and for the next session."""
    study = request.open()
    with study.locked():
        notes = study.events_of("note.added") if request.key is not None else ()
        event = next((x for x in notes if x.data["request_key"] == request.key), None)
        if event is None:
            facts = {"text": request.text, "request_key": request.key}
            event = study.append("note.added", request.about, facts, request.who)
    return EnteredEvent(seq=event.seq, type=event.kind)
