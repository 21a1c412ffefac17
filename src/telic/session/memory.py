"""What earlier sessions on the same robot have learned, for whoever writes rewards.

It is looked up once and recorded: other sessions go on meanwhile, and a question that changes when
a session is resumed would be paid for twice.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

from telic.agents.lessons import Lesson
from telic.core.config import Record
from telic.errors import TelicError
from telic.session.records import Candidate, SessionConfig, latest_lessons
from telic.storage.files import read_record
from telic.storage.layout import SessionFolder, list_sessions

_MOST = 12
_LOOKED_AT = 50


class Remembered(Record):
    """A lesson of another session."""

    session: str
    intent: str
    lesson: Lesson


class Memory(Record):
    """Lessons of other sessions, those of the most similar intents first."""

    schema_version: Literal[1] = 1
    lessons: tuple[Remembered, ...] = ()

    def text(self) -> str:
        """Return the lessons as a section of a prompt; empty if there are none."""
        if not self.lessons:
            return ""
        lines = [f"- {each.lesson.text} (from “{each.intent}”)" for each in self.lessons]
        head = "## Learned in earlier sessions with this robot, true or not for this intent"
        return "\n".join([head, "", *lines])


def recall(folder: SessionFolder, config: SessionConfig) -> Memory:
    """Look up what finished sessions beside this one learned in the same environment."""
    found: dict[str, tuple[float, Remembered]] = {}
    others = [each for each in list_sessions(folder.path.parent) if each.path != folder.path]
    for other in others[:_LOOKED_AT]:
        with suppress(TelicError):  # a damaged or older neighbour is no reason not to begin
            for each in _lessons_of(other, config.env):
                likeness = _likeness(each.intent, config.intent)
                if likeness > found.get(each.lesson.text, (-1.0,))[0]:
                    found[each.lesson.text] = likeness, each
    ranked = sorted(found.values(), key=lambda each: -each[0])
    kept = [each for _, each in ranked if each.lesson.tier != "retired"]
    return Memory(lessons=tuple(kept[:_MOST]))


def _lessons_of(folder: SessionFolder, env: str) -> list[Remembered]:
    request = read_record(folder.config, SessionConfig)
    if request.env != env or not folder.summary.exists():
        return []
    files = [folder.iteration(number).candidate for number in folder.iterations()]
    candidates = [read_record(each, Candidate) for each in files if each.exists()]
    return [
        Remembered(session=folder.name, intent=request.intent, lesson=each)
        for each in latest_lessons(candidates)
    ]


def _likeness(one: str, other: str) -> float:
    """Return the share of words that two intents have in common."""
    first, second = set(one.lower().split()), set(other.lower().split())
    return len(first & second) / len(first | second)
