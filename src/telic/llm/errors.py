"""What can go wrong with a language model, under the tree of `telic.errors`.

TelicError
├── ModelUnavailable          an outage, after all retries; never a score, never an empty answer
├── ModelAnswerError          the model answered, and the answer never became valid
├── Cancelled                 somebody asked to stop while the model was being waited for
├── Outage                    one failed attempt; providers raise it, the call path retries it
├── UsageError
│   └── RequestRejected       the service will never take this request: key, model name, size
└── Refused › ResourceError
    └── BudgetExceeded        the next call does not fit into what may still be spent
"""

from __future__ import annotations

from telic.errors import ResourceError, TelicError, UsageError


class ModelUnavailable(TelicError):
    """The model could not be reached, or did not answer in time, after all retries."""


class ModelAnswerError(TelicError):
    """The model answered, but neither its answer nor the repaired one became a valid record."""


class Cancelled(TelicError):
    """Somebody asked to stop; what was already paid for is on disk."""


class BudgetExceeded(ResourceError):
    """The next call does not fit into what may still be spent; nothing was sent."""


class RequestRejected(UsageError):
    """The service refuses this request and would refuse it again: key, model name or size."""


class Outage(TelicError):
    """One attempt failed in a way that may pass: overload, rate limit, lost connection.

    `may_be_paid` says that the service had the request and may charge for an answer nobody has.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        retry_after_s: float | None = None,
        may_be_paid: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s
        self.may_be_paid = may_be_paid
