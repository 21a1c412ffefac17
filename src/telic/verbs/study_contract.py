"""Read a repository, agree on what may be tried and how it is judged, and approve it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from telic.core.config import Record
from telic.core.request import argument, inner, option
from telic.core.text import pairs, read_value
from telic.core.verb import Question, Wrapped, verb
from telic.storage.journal import JournalEntry
from telic.storage.reading import read_text
from telic.studies.adapter_check import AdapterCheck, check_adapter
from telic.studies.approvals import Standing
from telic.studies.contract import ContractCheck
from telic.studies.launch.attempt import check_words
from telic.studies.smoke import SmokeProof, prove_adapter
from telic.verbs.study import PersonRequest, StudyRequest, study_verb

if TYPE_CHECKING:
    from telic.studies.study import Study

# ---------------------------------------------------------------------------- the repository


class AdapterRequest(StudyRequest):
    """An adapter to draft, check or prove."""

    draft: bool = option(
        "Write adapter.yaml from the repository; confirmed fields stay.", "--draft", default=False
    )
    smoke: bool = option(
        "Prove it with three smoke runs of the baseline, behind every gate.",
        "--smoke",
        default=False,
    )
    confirm: str | None = option("With --smoke: the word RUN_CANDIDATE.", default=None)
    on_step: Callable[[str], None] = inner("Called with each step.", default=lambda _: None)


class AdapterReport(Record):
    """How adapter.yaml was checked, and what smoke runs showed."""

    check: AdapterCheck
    proof: SmokeProof | None = None

    @property
    def ok(self) -> bool:
        """No check failed."""
        return self.check.ok and (self.proof is None or self.proof.ok)


@verb(AdapterRequest, exit_code=lambda report: 0 if report.ok else 4)
def adapter(request: AdapterRequest) -> AdapterReport:
    """Check adapter.yaml: schema, cited lines and commands. Exit code 4 if something is wrong.

    With --draft it is written again from cheap facts of the repository, of which nothing is run.
    With --smoke --confirm RUN_CANDIDATE the baseline runs three times in its smoke phase: does it
    start, obey seeds and steps, log the metric, and does the evaluator evaluate?
    """
    from telic.studies.draft import write_draft
    from telic.studies.offline import offline

    check_words(request.smoke, request.confirm)
    study = request.open()
    with offline("adapter"):
        questions = write_draft(study.folder).questions if request.draft else ()
        check = check_adapter(study.refresh(), questions)
    if not request.smoke or not check.ok:
        return AdapterReport(check=check)
    return AdapterReport(check=check, proof=prove_adapter(study, request.who, request.on_step))


class ConfirmRequest(PersonRequest):
    """A field of the adapter, and what it is."""

    field: str = argument("E.g. commands.train, seeds, metrics.map.return.")
    value: Any = argument(
        "What it is; left out: what the adapter says is right.", default=None, metavar="[VALUE]"
    )

    def chosen(self) -> Any:
        """Return the value: on a command line all but a command is read as JSON or a list."""
        is_command = self.field.startswith("commands.") and self.field.count(".") == 1
        return (
            self.value if is_command or not isinstance(self.value, str) else read_value(self.value)
        )


class ConfirmedField(Record):
    """A field of the adapter that a person stands for."""

    field: str
    value: Any
    status: str = "confirmed"


def _confirm_question(request: ConfirmRequest) -> Question:
    from telic.studies.documents.adapter import confirm_field
    from telic.studies.documents.base import value_at, yaml_text

    study = request.open()
    changed = confirm_field(study.adapter, request.field, request.chosen())
    value = yaml_text(value_at(changed.as_data(), request.field))
    given = () if request.value is None else (str(request.value),)
    return Question(
        f"{request.field} is\n{value}\nIs that right for {study.folder.task_id}?",
        request.terminal_command("confirm", request.field, *given),
    )


@study_verb(ConfirmRequest, question=_confirm_question)
def confirm(request: ConfirmRequest) -> ConfirmedField:
    """Confirm or correct a field of adapter.yaml; a person types a code in a terminal."""
    from telic.studies.documents.adapter import confirm_field
    from telic.studies.documents.base import rewrite_yaml, value_at

    assert request.person
    study = request.open()
    changed = confirm_field(study.adapter, request.field, request.chosen())
    rewrite_yaml(study.folder.adapter, changed)
    return ConfirmedField(field=request.field, value=value_at(changed.as_data(), request.field))


# ---------------------------------------------------------------------------- the contract


class ContractView(Record):
    """What stands between the contract and a launch."""

    check: ContractCheck
    ok: bool
    approvals: tuple[Standing, ...]

    def as_data(self) -> dict[str, Any]:
        """Return the check with the approvals in it."""
        rows = [standing.model_dump(mode="json") for standing in self.approvals]
        return {**self.check.model_dump(mode="json"), "ok": self.ok, "approvals": rows}


def contract_view(study: Study) -> ContractView:
    """Return what is wrong with the contract, what is to be asked, and which approvals hold."""
    from telic.studies.contract import check_contract

    found = check_contract(study)
    return ContractView(check=found, ok=found.ok, approvals=study.standings)


class DraftContractRequest(StudyRequest):
    """Answers for the contract."""

    answers: Mapping[str, Any] | None = option(
        "Dotted place to value, e.g. budget.gpu_h=96; repeatable.",
        "--set",
        default=None,
        many=True,
        read=pairs,
    )


@study_verb(DraftContractRequest)
def draft(request: DraftContractRequest) -> ContractView:
    """Write answers into contract.yaml and say what is still to be asked. Approves nothing."""
    from telic.studies.contract import draft_contract

    study = request.open()
    draft_contract(study, dict(request.answers or {}))
    return contract_view(study)


@study_verb(StudyRequest, exit_code=lambda found: 0 if found.ok else 4)
def check(request: StudyRequest) -> ContractView:
    """Say what is wrong with the contract, what is to be asked, and which approvals hold.

    Approvals whose text has changed are recorded as void. Exit code 4 when something is wrong.
    """
    from telic.studies.approvals import void_changed

    study = request.open()
    void_changed(study)
    return contract_view(study)


class EvaluatorRequest(StudyRequest):
    """The files that measure."""

    files: Sequence[str] = argument(
        "Files that measure a result; those already named if left out.", default=(), many=True
    )


@dataclass(frozen=True)
class EvaluatorHashes(Wrapped):
    """What the evaluator's files hold."""

    files: dict[str, str]


@study_verb(EvaluatorRequest)
def evaluator(request: EvaluatorRequest) -> EvaluatorHashes:
    """Write the hashes of the evaluator's files into eval_protocol.yaml; then amend."""
    from telic.studies.contract import hash_evaluator

    return EvaluatorHashes(hash_evaluator(request.open(), request.files))


class DraftMetricsRequest(StudyRequest):
    """What is measured, and how."""

    metric_spec: dict[str, Any] | None = option(
        "The whole metric_spec.yaml, as JSON.", default=None
    )
    protocol: dict[str, Any] | None = option("The whole eval_protocol.yaml, as JSON.", default=None)
    evaluator: Sequence[str] | None = option(
        "Files that measure a result; their hashes go into the protocol.", default=None
    )


class WrittenFiles(Record):
    """Files that were written."""

    files: tuple[str, ...]


@study_verb(DraftMetricsRequest)
def draft_metrics(request: DraftMetricsRequest) -> WrittenFiles:
    """Write what is measured and how; the contract has to be amended after that."""
    from telic.studies.contract import hash_evaluator
    from telic.studies.documents.base import write_yaml
    from telic.studies.documents.metrics import MetricSpec, Protocol

    study = request.open()
    documents: dict[Path, Any] = {}
    if request.metric_spec:
        documents[study.folder.metric_spec] = MetricSpec.parse(request.metric_spec, "metric_spec")
    if request.protocol:
        documents[study.folder.protocol] = Protocol.parse(request.protocol, "protocol")
    for path, document in documents.items():
        write_yaml(path, document)
    if request.evaluator:
        hash_evaluator(study, request.evaluator)
        documents[study.folder.protocol] = study.protocol
    return WrittenFiles(files=tuple(str(path.relative_to(study.root)) for path in documents))


class AmendRequest(PersonRequest):
    """An agreement to record."""

    because: str = option("Why it changes.", "--reason", default="")


class Amendment(NamedTuple):
    """A new version of the contract."""

    event: JournalEntry
    voided: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """Return what the ledger says of it, and the approvals that no longer hold."""
        return {**self.event.data, "voided": list(self.voided)}


def _amend_question(request: AmendRequest) -> Question | None:
    # Before anything is approved the contract is a draft, and whoever drafts it may record it.
    study = request.open()
    if not study.state.approvals:
        return None
    text = read_text(study.folder.contract)
    return Question(
        f"{text}\nAmend the contract of {study.name}: {request.because}",
        request.terminal_command("contract", "amend", "--reason", request.because),
    )


@study_verb(AmendRequest, question=_amend_question)
def amend(request: AmendRequest) -> Amendment:
    """Agree on contract.yaml as it is: a new version in the study, with what changed and why."""
    from telic.studies.approvals import void_changed
    from telic.studies.contract import amend as agree

    study = request.open()
    actor = request.person.actor if study.state.approvals else request.who
    event = agree(study, actor, request.because)
    voided = tuple(str(void.data["key"]) for void in void_changed(study))
    return Amendment(event, voided)
