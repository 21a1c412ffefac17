"""Small repositories of the usual shapes, unpacked from text bundles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from telic.studies.scan.audit import audit_repository
from telic.studies.scan.records import RepositoryAudit

REPOS = Path(__file__).parent / "repositories"

Unpack = Callable[[str], Path]
Audit = Callable[[str], RepositoryAudit]


@pytest.fixture
def unpack(tmp_path: Path) -> Unpack:
    """Write a bundle's files below a fresh folder and return it."""

    def build(name: str) -> Path:
        root = tmp_path / name
        for part in (REPOS / f"{name}.txt").read_text().split("=== ")[1:]:
            path, _, text = part.partition("\n")
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return root

    return build


@pytest.fixture
def audit(unpack: Unpack) -> Audit:
    """Scan a bundle."""
    return lambda name: audit_repository(unpack(name))
