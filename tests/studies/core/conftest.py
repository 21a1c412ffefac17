"""A study in a repository of its own, with a key of its own."""

import pytest

from telic.studies.administration import create_study
from tests.studies.core.small import AGENT, complete
from tests.studies.fresh import FreshStudy


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
    made = create_study(repository, "g1-walk", "speed", AGENT, statement="walk")
    return FreshStudy(made.folder)


@pytest.fixture
def agreed(study):
    """A study with a contract that is agreed on and not approved."""
    complete(study)
    return study
