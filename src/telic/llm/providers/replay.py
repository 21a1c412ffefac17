"""Answer from a recording, and make one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from telic.errors import UsageError
from telic.llm.budget import Charge
from telic.llm.provider import Provider
from telic.llm.records import RawReply, Request
from telic.llm.replies import Replies, StoredReply


class Replay:
    """Answers from a folder of recorded replies, as the model that gave them.

    A recording is a folder of replies: made by `Recorder`, or the `replies` folder of a session.
    """

    def __init__(self, folder: Path, model: str | None = None) -> None:
        self._replies = Replies(folder)
        models = sorted({each.model for each in self._replies.kept()})
        if not models:
            raise UsageError(f"{folder} holds no recorded replies.")
        if model is None and len(models) > 1:
            raise UsageError(
                f"{folder} holds replies of several models: {', '.join(models)}.",
                hint="Say which one to replay.",
            )
        self.folder = folder
        self._name = model or models[0]

    @property
    def name(self) -> str:
        """Return the name of the model that was recorded, so that requests have the same keys."""
        return self._name

    async def complete(self, request: Request[Any], deadline_s: float) -> RawReply:
        """Return the recorded reply, which costs nothing; raises UsageError when there is none."""
        key = request.key(self.name)
        found = self._replies.read(key)
        if found is None:
            same = sum(each.role == request.role for each in self._replies.kept())
            raise UsageError(
                f"The recording {self.folder} has no reply for the role {request.role} "
                f"with the key {key}.",
                hint=f"It holds {same} for this role. A changed prompt, answer record or setting "
                "changes the key: record again.",
            )
        return found.raw.model_copy(update={"price_usd": 0.0})


class Recorder:
    """Passes requests on to another provider and records its replies."""

    def __init__(self, provider: Provider, folder: Path) -> None:
        self.provider = provider
        self._replies = Replies(folder)

    @property
    def name(self) -> str:
        """Return the name of the model that is recorded."""
        return self.provider.name

    async def complete(self, request: Request[Any], deadline_s: float) -> RawReply:
        """Return the other provider's reply after writing it to the recording."""
        raw = await self.provider.complete(request, deadline_s)
        self._replies.keep(
            StoredReply(
                key=request.key(self.name),
                role=request.role,
                model=self.name,
                prompt_hash=request.prompt_hash,
                raw=raw,
                charge=Charge(usd=raw.price_usd, tokens=raw.tokens.total or 0),
                latency_s=0.0,
                attempts=1,
            )
        )
        return raw
