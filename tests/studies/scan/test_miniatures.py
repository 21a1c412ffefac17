"""Miniature repositories of many shapes: the audit says of each what is true of it."""

from __future__ import annotations

import pytest
from scripts.audit_page import CASE, PAGE, Miniature, grade_miniature, mean, page, read_miniatures

MINIATURES = list(read_miniatures())


def test_there_are_enough_shapes():
    assert len(MINIATURES) >= 25


@pytest.mark.parametrize("miniature", MINIATURES, ids=[each.name for each in MINIATURES])
def test_the_audit_passes_a_miniature(miniature: Miniature):
    grades = grade_miniature(miniature)
    wrong = {name: each[1:] for name, each in grades.items() if each.score < 1}
    assert mean(grades) >= CASE, wrong
    for field in ("train", "network", "seed"):
        assert grades[field].score == 1, wrong


def test_the_published_table_is_what_the_script_prints():
    assert PAGE.read_text() == page(), "run python scripts/audit_page.py"
