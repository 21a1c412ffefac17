"""What went wrong while a report was made: told and shown, never raised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from telic.core.events import Listener, LogMessage


class Troubles:
    """Lets parts of a report fail one by one; a session must not fail because of its report."""

    def __init__(self, tell: Listener) -> None:
        self.lines: list[str] = []
        self._tell = tell

    @contextmanager
    def sparing(self, what: str) -> Iterator[None]:
        """End the block at an error, note it, and go on after it."""
        try:
            yield
        except Exception as error:  # the job boundary: the rest of the report may well be fine
            self.note(f"{what}: {type(error).__name__}: {error}")

    def note(self, line: str) -> None:
        """Record that something is missing, and why."""
        line = " ".join(line.split())
        self.lines.append(line)
        self._tell(LogMessage(message=f"The report lacks {line}"))
