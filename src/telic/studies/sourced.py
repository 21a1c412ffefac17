"""Studies that tell of work done elsewhere: what they came from, and what that means for them."""

from __future__ import annotations

from telic.studies.documents.base import Part
from telic.studies.errors import GateRefused
from telic.studies.ledger import Ledger
from telic.studies.next import NextAction

IMPORTED = "study.imported"


class WorkSource(Part):
    """The session, search or the like that a study tells of."""

    kind: str
    name: str
    path: str
    continues_with: str
    """what is typed to have its next runs made"""


def source_of(ledger: Ledger) -> WorkSource | None:
    """Return what a study came from; None for one whose experiments are made here."""
    for event in ledger.events():
        if event.type == IMPORTED and "source" in event.data:
            return WorkSource.model_validate(event.data["source"])
    return None


def refuse_launch(ledger: Ledger) -> None:
    """Raise GateRefused E_SOURCED for a study that only tells of work done elsewhere."""
    source = source_of(ledger)
    if source is not None:
        raise GateRefused(
            "E_SOURCED",
            f"{ledger.folder.name} tells of the {source.kind} {source.name}; nothing is launched "
            f"here. Its runs are made by the {source.kind} itself.",
            hint=f"Go on with: {source.continues_with}. Then: telic study from {source.path}",
        )


def what_follows(ledger: Ledger, source: WorkSource) -> NextAction:
    """Return what to do with a study whose work is done elsewhere."""
    update = f"telic study from {source.path}"
    closed = [e for e in ledger.events() if e.type == "study.status"]
    if closed and closed[-1].data["status"] == "closed":
        why = f"the {source.kind} {source.name} has ended: {closed[-1].data['reason']}"
        return NextAction(action="stop", why=why, args={"source": source.name})
    return NextAction(
        action="wait",
        args={"source": source.name},
        why=f"the {source.kind} {source.name} has not ended; its runs are made by "
        f"{source.continues_with}",
        command=update,
    )
