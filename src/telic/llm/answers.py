"""Turn the text of a reply into the record it must be, or say exactly why it is not one."""

from __future__ import annotations

import json
import math
from typing import TypeVar

from pydantic import ValidationError

from telic.core.config import Record
from telic.errors import UsageError
from telic.llm.records import Finish

Answer = TypeVar("Answer", bound=Record)

LONGEST_ANSWER = 1_000_000  # characters
_FENCE = "```"
_LISTED = 20


class InvalidAnswer(UsageError):
    """The text is not the record; the message is written for whoever wrote the text."""


def read_answer(text: str, record: type[Answer], finish: Finish = "complete") -> Answer:
    """Return the record in a reply's text; raises InvalidAnswer with every complaint."""
    if finish == "refusal":
        raise InvalidAnswer("The answer was declined or filtered; there is nothing to read.")
    plain_text = without_fence(check_length(text))
    try:
        answer = record.model_validate_json(plain_text)
    except ValidationError as error:
        problems = error
    else:
        _refuse_what_is_no_number(json.loads(plain_text))
        return answer
    cut = "The answer was cut off: it reached its longest allowed length. Answer more briefly.\n"
    raise InvalidAnswer((cut if finish == "length" else "") + explain(problems))


def _refuse_what_is_no_number(value: object) -> None:
    """Raise InvalidAnswer for NaN and infinity, which JSON does not have and parsers take."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidAnswer(f"- the answer holds {value}: every number must be finite")
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in parts:
        _refuse_what_is_no_number(each)


def read_json_object(text: str) -> dict[str, object]:
    """Return the JSON object in a text; raises InvalidAnswer when it is not one."""
    try:
        value = json.loads(without_fence(check_length(text)))
    except ValueError as error:
        raise InvalidAnswer(f"- the answer is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidAnswer(f"- the answer is a JSON {type(value).__name__}, not an object")
    return value


def check_length(text: str) -> str:
    """Return the text; raises InvalidAnswer when it is longer than any answer may be."""
    if len(text) > LONGEST_ANSWER:
        raise InvalidAnswer(
            f"The answer has {len(text):,} characters; the most that is read is {LONGEST_ANSWER:,}."
        )
    return text


def without_fence(text: str) -> str:
    """Return the inside of a text that is one Markdown code block, any other text unchanged."""
    lines = text.strip().splitlines()
    if len(lines) >= 2 and lines[0].startswith(_FENCE) and lines[-1].strip() == _FENCE:
        return "\n".join(lines[1:-1])
    return text.strip()


def explain(error: ValidationError) -> str:
    """Return one line per complaint: where, and what is wrong."""
    problems = error.errors(include_url=False, include_context=False)
    lines = [
        f"- {'.'.join(map(str, each['loc'])) or 'the answer'}: {each['msg']}" for each in problems
    ]
    if len(lines) > _LISTED:
        lines = [*lines[:_LISTED], f"- and {len(lines) - _LISTED} more"]
    return "\n".join(lines)
