"""A study in a repository of its own, with a key of its own."""

import pytest

from tests.studies.core.small import begin, complete


@pytest.fixture(autouse=True)
def own_key(tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.delenv("TELIC_ACTOR", raising=False)
    return tmp_path / "config"


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repo"
    root.mkdir()
    return root


@pytest.fixture
def study(kept):
    """A study as `init` leaves it."""
    return kept("begun", begin)


@pytest.fixture
def agreed(kept):
    """A study with a contract that is agreed on and not approved."""
    return kept("agreed", lambda root: complete(begin(root)))
