"""A policy search told as a study: trials in one file, the best ones as candidates."""

import json

from typer.testing import CliRunner

from telic.cli.main import app
from telic.studies.candidates import read_candidate
from telic.studies.next import next_step
from telic.studies.report import write_report
from tests.importers.test_sessions import tell
from tests.importers.works import SEARCH, begin_search, end_run, search_once


def statuses(study):
    return {name: each.status.value for name, each in study.state.candidates.items()}


def test_trials_lie_in_one_file_and_the_best_is_a_candidate(tmp_path):
    folder = begin_search(tmp_path / "runs")
    for run, fresh in ((1, 300.0), (2, 400.0)):
        search_once(folder, run, [9.0, 350.0])
        end_run(folder, run, fresh)
    told, study = tell(tmp_path, tmp_path / "runs")
    assert study.ledger.verify().ok
    assert (told.candidates, told.runs, told.incumbent) == (4, 4, "c-0004-best-of-run-2")
    path = study.folder.candidate("c-0001-search-run-1") / "trials.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["n"], row["score"], row["kept"]) for row in rows] == [
        (0, 9.0, True),
        (1, 350.0, True),
    ]
    assert read_candidate(study.folder, "c-0003-best-of-run-1").change.params == (0.5, 1.0)
    moved = [each.data for each in study.events if each.type == "incumbent.changed"]
    assert [(each["from"], each["to"]) for each in moved] == [
        (None, "c-0003-best-of-run-1"),
        ("c-0003-best-of-run-1", "c-0004-best-of-run-2"),
    ]


def test_a_search_that_goes_on_grows(tmp_path):
    folder = begin_search(tmp_path / "runs")
    search_once(folder, 1, [9.0])
    told, study = tell(tmp_path, tmp_path / "runs", str(folder.path))
    assert (told.ended, statuses(study)) == (
        None,
        {"c-0001-search-run-1": "validated", "c-0002-search-run-2": "validated"},
    )
    search_once(folder, 1, [350.0])
    end_run(folder, 1, 300.0)
    tell(tmp_path, tmp_path / "runs")
    search_once(folder, 2, [20.0])
    end_run(folder, 2, 20.0)
    told, study = tell(tmp_path, tmp_path / "runs")
    assert statuses(study) == {
        "c-0001-search-run-1": "completed",
        "c-0002-search-run-2": "completed",
        "c-0003-best-of-run-1": "accepted",
        "c-0004-best-of-run-2": "rejected",
    }
    assert tell(tmp_path, tmp_path / "runs")[0].events == 0


def test_the_report_says_what_it_is_a_mean_of(tmp_path):
    folder = begin_search(tmp_path / "runs", runs=1)
    search_once(folder, 1, [9.0, 350.0])
    end_run(folder, 1, 300.0)
    _, study = tell(tmp_path, tmp_path / "runs")
    text = write_report(study, next_step(study)).report.read_text()
    assert "return 300 (95 % 295 to 305, mean of 20 fresh episodes)" in text
    assert "target missed" in text


def test_the_command_line_tells_in_one_document(tmp_path):
    begin_search(tmp_path / "runs")
    place = ["--runs-dir", str(tmp_path / "runs"), "--root", str(tmp_path), "--json"]
    result = CliRunner().invoke(app, ["study", "from", SEARCH, *place])
    assert json.loads(result.output)["study"] == "cartpole-v1/cma-search-20260102-030405-abcd1234"
    result = CliRunner().invoke(app, ["study", "from", "search_2027", *place])
    assert (result.exit_code, SEARCH in result.output) == (2, True)
