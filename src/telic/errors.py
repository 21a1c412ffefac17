"""Base classes of all errors that a user can meet.

Exit codes: 1 the work failed, 2 (UsageError) the request cannot be carried out, 3 (Refused)
rejected by a gate, limit or safety rule. Messages state what happened, why, and what to do (hint).
"""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager


class TelicError(Exception):
    """Something went wrong that the user can understand and act on."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        from telic.core.text import printable

        # A name or a file may hold what a terminal would obey; errors are where names are shown.
        message, hint = printable(message), None if hint is None else printable(hint)
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} {self.hint}"


class UsageError(TelicError):
    """The request itself cannot be carried out; nothing was started."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting has an impossible value."""


_LISTED = 5


class UnknownName(UsageError):
    """Nothing is known under this name; the closest known ones are in the hint."""

    def __init__(self, kind: str, name: str, known: list[str], *, see: str | None = None) -> None:
        from telic.core.text import closest

        near = closest(name, known)
        listed = near or known[:_LISTED]
        hint = f"{'Closest' if near else 'Known'}: {', '.join(listed)}." if listed else ""
        if see:
            hint = f"{hint} See all {len(known)} with: {see}".strip()
        super().__init__(f'No {kind} named "{name}".', hint=hint or None)
        self.name = name
        self.near = near


class BadEnvironment(UsageError):
    """An environment cannot be built from what was given."""


class NotUnderstood(UsageError):
    """No part of an intent could be interpreted; nothing was started."""


class Contradiction(UsageError):
    """The parts of a request contradict each other; nothing was started."""


class RewardError(UsageError):
    """A reward is wrong; states where (file and line), which term, and how to fix it."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        line: int | None = None,
        term: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.line = line
        self.term = term


class PluginError(UsageError):
    """A plugin cannot be used: it does not load, or its name is taken."""


class MissingExtra(UsageError):
    """An optional package is needed for this and is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}, which is not installed.",
            hint=f"Install it with: pip install 'telic[{extra}]'",
        )


class Refused(TelicError):
    """The request is rejected by a gate, a limit or a safety rule."""

    exit_code = 3


class RefusedCode(Refused):
    """The allow-list refused a construct in code we did not write."""

    def __init__(self, message: str, *, hint: str | None = None, line: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.line = line


class ResourceError(Refused):
    """Not enough disk, memory or time to do this."""


class BudgetExceeded(ResourceError):
    """The next model call does not fit into what may still be spent; nothing was sent."""


class BadFile(TelicError):
    """A file cannot be read, or has unexpected content."""


class MissingFile(BadFile):
    """An expected file does not exist."""


class SimulatorError(TelicError):
    """A simulator in a process of its own failed, ended or gave no answer."""


class WorkerDied(TelicError):
    """The confined process ended, or had to be ended, without a result."""


class TrainingFailed(TelicError):
    """Training stopped; the message says why and what was saved."""


_NO_PLACE = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)
_SHOWN = 60


@contextmanager
def telling_places() -> Generator[None]:
    """Say in a sentence that no file or folder can be where a request asks for one.

    A request is full of paths, and each of them is first used somewhere else: every door does its
    verbs within this.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_PLACE:
            raise
        place = str(error.filename)
        shown = place if len(place) <= _SHOWN else f"{place[:_SHOWN]}…"
        raise UsageError(
            f"{shown} can be no file or folder here: {error.strerror}.",
            hint="Give another place.",
        ) from error
