"""Requests to a model, its replies, the provider interface, and the errors of a call."""

from __future__ import annotations

import hashlib
import json
import re
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
_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")


class Image(Record):
    """A picture that is sent with a prompt."""

    data: bytes = Field(repr=False)
    media_type: MediaType = "image/png"

    @property
    def suffix(self) -> str:
        """Return the file name suffix of the media type, e.g. ".png"."""
        return "." + self.media_type.partition("/")[2].replace("jpeg", "jpg")


class Request(Record, Generic[Answer]):
    """One question to a model, and the record its answer must become."""

    role: str = Field(min_length=1)
    """purpose of the question, e.g. "elicitor", "reward_author"; shown in traces and orders"""
    prompt: str
    """the question, Markdown"""
    answer: type[Answer]
    """record of the answer; its JSON schema is sent along"""
    system: str = ""
    images: tuple[Image, ...] = ()
    """shown after the prompt"""
    effort: Effort | None = None
    """reasoning effort; None leaves it to the model"""
    max_tokens: int = Field(default=16_000, gt=0)
    """limit of the answer, reasoning included"""
    sample: int = Field(default=0, ge=0)
    """number of this answer among several independent ones to the same question"""
    prompt_hash: str | None = None
    """version of the prompt's template (`telic.llm.prompt_hash`), for the trace"""

    @property
    def answer_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the answer."""
        return self.answer.model_json_schema()

    def key(self, model: str) -> str:
        """Return a hash of everything that determines the answer of `model`: it names files.

        The hash of the template is left out: only the finished prompt reaches the model.
        """
        parts = self.model_dump(exclude={"images", "answer", "prompt_hash"})
        images = [[image.media_type, fingerprint(image.data)] for image in self.images]
        parts |= {"model": model, "images": images, "answer": self.answer_schema}
        return fingerprint(json.dumps(parts, sort_keys=True, separators=(",", ":")))

    def repaired(self, rejected: str, reason: str) -> Self:
        """Return the same question with the rejected answer and the reason appended."""
        if len(rejected) > _QUOTED_CHARACTERS:
            rejected = rejected[:_QUOTED_CHARACTERS] + "\n(cut here)"
        note = (
            "\n\n## Your previous answer was not accepted\n\n"
            f"You answered:\n\n{rejected or '(nothing)'}\n\n"
            f"It was not accepted, because:\n\n{reason}\n\n"
            "Answer again with one JSON object that fits the schema, and nothing else.\n"
        )
        return self.model_copy(update={"prompt": self.prompt + note})


class Tokens(Record):
    """Tokens of a reply; None where the service does not report them."""

    input: int | None = None
    """tokens read, cached ones included"""
    output: int | None = None
    """tokens written, reasoning included"""
    reasoning: int | None = None
    cached: int | None = None
    """input tokens from the service's prompt cache"""

    @property
    def total(self) -> int | None:
        """Return input plus output, or None when either is unknown."""
        return None if self.input is None or self.output is None else self.input + self.output

    def __add__(self, other: Tokens) -> Tokens:
        """Return the sum; a count that is unknown in one part is unknown in the sum."""
        names = Tokens.model_fields
        return Tokens(**{n: add_known(getattr(self, n), getattr(other, n)) for n in names})


class RawReply(Record):
    """The reply of a provider: the answer's text as received, and its cost."""

    text: str
    """the answer, JSON if the model followed its instructions"""
    tokens: Tokens = Tokens()
    price_usd: float | None = None
    """None: unknown"""
    finish: Finish = "complete"
    """"length": cut off; "refusal": declined or filtered"""


class Reply(Record, Generic[Answer]):
    """A valid answer and its total cost, repairs included."""

    answer: Answer
    model: str
    tokens: Tokens
    price_usd: float | None
    """None when the price of any part is unknown"""
    latency_s: float
    """seconds until the model answered, waits between retries included"""
    attempts: int
    """requests sent: 1, plus retries, plus a repair"""
    cached: bool
    """whether everything was read from disk and nothing was sent now"""


# ---- events of a call; keys are redacted before they are emitted


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


# ---- providers


class Provider(Protocol):
    """The interface to a language model; `Models` adds budget, retries, cache and validation."""

    @property
    def name(self) -> str:
        """Return the model's full name, e.g. "anthropic:claude-sonnet-5-5"; part of every key."""
        ...

    async def complete(self, request: Request[Any], deadline_s: float) -> RawReply:
        """Send the request once and return the reply, valid or not.

        Must not block the event loop, must stop when its task is cancelled, must not retry, and
        must not keep a key in the object. Raises Outage for a temporary failure and
        RequestRejected for a permanent one. Never returns an empty answer to mean a failure.
        """
        ...


class ModelUnavailable(TelicError):
    """The model could not be reached in time, after all retries; never a score."""


class ModelAnswerError(TelicError):
    """Neither the model's answer nor the repaired one became a valid record."""


class Cancelled(TelicError):
    """A stop was requested; paid replies are on disk."""


class RequestRejected(UsageError):
    """The service refuses this request and would refuse it again: key, model name or size."""


class Outage(TelicError):
    """One attempt failed temporarily: overload, rate limit, lost connection.

    `may_be_paid` marks a request that the service received and may charge for.
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
    """Return the version of a template: the start of its SHA-256."""
    return fingerprint(template, 12)


def render(template: str, **values: object) -> str:
    """Return the template with every `{{name}}` replaced by its value, which stays as it is."""
    names = set(_PLACEHOLDER.findall(template))
    if names != set(values) or template.count("{{") != len(_PLACEHOLDER.findall(template)):
        wrong = ", ".join(sorted(names ^ set(values))) or "a {{ without a name"
        raise UsageError(f"The template and its values do not fit: {wrong}.")
    return _PLACEHOLDER.sub(lambda place: str(values[place[1]]), template)


def fingerprint(value: str | bytes, length: int = 32) -> str:
    """Return the first hexadecimal digits of the SHA-256 of `value`."""
    content = value.encode() if isinstance(value, str) else value
    return hashlib.sha256(content).hexdigest()[:length]


def add_known(one: Any, other: Any) -> Any:
    """Return the sum of two numbers, or None when either is None."""
    return None if one is None or other is None else one + other
