"""Shared by tests of workers: a writable folder next to another one."""

import pytest


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "outside").write_text("read before confinement")
    made = tmp_path / "run"
    made.mkdir()
    return made
