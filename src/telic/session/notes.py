"""What people say about a session while it runs, each note answered by exactly one iteration.

A note is a line of notes.jsonl. Before an iteration is revised, the notes that no iteration has
taken yet are written to its own notes.json, in one stroke; from then on they are its notes, however
often the revision is interrupted and asked for again.
"""

from __future__ import annotations

import getpass
import os
import secrets
from datetime import UTC, datetime
from typing import Literal

from telic.core.config import Record
from telic.errors import UsageError
from telic.storage.files import JsonLines, read_json_lines, read_record, write_json
from telic.storage.layout import SessionFolder
from telic.storage.locks import taking_turns


class Note(Record):
    """Something a person wants of the next revision."""

    schema_version: Literal[1] = 1
    id: str
    time: str
    """UTC, ISO 8601"""
    author: str
    text: str


class Delivered(Record):
    """The notes that one iteration answers."""

    schema_version: Literal[1] = 1
    time: str
    notes: tuple[Note, ...]


def add_note(folder: SessionFolder, text: str, author: str | None = None) -> Note:
    """Append a note; it reaches the next revision."""
    if not text.strip():
        raise UsageError("The note is empty.", hint='For example: telic note "less bouncing"')
    note = Note(id=secrets.token_hex(4), time=now(), author=author or somebody(), text=text.strip())
    # Opening cuts off a torn last line, which must not be the one another process is writing.
    with taking_turns(folder.path / "notes.lock"), JsonLines(folder.notes) as lines:
        lines.append(note.model_dump())
        lines.sync()
    return note


def read_notes(folder: SessionFolder) -> list[Note]:
    """Return every note, in the order they were made."""
    return [Note.model_validate(row) for row in read_json_lines(folder.notes)]


def delivered(folder: SessionFolder) -> dict[str, int]:
    """Return which iteration answers a note, by the note's id; a waiting note is not in it."""
    return {
        note.id: number
        for number in folder.iterations()
        if folder.iteration(number).notes.exists()
        for note in read_record(folder.iteration(number).notes, Delivered).notes
    }


def notes_for(folder: SessionFolder, number: int) -> tuple[Note, ...]:
    """Return the notes that iteration `number` answers; the first call decides which those are."""
    path = folder.iteration(number).notes
    if not path.exists():
        taken = delivered(folder)
        waiting = tuple(each for each in read_notes(folder) if each.id not in taken)
        write_json(path, Delivered(time=now(), notes=waiting))
    return read_record(path, Delivered).notes


def now() -> str:
    """Return the present time as UTC text."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def somebody() -> str:
    """Return who is at the keyboard."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"user {os.getuid()}"
