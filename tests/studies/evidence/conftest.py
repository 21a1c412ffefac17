import shutil

import pytest

from telic.studies.decide import decide_candidate
from telic.studies.evidence.audit import audit_result
from telic.studies.evidence.measurement import analyze_run
from telic.studies.folder import StudyFolder
from tests.studies.candidates.small_study import AGENT, HUMAN
from tests.studies.evidence.claimed_study import baseline, measured_study
from tests.studies.fresh import FreshStudy


@pytest.fixture(scope="session")
def established(tmp_path_factory):
    """A repository whose study has an accepted baseline, made once."""
    home = tmp_path_factory.mktemp("established")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELIC_CONFIG_DIR", str(home / "config"))
        study = measured_study(home / "repo")
        name, runs = baseline(study)
        for run in runs:
            analyze_run(study, run, AGENT)
        audit_result(study, name, AGENT)
        decide_candidate(study, name, "accept", HUMAN, "the baseline repeats")
    return home


@pytest.fixture
def study(established, tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    shutil.copytree(established, tmp_path, dirs_exist_ok=True)
    return FreshStudy(StudyFolder.find(tmp_path / "repo"))
