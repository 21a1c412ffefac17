import pytest

from telic.core.config import Record
from telic.llm import Image, Request, Tokens
from telic.llm.answers import InvalidAnswer, read_answer

from .conftest import Plan, question


class Other(Record):
    name: str


CHANGES = [
    {"role": "reviewer"},
    {"system": "Be brief."},
    {"images": (Image(data=b"1"),)},
    {"images": (Image(data=b"1", media_type="image/jpeg"),)},
    {"effort": "high"},
    {"max_tokens": 17},
    {"sample": 1},
]


def test_everything_that_decides_the_answer_changes_the_key():
    keys = [question().key("m"), question("Why?").key("m"), question().key("other")]
    keys += [question(**change).key("m") for change in CHANGES]
    keys.append(Request(role="elicitor", prompt="How?", answer=Other).key("m"))
    assert len(set(keys)) == len(keys)


def test_the_key_is_stable_and_does_not_depend_on_the_templates_version():
    assert question().key("m") == question(prompt_hash="abc").key("m")
    # A changed key makes every recording and every paid reply worthless: change it on purpose only.
    assert question().key("m") == "de0ccdfda2312e44fe16cad2e65d182e"


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_non_numeric_value_is_not_an_answer(number):
    """Parsers take it, and training on it would break a session for good."""
    with pytest.raises(InvalidAnswer, match="every number must be finite"):
        read_answer(f'{{"title": "t", "weights": {{"speed": {number}}}}}', Plan)


def test_unknown_tokens_stay_unknown_in_a_sum():
    total = Tokens(input=1, output=2, reasoning=1) + Tokens(input=10, output=20)
    assert (total.input, total.output, total.reasoning, total.total) == (11, 22, None, 33)
    assert Tokens(input=1).total is None
