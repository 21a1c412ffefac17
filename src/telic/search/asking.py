"""Ask a model for policies: requests, complaints, the ledger of calls, and a model for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from telic.core.events import Listener
from telic.errors import UnknownName
from telic.llm import Budget, Fault, Limits, Models, RawReply, Request, Scripted, connect
from telic.llm.waiting import StopCheck
from telic.search.answers import Answer, Objection, answer_record
from telic.search.draws import generator
from telic.search.records import Call
from telic.search.space import Space
from telic.search.writer import SYSTEM, Prompt

SCRIPTED = "scripted"
FAULTS = ("malformed", "truncated", "out_of_range", "incomplete", "failing", "slow")


class Asked(NamedTuple):
    """Policies as a model gave them."""

    answers: list[Answer]
    call: Call


class Asker:
    """Asks for policies on behalf of one run."""

    def __init__(self, models: Models, space: Space, run: int) -> None:
        self._models, self._space, self._run = models, space, run
        self.model = models.provider.name

    def ask(
        self, role: str, prompt: Prompt, objection: Objection, *, count: int = 1, sample: int = 0
    ) -> Asked:
        """Return `count` valid policies; raises ModelAnswerError when they never become valid.

        Runs that ask the same question get their own answers: `sample` tells them apart.
        """
        record = answer_record(self._space, objection, count)
        request = Request(
            role=role,
            prompt=prompt.text,
            system=SYSTEM,
            answer=record,
            prompt_hash=prompt.version,
            sample=2 * self._run + sample,
        )
        reply = self._models.ask(request)
        call = Call(
            role=role,
            key=request.key(self.model),
            model=reply.model,
            input_tokens=reply.tokens.input,
            output_tokens=reply.tokens.output,
            price_usd=reply.price_usd,
            seconds=round(reply.latency_s, 3),
            attempts=reply.attempts,
        )
        answer: Any = reply.answer
        return Asked([answer] if count == 1 else list(answer.candidates), call)


def connect_model(
    name: str, folder: Path, *, budget: Budget, on_event: Listener, should_stop: StopCheck
) -> Models:
    """Return the call path to a model, the scripted one for tests included."""
    if name == SCRIPTED or name.startswith(f"{SCRIPTED}:"):
        provider = Scripted(_script(name.partition(":")[2]), name)
        quick = Limits(attempts=2, first_wait_s=0.0)
        return Models(
            provider,
            folder,
            budget=budget,
            limits=quick,
            on_event=on_event,
            should_stop=should_stop,
        )
    return connect(name, folder, budget=budget, on_event=on_event, should_stop=should_stop)


def _script(fault: str) -> Callable[[Request[Any]], Any]:
    """Return a function that answers like a model without knowledge; every third time wrongly."""
    if fault and fault not in FAULTS:
        raise UnknownName("fault of the scripted model", fault, list(FAULTS))

    def answer(request: Request[Any]) -> Any:
        rng = generator(request.key(SCRIPTED))
        is_repair = "not accepted" in request.prompt
        if fault and not is_repair and rng.random() < 1 / 3:
            return _faulty(fault, request, rng)
        return _policies(request, rng, 1.0)

    return answer


def _policies(request: Request[Any], rng: Any, spread: float) -> dict[str, Any]:
    record: Any = request.answer
    single = record.model_fields.get("candidates") is None
    if single:
        return _policy(record.space, rng, spread)
    field = record.model_fields["candidates"]
    kind = field.annotation.__args__[0]
    count = next(each.min_length for each in field.metadata if hasattr(each, "min_length"))
    return {"candidates": [_policy(kind.space, rng, spread) for _ in range(count)]}


def _policy(space: Space, rng: Any, spread: float) -> dict[str, Any]:
    if space.choices is not None:
        params = rng.choice(space.choices, space.rank).tolist()
    else:
        params = rng.uniform(space.low * spread, space.high * spread, space.rank)
        params = params.round(space.decimals).tolist()
    return {"params": params, "explanation": "scripted: drawn at random, for tests only"}


def _faulty(fault: str, request: Request[Any], rng: Any) -> Any:
    whole = _policies(request, rng, 1.0)
    match fault:
        case "truncated":
            return Fault(kind="truncated", answer=whole)
        case "out_of_range":
            return _policies(request, rng, 5.0)
        case "incomplete":
            return {**whole, "params": whole.get("params", [])[:-1]}
        case "failing":
            return RawReply(text="I would rather not.", finish="refusal")
        case "slow":
            return Fault(kind="slow", answer=whole, seconds=0.05)
    return Fault(kind="malformed")
