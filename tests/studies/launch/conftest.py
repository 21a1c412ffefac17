import shutil
import time

import pytest

from telic.studies.folder import StudyFolder
from telic.studies.launch.process import RunProcess
from telic.studies.launch.recovery import reconcile
from tests.studies.fresh import FreshStudy
from tests.studies.launch.toy_study import make_baseline, make_study


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """A repository with an approved study and a validated candidate, made once."""
    home = tmp_path_factory.mktemp("template")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(home / "config"))
        make_baseline(make_study(home / "repo"))
    return home


@pytest.fixture
def study(template, tmp_path, monkeypatch):
    """A copy of the study; runs that a test leaves behind are ended."""
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    made = FreshStudy(StudyFolder.find(tmp_path / "repo"))
    yield made
    for folder in made.folder.runs.glob("*"):
        RunProcess(folder).ask_to_stop("user", "the test is over")


@pytest.fixture
def candidate(study):
    return next(iter(study.state.candidates))


def wait_until_over(study, seconds: float = 20.0):
    """Reconcile until no run is active; return the state."""
    deadline = time.monotonic() + seconds
    while True:
        reconcile(study)
        state = study.state
        if not state.active_runs:
            return state
        assert time.monotonic() < deadline, f"{state.active_runs} did not end"
        time.sleep(0.02)


@pytest.fixture
def until_over():
    return wait_until_over
