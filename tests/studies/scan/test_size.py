"""A large tree is read once: no file is parsed twice, whatever is asked of it."""

from __future__ import annotations

from collections import Counter

import pytest
from scripts.audit_page import read_miniatures

from telic.studies.scan import repository
from telic.studies.scan.audit import audit_repository


def grow(root, files: int) -> int:
    """Fill a folder with copies of the miniatures, each in a part of its own."""
    miniatures = list(read_miniatures())
    count = part = 0
    while count < files:
        miniature = miniatures[part % len(miniatures)]
        miniature.write(root / f"part{part}")
        count += sum(path.endswith(".py") for path in miniature.files)
        part += 1
    return count


def parsed(root, monkeypatch) -> Counter[str]:
    """Audit a tree and count how often each of its files was parsed."""
    counts: Counter[str] = Counter()
    read = repository.read_module

    def counted(path, text):
        counts[path] += 1
        return read(path, text)

    monkeypatch.setattr(repository, "read_module", counted)
    audit_repository(root)
    return counts


def test_every_file_is_parsed_once(tmp_path, monkeypatch):
    files = grow(tmp_path, 60)
    counts = parsed(tmp_path, monkeypatch)
    assert len(counts) == files
    assert set(counts.values()) == {1}


@pytest.mark.slow
def test_every_file_of_two_thousand_is_parsed_once(tmp_path, monkeypatch):
    files = grow(tmp_path, 2000)
    counts = parsed(tmp_path, monkeypatch)
    assert len(counts) == files >= 2000
    assert set(counts.values()) == {1}
