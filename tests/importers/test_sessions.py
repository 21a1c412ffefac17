"""A session told as a study: what it holds, that it grows, that it survives a kill."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from telic.cli.main import app
from telic.importers import find_source
from telic.importers.writer import write_study
from telic.storage.reading import file_hash
from telic.studies import ledger
from telic.studies.administration import create_study
from telic.studies.candidates import read_candidate
from telic.studies.documents.base import SYSTEM
from telic.studies.errors import StudyError
from telic.studies.evidence.store import altered, read_evidence
from telic.studies.folder import StudyFolder
from telic.studies.next import next_step
from telic.studies.report import write_report
from tests.importers.works import SESSION, begin_session, end_session, try_reward
from tests.session.sessions import add_iteration
from tests.studies.fresh import FreshStudy


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a session of two iterations, of which the second passed."""
    root = tmp_path_factory.mktemp("told")
    folder = begin_session(root / "runs")
    try_reward(folder, 1, 0.5)
    try_reward(folder, 2, 0.9)
    end_session(folder, "passed", 2)
    return root


@pytest.fixture(scope="module")
def told(place):
    """Return what became of the session, and the ledger of its study."""
    before = {path: file_hash(path) for path in (place / "runs").rglob("*") if path.is_file()}
    made = tell(place, place / "runs", SESSION[:20])
    assert {path: file_hash(path) for path in before} == before, "a source is only read"
    return made


def tell(root, runs_dir, name="latest"):
    """Tell of some work and return the ledger of its study."""
    found = find_source(runs_dir, name)
    told = write_study(root, found.read())
    return told, FreshStudy(StudyFolder.find(root))


def facts(study):
    """Return what a ledger comes to, without the moments at which it was written."""
    state = study.state
    return {
        "status": state.study_status,
        "candidates": {n: (c.status, c.phase, c.parents) for n, c in state.candidates.items()},
        "runs": {n: (r.status, r.candidate, r.seed, r.actual) for n, r in state.runs.items()},
        "evidence": {(e.kind, e.run, e.candidate) for e in state.evidence.values()},
        "decisions": [(d.candidate, d.verdict) for d in state.decisions.values()],
        "incumbent": state.incumbent,
        "spent": state.budget.spent,
        "moved": [e.subject for e in study.events if e.type == "incumbent.changed"],
    }


def test_iterations_are_candidates_and_policies_are_runs(told):
    made, study = told
    state = study.state
    assert study.ledger.verify().ok
    assert (made.is_new, made.runs, made.decisions) == (True, 4, 2)
    first, second = state.candidates.values()
    assert (first.status, second.status) == ("rejected", "accepted")
    assert second.parents == ("c-0001-iteration-1",)
    assert read_candidate(study.folder, "c-0002-iteration-2").change.files[0].path == "reward_fn.py"
    assert state.incumbent is not None
    assert (state.incumbent.candidate, state.incumbent.n) == ("c-0002-iteration-2", 2)
    assert state.incumbent.iqm == pytest.approx(0.915)
    assert state.budget.spent.env_steps == 4 * 256


def test_every_decision_cites_what_the_judges_said(told):
    _, study = told
    folder, state = study.folder, study.state
    decision = json.loads(folder.decision_file("d-0002").read_text())
    sheets = [read_evidence(folder, name) for name in decision["evidence"]]
    judges = {each.payload["source"] for each in sheets if each.kind == "judgment"}
    assert judges == {"code", "vision", "fused"}
    assert decision["audit"] == next(s.payload["audit"] for s in sheets if s.kind == "audit")
    assert altered(folder, state, state.evidence) == []


def test_telling_again_adds_only_what_is_new(tmp_path):
    folder = begin_session(tmp_path / "runs")
    try_reward(folder, 1, 0.5)
    told, study = tell(tmp_path, tmp_path / "runs")
    assert (told.status, told.ended, told.incumbent) == ("open", None, None)
    assert next_step(study).action == "wait"
    written = study.ledger.path.read_bytes()
    again, _ = tell(tmp_path, tmp_path / "runs")
    assert (again.events, study.ledger.path.read_bytes()) == (0, written)
    try_reward(folder, 2, 0.9)
    end_session(folder, "passed", 2)
    grown, study = tell(tmp_path, tmp_path / "runs")
    assert grown.events > 0
    assert study.ledger.path.read_bytes().startswith(written)
    assert (grown.status, grown.incumbent) == ("closed", "c-0002-iteration-2")
    assert next_step(study).action == "stop"


def test_a_writer_that_is_killed_again_and_again_goes_on(place, told, tmp_path, monkeypatch):
    commit, lines_left = ledger.commit, [0]

    def dying(path, line):
        if lines_left[0] == 0:
            raise KeyboardInterrupt
        lines_left[0] -= 1
        commit(path, line)

    monkeypatch.setattr("telic.studies.ledger.commit", dying)
    for lines in (0, 1, 1, 2, 4, 5, 7, 9, 11):
        lines_left[0] = lines
        with pytest.raises(KeyboardInterrupt):
            tell(tmp_path, place / "runs")
    lines_left[0] = 1000
    _, study = tell(tmp_path, place / "runs")
    assert facts(study) == facts(told[1])
    assert study.ledger.verify().ok


def test_nothing_is_launched_in_a_study_that_tells_of_a_session(place, told):
    words = ["study", "run", "c-0002-iteration-2", "--root", str(place)]
    for more in ([], ["--seed", "9", "--execute", "--confirm", "RUN_CANDIDATE"]):
        result = CliRunner().invoke(app, [*words, *more])
        assert result.exit_code == 3, result.output
        assert f"telic resume {SESSION}" in " ".join(result.output.split())


def test_the_report_is_the_one_of_any_study(told):
    _, study = told
    folder = write_report(study, next_step(study))
    text, page = folder.report.read_text(), folder.report_page.read_text()
    assert "c-0002-iteration-2 is trusted: score 0.915" in text
    assert "target met" in text
    assert "2 of 2 policies prove 0.8" not in text  # a passed candidate is no failure
    assert "0 of 2 policies prove 0.8; 2 are needed, lacking: too_slow" in text
    assert "vision judge" in page
    assert f"This study tells of the session {SESSION}." in page


def test_an_iteration_in_the_making_is_a_candidate_without_runs(tmp_path):
    folder = begin_session(tmp_path / "runs")
    try_reward(folder, 1, 0.5)
    folder.iteration(1).judgment.unlink()
    _, study = tell(tmp_path, tmp_path / "runs")
    state = study.state
    assert [each.status for each in state.candidates.values()] == ["validated"]
    assert (state.runs, state.decisions) == ({}, {})
    assert "Nothing that the session tried" in write_report(study).report.read_text()


def test_a_reward_that_could_not_be_trained_says_why(tmp_path):
    folder = begin_session(tmp_path / "runs")
    add_iteration(folder, 1, score=None, best=None, failure="the reward divides by zero")
    _, study = tell(tmp_path, tmp_path / "runs")
    assert [each.status for each in study.state.candidates.values()] == ["debug"]
    assert "the reward divides by zero" in write_report(study).report.read_text()
    assert tell(tmp_path, tmp_path / "runs")[0].events == 0


def test_a_study_of_that_name_that_is_another_one_is_left_alone(place, tmp_path):
    tale = find_source(place / "runs", SESSION)
    told = tale.read()
    other = create_study(tmp_path, told.task_id, told.study_id, SYSTEM)
    other.append("note.added", None, {"text": "mine"}, SYSTEM)
    with pytest.raises(StudyError, match="E_NAME_TAKEN"):
        write_study(tmp_path, told)


def test_reading_records_imports_no_framework():
    code = (
        "import sys, telic.importers, telic.importers.writer; "
        "from telic.studies.offline import FRAMEWORKS; print(FRAMEWORKS & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "frozenset()"
