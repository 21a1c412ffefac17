"""Events of calls to language models; keys are redacted before they are emitted."""

from __future__ import annotations

from telic.core.config import Record
from telic.core.events import Event
from telic.llm.records import Tokens


class ModelEvent(Event):
    """Fields of every event of a call."""

    role: str
    """role in which the model is asked, e.g. author"""
    key: str
    """identifies the question: the same question has the same key"""
    model: str


class SentImage(Record):
    """A picture that went with a question."""

    media_type: str
    sha256: str


class ModelSent(ModelEvent):
    """A question was sent."""

    NAME = "model.sent"

    attempt: int
    system: str | None
    prompt: str
    prompt_hash: str | None = None
    """of the question's template"""
    images: tuple[SentImage, ...] = ()
    effort: str | None = None
    max_tokens: int | None = None


class ModelRetry(ModelEvent):
    """A call failed and is retried."""

    NAME = "model.retry"

    error: str
    failures: int
    wait_s: float


class ModelReply(ModelEvent):
    """A valid answer arrived."""

    NAME = "model.reply"

    answer: str
    tokens: Tokens
    price_usd: float | None
    latency_s: float
    attempts: int
    cached: bool
    """whether it was on disk already"""


class ModelRejected(ModelEvent):
    """An answer was not valid; the model is sent the reason."""

    NAME = "model.rejected"

    answer: str
    error: str


class ModelFailed(ModelEvent):
    """A question never got a valid answer."""

    NAME = "model.failed"

    kind: str
    """class of the error"""
    error: str
