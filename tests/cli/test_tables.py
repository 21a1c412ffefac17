"""Tables in a narrow terminal: names whole, words whole as far as there is room, nothing lost."""

import random
import re

import pytest

from telic.cli._console import console, print_rows

COLUMNS = ["session", "intent", "environment", "state", "score"]
NAME = "20261116_031951_f2ac8da8"
ROWS = [(NAME, "keep the pole upright", "InvertedPendulum-v5", "unproven", 1.0)] * 2


def shown(columns, rows, width, monkeypatch):
    monkeypatch.setattr(console, "width", width)
    with console.capture() as said:
        print_rows(columns, rows)
    return said.get()


@pytest.mark.parametrize("width", [80, 100, 140])
def test_names_and_ordinary_words_stay_whole(width, monkeypatch):
    said = shown(COLUMNS, ROWS, width, monkeypatch)
    for word in (NAME, *COLUMNS, "upright", "unproven"):
        assert word in said, said
    assert max(map(len, said.splitlines())) <= width


def test_nothing_is_lost_however_many_columns_and_however_little_room(monkeypatch):
    chance = random.Random(1)
    for _ in range(60):
        count = chance.randrange(1, 9)
        words = [
            " ".join("x" * chance.randrange(1, 20) for _ in range(chance.randrange(1, 4)))
            for _ in range(count)
        ]
        words[0] = words[0][:12].strip()
        width = chance.randrange(12 + 4 * count, 160)
        said = shown([f"c{number}" for number in range(count)], [words], width, monkeypatch)
        assert len(re.findall("x", said)) == sum(word.count("x") for word in words), said
