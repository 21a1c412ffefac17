"""Metric series."""

import numpy as np
import pytest

from telic.storage.scalars import ScalarLog, read_columns, read_rows


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "metrics" / "scalars.jsonl"
    log = ScalarLog(path)
    log.append({"global_step": 100, "loss": np.float32(0.5), "sps": 10})
    log.append({"global_step": 200, "loss": float("nan"), "device": "cpu"})
    log.append({"global_step": 200, "type": "eval", "mean_return": 3.0})
    log.append({"global_step": 300, "loss": 0.25, "sps": 12})
    log.close()
    return path


def test_columns_have_none_where_a_number_is_missing(path):
    assert read_columns(path) == {
        "global_step": [100, 200, 300],
        "loss": [0.5, None, 0.25],
        "sps": [10, None, 12],
    }
    assert read_columns(path, ["mean_return", "never"], kind="eval") == {
        "mean_return": [3.0],
        "never": [None],
    }
    assert [row["global_step"] for row in read_rows(path)] == [100, 200, 200, 300]


def test_resumed_run_drops_later_steps_and_continues(path):
    log = ScalarLog(path)
    assert log.truncate_after(200) == 1
    log.append({"global_step": 250, "loss": 0.3})
    assert log.truncate_after(1000) == 0
    log.close()
    assert [row["global_step"] for row in read_rows(path)] == [100, 200, 200, 250]
    assert read_columns(path, ["loss"]) == {"loss": [0.5, None, 0.3]}
