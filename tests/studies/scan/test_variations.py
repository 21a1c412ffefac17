"""The audit follows what code does: other names, places, wrappings and parsers change nothing."""

from __future__ import annotations

import pytest
from scripts.audit_page import Miniature, grade_miniature, read_miniatures

from tests.studies.scan.variations import (
    PARSERS,
    files_renamed,
    functions_renamed,
    moved,
    parsed_by,
    partially,
)

MINIATURES = list(read_miniatures())
VARIATIONS = [functions_renamed, files_renamed, moved, partially]


def worse(miniature: Miniature, varied: Miniature) -> dict[str, object]:
    """Return the fields that are answered worse once a repository is said otherwise."""
    before, after = grade_miniature(miniature), grade_miniature(varied)
    return {field: after[field][1:] for field in before if after[field].score < before[field].score}


@pytest.mark.parametrize("number", range(len(VARIATIONS)))
def test_a_repository_said_otherwise_has_the_same_facts(number):
    for seed, miniature in enumerate(MINIATURES[number :: len(VARIATIONS)]):
        varied = VARIATIONS[number](miniature, seed)
        assert worse(miniature, varied) == {}, varied.name


@pytest.mark.slow
@pytest.mark.parametrize("vary", VARIATIONS, ids=lambda vary: vary.__name__)
def test_every_repository_said_otherwise_has_the_same_facts(vary):
    for seed, miniature in enumerate(MINIATURES):
        varied = vary(miniature, seed)
        assert worse(miniature, varied) == {}, varied.name


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_variations_of_variations_have_the_same_facts(seed):
    for miniature in MINIATURES:
        varied = miniature
        for vary in VARIATIONS:
            varied = vary(varied, seed * 31 + len(varied.name))
        assert worse(miniature, varied) == {}, varied.name


@pytest.mark.parametrize("cloud", [False, True])
@pytest.mark.parametrize("library", PARSERS)
def test_every_parser_leads_to_the_same_facts(library, cloud):
    grades = grade_miniature(parsed_by(library, cloud=cloud))
    assert {field: each[1:] for field, each in grades.items() if each.score < 1} == {}
