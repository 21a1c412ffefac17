import time

import pytest

from telic.plugin.hooks import before_shell, written_record

HOME = ".telic/tasks/walk/studies/first"
RECORDS = (
    f"{HOME}/ledger.jsonl",
    f"{HOME}/runs/r-1/artifacts/metrics.csv",
    f"{HOME}/runs/r-1/exit.json",
    f"{HOME}/evidence/e-1.json",
    f"{HOME}/audits/a-1.json",
    f"{HOME}/decisions/d-1.json",
    f"{HOME}/candidates/c-1/revisions/1/candidate.json",
)
WRITES = (
    "echo x >> {}",
    "echo x > '{}'",
    "sed -i s/0.2/0.99/ {}",
    "sed -i.bak 's/a/b/' {}",
    "perl -pi -e s/a/b/ {}",
    "rm -f {}",
    "mv better.csv {}",
    "cp better.csv {}",
    "cat better | tee {}",
    "truncate -s 100 {}",
    "ls && vim {}",
    "python -c \"open('{}', 'w').write('x')\"",
    "python - <<E\nfrom pathlib import Path\nPath('{}').write_text('x')\nE",
    "python -c \"import pandas; x.to_csv('{}')\"",
)
READS = (
    "cat {}",
    "tail -f {} | grep success",
    "cp {} /tmp/copy.csv",
    "jq .verdict {}",
    "git add {} && git commit -m records",
    "python -c \"print(open('{}').read())\"",
    "python plot.py {} --out picture.png",
    "sha256sum {} > sums.txt",
)


@pytest.mark.parametrize("record", RECORDS)
def test_what_only_telic_writes_is_not_written_by_a_shell_or_an_editor(record, tmp_path):
    (tmp_path / ".telic").mkdir()
    for line in WRITES:
        event = {"cwd": str(tmp_path), "tool_input": {"command": line.format(record)}}
        found = before_shell(event)
        assert found, line
        assert found["hookSpecificOutput"]["permissionDecision"] == "deny"
    for key in ("file_path", "notebook_path", "path"):
        event = {"cwd": str(tmp_path), "tool_input": {key: str(tmp_path / record)}}
        assert before_shell(event), key
    patch = f"*** Begin Patch\n*** Update File: {record}\n+x\n*** End Patch"
    assert before_shell({"cwd": str(tmp_path), "tool_input": {"input": patch}})


@pytest.mark.parametrize("record", RECORDS)
def test_reading_records_is_free(record):
    for line in READS:
        assert written_record(line.format(record)) is None, line


@pytest.mark.parametrize("part", ["x", ".", "<<a\n", "$(", "`", "open(", "sed -a ", ".telic/"])
def test_a_long_command_is_denied_in_time(part):
    """The host gives the hook 5 s, and allows the command after that."""
    start = time.process_time()
    for padding in (part * (60_000 // len(part)), f"python -c '{part * 5000}'", part * 70_000):
        line = f"rm {HOME}/ledger.jsonl; : {padding}"
        assert before_shell({"tool_input": {"command": line}}) is not None
    assert time.process_time() - start < 3


def test_commands_that_touch_no_record_pass():
    for line in ("python train.py", ["bash", "-lc", "git status"], "telic study next", ""):
        assert before_shell({"tool_input": {"command": line}}) is None
