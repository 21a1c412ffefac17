"""Ask a model for policies, and read exactly the right numbers out of its answer, or complain."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import Field, field_validator

from telic.core.config import Record
from telic.core.data import is_dict, is_row
from telic.core.events import Listener
from telic.errors import UnknownName
from telic.llm import Budget, CallLimits, Fault, Models, RawReply, Request, Scripted, connect
from telic.llm.limits import StopCheck
from telic.search.environments.task import generator
from telic.search.policies import Space
from telic.search.records import ModelQuestion
from telic.search.writer import SYSTEM, Prompt

Numbers = tuple[float, ...]
Objection = Callable[[Numbers], str | None]

_INDEXED = re.compile(r"params\s*\[\s*(\d+)\s*\]\s*[:=]\s*([^;,\n]*)")
_LISTED = 6
SCRIPTED = "scripted"
FAULTS = ("malformed", "truncated", "out_of_range", "incomplete", "failing", "slow")


class PolicyAnswer(Record):
    """One proposed policy."""

    space: ClassVar[Space]
    params: Any
    explanation: str = ""


def read_numbers(value: Any, space: Space) -> Numbers:
    """Return the numbers of an answer; raises ValueError that says exactly what is wrong.

    A list is expected; a mapping of indices, and text like "params[0]: 1.5; params[1]: -2", are
    understood as well.
    """
    if isinstance(value, str):
        value = _from_text(value, space)
    if is_dict(value):
        value = _from_pairs([(_index(name), item) for name, item in value.items()], space)
    if not is_row(value):
        raise ValueError(f"expected a list of {space.rank} numbers, not {type(value).__name__}")
    if len(value) != space.rank:
        raise ValueError(f"expected {space.rank} numbers, got {len(value)}")
    numbers = [_number(index, item) for index, item in enumerate(value)]
    if space.choices is not None:
        _check_choices(numbers, space.choices)
    return tuple(numbers)


def answer_record(space: Space, objection: Objection, count: int = 1) -> type[Record]:
    """Return the record that an answer of `count` policies must become.

    Args:
        space: where the numbers lie.
        objection: says why a policy is not welcome (tried before), or returns None.
        count: policies asked for; more than one are a list named candidates.
    """
    told = f"{space.rank} numbers, in order"
    told += (
        f", each one of {list(space.choices)}"
        if space.choices
        else (f", each in [{space.low:g}, {space.high:g}] with at most {space.decimals} decimals")
    )

    class Proposal(PolicyAnswer):
        """A policy, and why."""

        params: tuple[float, ...] = Field(
            description=told, json_schema_extra={"minItems": space.rank, "maxItems": space.rank}
        )
        explanation: str = Field(description="why, in one to three sentences")

        @field_validator("params", mode="before")
        @classmethod
        def _read(cls, value: Any) -> Numbers:
            numbers = read_numbers(value, space)
            if problem := objection(space.fit(numbers).params):
                raise ValueError(problem)
            return numbers

    Proposal.space = space
    if count == 1:
        return Proposal

    class Proposals(Record):
        """Several policies."""

        candidates: tuple[Proposal, ...] = Field(min_length=count, max_length=count)

    return Proposals


def _from_text(text: str, space: Space) -> Any:
    pairs = [(int(index), number.strip()) for index, number in _INDEXED.findall(text)]
    if pairs:
        return _from_pairs(pairs, space)
    return [each for each in re.split(r"[\s,;]+", text.strip(" \t\n[]()")) if each]


def _from_pairs(pairs: list[tuple[int, Any]], space: Space) -> list[Any]:
    found: dict[int, Any] = {}
    for index, value in pairs:
        if index >= space.rank:
            raise ValueError(f"there is no params[{index}]: the last is params[{space.rank - 1}]")
        if index in found:
            raise ValueError(f"params[{index}] is given twice: {found[index]} and {value}")
        found[index] = value
    missing = [f"params[{index}]" for index in range(space.rank) if index not in found]
    if missing:
        more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
        raise ValueError(f"{', '.join(missing[:_LISTED])}{more} missing")
    return [found[index] for index in range(space.rank)]


def _index(name: Any) -> int:
    match = re.fullmatch(r"(?:params\s*\[)?\s*(\d+)\s*\]?", str(name))
    if match is None:
        raise ValueError(
            f'"{name}" is not the name of a parameter: write params[0], params[1], ...'
        )
    return int(match[1])


def _number(index: int, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"params[{index}] is {str(value)[:40]!r}, which is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"params[{index}] is {number}, which is not a finite number")
    return number


def _check_choices(numbers: list[float], choices: tuple[int, ...]) -> None:
    wrong = [
        f"params[{i}] = {number:g}" for i, number in enumerate(numbers) if number not in choices
    ]
    if wrong:
        more = f" and {len(wrong) - _LISTED} more" if len(wrong) > _LISTED else ""
        raise ValueError(f"{', '.join(wrong[:_LISTED])}{more}: allowed are {list(choices)}")


class PolicyAnswers(NamedTuple):
    """Policies as a model gave them."""

    answers: list[PolicyAnswer]
    call: ModelQuestion


class Asker:
    """Asks for policies on behalf of one run."""

    def __init__(self, models: Models, space: Space, run: int) -> None:
        self._models, self._space, self._run = models, space, run
        self.model = models.provider.name

    def ask(
        self, role: str, prompt: Prompt, objection: Objection, *, count: int = 1, sample: int = 0
    ) -> PolicyAnswers:
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
        call = ModelQuestion(
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
        return PolicyAnswers([answer] if count == 1 else list(answer.candidates), call)


def connect_model(
    name: str, folder: Path, *, budget: Budget, on_event: Listener, should_stop: StopCheck
) -> Models:
    """Return the call path to a model, the scripted one for tests included."""
    if name == SCRIPTED or name.startswith(f"{SCRIPTED}:"):
        provider = Scripted(_script(name.partition(":")[2]), name)
        quick = CallLimits(attempts=2, first_wait_s=0.0)
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
        case _:
            return Fault(kind="malformed")
