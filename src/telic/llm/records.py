"""Model requests and replies, the provider interface, and the errors of a call."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

from pydantic import Field

from telic.core.config import Record
from telic.core.events import Event
from telic.errors import TelicError, UsageError

Answer = TypeVar("Answer", bound=Record)
Effort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]
MediaType = Literal["image/png", "image/jpeg", "image/webp", "image/gif"]
Finish = Literal["complete", "length", "refusal"]
_QUOTED_CHARACTERS = 8_000


class Image(Record):
    """Image attached to a prompt."""

    data: bytes = Field(repr=False)
    media_type: MediaType = "image/png"

    @property
    def suffix(self) -> str:
        """Return the file name suffix of the media type, e.g. ".png"."""
        return "." + self.media_type.partition("/")[2].replace("jpeg", "jpg")


class Request(Record, Generic[Answer]):
    """Request to a model for an answer of a specific record type."""

    role: str = Field(min_length=1)
    """role of the model, e.g. "elicitor" or "reward_author", as shown in traces and work orders"""
    prompt: str
    """prompt text in Markdown"""
    answer: type[Answer]
    """record type of the answer, whose JSON schema is part of the request"""
    system: str = ""
    images: tuple[Image, ...] = ()
    """images placed after the prompt"""
    effort: Effort | None = None
    """reasoning effort, or None for the model's default"""
    temperature: float | None = None
    """sampling temperature, or None for the model's default"""
    max_tokens: int = Field(default=16_000, gt=0)
    """maximum number of output tokens, including reasoning"""
    sample: int = Field(default=0, ge=0)
    """index of the answer among independent answers to the same prompt"""
    prompt_hash: str | None = None
    """hash of the prompt template (`telic.llm.prompt_hash`), recorded in the trace"""

    @property
    def answer_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the answer."""
        return self.answer.model_json_schema()

    def key(self, model: str) -> str:
        """Return the cache key, a hash of the model name and all inputs that affect its answer.

        The template hash is excluded, because only the rendered prompt is sent to the model.
        """
        parts = self.model_dump(exclude={"images", "answer", "prompt_hash"})
        if self.temperature is None:
            del parts["temperature"]  # as before there was a choice
        images = [[image.media_type, fingerprint(image.data)] for image in self.images]
        parts |= {"model": model, "images": images, "answer": self.answer_schema}
        return fingerprint(json.dumps(parts, sort_keys=True, separators=(",", ":")))

    def repaired(self, rejected: str, reason: str) -> Self:
        """Return the request with the rejected answer and the reason appended to its prompt."""
        if len(rejected) > _QUOTED_CHARACTERS:
            rejected = rejected[:_QUOTED_CHARACTERS] + "\n(cut here)"
        note = (
            "\n\n## Your previous answer was not accepted\n\nYou "
            f"answered:\n\n{rejected or '(nothing)'}\n\nIt was not accepted, "
            f"because:\n\n{reason}\n\nAnswer again with one JSON object that matches the schema, "
            "and nothing else.\n"
        )
        return self.model_copy(update={"prompt": self.prompt + note})


class Tokens(Record):
    """Token counts of a reply. A count is None if the service does not report it."""

    input: int | None = None
    """input tokens, including cached tokens"""
    output: int | None = None
    """output tokens, including reasoning"""
    reasoning: int | None = None
    cached: int | None = None
    """input tokens read from the service's prompt cache"""

    @property
    def total(self) -> int | None:
        """Return input plus output tokens, or None if either is unknown."""
        return None if self.input is None or self.output is None else self.input + self.output

    def __add__(self, other: Tokens) -> Tokens:
        """Return the sum of two counts. A count is None if either operand's count is None."""
        names = Tokens.model_fields
        return Tokens(**{n: add_known(getattr(self, n), getattr(other, n)) for n in names})


class RawReply(Record):
    """Unvalidated reply of a provider with its cost."""

    text: str
    """answer as received, which is JSON if the model followed its instructions"""
    tokens: Tokens = Tokens()
    price_usd: float | None = None
    """price in USD, or None if unknown"""
    finish: Finish = "complete"
    """"length" if the answer was truncated, "refusal" if it was declined or filtered"""


class Reply(Record, Generic[Answer]):
    """Validated answer with its total cost, including repairs."""

    answer: Answer
    model: str
    tokens: Tokens
    price_usd: float | None
    """price in USD, or None if the price of any part is unknown"""
    latency_s: float
    """duration in seconds, including waits between retries"""
    attempts: int
    """number of requests sent, including retries and the repair"""
    cached: bool
    """whether the reply was served entirely from the cache"""


# ---- events of a call; API keys are redacted before an event is emitted


class ModelEvent(Event):
    """Base class of model call events."""

    role: str
    """role of the model, e.g. reward_author"""
    key: str
    """cache key of the request"""
    model: str


class ModelSent(ModelEvent):
    """A request was sent."""

    NAME = "model.sent"

    attempt: int
    system: str | None
    prompt: str
    prompt_hash: str | None = None
    """hash of the prompt template"""
    images: tuple[dict[str, str], ...] = ()
    """media type and SHA-256 of each image"""
    effort: str | None = None
    max_tokens: int | None = None


class ModelRetry(ModelEvent):
    """An attempt failed and is retried."""

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
    """whether the reply was served from the cache"""


class ModelRejected(ModelEvent):
    """An answer failed validation."""

    NAME = "model.rejected"

    answer: str
    error: str


class ModelFailed(ModelEvent):
    """A call failed without a valid answer."""

    NAME = "model.failed"

    kind: str
    """class name of the error"""
    error: str


# ---- providers


class Provider(Protocol):
    """Interface to a language model. `Models` adds budget, retries, cache and validation."""

    @property
    def name(self) -> str:
        """Full name of the model, e.g. "anthropic:claude-sonnet-5-5", used in every cache key."""
        ...

    async def complete(self, request: Request[Any], deadline_s: float) -> RawReply:
        """Send the request once and return the unvalidated reply.

        Implementations must not block the event loop, and must stop when the task is cancelled.
        They must neither retry nor store an API key on the object. Instead of returning an empty
        answer, they raise Outage for temporary and RequestRejected for permanent failures.
        """
        ...


class ModelUnavailable(TelicError):
    """Raised if a model is still unavailable after all retries. Nothing is scored then."""


class ModelAnswerError(TelicError):
    """Raised if an answer is still invalid after its repair."""


class Cancelled(TelicError):
    """Raised after a stop request. Charged replies remain in the cache."""


class RequestRejected(UsageError):
    """Permanent rejection of a request, e.g. for its API key, model name or size."""


class Outage(TelicError):
    """Temporary failure of one attempt, e.g. overload, rate limit or lost connection.

    `may_be_paid` is True if the service may have received the request and charged for it.
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


def prompt_hash(template: str) -> str:
    """Return the hash of a prompt template: the first 12 hex digits of its SHA-256."""
    return fingerprint(template, 12)


def fingerprint(value: str | bytes, length: int = 32) -> str:
    """Return the first `length` hex digits of the SHA-256 of `value`."""
    content = value.encode() if isinstance(value, str) else value
    return hashlib.sha256(content).hexdigest()[:length]


def add_known(one: Any, other: Any) -> Any:
    """Return the sum of two numbers, or None if either is None."""
    return None if one is None or other is None else one + other
