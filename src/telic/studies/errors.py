"""Study errors, each with an error code for programs and an exit code for shells.

StudyError exit code 2: the request does not fit the study ├── GateRefused exit code 3: rejected by
a gate, an approval or the lifecycle ├── InvalidDocument exit code 4: a document or candidate failed
validation ├── BrokenIntegrity exit code 5: the ledger or an immutable file was altered ├──
LockTimeout exit code 6: another process kept the study locked ├── BudgetExceeded exit code 7: not
enough budget is left └── EnvironmentBlocked exit code 8: this machine does not meet a requirement
"""

from __future__ import annotations

from telic.errors import TelicError


class StudyError(TelicError):
    """Raised for requests that do not fit the study. `code` is a machine-readable reason."""

    exit_code = 2

    def __init__(self, code: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(f"{message} [{code}]", hint=hint)
        self.code = code


class GateRefused(StudyError):
    """Raised before any change if a gate, an approval or the lifecycle rejects a request."""

    exit_code = 3


class InvalidDocument(StudyError):
    """Raised if a document or a candidate fails validation."""

    exit_code = 4


class BrokenIntegrity(StudyError):
    """Raised if the ledger or an immutable file was altered."""

    exit_code = 5


class LockTimeout(StudyError):
    """Raised on a timeout while another process holds the study's lock."""

    exit_code = 6


class StudyBudgetExceeded(StudyError):
    """Raised if the remaining budget of a study is not sufficient."""

    exit_code = 7


class EnvironmentBlocked(StudyError):
    """Raised if this machine does not meet a requirement, such as a GPU or a simulator."""

    exit_code = 8
