"""Nothing but `session.records.verified` says that a session passed."""

import pytest

from telic.bench.results import BenchFolder, CaseResult, results_in
from telic.errors import BadFile
from telic.storage.files import write_json
from telic.storage.layout import RunFolder
from telic.training.folder import status_of


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
