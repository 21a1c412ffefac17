"""TensorBoard files: the package reads what was written, and no step is there twice."""

import pytest

from telic.training._tensorboard import TensorBoardLog

loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")


def events(folder):
    (path,) = folder.glob("events.out.tfevents.*")
    return list(loader.LegacyEventFileLoader(str(path)).Load())[1:]


def test_tensorboard_reads_what_was_written(tmp_path):
    log = TensorBoardLog(tmp_path)
    for step in range(0, 100_000, 1000):
        row = {"global_step": step, "policy_loss": step / 7, "ok": True, "device": "cpu"}
        log.append({**row, "reward_term_speed": -1.0, "gone": None, "nan": float("nan")})
    read = events(tmp_path)  # while it is being written
    log.close()
    assert list(dict.fromkeys(event.step for event in read)) == list(range(0, 100_000, 1000))
    last = [event for event in read if event.step == 99_000]
    values = {value.tag: value.simple_value for event in last for value in event.summary.value}
    assert values == pytest.approx(
        {"general/global_step": 99_000, "loss/policy_loss": 99_000 / 7, "reward_terms/speed": -1.0}
    )


def test_a_resumed_run_has_no_step_twice(tmp_path):
    rows = [{"global_step": step, "sps": 1.0} for step in (1, 2, 3)]
    TensorBoardLog(tmp_path, rows).close()
    log = TensorBoardLog(tmp_path, rows[:2])
    log.append({"global_step": 9, "sps": 2.0})
    log.close()
    assert [event.step for event in events(tmp_path)] == [1, 1, 2, 2, 9, 9]
