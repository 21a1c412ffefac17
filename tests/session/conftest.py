"""Fixtures of the fault tests."""

import pytest

from tests.session.quick import Asking, at_home


@pytest.fixture
def home():
    """Let workers' work be done in this process; returns how to change more."""
    with at_home() as patch:
        yield patch


@pytest.fixture
def asking(home, tmp_path):
    """Run quick sessions in a folder of their own."""
    return Asking(home, tmp_path / "runs")
