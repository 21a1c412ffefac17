"""Questions to models: what was asked and answered, what it cost, and those that wait for people.

A work order is answered here as `telic orders answer` does it: checked against its schema, with
every complaint at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query

from telic.core.config import Record
from telic.core.events import SessionIterationStart, decode
from telic.errors import TelicError, UnknownName, UsageError
from telic.llm.events import ModelFailed, ModelRejected, ModelReply, ModelRetry, ModelSent
from telic.llm.work_orders import ORDERS, WorkOrder, WorkOrderLine, answer_order, list_orders
from telic.llm.work_orders import read_order as find_order
from telic.storage.files import json_text, read_json_lines
from telic.storage.workspace import Thing
from telic.web.place import WebPlace

_SHOWN = 2000
"""letters of a text in a list"""


class AskedModelLine(Record):
    """One question to a model, and what became of it."""

    number: int
    """its place among all questions of the thing, from 1"""
    iteration: int | None
    """of a session, during which it was asked; None: before the first"""
    key: str
    role: str
    model: str
    state: Literal["waiting", "answered", "failed"]
    prompt: str
    """the beginning of it; the call itself has all"""
    answer: str | None
    attempts: int
    rejected: int
    """answers that were not valid"""
    tokens_in: int | None
    tokens_out: int | None
    tokens_reasoning: int | None
    price_usd: float | None
    """None: not known"""
    latency_s: float | None
    is_cached: bool
    """whether the answer was on disk already"""
    error: str | None


class AskedModel(Record):
    """A question with all of its words."""

    line: AskedModelLine
    system: str | None
    prompt: str
    answer: str | None
    effort: str | None
    pictures: int
    rejected: tuple[str, ...]
    """why answers were not valid"""


class ModelTrace(Record):
    """All questions of a thing, in their order, and what they cost."""

    calls: tuple[AskedModelLine, ...]
    total: int
    next: int | None
    """ask again with `after` this for the next page"""
    tokens_in: int
    tokens_out: int
    price_usd: float | None
    """of the calls whose price is known; None: of none"""
    unpriced: int
    """answers whose price is not known"""


class AnswerGiven(Record):
    """An answer that was taken."""

    order: str


def _calls(log: Path) -> list[AskedModel]:
    """Return the questions in a log, each with what became of it."""
    calls, by_key, iteration = list[dict[str, Any]](), dict[str, dict[str, Any]](), None
    for event in _model_events(log):
        if isinstance(event, SessionIterationStart):
            iteration = event.number
            continue
        call = by_key.get(event.key)
        match event:
            case ModelSent() if call is not None and call["state"] == "waiting":
                call["attempts"] = max(call["attempts"], event.attempt)
            case ModelSent():
                call = by_key[event.key] = _asked(event, len(calls) + 1, iteration)
                calls.append(call)
            case ModelReply() if call is not None:
                call |= _replied(event)
            case ModelFailed() if call is not None:
                call |= {"state": "failed", "error": event.error}
            case ModelRejected() if call is not None:
                call["rejections"].append(event.error)
            case ModelRetry() if call is not None:
                call["attempts"] = event.failures + 1
            case _:
                pass
    return [_whole(call) for call in calls]


def _asked(sent: ModelSent, number: int, iteration: int | None) -> dict[str, Any]:
    about = sent.model_dump(include={"key", "role", "model", "prompt", "system", "effort"})
    facts = {"number": number, "iteration": iteration, "pictures": len(sent.images)}
    start: dict[str, Any] = {"state": "waiting", "attempts": 1, "is_cached": False}
    return {**start, "rejections": [], **about, **facts}


def _replied(reply: ModelReply) -> dict[str, Any]:
    tokens = reply.tokens
    return {
        "state": "answered",
        **reply.model_dump(include={"answer", "attempts", "price_usd", "latency_s"}),
        "tokens_in": tokens.input,
        "tokens_out": tokens.output,
        "tokens_reasoning": tokens.reasoning,
        "is_cached": reply.cached,
    }


def _whole(call: dict[str, Any]) -> AskedModel:
    answer, rejections = call.get("answer"), tuple(call["rejections"])
    known: dict[str, Any] = {name: call.get(name) for name in AskedModelLine.model_fields}
    known["prompt"], known["answer"] = call["prompt"][:_SHOWN], answer and answer[:_SHOWN]
    return AskedModel(
        line=AskedModelLine.model_validate({**known, "rejected": len(rejections)}),
        answer=answer,
        rejected=rejections,
        **{name: call[name] for name in ("system", "prompt", "effort", "pictures")},
    )


_EVENTS = (
    *("model.sent", "model.reply", "model.failed", "model.rejected", "model.retry"),
    "session.iteration",
)


def _model_events(log: Path) -> Iterator[Any]:
    for row in read_json_lines(log):
        if row.get("event") in _EVENTS:
            try:
                yield decode(row, _EVENTS)
            except ValueError:  # of another version
                continue


def read_trace(log: Path, after: int, limit: int) -> ModelTrace:
    """Return questions behind a number."""
    lines = [call.line for call in _calls(log)]
    page = lines[after : after + limit]
    prices = [line.price_usd for line in lines if line.price_usd is not None]
    answered = sum(line.state == "answered" for line in lines)
    return ModelTrace(
        calls=tuple(page),
        total=len(lines),
        next=after + limit if after + limit < len(lines) else None,
        tokens_in=sum(line.tokens_in or 0 for line in lines),
        tokens_out=sum(line.tokens_out or 0 for line in lines),
        price_usd=sum(prices) if prices else None,
        unpriced=answered - len(prices),
    )


# ---------------------------------------------------------------------------- work orders


def _orders(thing: Thing) -> Path:
    return thing.path / ORDERS


def _order(thing: Thing, key: str) -> WorkOrder:
    """Return the order of exactly this key."""
    known = [line.key for line in list_orders(_orders(thing))] if _orders(thing).is_dir() else []
    if key not in known:
        raise UnknownName("work order", key[:200], known)
    return find_order(_orders(thing), key)


def routes(place: WebPlace) -> APIRouter:
    """Return the routes of questions."""
    router = APIRouter(tags=["models"])

    @router.get("/things/{thing}/trace")
    def list_calls(
        thing: str,
        after: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    ) -> ModelTrace:
        """List the questions to models: words, tokens, price, time."""
        return read_trace(
            place.thing(thing, "session", "search").path / "events.jsonl", after, limit
        )

    @router.get("/things/{thing}/trace/{number}")
    def read_call(thing: str, number: int) -> AskedModel:
        """Return a question with all of its words."""
        calls = _calls(place.thing(thing, "session", "search").path / "events.jsonl")
        if not 1 <= number <= len(calls):
            raise UnknownName("question", str(number)[:40], [])
        return calls[number - 1]

    @router.get("/things/{thing}/orders")
    def list_open(thing: str) -> list[WorkOrderLine]:
        """List the questions that somebody may answer, those that wait first."""
        folder = _orders(place.thing(thing, "session", "search"))
        return list_orders(folder) if folder.is_dir() else []

    @router.get("/things/{thing}/orders/{key}")
    def read_order(thing: str, key: str) -> WorkOrder:
        """Return a question: instructions, request, and the schema of the answer."""
        return _order(place.thing(thing, "session", "search"), key)

    @router.post("/things/{thing}/orders/{key}/answer")
    def give_answer(thing: str, key: str, answer: Annotated[dict[str, Any], Body()]) -> AnswerGiven:
        """Check an answer against its schema and hand it in."""
        found = place.thing(thing, "session", "search")
        order = _order(found, key)
        try:
            answer_order(_orders(found), order.key, json_text(answer))
        except UsageError:
            raise
        except TelicError as error:
            raise UsageError(error.message, hint=error.hint) from None
        return AnswerGiven(order=order.key)

    return router
