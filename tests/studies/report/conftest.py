import shutil

import pytest

from telic.studies.folder import StudyFolder
from tests.studies.fresh import FreshStudy
from tests.studies.report.told_study import told_study


@pytest.fixture(scope="session")
def told(tmp_path_factory):
    """A repository whose study has much to tell, made once."""
    home = tmp_path_factory.mktemp("told")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(home / "config"))
        told_study(home / "repo")
    return home


@pytest.fixture
def study(told, tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    shutil.copytree(told, tmp_path, dirs_exist_ok=True)
    return FreshStudy(StudyFolder.find(tmp_path / "repo"))
