"""Numbers out of answers: the forms that are understood, and a precise complaint for each fault."""

import pytest
from pydantic import ValidationError

from telic.search.language_model import answer_record, read_numbers
from telic.search.policies import Space

SPACE = Space(names=("a", "b", "c"), formula="", low=-6, high=6, decimals=1)
TABLE = Space(names=("s0", "s1"), formula="", low=1, high=3, decimals=0, choices=(1, 2, 3))


@pytest.mark.parametrize(
    "given",
    [
        [1, -2.5, 0.001],
        ["1", "-2.5", "1e-3"],
        {"params[0]": 1, "params[1]": -2.5, "params[2]": 0.001},
        {"0": 1, "1": "-2.5", "2": ".001"},
        "params[0]: 1; params[1]: -2.5; params[2]: 1e-3",
        "params[2] = .001, params[0] = 1, params[1] = -2.5",
        "[1, -2.5, 1e-3]",
    ],
)
def test_these_forms_are_understood(given):
    assert read_numbers(given, SPACE) == (1.0, -2.5, 0.001)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ([1, 2], "expected 3 numbers, got 2"),
        ([1, 2, 3, 4], "expected 3 numbers, got 4"),
        ([1, "two", 3], r"params\[1\] is 'two', which is not a number"),
        ([1, None, 3], r"params\[1\] is 'None', which is not a number"),
        ([1, True, 3], r"params\[1\] is 'True', which is not a number"),
        ([1, float("nan"), 3], r"params\[1\] is nan, which is not a finite number"),
        ({"params[0]": 1, "params[2]": 3}, r"params\[1\] missing"),
        ({"params[0]": 1, "speed": 3}, '"speed" is not the name of a parameter'),
        (
            "params[0]: 1; params[0]: 2; params[1]: 3; params[2]: 4",
            r"params\[0\] is given twice: 1",
        ),
        ("params[0]: 1; params[7]: 2", r"params\[7\] does not exist: the last is params\[2\]"),
        (12, "expected a list of 3 numbers, not int"),
    ],
)
def test_each_fault_has_its_complaint(given, complaint):
    with pytest.raises(ValueError, match=complaint):
        read_numbers(given, SPACE)


def test_a_table_takes_its_choices_only():
    assert read_numbers([3, 1.0], TABLE) == (3.0, 1.0)
    with pytest.raises(ValueError, match=r"params\[0\] = 0, params\[1\] = 1.5: allowed are"):
        read_numbers([0, 1.5], TABLE)


def test_a_record_refuses_what_was_tried_after_rounding():
    seen = (1.0, 2.0, 3.0)
    record = answer_record(SPACE, lambda params: "tried before" if params == seen else None)
    with pytest.raises(ValidationError, match="tried before"):
        record.model_validate({"params": [1.01, 2.0, 3.0], "explanation": ""})
    answer = record.model_validate({"params": [1.2, 2.0, 3.0], "explanation": "further"})
    assert answer.params == (1.2, 2.0, 3.0)


def test_several_candidates_are_counted():
    record = answer_record(SPACE, lambda params: None, 2)
    one = {"params": [1, 2, 3], "explanation": "x"}
    assert len(record.model_validate({"candidates": [one, one]}).candidates) == 2
    with pytest.raises(ValidationError, match="at least 2"):
        record.model_validate({"candidates": [one]})
    schema = record.model_json_schema()
    params = schema["$defs"]["Proposal"]["properties"]["params"]
    assert params["minItems"] == params["maxItems"] == 3
