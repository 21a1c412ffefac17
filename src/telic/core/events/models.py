"""What is heard of the calls of language models; keys are removed before anybody hears it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from telic.core.events.base import Emitted


@dataclass(frozen=True, kw_only=True)
class _ModelCall(Emitted):
    """What all events of a call have."""

    role: str
    """in which role the model is asked, e.g. author"""
    key: str
    """name of the question: the same question has the same key"""
    model: str
    """provider and model"""


@dataclass(frozen=True, kw_only=True)
class SentImage:
    """A picture that went with a question."""

    media_type: str
    """e.g. image/png"""
    sha256: str
    """of its bytes"""


@dataclass(frozen=True, kw_only=True)
class ModelSent(_ModelCall):
    """A question was sent."""

    NAME: ClassVar[str] = "model.sent"

    attempt: int
    """from 1"""
    system: str | None
    """what the model is told to be"""
    prompt: str
    """the question"""
    prompt_hash: str | None = None
    """of the question's template"""
    images: tuple[SentImage, ...] = ()
    """pictures that go with it"""
    effort: str | None = None
    """how long it shall think"""
    max_tokens: int | None = None
    """longest answer"""


@dataclass(frozen=True, kw_only=True)
class ModelRetry(_ModelCall):
    """A call failed and is tried again."""

    NAME: ClassVar[str] = "model.retry"

    error: str
    """what went wrong"""
    failures: int
    """so far"""
    wait_s: float
    """seconds until the next attempt"""


@dataclass(frozen=True, kw_only=True)
class TokenCount:
    """Tokens of a reply; None where the service does not say."""

    input: int | None = None
    """tokens read, cached ones included"""
    output: int | None = None
    """tokens written, reasoning included"""
    reasoning: int | None = None
    """tokens of thinking"""
    cached: int | None = None
    """input tokens that came from the service's prompt cache"""


@dataclass(frozen=True, kw_only=True)
class ModelReply(_ModelCall):
    """A valid answer is there."""

    NAME: ClassVar[str] = "model.reply"

    answer: str
    """its text"""
    tokens: TokenCount
    """of all parts of the answer"""
    price_usd: float | None
    """None: unknown"""
    latency_s: float
    """seconds until it was there"""
    attempts: int
    """calls it took"""
    cached: bool
    """whether it was on disk already"""


@dataclass(frozen=True, kw_only=True)
class ModelRejected(_ModelCall):
    """An answer was not valid; the model is told why."""

    NAME: ClassVar[str] = "model.rejected"

    answer: str
    """its text"""
    error: str
    """why it is not valid"""


@dataclass(frozen=True, kw_only=True)
class ModelFailed(_ModelCall):
    """A question never got a valid answer."""

    NAME: ClassVar[str] = "model.failed"

    kind: str
    """class of the error"""
    error: str
    """what went wrong"""
