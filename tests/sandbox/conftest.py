"""What tests of workers share: a folder to write to, with something beside it."""

import pytest


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "outside").write_text("read before confinement")
    made = tmp_path / "run"
    made.mkdir()
    return made
