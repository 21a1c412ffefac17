"""A study in a repository of its own, with a key of its own."""

import shutil

import pytest

from telic.studies.administration import create_study
from telic.studies.folder import StudyFolder
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


@pytest.fixture(scope="session")
def homes(tmp_path_factory):
    """Homes of studies that were made once, by name; each has a repository and a key."""
    return {}


@pytest.fixture
def made_once(homes, own_key, repository, tmp_path_factory):
    """Return a function that gives a copy of a study, which it makes at the first need."""

    def give(name, make):
        home = homes.get(name)
        if home is not None:
            shutil.copytree(home / "repository", repository, dirs_exist_ok=True)
            shutil.copytree(home / "config", own_key, dirs_exist_ok=True)
            return FreshStudy(StudyFolder.find(repository))
        study = make()
        home = tmp_path_factory.mktemp("kept")
        shutil.copytree(repository, home / "repository")
        shutil.copytree(own_key, home / "config")
        homes[name] = home
        return study

    return give


@pytest.fixture
def study(made_once, repository):
    """A study as `init` leaves it."""

    def make():
        made = create_study(repository, "g1-walk", "speed", AGENT, statement="walk")
        return FreshStudy(made.folder)

    return made_once("study", make)


@pytest.fixture
def agreed(made_once, study):
    """A study with a contract that is agreed on and not approved."""

    def make():
        complete(study)
        return study

    return made_once("agreed", make)
