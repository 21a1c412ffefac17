"""Have a person approve what was agreed on: the parts of a contract, the adapter, a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from telic.core.config import Record
from telic.core.request import argument, option
from telic.core.verb import Question
from telic.studies.documents.contract import ApprovalKey
from telic.verbs.study import PersonRequest, study_verb

if TYPE_CHECKING:
    from telic.studies.study import Study

ADAPTER = "adapter"
"""what stands for the fields of the adapter among the things that are approved"""


class ApproveRequest(PersonRequest):
    """What a person is to approve."""

    keys: Sequence[ApprovalKey] = argument(
        "What to approve; everything missing if left out.", default=(), many=True, what="approval"
    )
    candidate: str | None = option(
        "For experiment and physical_actuation: the candidate.", default=None
    )
    note: str = option("A word for the record.", default="")
    refuse: bool = option("Say no instead of yes.", "--reject", default=False)

    def subjects(self) -> dict[str, str]:
        """Return the hash of everything that is to be approved, by its key.

        With everything that is missing comes what the adapter says and nobody confirmed.
        """
        from telic.studies.adapter_check import unconfirmed_hash

        study = self.open()
        keys = self.keys or [approval.key for approval in study.missing_approvals]
        found: dict[str, str] = {k: study.standing(k, self.candidate).subject_hash for k in keys}
        guessed = None if self.keys or self.refuse else unconfirmed_hash(study)
        return found if guessed is None else {ADAPTER: guessed, **found}


class Approvals(Record):
    """What was said about the parts of a study."""

    study: str
    keys: tuple[str, ...]
    said: str = "approved"

    def as_data(self) -> dict[str, Any]:
        """Return the keys."""
        return {"study": self.study, "keys": list(self.keys)}


def _approve_question(request: ApproveRequest) -> Question | None:
    from telic.studies.documents.base import yaml_text

    study, seen = request.open(), request.subjects()
    if not seen:
        return None
    texts = [f"── {key}\n{yaml_text(_shown(study, key, request.candidate))}" for key in seen]
    word = "Reject" if request.refuse else "Approve"
    candidate = ("--candidate", request.candidate) if request.candidate else ()
    refuse = ("--reject",) if request.refuse else ()
    return Question(
        "\n".join([*texts, f"{word} {', '.join(seen)} of {study.name}?"]),
        request.terminal_command("approve", *seen, *candidate, *refuse),
        {str(key): subject for key, subject in seen.items()},
    )


def _shown(study: Study, key: str, candidate: str | None) -> Any:
    from telic.studies.adapter_check import unconfirmed
    from telic.studies.approvals import shown

    if key == ADAPTER:
        return unconfirmed(study)
    return shown(study, cast("ApprovalKey", key), candidate)


@study_verb(ApproveRequest, question=_approve_question)
def approve(request: ApproveRequest) -> Approvals:
    """Approve parts of the contract, or a candidate: a person types a code in a terminal.

    Without a name it is everything that is missing, and what the adapter says of the repository:
    commands, seeds and numbers that were guessed are confirmed by the same code.
    """
    from telic.studies.adapter_check import confirm_all
    from telic.studies.approvals import grant, reject

    study = request.open()
    # What the person saw, not what is there by now: a yes to an older text is refused.
    seen = dict(request.seen or {})
    if ADAPTER in seen:
        confirm_all(study, request.person, seen[ADAPTER])
    parts = cast("dict[ApprovalKey, str]", {k: v for k, v in seen.items() if k != ADAPTER})
    candidate, note = request.candidate, request.note
    for key, subject in parts.items():
        if request.refuse:
            reject(study, key, request.person, candidate=candidate, note=note)
        else:
            grant(study, key, request.person, candidate=candidate, note=note, seen_hash=subject)
    said = "rejected" if request.refuse else "approved"
    return Approvals(study=study.name, keys=tuple(seen), said=said)
