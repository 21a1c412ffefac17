"""TensorBoard event files written by hand."""

import struct

import pytest

from telic.storage.scalars import TensorBoardWriter, crc32c, restart, tag_of


def test_the_checksum_is_the_published_one():
    # RFC 3720, appendix B.4
    assert crc32c(b"\0" * 32) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E


def records(content: bytes) -> list[bytes]:
    """Split a TFRecord file and check both checksums of every record."""

    def masked(part: bytes) -> int:
        crc = crc32c(part)
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

    found = []
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        assert struct.unpack("<I", content[8:12])[0] == masked(content[:8])
        event, content = content[12 : 12 + length], content[12 + length :]
        assert struct.unpack("<I", content[:4])[0] == masked(event)
        found.append(event)
        content = content[4:]
    return found


def test_a_record_holds_all_scalars_of_a_step(tmp_path):
    with TensorBoardWriter(tmp_path) as writer:
        writer.add(300, {"loss/a": 1.5, "gone": None, "nan": float("nan")}, wall_time_s=2.0)
        writer.add(301, {"gone": None})
        path = writer.path
    head, only = records(path.read_bytes())
    assert head.endswith(b"brain.Event:2")
    value = b"\x0a\x06loss/a" + b"\x15" + struct.pack("<f", 1.5)
    summary = b"\x0a" + bytes([len(value)]) + value
    # wall_time = 2.0; step = 300 as a varint; summary
    expected = b"\x09" + struct.pack("<d", 2.0) + b"\x10\xac\x02"
    assert only == expected + b"\x2a" + bytes([len(summary)]) + summary


def test_tensorboard_reads_what_was_written(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    with TensorBoardWriter(tmp_path) as writer:
        for step in range(0, 100_000, 1000):
            row = {"global_step": step, "policy_loss": step / 7, "ok": True, "device": "cpu"}
            writer.add_row({**row, "reward_term_speed": -1.0})
        path = writer.path
    events = list(loader.LegacyEventFileLoader(str(path)).Load())[1:]
    assert [event.step for event in events] == list(range(0, 100_000, 1000))
    values = {value.tag: value.simple_value for value in events[-1].summary.value}
    assert values == pytest.approx(
        {"general/global_step": 99_000, "loss/policy_loss": 99_000 / 7, "reward_terms/speed": -1.0}
    )


def test_a_resumed_run_has_no_step_twice(tmp_path):
    rows = [{"global_step": step, "sps": 1.0} for step in (1, 2, 3)]
    restart(tmp_path, rows).close()
    writer = restart(tmp_path, rows[:2])
    writer.add_row({"global_step": 9, "sps": 2.0})
    writer.close()
    (only,) = tmp_path.iterdir()
    assert [event[10] for event in records(only.read_bytes())[1:]] == [1, 2, 9]


def test_metrics_come_in_groups():
    assert tag_of("reward_term_upright") == "reward_terms/upright"
    assert tag_of("episodic_return_std") == "return/episodic_return_std"
    assert tag_of("episode_length") == "episodes/episode_length"
    assert tag_of("approx_kl") == "ppo/approx_kl"
    assert tag_of("kl_mean_term") == "health/kl_mean_term"
    assert tag_of("something_else") == "general/something_else"
