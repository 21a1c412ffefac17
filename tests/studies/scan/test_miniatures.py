"""Miniature repositories of many shapes: the audit says of each what is true of it."""

from __future__ import annotations

import pytest
from scripts.audit_page import CASE, PAGE, Miniature, grade_all, mean, page, read_miniatures

from telic.studies.scan.audit import audit_repository

MINIATURES = list(read_miniatures())


def test_there_are_enough_shapes():
    assert len(MINIATURES) >= 25


@pytest.fixture(scope="module")
def graded():
    return grade_all()


@pytest.mark.parametrize("miniature", MINIATURES, ids=[each.name for each in MINIATURES])
def test_the_audit_passes_a_miniature(graded, miniature: Miniature):
    grades = graded[miniature.name]
    wrong = {name: each[1:] for name, each in grades.items() if each.score < 1}
    assert mean(grades) >= CASE, wrong
    for field in ("train", "network", "seed"):
        assert grades[field].score == 1, wrong


def test_the_published_table_is_what_the_script_prints(graded):
    assert PAGE.read_text() == page(graded), "run python scripts/audit_page.py"


def test_what_is_not_known_is_asked_with_candidates(tmp_path):
    named = {each.name: each for each in MINIATURES}
    only = audit_repository(named["notebooks_only"].write(tmp_path / "notebooks"))
    assert [(each.field, each.candidates) for each in only.questions] == [
        ("commands.train", ("notebooks/Train.ipynb",))
    ]
    in_file = audit_repository(named["yaml_behind_argparse"].write(tmp_path / "file"))
    assert [(each.field, each.candidates) for each in in_file.questions] == [
        ("seeds", ("configs/cheetah.yml:3",))
    ]
