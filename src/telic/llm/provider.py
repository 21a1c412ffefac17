"""The one seam to language models."""

from __future__ import annotations

from typing import Any, Protocol

from telic.llm.records import RawReply, Request


class Provider(Protocol):
    """Answers requests; everything else (budget, retries, cache, checks) is done by `Models`."""

    @property
    def name(self) -> str:
        """Return the model's full name, e.g. "anthropic:claude-sonnet-5-5"; part of every key."""
        ...

    async def complete(self, request: Request[Any], deadline_s: float) -> RawReply:
        """Send the request once and return what came back, valid or not.

        Must not block the event loop, must stop when its task is cancelled, must not retry, and
        must not keep a key in the object. Raises Outage for a failure that may pass,
        RequestRejected for one that will not. Never returns an empty answer to mean a failure.
        """
        ...
