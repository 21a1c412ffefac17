"""What a ledger came to up to one of its lines, and where its lines are: so that nobody reads all.

The index lies beside the ledger and follows from it alone. It names the bytes that it was made from
by their hash and is signed with the user's key, so one that does not fit, or that somebody else
wrote, counts for nothing and is made again. `verify` never looks at it. One file that is replaced
by rename, and no database: studies lie on disks on which databases lose data.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from telic.core.config import Record
from telic.errors import TelicError
from telic.storage.files import write_bytes
from telic.storage.reading import read_bytes
from telic.studies.canonical import canonical, existing_key, signing_key
from telic.studies.chain import CheckedPart, LedgerBytes, LedgerEvent, decode
from telic.studies.documents.base import Sha
from telic.studies.documents.candidate import Job
from telic.studies.folder import StudyFolder
from telic.studies.projector import Projection, Projector
from telic.studies.queue import OUTCOME, PlannedJobs, queue_of
from telic.studies.state import EvidenceState, RunState
from telic.studies.table import PackedColumns, RecordTable, pack

SMALLEST = 1000
"""lines after which a ledger is worth an index, and after which it is made anew"""


_STATE, _JOBS, _RUNS, _EVIDENCE = "state", "jobs: ", "runs: ", "evidence: "
_OUTCOMES = "outcomes of jobs: "
_PLACES = "places of "


class LinePlaces(BaseModel):
    """Where the lines of one type are: number, first byte and subject of each."""

    seqs: list[int] = []
    places: list[int] = []
    subjects: list[str | None] = []

    def add(self, event: LedgerEvent, place: int) -> None:
        """Take in the next line of the type."""
        self.seqs.append(event.seq)
        self.places.append(place)
        self.subjects.append(event.subject)

    def of(self, subjects: frozenset[str] | None) -> list[int]:
        """Return the places of lines about some subjects, or of all."""
        if subjects is None:
            return self.places
        return list(compress(self.places, [each in subjects for each in self.subjects]))


class LedgerIndex:
    """The projection of a part of the ledger, and where its lines are.

    It consists of sections, each of which is read when somebody asks for what is in it.
    """

    def __init__(self, part: CheckedPart, sections: Mapping[str, bytes]) -> None:
        self.part = part
        self.sections = sections
        self._places: dict[str, LinePlaces] = {}

    def projector(self) -> Projector:
        """Return a projector that has seen the part."""
        seen = Projection.model_validate_json(self.sections[_STATE])
        tables = {
            "runs": RecordTable(RunState, self._columns(_RUNS)),
            "evidence": RecordTable(EvidenceState, self._columns(_EVIDENCE)),
        }
        state = seen.state.model_copy(update=tables)
        jobs = RecordTable(Job, self._columns(_JOBS))
        settled = jobs.replaced(self._columns(_OUTCOMES))
        known = {"state": state, "jobs": jobs, "settled": settled, "touched": frozenset[str]()}
        return Projector.restored(seen.model_copy(update=known))

    def _columns(self, table: str) -> PackedColumns:
        return PackedColumns(
            {
                name.removeprefix(table): section
                for name, section in self.sections.items()
                if name.startswith(table)
            }
        )

    @property
    def types(self) -> list[str]:
        """Types of lines that there are in the part."""
        return [name.removeprefix(_PLACES) for name in self.sections if name.startswith(_PLACES)]

    def places(self, type: str) -> LinePlaces:
        """Return where the lines of a type are."""
        if type not in self._places:
            section = self.sections.get(_PLACES + type)
            found = LinePlaces() if section is None else LinePlaces.model_validate_json(section)
            self._places[type] = found
        return self._places[type]

    def events(
        self, path: Path, types: Iterable[str], subjects: frozenset[str] | None
    ) -> list[LedgerEvent]:
        """Return the events of some types about some subjects, or about anything, in order."""
        places = sorted(place for each in types for place in self.places(each).of(subjects))
        return _read_lines(path, places)


class _Head(Record):
    """The first line of an index: what it was made from and by, and the hash of the rest."""

    study: str
    made_by: Sha
    part: CheckedPart
    body: Sha
    sections: dict[str, int]
    """their lengths, in the order in which they follow"""
    sig: str = ""

    def signed(self) -> bytes:
        """Return what the signature covers."""
        return canonical(self.model_copy(update={"sig": ""}))


def index_file(folder: StudyFolder) -> Path:
    """Return where the index of a ledger is."""
    return folder.path / "ledger.index"


def read_index(folder: StudyFolder, ledger: LedgerBytes) -> LedgerIndex | None:
    """Return the index of a ledger; None without one that this user's key signed.

    What is wrong with an index is no error: it is made again from the ledger.
    """
    path = index_file(folder)
    try:
        key = existing_key(folder.root)
        if key is None or not path.is_file():
            return None
        first, _, body = read_bytes(path).partition(b"\n")
        head = _Head.model_validate_json(first)
        is_ours = (head.study, head.made_by) == (folder.name, _made_by())
        if not is_ours or not key.has_signed(head.signed(), head.sig):
            return None
        if hashlib.sha256(body).hexdigest() != head.body or not head.part.begins(ledger):
            return None
    except (TelicError, ValueError):
        return None
    sections, start = dict[str, bytes](), 0
    for name, length in head.sections.items():
        sections[name] = body[start : start + length]
        start += length
    return LedgerIndex(head.part, sections)


def write_index(
    folder: StudyFolder,
    part: CheckedPart,
    projector: Projector,
    before: LedgerIndex | None,
    events: Sequence[LedgerEvent],
    places: Sequence[int],
) -> LedgerIndex:
    """Write down what a ledger came to; returns what was written.

    Args:
        folder: of the study.
        part: of the ledger, checked in every byte.
        projector: that has seen exactly this part.
        before: the index of its beginning.
        events: that came since.
        places: the first byte of each of them.
    """
    found = {} if before is None else {each: before.places(each) for each in before.types}
    for event, place in zip(events, places, strict=True):
        found.setdefault(event.type, LinePlaces()).add(event, place)
    seen = projector.projection()
    sections = {
        _STATE: seen.model_dump_json(
            exclude={"state": {"runs", "evidence"}, "jobs": True, "settled": True, "touched": True}
        ).encode(),
        **_packed(_JOBS, seen.jobs),
        **_outcomes(seen),
        **_packed(_RUNS, seen.state.runs),
        **_packed(_EVIDENCE, seen.state.evidence),
        **{_PLACES + type: each.model_dump_json().encode() for type, each in found.items()},
    }
    body = b"".join(sections.values())
    unsigned = _Head(
        study=folder.name,
        made_by=_made_by(),
        part=part,
        body=hashlib.sha256(body).hexdigest(),
        sections={name: len(section) for name, section in sections.items()},
    )
    # A disk that is full or may not be written to, a key that proves nothing: then without.
    with contextlib.suppress(TelicError):
        head = unsigned.model_copy(update={"sig": signing_key(folder.root).sign(unsigned.signed())})
        write_bytes(index_file(folder), head.model_dump_json().encode() + b"\n" + body)
    return LedgerIndex(part, sections)


def _packed(table: str, records: RecordTable[Any]) -> dict[str, bytes]:
    return {table + field: pack(column) for field, column in records.as_columns().items()}


def _outcomes(seen: Projection) -> dict[str, bytes]:
    planned = PlannedJobs(seen.policy, seen.jobs, seen.settled, seen.touched)
    jobs = queue_of(planned, seen.state, seen.run_revisions).table
    return {_OUTCOMES + field: pack(jobs.column(field)) for field in OUTCOME}


def parse_line(line: bytes) -> LedgerEvent:
    """Return the event of a line that was checked before."""
    return LedgerEvent.model_validate(decode(line))


def _read_lines(path: Path, places: Sequence[int]) -> list[LedgerEvent]:
    if not places:
        return []
    found: list[LedgerEvent] = []
    with path.open("rb") as file:
        for place in places:
            file.seek(place)
            found.append(parse_line(file.readline()))
    return found


@functools.cache
def _made_by() -> Sha:
    """Return the hash of what makes an index: what it comes to may change with the program."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted([*here.glob("*.py"), *(here / "documents").glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()
