"""Ask a person about the criteria before anything is spent on them.

The session writes what it would aim for to criteria.json and waits. `telic approve` answers with
approval.json: the same criteria, or a person's edit of them.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ValidationError

from telic.core.config import Record
from telic.errors import UsageError
from telic.judges.criteria import Criterion
from telic.session.notes import now, somebody
from telic.session.records import SessionConfig
from telic.storage.files import read_record, write_json
from telic.storage.layout import SessionFolder


class Proposal(Record):
    """The criteria a person is asked about."""

    schema_version: Literal[1] = 1
    time: str
    criteria: tuple[Criterion, ...]


class Approval(Record):
    """The criteria a person agreed to."""

    schema_version: Literal[1] = 1
    time: str
    author: str
    criteria: tuple[Criterion, ...]
    edited: bool


def propose(folder: SessionFolder, criteria: tuple[Criterion, ...]) -> None:
    """Write the criteria down for a person to read; asking again changes nothing."""
    if not folder.criteria.exists():
        write_json(folder.criteria, Proposal(time=now(), criteria=criteria))


def approve(
    folder: SessionFolder,
    criteria: tuple[Criterion, ...] | None = None,
    author: str | None = None,
) -> Approval:
    """Agree to the proposed criteria, or to others, and let the session go on."""
    if folder.approval.exists():
        given = read_record(folder.approval, Approval)
        raise UsageError(f"{folder.name} was approved already, by {given.author} at {given.time}.")
    if not folder.criteria.exists():
        raise UsageError(
            f"{folder.name} has nothing to approve.",
            hint="Only a session started with --approve asks, once its criteria are written.",
        )
    proposed = read_record(folder.criteria, Proposal).criteria
    edited = criteria is not None and criteria != proposed
    if read_record(folder.config, SessionConfig).model is None:
        _require_known(criteria or (), proposed)
    agreed = Approval(
        time=now(), author=author or somebody(), criteria=criteria or proposed, edited=edited
    )
    write_json(folder.approval, agreed)
    return agreed


def _require_known(criteria: tuple[Criterion, ...], proposed: tuple[Criterion, ...]) -> None:
    """Refuse criteria that the composer has no code for, while the person is still here."""
    known = {each.title for each in proposed}
    strange = [each.title for each in criteria if each.title not in known]
    if strange:
        raise UsageError(
            f'The composer cannot judge "{strange[0]}".',
            hint="It takes other numbers and weights for its own criteria and leaves out those "
            "that are missing; for others use --model.",
        )


def approved(folder: SessionFolder) -> tuple[Criterion, ...] | None:
    """Return the criteria that were agreed to, or None while nobody has answered."""
    if not folder.approval.exists():
        return None
    return read_record(folder.approval, Approval).criteria


def parse_criteria(data: Any) -> tuple[Criterion, ...]:
    """Return edited criteria from plain data: a list, or a file in the form of criteria.json."""
    given = data.get("criteria") if isinstance(data, dict) else data
    if not isinstance(given, list) or not given:
        raise UsageError(
            "These are no criteria.",
            hint="Edit a copy of the session's criteria.json.",
        )
    try:
        return tuple(Criterion.model_validate(each) for each in given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "a criterion"
        raise UsageError(
            f"A criterion cannot be read: {where}: {first['msg']}.",
            hint="Edit a copy of the session's criteria.json.",
        ) from None
