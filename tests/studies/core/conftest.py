"""A study in a repository of its own, with a key of its own."""

import pytest

from telic.studies.creating import create_study
from tests.studies.core.small import AGENT, complete


@pytest.fixture(autouse=True)
def own_key(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(folder))
    monkeypatch.delenv("TELIC_ACTOR", raising=False)
    return folder


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    root.mkdir()
    return root


@pytest.fixture
def study(repository):
    """A study as `init` leaves it."""
    return create_study(repository, "g1-walk", "speed", AGENT, statement="walk")


@pytest.fixture
def agreed(study):
    """A study with a contract that is agreed on and not approved."""
    complete(study)
    return study
