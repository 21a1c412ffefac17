"""Set up a study: create it, describe the repository, and agree on a contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from telic.core.config import Record
from telic.core.request import VerbRequest, argument, context, inner, location, option
from telic.core.text import pairs
from telic.core.verb import Question, verb
from telic.errors import UsageError
from telic.studies.adapter_check import AdapterCheck, SmokeProof, check_adapter, prove_adapter
from telic.studies.administration import create_study, write_templates
from telic.studies.approvals import (
    ApprovalState,
    Consent,
    approval_diff,
    current_actor,
    grant,
    void_changed,
)
from telic.studies.contract import (
    ContractCheck,
    amend,
    check_contract,
    contract_diff,
    draft_contract,
    hash_evaluator,
)
from telic.studies.documents.base import StudyActor, write_yaml
from telic.studies.documents.contract import ApprovalKey, MetricSpec, Protocol
from telic.studies.draft import write_draft
from telic.studies.errors import GateRefused
from telic.studies.launch.attempt import check_token
from telic.studies.study import Study

CANDIDATE = "Candidate, e.g. c-0003-more-tracking."


class RootRequest(VerbRequest):
    """Request about a repository."""

    root: Path = location("Repository folder.", "--root", default=Path())
    actor: StudyActor | None = inner("Actor. Defaults to the user of this process.", default=None)

    @property
    def by(self) -> StudyActor:
        """The actor as identified in the ledger."""
        return self.actor or current_actor()


class StudyRequest(RootRequest):
    """Request about one study of a repository."""

    task: str | None = context("Task. Default: the active one.", "--task", default=None)
    study: str | None = context("Study. Default: the active one.", "--study", default=None)

    def open(self) -> Study:
        """Return the requested study."""
        return Study.find(self.root, self.task, self.study)

    def terminal_command(self, *words: str) -> tuple[str, ...]:
        """Return the terminal command with which a person can confirm this request."""
        task = ("--task", self.task) if self.task else ()
        study = ("--study", self.study) if self.study else ()
        return ("telic", "study", *words, *task, *study)


class PersonRequest(StudyRequest):
    """Request that a person may have to confirm."""

    consent: Consent | None = inner(
        "A person's consent, set by the interface that requested it.", default=None
    )
    asks: bool = inner("Whether a person responds on behalf of the calling agent.", default=False)
    seen: Mapping[str, Any] | None = inner("Hashes of the displayed text.", default=None)

    @property
    def person(self) -> Consent:
        """Return the consent of a person. Raises GateRefused E_NO_HUMAN if it is missing."""
        if self.consent is not None:
            return self.consent
        raise GateRefused(
            "E_NO_HUMAN",
            "This command requires confirmation by a person.",
            hint="Run the same command in a terminal.",
        )


# ---------------------------------------------------------------------------- creation


class InitRequest(RootRequest):
    """Settings of a new study."""

    task: str = option("Name of the task, e.g. g1-walk.", "--task")
    study: str = option("Name of the study, e.g. speed.", "--study")
    behavior: str = option("Behavior the robot should learn.", default="")


class NewStudy(Record):
    """A newly created study."""

    study: str
    folder: str
    questions: tuple[str, ...] = ()
    """fields that the draft of adapter.yaml leaves open"""

    @property
    def hint(self) -> str:
        """Return a hint about the next step."""
        files = "adapter.yaml, metric_spec.yaml and contract.yaml"
        return f"Fill in {files} (telic study adapter, telic study contract), then: telic study run"


@verb(InitRequest)
def init(request: InitRequest) -> NewStudy:
    """Create a study with a ledger and template files.

    adapter.yaml is drafted from the files of the repository, without running any code. Run the
    command again to restore missing files.
    """
    task, name = request.task, request.study
    folder = create_study(request.root, task, name, request.by, statement=request.behavior).folder
    questions: tuple[str, ...] = ()
    if not folder.adapter.exists():
        questions = tuple(f"{x.field}: {x.why}" for x in write_draft(folder).questions)
    write_templates(folder)
    return NewStudy(study=folder.name, folder=str(folder.path), questions=questions)


# ---------------------------------------------------------------------------- the repository


class AdapterRequest(StudyRequest):
    """Request to check or verify an adapter."""

    smoke: bool = option(
        "Verify adapter.yaml with smoke runs of the baseline. All gates must pass.",
        "--smoke",
        default=False,
    )
    confirm: str | None = option("RUN_CANDIDATE, to start the smoke runs.", default=None)
    on_step: Callable[[str], None] = inner("Called with each step.", default=lambda _: None)


class AdapterReport(Record):
    """Check of adapter.yaml, and results of smoke runs."""

    check: AdapterCheck
    proof: SmokeProof | None = None

    @property
    def ok(self) -> bool:
        """True if no check failed."""
        return self.check.ok and (self.proof is None or self.proof.ok)


@verb(AdapterRequest, exit_code=lambda report: 0 if report.ok else 4)
def adapter(request: AdapterRequest) -> AdapterReport:
    """Check the schema, cited lines and commands of adapter.yaml. Exits with code 4 on an error.

    --smoke --confirm RUN_CANDIDATE runs the baseline briefly to check that it starts, uses seeds
    and steps and logs the metric, and that the evaluator works.
    """
    check_token(request.confirm)
    if request.smoke != (request.confirm is not None):
        raise UsageError("Start smoke runs with: --smoke --confirm RUN_CANDIDATE.")
    study = request.open()
    check = check_adapter(study)
    if not request.smoke or not check.ok:
        return AdapterReport(check=check)
    return AdapterReport(check=check, proof=prove_adapter(study, request.by, request.on_step))


# ---------------------------------------------------------------------------- the contract


class ContractView(ContractCheck):
    """Contract with its problems, open questions and approvals."""

    approvals: tuple[ApprovalState, ...]
    voided: tuple[str, ...] = ()
    """approvals that became void because the approved text changed"""


class ContractRequest(PersonRequest):
    """Request to check or change the contract, its metrics and its protocol."""

    answers: Mapping[str, Any] | None = option(
        "Dotted field and value, e.g. budget.gpu_h=96. Repeatable.",
        "--set",
        default=None,
        many=True,
        read=pairs,
    )
    evaluator: Sequence[str] = option(
        "Evaluator file, whose hash is stored in the protocol. Repeatable.",
        "--evaluator",
        default=(),
        many=True,
    )
    metric_spec: dict[str, Any] | None = option("metric_spec.yaml, as JSON.", default=None)
    protocol: dict[str, Any] | None = option("eval_protocol.yaml, as JSON.", default=None)
    amend: str | None = option(
        "Record contract.yaml as a new version, for this reason.", "--amend", default=None
    )


def _amend_question(request: ContractRequest) -> Question | None:
    # The contract is a draft until something is approved; its author may record it.
    study = request.open()
    if request.amend is None or not study.state.approvals:
        return None
    _change_contract(study, request)  # the displayed text must be the recorded one
    files: tuple[ApprovalKey, ...] = ("metric_and_guardrails", "evaluation_protocol")
    void = [key for key in files if study.approval(key).status == "void"]
    texts = [contract_diff(study), *(f"── {key}\n{approval_diff(study, key)}" for key in void)]
    return Question(
        "\n".join([*texts, f"Amend the contract of {study.name}, because {request.amend!r}?"]),
        request.terminal_command("contract", "--amend", request.amend),
        _amended_hashes(study),
    )


def _amended_hashes(study: Study) -> dict[str, Any]:
    return {"contract": study.contract_hash, "protocol": study.protocol_hash}


def _change_contract(study: Study, request: ContractRequest) -> None:
    folder = study.folder
    if request.metric_spec:
        write_yaml(folder.metric_spec, MetricSpec.parse(request.metric_spec, "metric_spec"))
    if request.protocol:
        write_yaml(folder.protocol, Protocol.parse(request.protocol, "protocol"))
    if request.answers:
        draft_contract(study, dict(request.answers))
    if request.evaluator:
        hash_evaluator(study, request.evaluator)
    study.refresh()


@verb(ContractRequest, exit_code=lambda view: 0 if view.ok else 4, question=_amend_question)
def contract(request: ContractRequest) -> ContractView:
    """Check the contract. Exits with code 4 on errors or unrecorded changes.

    --set, --metric-spec, --protocol and --evaluator change the contract before the check, and
    --amend records a new version. A person must confirm changes once parts are approved. Changed
    parts must be approved again.
    """
    study = request.open()
    _change_contract(study, request)
    if request.amend is not None and not study.state.approvals:
        amend(study, request.by, request.amend)
    elif request.amend is not None:
        actor = request.person.actor
        with study.locked():
            if request.seen != _amended_hashes(study):
                raise GateRefused("E_CHANGED", "The contract has changed since it was displayed.")
            amend(study, actor, request.amend)
    voided = tuple(str(event.data["key"]) for event in void_changed(study.refresh()))
    found = check_contract(study).model_dump()
    return ContractView(**found, approvals=study.all_approvals, voided=voided)


# ---------------------------------------------------------------------------- approvals


class ApproveRequest(PersonRequest):
    """Request to approve parts of a study."""

    keys: Sequence[ApprovalKey] = argument(
        "Items to approve. Default: all that need approval.", default=(), many=True, what="approval"
    )
    candidate: str | None = option(
        "Candidate to approve (only for experiment and physical_actuation).", default=None
    )
    note: str = option("Comment to record.", default="")

    def subjects(self) -> dict[ApprovalKey, str]:
        """Return the content hash of each item to approve.

        By default, these are all items that still need an approval.
        """
        study = self.open()
        keys = self.keys or [approval.key for approval in study.missing_approvals]
        return {key: study.approval(key, self.candidate).subject_hash for key in keys}


class Approvals(Record):
    """Approved parts of a study."""

    study: str
    keys: tuple[str, ...]


def _approve_question(request: ApproveRequest) -> Question | None:
    study, seen = request.open(), request.subjects()
    if not seen:
        return None
    texts = [f"── {key}\n{approval_diff(study, key, request.candidate)}" for key in seen]
    candidate = ("--candidate", request.candidate) if request.candidate else ()
    return Question(
        "\n".join([*texts, f"Approve {', '.join(seen)} of {study.name}?"]),
        request.terminal_command("approve", *seen, *candidate),
        {str(key): subject for key, subject in seen.items()},
    )


@verb(ApproveRequest, question=_approve_question)
def approve_study(request: ApproveRequest) -> Approvals:
    """Approve a candidate or parts of the contract. A person must type a code to confirm.

    By default, all items that need approval are approved.
    """
    study = request.open()
    # Use the text that the person saw: consent to an outdated text is refused.
    seen = cast("dict[ApprovalKey, str]", dict(request.seen or {}))
    candidate, note = request.candidate, request.note
    for key, subject in seen.items():
        grant(study, key, request.person, candidate=candidate, note=note, seen_hash=subject)
    return Approvals(study=study.name, keys=tuple(seen))
