"""The command line as a tree, and a small repository with a study."""

import pytest
from typer.main import get_command


@pytest.fixture(scope="session")
def tree():
    from telic.cli.main import app

    return get_command(app)


@pytest.fixture
def repository(tmp_path):
    """A repository with a study."""
    study = tmp_path / ".telic" / "tasks" / "walk" / "studies" / "speed"
    study.mkdir(parents=True)
    return tmp_path
