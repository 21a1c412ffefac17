"""What is heard of the calls of language models; keys are removed before anybody hears it."""

from __future__ import annotations

from telic.core.events import Emitted, event, record


@record
class _ModelCall(Emitted):
    """What all events of a call have."""

    role: str
    """in which role the model is asked, e.g. author"""
    key: str
    """name of the question: the same question has the same key"""
    model: str
    """provider and model"""


@record
class SentImage:
    """A picture that went with a question."""

    media_type: str
    """e.g. image/png"""
    sha256: str
    """of its bytes"""


@event("model.sent")
class ModelSent(_ModelCall):
    """A question was sent."""

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


@event("model.retry")
class ModelRetry(_ModelCall):
    """A call failed and is tried again."""

    error: str
    """what went wrong"""
    failures: int
    """so far"""
    wait_s: float
    """seconds until the next attempt"""


@record
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


@event("model.reply")
class ModelReply(_ModelCall):
    """A valid answer is there."""

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


@event("model.rejected")
class ModelRejected(_ModelCall):
    """An answer was not valid; the model is told why."""

    answer: str
    """its text"""
    error: str
    """why it is not valid"""


@event("model.failed")
class ModelFailed(_ModelCall):
    """A question never got a valid answer."""

    kind: str
    """class of the error"""
    error: str
    """what went wrong"""


ModelEvent = ModelSent | ModelRetry | ModelReply | ModelRejected | ModelFailed
