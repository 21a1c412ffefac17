"""How long to wait for a model: limits, retries with jitter, and stopping at once."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pydantic import Field

from telic.core.config import Config
from telic.llm.records import Cancelled

Result = TypeVar("Result")
StopCheck = Callable[[], bool]

_TICK_S = 0.1
_GRACE_S = 0.3


class CallLimits(Config):
    """How long and how often to try."""

    deadline_s: float = Field(default=1200.0, gt=0)
    """seconds for one question in all: attempts, waits between them and the repair"""
    attempt_s: float = Field(default=600.0, gt=0)
    """seconds for one attempt; after it the connection is given up"""
    attempts: int = Field(default=6, ge=1)
    """attempts to get through to the model"""
    first_wait_s: float = Field(default=1.0, ge=0)
    """longest wait before the second attempt; doubles with each attempt"""
    longest_wait_s: float = Field(default=60.0, ge=0)
    """longest wait between attempts, unless the service asks for more"""

    def wait_s(self, failures: int, retry_after_s: float | None, rng: random.Random) -> float:
        """Return how long to wait after so many failures.

        Full jitter, uniform in [0, min(longest, first * 2^(failures - 1))], so that clients which
        failed together do not come back together. What the service asked for is waited on top.
        """
        most = min(self.longest_wait_s, self.first_wait_s * 2 ** (failures - 1))
        return (retry_after_s or 0.0) + rng.uniform(0.0, most)


class Deadline:
    """A moment in the future."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Return the seconds left; negative when it has passed."""
        return self._end - time.monotonic()


class TimedOut(Exception):
    """The work did not end within its limit; it was cancelled."""


def never() -> bool:
    """Never ask to stop."""
    return False


def stop_if_asked(should_stop: StopCheck) -> None:
    """Raise Cancelled when somebody asked to stop."""
    if should_stop():
        raise Cancelled("Stopped while waiting for the model.", hint="What was paid for is kept.")


async def finish(
    work: Coroutine[Any, Any, Result], limit_s: float, should_stop: StopCheck
) -> Result:
    """Return the result of `work`; raises TimedOut, or Cancelled within a second of being asked.

    A result that arrives while the work is being given up is returned: it may have been paid for.
    """
    task = asyncio.ensure_future(work)
    end = Deadline(limit_s)
    reason: Exception | None = None
    try:
        while not task.done() and reason is None:
            await asyncio.wait({task}, timeout=max(0.0, min(_TICK_S, end.left_s)))
            if task.done():
                break
            try:
                stop_if_asked(should_stop)
            except Cancelled as error:
                reason = error
            if reason is None and end.left_s <= 0:
                reason = TimedOut()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_GRACE_S)
    if reason is not None and (not task.done() or task.cancelled() or task.exception()):
        raise reason
    return task.result()


async def pause(seconds: float, should_stop: StopCheck) -> None:
    """Sleep; raises Cancelled within a second of being asked to stop."""
    end = Deadline(seconds)
    while end.left_s > 0:
        stop_if_asked(should_stop)
        await asyncio.sleep(min(_TICK_S, end.left_s))
