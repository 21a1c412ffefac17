import shutil

import pytest

from telic.studies.folder import StudyFolder
from tests.studies.candidates.small_study import established, make_study, promoted
from tests.studies.fresh import FreshStudy


@pytest.fixture(scope="session")
def kept(tmp_path_factory):
    """Repositories made once: with an agreed study, with a baseline, with a promoted candidate."""
    made = {name: tmp_path_factory.mktemp(name) for name in ("agreed", "based", "promoted")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(made["agreed"] / "config"))
        study = make_study(made["agreed"] / "repo")
        for before, after, act in (
            ("agreed", "based", established),
            ("based", "promoted", lambda study: promoted(study, 0.2)),
        ):
            shutil.copytree(made[before], made[after], dirs_exist_ok=True)
            patch.setenv("TELIC_CONFIG_DIR", str(made[after] / "config"))
            study = FreshStudy(StudyFolder.find(made[after] / "repo"))
            act(study)
    return made


@pytest.fixture
def use(kept, tmp_path, monkeypatch):
    """Return a function that gives a copy of a kept repository."""

    def copy(name):
        monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
        shutil.copytree(kept[name], tmp_path, dirs_exist_ok=True)
        return FreshStudy(StudyFolder.find(tmp_path / "repo"))

    return copy


@pytest.fixture
def study(use):
    return use("agreed")


@pytest.fixture
def based(use):
    """A study whose baseline is the incumbent."""
    return use("based")


@pytest.fixture
def claimed(use):
    """A study with a baseline and a better candidate at the end of its promotion."""
    return use("promoted")
