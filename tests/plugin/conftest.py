"""A small repository with a study."""

import pytest


@pytest.fixture
def repository(tmp_path):
    """A repository with a study."""
    study = tmp_path / ".telic" / "tasks" / "walk" / "studies" / "speed"
    study.mkdir(parents=True)
    return tmp_path
