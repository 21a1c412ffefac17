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
from collections.abc import Iterable, Sequence
from itertools import compress
from pathlib import Path

from pydantic import BaseModel

from telic.core.config import Record
from telic.errors import TelicError
from telic.storage.files import write_bytes
from telic.storage.reading import read_bytes
from telic.studies.canonical import canonical, existing_key, signing_key
from telic.studies.chain import CheckedPart, LedgerEvent, decode
from telic.studies.documents.base import Sha
from telic.studies.folder import StudyFolder
from telic.studies.projector import Projection, Projector

SMALLEST = 1000
"""lines after which a ledger is worth an index, and after which it is made anew"""


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


class LedgerIndex(BaseModel):
    """What is read of an index: the projection of a part of the ledger, and where its lines are."""

    part: CheckedPart
    projection: Projection
    places: dict[str, LinePlaces]

    def projector(self) -> Projector:
        """Return a projector that has seen the part."""
        return Projector.restored(self.projection)

    def events(
        self, path: Path, types: Iterable[str], subjects: frozenset[str] | None
    ) -> list[LedgerEvent]:
        """Return the events of some types about some subjects, or about anything, in order."""
        found = [self.places[each] for each in types if each in self.places]
        return _read_lines(path, sorted(place for each in found for place in each.of(subjects)))


class _Head(Record):
    """The first line of an index: what it was made from and by, and the hash of the rest."""

    study: str
    made_by: Sha
    part: CheckedPart
    body: Sha
    sig: str = ""

    def signed(self) -> bytes:
        """Return what the signature covers."""
        return canonical(self.model_copy(update={"sig": ""}))


class _Body(BaseModel):
    """The rest of an index."""

    projection: Projection
    places: dict[str, LinePlaces]


def index_file(folder: StudyFolder) -> Path:
    """Return where the index of a ledger is."""
    return folder.path / "ledger.index"


def read_index(folder: StudyFolder, content: bytes) -> LedgerIndex | None:
    """Return the index of a ledger of this content; None without one that this user's key signed.

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
        if hashlib.sha256(body).hexdigest() != head.body or not head.part.begins(content):
            return None
        read = _Body.model_validate_json(body)
    except (TelicError, ValueError):
        return None
    return LedgerIndex(part=head.part, projection=read.projection, places=read.places)


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
    found = {} if before is None else before.places
    for event, place in zip(events, places, strict=True):
        found.setdefault(event.type, LinePlaces()).add(event, place)
    index = LedgerIndex(part=part, projection=projector.projection(), places=found)
    body = index.model_dump_json(exclude={"part"}, exclude_defaults=True).encode()
    unsigned = _Head(
        study=folder.name, made_by=_made_by(), part=part, body=hashlib.sha256(body).hexdigest()
    )
    # A disk that is full or may not be written to, a key that proves nothing: then without.
    with contextlib.suppress(TelicError):
        head = unsigned.model_copy(update={"sig": signing_key(folder.root).sign(unsigned.signed())})
        write_bytes(index_file(folder), head.model_dump_json().encode() + b"\n" + body)
    return index


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
