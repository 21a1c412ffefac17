"""Studies that are made once, and copied for every test that changes one."""

import shutil

import pytest

from telic.studies.folder import StudyFolder
from tests.studies.fresh import FreshStudy


@pytest.fixture(scope="session")
def homes():
    """Homes of studies that were made, by name; each has a repository and a key."""
    return {}


@pytest.fixture
def kept(homes, tmp_path, tmp_path_factory, monkeypatch):
    """Return a function that copies a study, which is created on first use."""

    def give(name, make):
        if name not in homes:
            homes[name] = home = tmp_path_factory.mktemp("kept")
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("TELIC_CONFIG_DIR", str(home / "config"))
                make(home / "repo")
        monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
        shutil.copytree(homes[name], tmp_path, dirs_exist_ok=True)
        return FreshStudy(StudyFolder.find(tmp_path / "repo"))

    return give
