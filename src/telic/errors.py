"""Base classes of all user-facing errors.

The exit code is 1 if the work failed, 2 (UsageError) if the request is invalid, and 3 (Refused) if
a gate, limit or safety rule rejected it. The message describes the problem, and the hint suggests
how to fix it.
"""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager


class TelicError(Exception):
    """Base class of errors that the user can understand and act on."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        from telic.core.text import printable

        # Escape control characters in names and file contents.
        message, hint = printable(message), None if hint is None else printable(hint)
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} {self.hint}"


class UsageError(TelicError):
    """The request is invalid. Nothing was started."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting has an invalid value."""


_LISTED = 5


class UnknownName(UsageError):
    """The name is unknown. The hint lists the closest known names."""

    def __init__(self, kind: str, name: str, known: list[str], *, see: str | None = None) -> None:
        from telic.core.text import closest

        near = closest(name, known)
        listed = near or known[:_LISTED]
        hint = f"{'Closest' if near else 'Known'}: {', '.join(listed)}." if listed else ""
        if see and len(known) > len(listed):
            hint = f"{hint} To list all {len(known)}: {see}".strip()
        super().__init__(f'No {kind} named "{name}".', hint=hint or None)
        self.name = name
        self.near = near


class BadEnvironment(UsageError):
    """An environment cannot be built from the given description."""

    needs: str = ""
    """quantity that would measure a behavior of which the robot is not capable, if known"""


class BeyondLimits(BadEnvironment):
    """A requested value is too large or too small for the robot. Nothing was started."""


class NotUnderstood(UsageError):
    """No part of the intent was understood. Nothing was started."""


class Contradiction(UsageError):
    """The parts of a request contradict each other. Nothing was started."""


class RewardError(UsageError):
    """A reward is invalid. The message states file, line, term and fix."""

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
    """A plugin fails to load, or its name is already in use."""


class MissingExtra(UsageError):
    """An optional package is required but not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} requires the package {package}, which is not installed.",
            hint=f"Install it with: pip install 'telic[{extra}]'",
        )


class Refused(TelicError):
    """The request is rejected by a gate, a limit or a safety rule."""

    exit_code = 3


class RefusedCode(Refused):
    """The allow-list rejected a construct in untrusted code."""

    def __init__(self, message: str, *, hint: str | None = None, line: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.line = line


class ResourceError(Refused):
    """Disk space, memory or time is insufficient."""


class BudgetExceeded(ResourceError):
    """The next model call would exceed the budget. Nothing was sent."""


class BadFile(TelicError):
    """A file cannot be read, or has unexpected content."""


class MissingFile(BadFile):
    """An expected file does not exist."""


class SimulatorError(TelicError):
    """A simulator process failed, ended or did not respond."""


class WorkerDied(TelicError):
    """The sandboxed process ended or was killed without a result."""


class TrainingFailed(TelicError):
    """Training stopped. The message states why and what was saved."""


_NO_PLACE = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)
_SHOWN = 60


@contextmanager
def readable_path_errors() -> Generator[None]:
    """Convert errors about invalid file or folder paths in a request to a readable message.

    All interfaces run operations in this context, because paths are used in many places.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_PLACE:
            raise
        place = str(error.filename)
        shown = place if len(place) <= _SHOWN else f"{place[:_SHOWN]}…"
        raise UsageError(
            f"Invalid file or folder {shown}: {error.strerror}.",
            hint="Choose another path.",
        ) from error
