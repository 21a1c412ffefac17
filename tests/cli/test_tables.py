"""Tables in a narrow terminal: names whole, nothing lost."""

import pytest

from telic.cli._console import console, print_facts, print_rows

COLUMNS = ["session", "intent", "environment", "state", "score"]
NAME = "20261116_031951_f2ac8da8"
ROWS = [(NAME, "keep the pole upright", "InvertedPendulum-v5", "unproven", 1.0)] * 2


@pytest.mark.parametrize("width", [50, 80, 140])
def test_names_stay_whole_and_nothing_is_lost(width, monkeypatch):
    monkeypatch.setattr(console, "width", width)
    with console.capture() as printed:
        print_rows(COLUMNS, ROWS)
    text = printed.get()
    assert text.count(NAME) == 2 and max(map(len, text.splitlines())) <= width
    for letter in "pv":
        assert text.count(letter) == sum(
            str(x).count(letter) for row in [COLUMNS, *ROWS] for x in row
        )


def test_a_name_or_value_of_others_imitates_no_other_line():
    forged = "session_1\nsession_2  run  HalfCheetah-v5  passed  1"
    with console.capture() as printed:
        print_rows(COLUMNS, [(forged, *ROWS[0][1:])])
        print_facts({"intent": "run\nstate: passed", "state": "unproven"})
    assert len(printed.get().splitlines()) == 4
