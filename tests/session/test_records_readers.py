"""Nothing but `session.records.verified` says that a session passed."""

import ast
from functools import cache
from pathlib import Path

import pytest

import telic
from telic.bench.results import BenchFolder, CaseResult, results_in
from telic.errors import BadFile
from telic.storage.files import write_json
from telic.storage.layout import RunFolder
from telic.training.folder import status_of

SOURCE = Path(telic.__file__).parent
READERS = {"read_record", "read_fields", "read_facts", "read_json", "as_record"}
RAW = {"session/records.py", "session/labels.py"}
"""the reader itself, and the veto, which records what was claimed"""


@cache
def calls():
    """Return the file and the node of every call that reads a record."""
    return [
        (path.relative_to(SOURCE).as_posix(), node)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in READERS
    ]


def test_no_source_reads_the_outcome_of_a_session_by_itself():
    found = set()
    for file, call in calls():
        kinds = {getattr(each, "id", "") for each in call.args[1:]}
        if "SessionSummary" in kinds:
            found.add(file)
    assert found <= RAW


def test_no_source_reads_a_state_as_any_text():
    for file, call in calls():
        for keyword in call.keywords:
            is_state = keyword.arg in ("outcome", "status", "state", "passed")
            is_text = isinstance(keyword.value, ast.Name) and keyword.value.id in ("str", "Any")
            is_compared = file in ("training/folder.py", "storage/workspace.py")  # and not shown
            assert not (is_state and is_text) or is_compared, (file, keyword.arg)


def test_a_run_or_a_benchmark_cannot_say_passed_by_itself(tmp_path):
    run = RunFolder(tmp_path / "run_1")
    write_json(run.status, {"status": "passed"})
    with pytest.raises(BadFile):
        status_of(run)
    case = {"id": "a", "env": "Ant-v5", "intent": "go", "category": "x", "difficulty": "easy"}
    given = {"case": case, "outcome": "passed", "session": "cases/a", "finished_at": "now"}
    result = CaseResult.model_validate(given)
    folder = BenchFolder(tmp_path / "bench_1")
    folder.path.mkdir()
    folder.attempts.write_text(result.model_dump_json() + "\n")
    assert [each.outcome for each in results_in(folder)] == ["claimed"]
