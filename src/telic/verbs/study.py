"""Start, pause and resume a study; and the requests that all study verbs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from telic.core.config import Record
from telic.core.request import VerbRequest, argument, context, inner, option, place
from telic.core.verb import Question, Verb, verb
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
    questions: tuple[str, ...] = ()
    """what the draft of adapter.yaml leaves open"""


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
    questions: tuple[str, ...] = ()
    if request.draft and not folder.adapter.exists():
        questions = tuple(f"{x.field}: {x.why}" for x in write_draft(folder).questions)
    write_templates(folder)
    return NewStudy(study=folder.name, folder=str(folder.path), questions=questions)


# ---------------------------------------------------------------------------- pausing and ending


class StudyStatusChange(Record):
    """A study that was paused, resumed or closed."""

    study: str
    status: Literal["paused", "open", "closed"]
    because: str
    report: str | None = None


class PauseRequest(PersonRequest):
    """A study to pause or close."""

    because: str = option("Why.", "--because", default="asked for")
    for_good: bool = option(
        "Close it and write the last report; a person has to agree.", "--for-good", default=False
    )


def _close_question(request: PauseRequest) -> Question | None:
    if not request.for_good:
        return None
    return Question(
        f"Close {request.open().name} for good? Nothing more is launched in it.",
        request.terminal_command("pause", "--for-good", "--because", request.because),
    )


@study_verb(PauseRequest, question=_close_question)
def pause(request: PauseRequest) -> StudyStatusChange:
    """Stop launches until a person resumes the study; live runs continue."""
    from telic.studies.administration import close_study, pause_study
    from telic.studies.next import next_step
    from telic.studies.report import write_report

    study, because = request.open(), request.because
    if not request.for_good:
        pause_study(study, request.who, because)
        return StudyStatusChange(study=study.name, status="paused", because=because)
    close_study(study, request.person, because)
    write_report(study, next_step(study))
    report = str(study.folder.report)
    return StudyStatusChange(study=study.name, status="closed", because=because, report=report)


class PauseOnlyRequest(StudyRequest):
    """A study to pause."""

    because: str = option("Why.", default="asked for")


@study_verb(PauseOnlyRequest)
def pause_only(request: PauseOnlyRequest) -> StudyStatusChange:
    """Stop launches until a person resumes the study; live runs continue."""
    from telic.studies.administration import pause_study

    study = request.open()
    pause_study(study, request.who, request.because)
    return StudyStatusChange(study=study.name, status="paused", because=request.because)


class ResumeRequest(PersonRequest):
    """A study to resume."""

    because: str = option("Why.", "--because", default="asked for")


def _resume_question(request: ResumeRequest) -> Question:
    from telic.studies.administration import why_stopped

    study = request.open()
    return Question(
        f"Resume {study.name}? It stopped because: {why_stopped(study)}",
        request.terminal_command("resume", "--because", request.because),
    )


@study_verb(ResumeRequest, question=_resume_question)
def resume(request: ResumeRequest) -> StudyStatusChange:
    """Resume a paused study; a person has to agree in a terminal."""
    from telic.studies.administration import resume_study

    study = request.open()
    resume_study(study, request.person, request.because)
    return StudyStatusChange(study=study.name, status="open", because=request.because)


class NoteRequest(StudyRequest):
    """A note for the ledger."""

    text: str = argument("What to remember.")
    about: str | None = option("Candidate or run it is about.", default=None)


class StudyNote(Record):
    """A note in the ledger."""

    seq: int


@study_verb(NoteRequest)
def add_note(request: NoteRequest) -> StudyNote:
    """Add a note to the ledger of the study."""
    study = request.open()
    with study.locked():
        event = study.append("note.added", request.about, {"text": request.text}, request.who)
    return StudyNote(seq=event.seq)
