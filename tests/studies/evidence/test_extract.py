"""Metrics out of logs: every format, torn ends, damage, and what is not read."""

import math

import pytest

from telic.errors import TelicError
from telic.studies.evidence._logs import Series, read_rows, to_series


def read_series(kind, path):
    return to_series(read_rows(kind, path))


def test_json_lines_leave_out_a_torn_end_and_name_a_bad_line(tmp_path):
    log = tmp_path / "metrics.jsonl"
    log.write_text('{"step": 1, "return": 2, "eval": {"success": 0.5}}\n{"step": 2, "ret')
    assert read_series("jsonl", log) == {
        "return": Series((1.0,), (2.0,)),
        "eval/success": Series((1.0,), (0.5,)),
    }
    log.write_text('{"step": 1}\nnonsense\n{"step": 2}\n')
    with pytest.raises(TelicError, match="line 2"):
        read_rows("jsonl", log)


def test_text_is_read_by_blocks(tmp_path):
    log = tmp_path / "stdout.log"
    log.write_text("step: 100\n| reward/alive | 1.5 |\nloss=2e-3\nstep: 1_200\nloss = nan\n")
    rows = read_rows("regex_stdout", tmp_path)
    assert rows[0] == {"step": 100.0, "reward/alive": 1.5, "loss": 0.002}
    assert rows[1]["step"] == 1200.0 and math.isnan(rows[1]["loss"])
    named = read_rows("regex_stdout", log, r"step: (?P<step>[\d_]+)")
    assert named == [{"step": 100.0}, {"step": 1200.0}]
    with pytest.raises(TelicError, match="regular expression"):
        read_rows("regex_stdout", log, "(")


@pytest.mark.parametrize(
    "pattern", [r"(a+)+$", r"(?:a|aa)*$", r"(a{2,}){9}b", ".*.*.*.*b", r"[\])]+(a+)*"]
)
def test_a_pattern_that_may_never_end_is_refused(tmp_path, pattern):
    log = tmp_path / "train.log"
    log.write_text("a" * 10_000)
    with pytest.raises(TelicError, match="too long"):
        read_rows("regex_stdout", log, pattern)
    assert read_rows("regex_stdout", log, r"(?P<key>[)*+]+)=(?P<value>\S+)|loss=(?P<loss>.*)") == []


def test_event_files_are_read_to_a_torn_end_and_damage_is_named(tmp_path):
    log = pytest.importorskip("torch.utils.tensorboard").SummaryWriter(str(tmp_path))
    for step in (0, 10, 300):
        log.add_scalar("return/episodic_return", step / 4, step)
    log.close()
    found = read_series("tensorboard", tmp_path)["return/episodic_return"]
    assert (found.steps, found.values) == ((0.0, 10.0, 300.0), (0.0, 2.5, 75.0))
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    assert read_series("tensorboard", tmp_path)["return/episodic_return"].values == (0.0, 2.5)
    damaged = bytearray(whole)
    damaged[-10] ^= 1
    path.write_bytes(bytes(damaged))
    with pytest.raises(TelicError, match="corrupted"):
        read_rows("tensorboard", tmp_path)
