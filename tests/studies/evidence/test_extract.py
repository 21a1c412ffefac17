"""Metrics out of logs: every format, torn ends, damage, and what is not read."""

import json
import math
import struct
import zlib

import pytest

from telic.errors import TelicError, UnknownName
from telic.storage.scalars import TensorBoardWriter
from telic.studies.evidence.axis import to_series
from telic.studies.evidence.logs import read_offline_run, read_rows
from telic.studies.evidence.measurement import renamed
from telic.studies.evidence.statistics import Series


def read_series(kind, path):
    return to_series(read_rows(kind, path))


def test_json_lines_leave_out_a_torn_end_and_name_a_bad_line(tmp_path):
    log = tmp_path / "metrics.jsonl"
    log.write_text('{"step": 1, "return": 2, "eval": {"success": 0.5}}\n{"step": 2, "ret')
    assert read_series("jsonl", log) == {
        "return": Series((1.0,), (2.0,), (None,)),
        "eval/success": Series((1.0,), (0.5,), (None,)),
    }
    log.write_text('{"step": 1}\nnonsense\n{"step": 2}\n')
    with pytest.raises(TelicError, match="line 2"):
        read_rows("jsonl", log)


def test_json_may_be_rows_columns_or_one_result(tmp_path):
    log = tmp_path / "result.json"
    for written in (
        [{"step": 1, "r": 5}, {"step": 2, "r": 6}],
        {"step": [1, 2], "r": [5, 6]},
    ):
        log.write_text(json.dumps(written))
        assert read_series("json", log)["r"].values == (5.0, 6.0)
    log.write_text('{"success": 0.75, "curve": [1, 2]}')
    assert read_rows("json", log) == [{"success": 0.75}]


def test_csv_skips_comments_and_empty_cells(tmp_path):
    log = tmp_path / "progress.csv"
    log.write_text('#{"env": "Ant"}\ntotal_timesteps,loss,note\n10,nan,a\n20,,b\n30,0.5,c\n')
    found = read_series("csv", log)["loss"]
    assert found.steps == (10.0, 30.0) and math.isnan(found.values[0]) and found.values[1] == 0.5


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


def test_our_own_tensorboard_files_come_back(tmp_path):
    with TensorBoardWriter(tmp_path) as writer:
        for step in (0, 10, 300):
            writer.add(step, {"return/mean": step / 4, "kl": 0.5}, wall_time_s=1000.0 + step)
    found = read_series("tensorboard", tmp_path)
    assert found["return/mean"] == Series(
        (0.0, 10.0, 300.0), (0.0, 2.5, 75.0), (1000.0, 1010.0, 1300.0)
    )


def test_files_of_the_tensorboard_package_are_read_in_both_forms(tmp_path):
    """Scalars as a plain number, and as a tensor, which is what newer writers make."""
    tf = pytest.importorskip("tensorboard")
    assert tf
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path))
    values = [
        Summary.Value(tag="plain", simple_value=1.5),
        Summary.Value(tag="float", tensor=TensorProto(dtype=1, float_val=[2.5])),
        Summary.Value(
            tag="double", tensor=TensorProto(dtype=2, tensor_content=struct.pack("<d", 3.25))
        ),
        Summary.Value(tag="vector", tensor=TensorProto(dtype=1, float_val=[1.0, 2.0])),
    ]
    writer.add_event(Event(step=7, wall_time=12.0, summary=Summary(value=values)))
    writer.close()
    rows = read_rows("tensorboard", tmp_path)
    assert rows == [{"step": 7.0, "time": 12.0, "plain": 1.5, "float": 2.5, "double": 3.25}]


def test_a_torn_event_file_is_read_to_its_end_and_damage_is_named(tmp_path):
    with TensorBoardWriter(tmp_path) as writer:
        writer.add(1, {"a": 1.0})
        writer.add(2, {"a": 2.0})
    whole = writer.path.read_bytes()
    writer.path.write_bytes(whole[:-3])
    assert read_series("tensorboard", tmp_path)["a"].values == (1.0,)
    damaged = bytearray(whole)
    damaged[-10] ^= 1
    writer.path.write_bytes(bytes(damaged))
    with pytest.raises(TelicError, match="damaged at byte"):
        read_rows("tensorboard", tmp_path)


def _field(number, content):
    key = bytes([number << 3 | 2]) if number < 16 else bytes([(number << 3 | 2) & 0x7F | 0x80, 1])
    return key + _varint(len(content)) + content


def _varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _history(step, values):
    items = b"".join(
        _field(1, _field(1, key.encode()) + _field(16, json.dumps(value).encode()))
        for key, value in values.items()
    )
    return _field(2, items + _field(2, b"\x08" + _varint(step)))


def _wandb_log(records):
    """Write records as Weights & Biases does: fragments that never cross a block of 32 KiB."""
    out = bytearray(b":W&B" + struct.pack("<HB", 0xBEE1, 0))
    for record in records:
        first = True
        while True:
            left = 32768 - len(out) % 32768
            if left < 7:
                out += bytes(left)
                continue
            piece, record = record[: left - 7], record[left - 7 :]
            kind = (1 if first else 4) if not record else (2 if first else 3)
            check = zlib.crc32(piece, zlib.crc32(bytes([kind])))
            out += struct.pack("<IHB", check, len(piece), kind) + piece
            first = False
            if not record:
                break
    return bytes(out)


def test_offline_runs_of_weights_and_biases_are_read_across_blocks(tmp_path):
    long = {"note": "x" * 40_000, "loss": 0.25}
    records = [_history(step, {"return": step * 1.5, **long}) for step in range(1, 6)]
    records.insert(2, _field(5, b""))  # a config record, which is passed over
    log = tmp_path / "run-abc.wandb"
    log.write_bytes(_wandb_log(records))
    found = read_series("wandb_offline", tmp_path)
    assert found["return"].steps == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert found["return"].values == (1.5, 3.0, 4.5, 6.0, 7.5) and found["loss"].values[0] == 0.25
    whole = log.read_bytes()
    log.write_bytes(whole[:-5])
    assert len(read_series("wandb_offline", log)["return"].steps) == 4
    log.write_bytes(whole[:100] + b"?" + whole[101:])
    with pytest.raises(TelicError, match="damaged"):
        read_rows("wandb_offline", log)


def test_exports_of_weights_and_biases_are_the_fallback(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    (files / "wandb-summary.json").write_text('{"_step": 9, "_timestamp": 5, "eval": {"a": 1}}')
    assert read_offline_run(tmp_path) == [{"eval/a": 1.0, "step": 9.0, "time": 5.0}]
    (files / "wandb-history.jsonl").write_text('{"_step": 1, "a": 2}\n')
    assert read_offline_run(tmp_path) == [{"a": 2.0, "step": 1.0}]
    with pytest.raises(TelicError, match="no offline run"):
        read_offline_run(files.parent / "elsewhere")


def test_what_cannot_be_read_is_said(tmp_path):
    with pytest.raises(TelicError, match="starts no process"):
        read_rows("python_file", tmp_path)
    with pytest.raises(UnknownName, match="tensorbord"):
        read_rows("tensorbord", tmp_path)
    with pytest.raises(TelicError, match=r"\*tfevents\*"):
        read_rows("tensorboard", tmp_path)


def test_canonical_names_are_added():
    one = Series((1.0,), (2.0,))
    found = renamed({"rollout/ep_rew_mean": one}, {"return": "rollout/ep_rew_mean", "kl": "x"})
    assert found == {"rollout/ep_rew_mean": one, "return": one}
