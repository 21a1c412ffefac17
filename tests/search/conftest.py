"""Model for tests with random answers; every third is invalid if a fault is given."""

import json
import re

import pytest

from telic.errors import UnknownName
from telic.llm import CallLimits, Models, RawReply, connect
from telic.search import runner
from telic.search.task import generator
from telic.testing.models import Scripted

FAULTS = ("malformed", "truncated", "out_of_range", "incomplete", "failing")


@pytest.fixture(scope="session", autouse=True)
def _scripted():
    """Let `model="scripted"` and `model="scripted:FAULT"` be this one."""

    def choose(name, folder, **options):
        if not name.startswith("scripted"):
            return connect(name, folder, **options)
        provider = Scripted(_script(name.partition(":")[2]), name)
        limits = CallLimits(attempts=2, first_wait_s=0.0)
        return Models(provider, folder, limits=limits, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "connect", choose)
        yield


def _script(fault):
    """Return a function that answers like a model without knowledge; every third time wrongly."""
    if fault and fault not in FAULTS:
        raise UnknownName("fault of the scripted model", fault, list(FAULTS))

    def answer(request):
        rng = generator(request.key("scripted"))
        is_repair = "not accepted" in request.prompt
        if fault and not is_repair and rng.random() < 1 / 3:
            return _faulty(fault, request, rng)
        return _policies(request, rng, 1.0)

    return answer


def _policies(request, rng, spread):
    record = request.answer
    field = record.model_fields.get("candidates")
    if field is None:
        return _policy(record, rng, spread)
    kind = field.annotation.__args__[0]
    count = next(rule.min_length for rule in field.metadata if hasattr(rule, "min_length"))
    return {"candidates": [_policy(kind, rng, spread) for _ in range(count)]}


def _policy(record, rng, spread):
    """Draw numbers as the request describes them: from a list, or within bounds."""
    asked = record.model_fields["params"]
    rank, words = asked.json_schema_extra["minItems"], asked.description
    if choices := re.search(r"one of (\[.*\])", words):
        params = rng.choice(json.loads(choices[1]), rank).tolist()
    else:
        low, high, decimals = re.search(r"\[(.+), (.+)\] with at most (\d)", words).groups()
        params = rng.uniform(float(low) * spread, float(high) * spread, rank)
        params = params.round(int(decimals)).tolist()
    return {"params": params, "explanation": "scripted: drawn at random, for tests only"}


def _faulty(fault, request, rng):
    whole = _policies(request, rng, 1.0)
    match fault:
        case "truncated":
            text = json.dumps(whole)
            return RawReply(text=text[: len(text) // 2], finish="length")
        case "out_of_range":
            return _policies(request, rng, 5.0)
        case "incomplete":
            return {**whole, "params": whole.get("params", [])[:-1]}
        case "failing":
            return RawReply(text="I would rather not.", finish="refusal")
        case _:
            return '{"value": 1,,}'
