"""Whatever a repository looks like, the audit ends with an answer, and its lines exist."""

from __future__ import annotations

import random

import pytest
from scripts.audit_page import Miniature, read_miniatures

from telic.studies.scan.audit import audit_repository, draft_adapter

MINIATURES = list(read_miniatures())


def damaged(miniature: Miniature, seed: int) -> Miniature:
    """Lose files and lines, swap pieces between files, and put in what does not belong there."""
    draw = random.Random(seed)
    files: dict[str, str] = {}
    texts = list(miniature.files.values())
    for path, text in miniature.files.items():
        lines = text.split("\n")
        kind = draw.randrange(6)
        if kind == 0:
            continue
        if kind == 1:
            lines = [line for line in lines if draw.random() > 0.2]
        elif kind == 2:
            lines = lines[: draw.randrange(len(lines) + 1)]
        elif kind == 3:
            lines += draw.choice(texts).split("\n")
        elif kind == 4:
            lines.insert(
                draw.randrange(len(lines) + 1), draw.choice(["\x00", "\t- x: [", "}{", "é"])
            )
        files[path] = "\n".join(lines)
    return miniature._replace(files=files)


def check(miniature: Miniature, folder) -> None:
    folder.mkdir()
    root = miniature.write(folder)
    found = audit_repository(root)
    adapter = draft_adapter(found, root)
    lines = [line for hazard in found.hazards for line in hazard.evidence]
    lines += [line for entry in (*found.train, *found.evaluate) for line in entry.evidence]
    for line in lines:
        assert 1 <= line.line <= len((root / line.path).read_text().splitlines()) + 1, line
    assert (adapter.commands.train is None) == (not found.train)


def test_damaged_repositories_are_answered(tmp_path):
    for seed, miniature in enumerate(MINIATURES[::4]):
        check(damaged(miniature, seed), tmp_path / str(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_damaged_repositories_are_answered(tmp_path, seed):
    for index, miniature in enumerate(MINIATURES):
        check(damaged(miniature, 1000 * seed + index), tmp_path / str(index))
