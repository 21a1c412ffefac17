"""Numbers out of answers, and a precise complaint for each fault."""

import pytest
from pydantic import ValidationError

from telic.search._language_model import answer_record
from telic.search.policies import Space

SPACE = Space(names=("a", "b", "c"), formula="", low=-6, high=6, decimals=1)
TABLE = Space(names=("s0", "s1"), formula="", low=1, high=3, decimals=0, choices=(1, 2, 3))


def read(params, space=SPACE):
    record = answer_record(space, lambda params: None)
    return record.model_validate({"params": params, "explanation": ""}).params


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([1, 2], "expected 3 numbers, got 2"),
        ([1, 2, 3, 4], "expected 3 numbers, got 4"),
        ([1, "two", 3], r"params\[1\] is 'two': each must be a finite number"),
        ([1, None, 3], r"params\[1\] is None"),
        ([True, True, 3], r"params\[0\] is True, params\[1\] is True"),
        ([1, float("nan"), 3], r"params\[1\] is nan"),
        ({"params[0]": 1}, "expected 3 numbers, not dict"),
        (12, "expected 3 numbers, not int"),
    ],
)
def test_each_fault_has_its_complaint(given, complaint):
    assert read([1, -2.5, 0.001]) == (1.0, -2.5, 0.001)
    with pytest.raises(ValidationError, match=complaint):
        read(given)


def test_a_table_takes_its_choices_only():
    assert read([3, 1.0], TABLE) == (3.0, 1.0)
    with pytest.raises(ValidationError, match=r"params\[0\] is 0, params\[1\] is 1.5: .* one of"):
        read([0, 1.5], TABLE)


def test_a_record_refuses_what_was_tried_after_rounding():
    seen = (1.0, 2.0, 3.0)
    record = answer_record(SPACE, lambda params: "tried before" if params == seen else None)
    with pytest.raises(ValidationError, match="tried before"):
        record.model_validate({"params": [1.01, 2.0, 3.0], "explanation": ""})
    answer = record.model_validate({"params": [1.2, 2.0, 3.0], "explanation": "further"})
    assert answer.params == (1.2, 2.0, 3.0)
